"""Requests of strangers for too many or too large groups: only they are refused, the limit's
counter moves, and a group beside them does not notice.
"""

from collections.abc import Iterator

import pytest

from raftka.limits import (
    GROUPS_OF_COORDINATOR,
    MEMBER_BYTES_OF_COORDINATOR,
    MEMBER_PROTOCOL_BYTES,
    MEMBERS_OF_GROUP,
    PENDING_MEMBERS,
)
from raftka.wire.errors import Code
from raftka.wire.messages.consumer_groups import CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_HEARTBEAT
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.groups import (
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    SYNC_GROUP,
    JoinGroupRequest,
    JoinGroupResponse,
)
from raftka.wire.messages.offsets import OFFSET_COMMIT, OFFSET_FETCH
from tests.broker.conftest import Lower
from tests.broker.stage import Stage, Wire

HOSTILE = [
    "../../etc",
    "a\0b",
    "a\nb\r\n",
    "😀\u202e",
    "\ufffd" * 100,
    "x" * 32767,
    " ",
    "__consumer_offsets",
    "%s%n{0}",
]


@pytest.fixture
def stage() -> Iterator[Stage]:
    """One partition of groups: all of them have the same coordinator."""
    with Stage(
        group_initial_rebalance_delay_ms="0",
        offsets_topic_num_partitions="1",
        offsets_topic_replication_factor="1",
    ) as stage:
        stage.create("t")
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


class Neighbour:
    """A group that is Stable, and must stay so."""

    def __init__(self, stage: Stage) -> None:
        self.wire = stage.wire()
        self.member_id = joined(self.wire, "neighbour", version=3).member_id
        assignments = [SYNC_GROUP.request.assignments(member_id=self.member_id, assignment=b"mine")]
        asked = SYNC_GROUP.request(
            group_id="neighbour", generation_id=1, member_id=self.member_id, assignments=assignments
        )
        assert self.wire.ask(SYNC_GROUP, asked, 2).assignment == b"mine"

    def is_well(self) -> bool:
        asked = HEARTBEAT.request(group_id="neighbour", generation_id=1, member_id=self.member_id)
        return (
            committed(self.wire, "neighbour", self.member_id, 1) == Code.NONE
            and self.wire.ask(HEARTBEAT, asked).error_code == Code.NONE
        )


def join(group_id: str, member_id: str = "", metadata: bytes = b"") -> JoinGroupRequest:
    request = JOIN_GROUP.request
    protocols = [request.protocols(name="range", metadata=metadata)]
    return request(
        group_id=group_id,
        member_id=member_id,
        protocol_type="consumer",
        protocols=protocols,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=5_000,
    )


def joined(
    wire: Wire, group_id: str, member_id: str = "", metadata: bytes = b"", version: int = 9
) -> JoinGroupResponse:
    return wire.ask(JOIN_GROUP, join(group_id, member_id, metadata), version)


def committed(wire: Wire, group_id: str, member_id: str = "", generation_id: int = -1) -> int:
    request = OFFSET_COMMIT.request
    topics = [
        request.topics(
            name="t", partitions=[request.topics.partitions(partition_index=0, committed_offset=7)]
        )
    ]
    row = request(
        group_id=group_id,
        member_id=member_id,
        generation_id_or_member_epoch=generation_id,
        topics=topics,
    )
    return int(wire.ask(OFFSET_COMMIT, row, 9).topics[0].partitions[0].error_code)


def test_ids_that_nobody_joins_with(stage: Stage, lowered: Lower) -> None:
    neighbour, wire = Neighbour(stage), stage.wire()
    lowered(PENDING_MEMBERS, 50)

    answers = [joined(wire, "g") for _ in range(60)]

    assert [each.error_code for each in answers] == [Code.MEMBER_ID_REQUIRED] * 50 + [
        Code.GROUP_MAX_SIZE_REACHED
    ] * 10
    assert stage.counted(PENDING_MEMBERS.metric) == 10
    assert joined(wire, "g", answers[0].member_id).error_code == Code.NONE
    assert neighbour.is_well()
    for _ in range(11):
        stage.world.run(stage.world.now + 1)
        assert neighbour.is_well()
    assert joined(wire, "g").error_code == Code.MEMBER_ID_REQUIRED  # the others have ended


