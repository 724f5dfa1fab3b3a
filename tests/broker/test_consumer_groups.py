"""Consumer groups of the new protocol through a node: whether they are served, their settings, and
what strangers ask too much of them.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from raftka.coordinator.protocol import write_assignment
from raftka.limits import REGEX_LENGTH, REGEXES_OF_GROUP, SUBSCRIBED_NAMES
from raftka.metadata.image import BROKER, GROUP
from raftka.wire.errors import Code
from raftka.wire.messages.consumer_groups import (
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupHeartbeatResponse,
    DescribedGroup,
)
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.groups import JOIN_GROUP, SYNC_GROUP, JoinGroupResponse
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.partitions import CREATE_PARTITIONS
from raftka.wire.messages.quorum import UPDATE_FEATURES
from tests.broker.conftest import Lower
from tests.broker.stage import Stage, Wire
from tests.coordinator.world import subscription


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(
        offsets_topic_num_partitions="1",
        offsets_topic_replication_factor="1",
        raftka_group_consumer_busy_interval_ms="0",
        group_initial_rebalance_delay_ms="0",
    ) as stage:
        stage.create("t", partitions=2)
        wire = stage.wire()
        stage.wait(
            lambda: (
                wire.ask(FIND_COORDINATOR, FIND_COORDINATOR.request(coordinator_keys=["g"]))
                .coordinators[0]
                .error_code
                == Code.NONE
            )
        )
        yield stage
        assert not stage.world.failures


def beat(
    wire: Wire, member_id: str, epoch: int = 0, regex: str | None = None, group_id: str = "g"
) -> ConsumerGroupHeartbeatResponse:
    request = CONSUMER_GROUP_HEARTBEAT.request
    said: dict[str, Any] = {"subscribed_topic_names": None, "topic_partitions": None}
    if epoch == 0:
        said = {
            "rebalance_timeout_ms": 5000,
            "subscribed_topic_names": [] if regex else ["t"],
            "topic_partitions": [],
        }
    return wire.ask(
        CONSUMER_GROUP_HEARTBEAT,
        request(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_regex=regex,
            **said,
        ),
    )


def classic_join(
    wire: Wire, group_id: str, member_id: str = "", protocol_type: str = "consumer"
) -> JoinGroupResponse:
    request = JOIN_GROUP.request
    protocols = [request.protocols(name="range", metadata=subscription(["t"]))]
    return wire.ask(
        JOIN_GROUP,
        request(
            group_id=group_id,
            member_id=member_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type=protocol_type,
            protocols=protocols,
        ),
        3,
    )


def describe(wire: Wire, group_id: str) -> DescribedGroup:
    (found,) = wire.ask(
        CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_DESCRIBE.request(group_ids=[group_id])
    ).groups
    return found


def set_group_version(wire: Wire, level: int, upgrade_type: int) -> int:
    update = UPDATE_FEATURES.request.feature_updates(
        feature="group.version", max_version_level=level, upgrade_type=upgrade_type
    )
    return int(
        wire.ask(
            UPDATE_FEATURES, UPDATE_FEATURES.request(timeout_ms=5000, feature_updates=[update])
        ).error_code
    )


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


def test_a_member_that_names_very_many_topics_is_refused(stage: Stage, lowered: Lower) -> None:
    wire = stage.wire()
    lowered(SUBSCRIBED_NAMES, 2)
    request = CONSUMER_GROUP_HEARTBEAT.request
    said: dict[str, Any] = {
        "group_id": "g",
        "member_id": "m",
        "rebalance_timeout_ms": 5000,
        "topic_partitions": [],
    }

    codes = [
        wire.ask(CONSUMER_GROUP_HEARTBEAT, request(**said, subscribed_topic_names=names)).error_code
        for names in (["t", "u", "v"], ["t", "u"])
    ]

    assert codes == [Code.INVALID_REQUEST, Code.NONE]
    assert stage.counted(SUBSCRIBED_NAMES.metric) == 1


def test_many_regular_expressions_are_refused(stage: Stage, lowered: Lower) -> None:
    wire = stage.wire()
    lowered(REGEXES_OF_GROUP, 2)

    codes = [beat(wire, f"m{number}", regex=f"t{number}").error_code for number in range(3)]

    assert codes == [Code.NONE, Code.NONE, Code.INVALID_REGULAR_EXPRESSION]
    assert stage.counted(REGEXES_OF_GROUP.metric) == 1
    assert beat(wire, "m2", regex="t1").error_code == Code.NONE
    assert len(describe(wire, "g").members) == 3


@pytest.mark.parametrize(
    "regex",
    [
        "(a*)*b",
        "(.*)*" * 50,
        "(((((a{99}){99}){99})",
        "((a{100}){100}){9}",
        "\\C",
        "[[:alpha:",
        "(?P<n>a)(?P=n)",
    ],
)
def test_expressions_that_would_cost_others_dearly_cost_nothing(stage: Stage, regex: str) -> None:
    wire = stage.wire()
    for i in range(20):
        stage.create("a" * 200 + str(i))

    answer = beat(wire, "a", regex=regex)

    assert answer.error_code in (Code.NONE, Code.INVALID_REGULAR_EXPRESSION)
    assert beat(wire, "b").error_code == Code.NONE


def test_an_empty_group_id_is_not_described(stage: Stage) -> None:
    found = describe(stage.wire(), "")

    assert (found.error_code, found.error_message) == (Code.INVALID_GROUP_ID, None)


def test_partitions_that_a_member_has_not_given_up_yet_are_described_as_its_own(
    stage: Stage,
) -> None:
    stage.set(BROKER, "", group_consumer_assignment_interval_ms="0")
    wire = stage.wire()
    beat(wire, "a")
    beat(wire, "b")
    assignment = beat(wire, "a", 2).assignment
    assert assignment is not None
    assert [list(topic.partitions) for topic in assignment.topic_partitions] == [[0]]

    described = {member.member_id: member for member in describe(wire, "g").members}

    assert [list(topic.partitions) for topic in described["a"].assignment.topic_partitions] == [
        [0, 1]
    ]
    assert [
        list(topic.partitions) for topic in described["a"].target_assignment.topic_partitions
    ] == [[0]]
    assert list(described["b"].assignment.topic_partitions) == []


@pytest.mark.parametrize("member_id", ["", "a", "stranger"])
def test_a_classic_member_that_a_consumer_group_refuses_gets_no_member_id(
    stage: Stage, member_id: str
) -> None:
    wire = stage.wire()
    beat(wire, "a")

    refused = classic_join(wire, "g", member_id, protocol_type="connect")

    assert (refused.error_code, refused.member_id) == (Code.INCONSISTENT_GROUP_PROTOCOL, "")


@pytest.mark.parametrize(
    ("user_data", "reason"),
    [
        (b"", None),
        (
            b"mine",
            "an unsupported custom assignor is in use. "
            "Please refer to the documentation or switch to a default assignor before "
            "re-attempting the upgrade.",
        ),
        (None, "the embedded consumer protocol is malformed."),
    ],
)
def test_a_classic_group_with_user_data_of_an_assignor_is_not_converted(
    stage: Stage, user_data: bytes | None, reason: str | None
) -> None:
    wire = stage.wire()
    joined = classic_join(wire, "c")
    assignment = (
        b"x"
        if user_data is None
        else write_assignment({"t": (0, 1)}, 0)[:-4] + len(user_data).to_bytes(4, "big") + user_data
    )
    sync = SYNC_GROUP.request
    given = [sync.assignments(member_id=joined.member_id, assignment=assignment)]
    assert (
        wire.ask(
            SYNC_GROUP,
            sync(group_id="c", generation_id=1, member_id=joined.member_id, assignments=given),
            3,
        ).error_code
        == Code.NONE
    )

    answer = beat(wire, "a", group_id="c")

    if reason is None:
        assert answer.member_epoch == 2
    else:
        text = f"Cannot upgrade classic group c to consumer group because {reason}"
        assert (answer.error_code, answer.error_message) == (Code.GROUP_ID_NOT_FOUND, text)


class CachingMember:
    """A consumer that beats as it is told, and asks for metadata when its own are older than five
    seconds.
    """

    MAX_AGE_S = 5.0

    def __init__(self, stage: Stage, member_id: str) -> None:
        self.stage, self.wire, self.member_id = stage, stage.wire(), member_id
        self.epoch = 0
        self.known, self.asked_at = 0, -self.MAX_AGE_S
        self.owned: set[int] = set()
        self.due = stage.world.now

    def partitions(self) -> int:
        """Return how many partitions its metadata have."""
        if self.stage.world.now - self.asked_at >= self.MAX_AGE_S:
            (topic,) = self.wire.ask(
                METADATA, METADATA.request(topics=[METADATA.request.topics(name="t")])
            ).topics
            self.known, self.asked_at = len(topic.partitions), self.stage.world.now
        return self.known

    def beat(self) -> None:
        request = CONSUMER_GROUP_HEARTBEAT.request
        topic_id = self.stage.nodes[1].image.topic_ids["t"]
        owned = (
            [request.topic_partitions(topic_id=topic_id, partitions=sorted(self.owned))]
            if self.owned
            else []
        )
        row = request(
            group_id="g",
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["t"],
            topic_partitions=owned,
        )
        answer = self.wire.ask(CONSUMER_GROUP_HEARTBEAT, row)
        assert answer.error_code == Code.NONE
        self.epoch = answer.member_epoch
        self.due = self.stage.world.now + answer.heartbeat_interval_ms / 1000
        if answer.assignment is not None:
            self.owned = {
                partition
                for topic in answer.assignment.topic_partitions
                for partition in topic.partitions
            }
            unheard = {partition for partition in self.owned if partition >= self.partitions()}
            assert not unheard, (
                f"{self.member_id} is assigned {unheard} and has heard of {self.known} partitions"
            )


def grown_under_members(stage: Stage, seed: int, growths: int = 5) -> list[float]:
    """Let a topic grow at random moments while two members read it; return how long each growth
    took to be assigned.
    """
    random = Random(seed)
    members = [CachingMember(stage, each) for each in "ab"]
    took = []

    def until(when: float, done: Callable[[], bool]) -> None:
        while not done() and stage.world.now < when:
            member = min(members, key=lambda each: each.due)
            stage.world.run(min(max(member.due, stage.world.now), when))
            if member.due <= stage.world.now:
                member.beat()

    for growth in range(growths):
        until(stage.world.now + random.uniform(0.5, 9.0), lambda: False)
        count = 4 + growth
        row = CREATE_PARTITIONS.request(
            topics=[CREATE_PARTITIONS.request.topics(name="t", count=count, assignments=None)],
            timeout_ms=5000,
        )
        assert stage.wire().ask(CREATE_PARTITIONS, row).results[0].error_code == Code.NONE
        grew_at = stage.world.now
        until(
            grew_at + 20.0,
            lambda count=count: set().union(*(each.owned for each in members)) == set(range(count)),  # type: ignore[misc]
        )
        took.append(stage.world.now - grew_at)
    return took


@pytest.mark.parametrize("seed", range(4))
def test_members_are_assigned_no_partition_that_they_have_not_heard_of(seed: int) -> None:
    with Stage(offsets_topic_num_partitions="1", offsets_topic_replication_factor="1") as stage:
        stage.create("t", partitions=3)
        wire = stage.wire()
        stage.wait(
            lambda: (
                wire.ask(FIND_COORDINATOR, FIND_COORDINATOR.request(coordinator_keys=["g"]))
                .coordinators[0]
                .error_code
                == Code.NONE
            )
        )
        assert max(grown_under_members(stage, seed)) < 8.0, (
            "a beat as ever, a busy one, and what it takes to share out"
        )
