"""Consumer groups of the new protocol through a node: whether they are served, their settings, and what strangers ask too much of them."""

from collections.abc import Iterator

import pytest

from raftka.limits import REGEX_LENGTH, REGEXES_OF_GROUP
from raftka.metadata.image import BROKER, GROUP
from raftka.wire.errors import Code
from raftka.wire.messages.consumer_groups import CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_HEARTBEAT
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.quorum import UPDATE_FEATURES
from raftka.wire.rows import Row
from tests.broker.conftest import Lower
from tests.broker.stage import Stage, Wire


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(offsets_topic_num_partitions="1", offsets_topic_replication_factor="1", raftka_group_consumer_busy_interval_ms="0") as stage:
        stage.create("t", partitions=2)
        wire = stage.wire()
        stage.wait(lambda: wire.ask(FIND_COORDINATOR, FIND_COORDINATOR.request(coordinator_keys=["g"])).coordinators[0].error_code == Code.NONE)
        yield stage
        assert not stage.world.failures


def beat(wire: Wire, member_id: str, epoch: int = 0, regex: str | None = None, group_id: str = "g") -> Row:
    request = CONSUMER_GROUP_HEARTBEAT.request
    joins = {"rebalance_timeout_ms": 5000, "subscribed_topic_names": [] if regex else ["t"], "topic_partitions": []} if epoch == 0 else {}
    return wire.ask(
        CONSUMER_GROUP_HEARTBEAT, request(group_id=group_id, member_id=member_id, member_epoch=epoch, subscribed_topic_regex=regex, **joins)
    )


def describe(wire: Wire, group_id: str) -> Row:
    (found,) = wire.ask(CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_DESCRIBE.request(group_ids=[group_id])).groups
    assert isinstance(found, Row)
    return found


def set_group_version(wire: Wire, level: int, upgrade_type: int) -> int:
    update = UPDATE_FEATURES.request.feature_updates(feature="group.version", max_version_level=level, upgrade_type=upgrade_type)
    return int(wire.ask(UPDATE_FEATURES, UPDATE_FEATURES.request(timeout_ms=5000, feature_updates=[update])).error_code)


def test_they_are_served_as_long_as_the_feature_is_on(stage: Stage) -> None:
    wire = stage.wire()
    assert beat(wire, "a").member_epoch == 2

    assert set_group_version(wire, 0, upgrade_type=2) == Code.NONE
    stage.wait(lambda: "group.version" not in stage.nodes[1].image.features)
    assert beat(wire, "a", 2).error_code == Code.UNSUPPORTED_VERSION
    assert describe(wire, "g").error_code == Code.UNSUPPORTED_VERSION

    assert set_group_version(wire, 1, upgrade_type=1) == Code.NONE
    stage.wait(lambda: stage.nodes[1].image.features.get("group.version") == 1)
    assert beat(wire, "a", 2).error_code == Code.NONE
    assert set_group_version(wire, 2, upgrade_type=1) == Code.INVALID_UPDATE_VERSION


def test_a_groups_own_settings_hold_within_the_brokers_bounds(stage: Stage) -> None:
    wire = stage.wire()
    assert beat(wire, "a").heartbeat_interval_ms == 5000

    stage.set(GROUP, "g", consumer_heartbeat_interval_ms="12000")
    assert beat(wire, "a", 2).heartbeat_interval_ms == 12000
    assert beat(wire, "a", group_id="other").heartbeat_interval_ms == 5000


def test_the_interval_between_assignments_is_a_dynamic_setting(stage: Stage) -> None:
    stage.set(BROKER, "", group_consumer_assignment_interval_ms="0")
    wire = stage.wire()
    beat(wire, "a")

    assert beat(wire, "b").member_epoch == 3  # not 2: nothing waits


def test_long_regular_expressions_are_refused(stage: Stage) -> None:
    wire = stage.wire()

    refused = beat(wire, "a", regex="x" * (REGEX_LENGTH.value + 1))

    assert refused.error_code == Code.INVALID_REGULAR_EXPRESSION
    assert stage.counted(REGEX_LENGTH.metric) == 1
    assert describe(wire, "g").error_code == Code.GROUP_ID_NOT_FOUND


def test_many_regular_expressions_are_refused(stage: Stage, lowered: Lower) -> None:
    wire = stage.wire()
    lowered(REGEXES_OF_GROUP, 2)

    codes = [beat(wire, f"m{number}", regex=f"t{number}").error_code for number in range(3)]

    assert codes == [Code.NONE, Code.NONE, Code.INVALID_REGULAR_EXPRESSION]
    assert stage.counted(REGEXES_OF_GROUP.metric) == 1
    assert beat(wire, "m2", regex="t1").error_code == Code.NONE
    assert len(describe(wire, "g").members) == 3


@pytest.mark.parametrize("regex", ["(a*)*b", "(.*)*" * 50, "(((((a{99}){99}){99})", "((a{100}){100}){9}", "\\C", "[[:alpha:", "(?P<n>a)(?P=n)"])
def test_expressions_that_would_cost_others_dearly_cost_nothing(stage: Stage, regex: str) -> None:
    wire = stage.wire()
    for i in range(20):
        stage.create("a" * 200 + str(i))

    answer = beat(wire, "a", regex=regex)

    assert answer.error_code in (Code.NONE, Code.INVALID_REGULAR_EXPRESSION)
    assert beat(wire, "b").error_code == Code.NONE
