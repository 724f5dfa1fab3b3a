"""The page of faults is true: its examples run, and its tables name all that the others have."""

import re
from pathlib import Path

import pytest

from raftka.testing import Cluster, shown
from raftka.testing.faults.selection import Choice

pytest_plugins = ["pytester"]
PAGE = (Path(__file__).parents[2] / "docs" / "testing-faults.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_examples_run(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\naddopts = -p no:randomly -p no:cacheprovider")
    for number, example in enumerate(EXAMPLES):
        (pytester.path / f"test_example_{number}.py").write_text(example)

    result = pytester.runpytest_subprocess()

    result.assert_outcomes(passed=len(EXAMPLES))


def test_methods_and_functions_of_the_page_are_there() -> None:
    named = set(re.findall(r"`(\w+)\(", PAGE))
    methods = {name for name in named if not hasattr(Cluster, name)} - {"release", "remove"}
    assert methods == {"Cluster"}
    assert [name for name in re.findall(r"shown\.(\w+)", PAGE) if not hasattr(shown, name)] == []


def test_all_keywords_stand_in_the_table() -> None:
    table = PAGE.partition("## Choose requests")[2].partition("\n\nA fault")[0]
    assert set(re.findall(r"(\w+)=", table)) == {*Choice.__annotations__, "times"}


def functions(header: str) -> set[str]:
    """Names behind rd_kafka_mock_ that the page has in its tables, with * for any ending."""
    rows = [row.split("|") for row in PAGE.partition(header)[2].splitlines() if "|" in row]
    return {name for row in rows for name in re.findall(r"`([\w*]+)`", row[1])}


# rdkafka_mock.h of librdkafka 2.15, without what makes, ends and finds a mock cluster
THEIRS = """
clear_request_errors push_request_errors push_request_errors_array group_initial_rebalance_delay_ms
broker_push_request_error_rtts broker_error_stack_cnt partition_push_request_errors topic_set_error
topic_create topic_delete partition_delete_records partition_set_leader partition_set_follower
partition_set_follower_wmarks partition_push_leader_response broker_set_down broker_set_host_port
broker_set_up broker_set_rtt broker_set_rack broker_decommission broker_remove_from_metadata
broker_add coordinator_set set_apiversion start_request_tracking get_requests
telemetry_set_requested_metrics telemetry_set_push_interval cgrp_consumer_target_assignment
set_group_consumer_session_timeout_ms set_group_consumer_heartbeat_interval_ms
sharegroup_set_session_timeout sharegroup_target_assignment
"""
KFAKE = """
Control ControlKey KeepControl DropControl SleepControl CurrentNode MoveTopicPartition
CoordinatorFor LeaderFor RehashCoordinators AddNode RemoveNode SetFollowers Compact
ShufflePartitionLeaders ApplyRetention PartitionInfo SleepOutOfOrder MaxVersions EnableACLs
BrokerConfigs EnableSASL TLS
"""


@pytest.mark.parametrize(
    ("header", "theirs"), [("| `rd_kafka_mock_...` |", THEIRS), ("| kfake |", KFAKE)]
)
def test_each_fault_of_the_others_has_a_row(header: str, theirs: str) -> None:
    told = functions(header)
    patterns = [re.compile(name.replace("*", r"\w+")) for name in told]
    assert [
        name for name in theirs.split() if not any(pattern.fullmatch(name) for pattern in patterns)
    ] == []