def test_members_of_a_group(stage: Stage, lowered: Lower) -> None:
    neighbour = Neighbour(stage)
    lowered(MEMBERS_OF_GROUP, 2)
    first = stage.wire()
    leader = joined(first, "g", version=3).member_id
    second, third = stage.wire(), stage.wire()
    second.request(JOIN_GROUP, join("g"), 3)
    stage.wait(
        lambda: (
            third.ask(DESCRIBE_GROUPS, DESCRIBE_GROUPS.request(groups=["g"])).groups[0].group_state
            == "PreparingRebalance"
        )
    )

    assert joined(first, "g", leader, version=3).error_code == Code.NONE
    assert second.answer(JOIN_GROUP, 3).error_code == Code.NONE
    assert joined(third, "g", version=3).error_code == Code.GROUP_MAX_SIZE_REACHED
    assert stage.counted(MEMBERS_OF_GROUP.metric) == 1
    lowered(MEMBERS_OF_GROUP, 3)
    given = joined(third, "g").member_id
    lowered(MEMBERS_OF_GROUP, 2)
    refused = joined(third, "g", given)
    # its id is no member's any more
    assert (refused.error_code, refused.member_id) == (Code.GROUP_MAX_SIZE_REACHED, "")
    assert neighbour.is_well()


def test_groups_of_a_coordinator(stage: Stage, lowered: Lower) -> None:
    neighbour, wire = Neighbour(stage), stage.wire()
    lowered(GROUPS_OF_COORDINATOR, 3)

    codes = [committed(wire, f"g{i}") for i in range(3)] + [joined(wire, "h").error_code]

    assert codes == [Code.NONE, Code.NONE, Code.POLICY_VIOLATION, Code.POLICY_VIOLATION]
    assert stage.counted(GROUPS_OF_COORDINATOR.metric) == 2
    assert neighbour.is_well()
    assert committed(wire, "g1") == Code.NONE


def test_metadata_that_does_not_fit(stage: Stage) -> None:
    """Not looked at before the member has an id; then refused, and what it would have taken from
    others is theirs.
    """
    neighbour, wire = Neighbour(stage), stage.wire()
    huge = bytes(5 << 20)

    given = joined(wire, "g", metadata=huge)
    refused = joined(wire, "g", given.member_id, huge)

    assert (given.error_code, refused.error_code) == (
        Code.MEMBER_ID_REQUIRED,
        Code.UNKNOWN_SERVER_ERROR,
    )
    assert refused.member_id == given.member_id
    assert stage.counted(MEMBER_PROTOCOL_BYTES.metric) == 1
    assert joined(wire, "g", given.member_id, b"small").error_code == Code.NONE
    assert neighbour.is_well()


def test_protocols_of_no_bytes_take_room_too(stage: Stage) -> None:
    neighbour, wire = Neighbour(stage), stage.wire()
    member_id = joined(wire, "g").member_id
    many = join("g", member_id)
    many.protocols = [JOIN_GROUP.request.protocols(name="", metadata=b"")] * 30_000

    assert wire.ask(JOIN_GROUP, many).error_code == Code.UNKNOWN_SERVER_ERROR
    assert stage.counted(MEMBER_PROTOCOL_BYTES.metric) == 1
    assert neighbour.is_well()


def test_all_members_of_all_groups(stage: Stage, lowered: Lower) -> None:
    """A member that is there stays and may come back; when others have gone there is room again."""
    neighbour, wire = Neighbour(stage), stage.wire()
    lowered(MEMBER_BYTES_OF_COORDINATOR, 500_000)

    members = [joined(wire, f"g{i}", metadata=bytes(100_000), version=3) for i in range(6)]
    consumer = CONSUMER_GROUP_HEARTBEAT.request(
        group_id="new",
        member_id="m",
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["t" * 200] * 600,
        topic_partitions=[],
    )

    assert [each.error_code for each in members] == [Code.NONE] * 4 + [
        Code.GROUP_MAX_SIZE_REACHED
    ] * 2
    assert wire.ask(CONSUMER_GROUP_HEARTBEAT, consumer).error_code == Code.GROUP_MAX_SIZE_REACHED
    assert stage.counted(MEMBER_BYTES_OF_COORDINATOR.metric) == 3
    assert (
        joined(wire, "g0", members[0].member_id, bytes(100_000), version=3).error_code == Code.NONE
    )
    assert neighbour.is_well()
    for _ in range(11):
        stage.world.run(stage.world.now + 1)
        assert neighbour.is_well()
    # sessions of the others have ended
    assert joined(wire, "g5", metadata=bytes(100_000), version=3).error_code == Code.NONE


def test_who_is_refused_or_has_gone_takes_no_room(stage: Stage, lowered: Lower) -> None:
    neighbour, wire = Neighbour(stage), stage.wire()
    lowered(MEMBER_BYTES_OF_COORDINATOR, 500_000)

    for i in range(10):
        assert joined(wire, "nobody", "nobody", bytes(100_000)).error_code == Code.UNKNOWN_MEMBER_ID
        member_id = joined(wire, f"g{i}", metadata=bytes(100_000), version=3).member_id
        leaving = LEAVE_GROUP.request(
            group_id=f"g{i}", members=[LEAVE_GROUP.request.members(member_id=member_id)]
        )
        assert wire.ask(LEAVE_GROUP, leaving).members[0].error_code == Code.NONE

    assert joined(wire, "g", metadata=bytes(100_000), version=3).error_code == Code.NONE
    assert stage.counted(MEMBER_BYTES_OF_COORDINATOR.metric) == 0
    assert neighbour.is_well()


