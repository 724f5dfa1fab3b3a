"""Findings of the cluster: each is there when it holds, and not otherwise."""

import pytest

from raftka.client.blocking.quorum import LEADER, OBSERVER, VOTER, Quorum, QuorumNode
from raftka.console.cluster.findings import (
    SILENT_MS,
    Situation,
    find_problems,
    is_current,
    may_fail,
)
from raftka.console.cluster.partitions import count_partitions
from raftka.console.view.metadata import Metadata
from raftka.console.view.sizes import Directory
from raftka.json_values import Json
from tests.console.cluster.clusters import metadata, partition

NOW_MS = 1_700_000_000_000
HEALTHY = {"orders": [partition(0), partition(1, leader=2, replicas=(2, 3, 1))]}


def situation(known: Metadata, **others: Json) -> Situation:
    plain = Situation(
        known.controller,
        known.brokers.keys(),
        known.missing,
        count_partitions(known),
        {},
        quorum(0, 0, 0),
        (),
        (),
        {},
    )
    return plain._replace(**others)


def quorum(*silent_ms: int, observers: int = 0) -> Quorum:
    """Voters 1, 2, ... by how long the leader, node 1, has not heard them."""
    voters = [
        QuorumNode(node_id, LEADER if node_id == 1 else VOTER, 9, 0, NOW_MS - age_ms, NOW_MS)
        for node_id, age_ms in enumerate(silent_ms, 1)
    ]
    others = [QuorumNode(100 + each, OBSERVER, 9, 0, -1, -1) for each in range(observers)]
    return Quorum(1, 3, 9, [*voters, *others])


def titles(now: Situation) -> list[str]:
    return [f"{each.level}: {each.title}" for each in find_problems(now)]


def test_a_healthy_cluster_has_no_finding() -> None:
    assert titles(situation(metadata(HEALTHY))) == []


def test_a_broker_that_is_gone_names_those_that_could_have_its_replicas() -> None:
    lacking = partition(isr=(1,), replicas=(1, 2))
    known = metadata({"orders": [lacking]}, brokers=(1, 3), gone=(2,))
    (finding,) = find_problems(situation(known))
    assert finding.title == "Broker 2 is gone"
    assert finding.command == "raftka reassign plan --broker 1 --broker 3"
    assert finding.why.startswith("1 replica on it: it is registered and not alive.")


def test_no_plan_is_proposed_where_too_few_brokers_are_alive() -> None:
    known = metadata({"orders": [partition(isr=(1, 3))]}, brokers=(1, 3), gone=(2,))
    (finding,) = find_problems(situation(known))
    assert finding.command == "raftka cluster describe"
    assert "partitions have 3 replicas, and of the brokers 2 are alive" in finding.why


def test_replicas_that_lag_on_a_live_broker() -> None:
    known = metadata({"orders": [partition(isr=(1, 2))]})
    assert titles(situation(known)) == ["warn: 1 partition not in sync, though the brokers live"]


def test_partitions_without_a_leader_come_first() -> None:
    known = metadata(
        {"orders": [partition(leader=-1, isr=(2,), replicas=(2,))]}, brokers=(1, 3), gone=(2,)
    )
    assert titles(situation(known)) == [
        "bad: Broker 2 is gone",
        "bad: 1 partition without a leader",
    ]


def test_partitions_below_min_isr_refuse_producers() -> None:
    known = metadata({"orders": [partition(isr=(1,))], "logs": [partition(isr=(1, 2))]})
    found = titles(situation(known, min_isr={"orders": 2, "logs": 2}))
    assert found == [
        "bad: 1 partition below min.insync.replicas",
        "warn: 1 partition not in sync, though the brokers live",
    ]


def test_no_controller() -> None:
    assert titles(situation(metadata(HEALTHY, controller=-1))) == ["bad: There is no controller"]


def test_a_silent_voter_is_bad_when_no_other_may_fail() -> None:
    late = SILENT_MS + 1
    known = metadata(HEALTHY)
    assert titles(situation(known, quorum=quorum(0, late, 0))) == ["bad: Voter 2 is silent"]
    five = quorum(0, late, 0, 0, 0)
    assert titles(situation(known, quorum=five)) == ["warn: Voter 2 is silent"]
    assert may_fail(five) == 1


def test_only_the_leaders_clock_counts() -> None:
    skewed = quorum(0, 100, 0)
    assert all(is_current(each, skewed) for each in skewed.nodes)
    unknown = Quorum(1, 3, 9, [each._replace(fetched_ms=-1) for each in skewed.nodes])
    assert all(is_current(each, unknown) for each in unknown.nodes), "an old broker tells no times"


def test_observers_are_no_voters() -> None:
    assert may_fail(quorum(0, 0, 0, observers=2)) == 1
    assert titles(situation(metadata(HEALTHY), quorum=quorum(0, 0, 0, observers=2))) == []


@pytest.mark.parametrize(
    ("usable", "error", "found"),
    [
        (20, None, []),
        (14, None, ["warn: /data of broker 1 is 86% full"]),
        (4, None, ["bad: /data of broker 1 is 96% full"]),
        (50, "KAFKA_STORAGE_ERROR", ["bad: /data of broker 1 has failed"]),
    ],
)
def test_disks(usable: int, error: str | None, found: list[str]) -> None:
    disks = [
        Directory(1, "/data", 100, usable, 10, 3, error),
        Directory(2, "/x", -1, -1, 5, 1, None),
    ]
    assert titles(situation(metadata(HEALTHY), directories=disks)) == found


def test_a_broker_that_came_back_and_leads_nothing() -> None:
    known = metadata({"orders": [partition(leader=2), partition(1, leader=3, replicas=(3, 1, 2))]})
    (finding,) = find_problems(situation(known))
    assert finding.title == "Broker 1 leads no partition"
    assert finding.command == "raftka partitions elect"


def test_transactions_and_groups() -> None:
    stuck = {f"group {each}": each for each in range(9)}
    found = find_problems(
        situation(metadata(HEALTHY), late_transactions=["pay-1", "pay-2"], stuck_groups=stuck)
    )
    assert found[0].title == "2 transactions open for very long"
    assert [each.title for each in found[1:]] == [
        f"Group group {each} makes no progress" for each in (8, 7, 6, 5, 4)
    ]
    assert found[1].command == "raftka groups describe 'group 8'"
    assert found[1].link == "#/groups/group%208"
    assert len({each.id for each in found}) == len(found)