def test_a_record_that_does_not_fit(stage: Stage) -> None:
    """Each member's words are short enough, all of them together are not: nobody gets an
    assignment, and the group can still be left.
    """
    neighbour, wire = Neighbour(stage), stage.wire()
    member_id = joined(wire, "g", metadata=bytes(1_000_000), version=3).member_id
    assignments = [SYNC_GROUP.request.assignments(member_id=member_id, assignment=bytes(1_000_000))]
    row = SYNC_GROUP.request(
        group_id="g", generation_id=1, member_id=member_id, assignments=assignments
    )

    assert wire.ask(SYNC_GROUP, row, 2).error_code == Code.UNKNOWN_SERVER_ERROR
    assert neighbour.is_well()
    leaving = LEAVE_GROUP.request(
        group_id="g", members=[LEAVE_GROUP.request.members(member_id=member_id)]
    )
    assert wire.ask(LEAVE_GROUP, leaving).members[0].error_code == Code.NONE
    described = wire.ask(DESCRIBE_GROUPS, DESCRIBE_GROUPS.request(groups=["g"])).groups[0]
    assert (described.group_state, described.members) == ("Empty", [])
    assert neighbour.is_well()


def test_hostile_names(stage: Stage) -> None:
    """A group's name is whatever its members call it: it comes back as it was, and is found again
    by the next coordinator.
    """
    neighbour, wire = Neighbour(stage), stage.wire()
    for name in HOSTILE:
        assert committed(wire, name) == Code.NONE
        member_id = joined(wire, name, version=3).member_id
        assert member_id
        leaving = LEAVE_GROUP.request(
            group_id=name, members=[LEAVE_GROUP.request.members(member_id=member_id)]
        )
        assert wire.ask(LEAVE_GROUP, leaving).members[0].error_code == Code.NONE
    assert neighbour.is_well()

    stage.kill(1)
    node = stage.start(1)
    stage.wait(lambda: node.metadata.published)
    wire = stage.wire()
    stage.wait(lambda: bool(wire.ask(LIST_GROUPS, LIST_GROUPS.request()).groups))

    assert {each.group_id for each in wire.ask(LIST_GROUPS, LIST_GROUPS.request()).groups} == {
        *HOSTILE,
        "neighbour",
    }
    asked = OFFSET_FETCH.request(
        groups=[OFFSET_FETCH.request.groups(group_id=name, topics=None) for name in HOSTILE]
    )
    found = wire.ask(OFFSET_FETCH, asked, 9).groups
    assert [(each.group_id, each.topics[0].partitions[0].committed_offset) for each in found] == [
        (name, 7) for name in HOSTILE
    ]


def test_long_names_of_clients(stage: Stage) -> None:
    """They go into ids that must still be strings that can be sent."""
    wire = stage.wire()
    instance = join("g")
    instance.group_instance_id = "i" * 32767

    answer = wire.ask(JOIN_GROUP, instance)

    assert answer.error_code == Code.NONE
    assert answer.member_id.startswith("iii")
    assert len(answer.member_id) < 300


def test_groups_that_are_named_a_thousand_times_are_reported_once(stage: Stage) -> None:
    neighbour, wire = Neighbour(stage), stage.wire()
    assert neighbour.is_well()
    beat = CONSUMER_GROUP_HEARTBEAT.request(
        group_id="new",
        member_id="m",
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert wire.ask(CONSUMER_GROUP_HEARTBEAT, beat).error_code == Code.NONE

    described = wire.ask(
        DESCRIBE_GROUPS, DESCRIBE_GROUPS.request(groups=["neighbour"] * 1000 + ["nobody"])
    ).groups
    consumers = wire.ask(
        CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_DESCRIBE.request(group_ids=["new"] * 1000)
    ).groups
    request = OFFSET_FETCH.request
    everything = [request.groups(group_id="neighbour", topics=None)] * 1000
    some = request.groups(
        group_id="neighbour", topics=[request.groups.topics(name="t", partition_indexes=[0])]
    )
    fetched = wire.ask(OFFSET_FETCH, request(groups=[*everything, some]), 9).groups

    assert [each.group_id for each in described] == ["neighbour", "nobody"]
    assert [(each.group_id, len(each.members)) for each in consumers] == [("new", 1)]
    assert [each.topics[0].partitions[0].committed_offset for each in fetched] == [7, 7]
