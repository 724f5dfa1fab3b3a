"""The requests of groups against nodes: who coordinates, what each answers when it may not or
cannot, and a member's life in every version.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from raftka.broker.coordinators.partition import LOADED, LOADING
from raftka.broker.coordinators.runtime import partition_for
from raftka.broker.network.access.authorizer import AllowAll, Resource
from raftka.broker.network.session import Session
from raftka.wire.errors import Code
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.groups import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    SYNC_GROUP,
    LeaveGroupRequest,
)
from raftka.wire.messages.offsets import (
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from raftka.wire.rows import Row
from raftka.wire.schema import AnyApi
from tests.broker.group_requests import commit, join
from tests.broker.stage import Stage, Wire

OFFSETS = "__consumer_offsets"


def offsets_of(group: str, *topics: str, version: int) -> OffsetFetchRequest:
    request = OFFSET_FETCH.request
    if version < 8:
        return request(
            group_id=group,
            topics=[
                request.topics(name=topic, partition_indexes=[0]) for topic in topics or ("t",)
            ],
        )
    asked = [request.groups.topics(name=topic, partition_indexes=[0]) for topic in topics or ("t",)]
    return request(groups=[request.groups(group_id=group, topics=asked)])


def delete_offsets(group: str, *topics: str) -> OffsetDeleteRequest:
    request = OFFSET_DELETE.request
    partitions = [request.topics.partitions(partition_index=0)]
    return request(
        group_id=group,
        topics=[request.topics(name=topic, partitions=partitions) for topic in topics or ("t",)],
    )


def leave(group: str, member_id: str, version: int) -> LeaveGroupRequest:
    request = LEAVE_GROUP.request
    if version < 3:
        return request(group_id=group, member_id=member_id)
    return request(group_id=group, members=[request.members(member_id=member_id)])


# Of each API a request, and its answer's error.
ASKED: list[tuple[AnyApi, Callable[[str, int], Row], Callable[[Any], int]]] = [
    (JOIN_GROUP, lambda group, _: join(group), lambda row: int(row.error_code)),
    (
        SYNC_GROUP,
        lambda group, _: SYNC_GROUP.request(group_id=group, member_id="m"),
        lambda row: int(row.error_code),
    ),
    (
        HEARTBEAT,
        lambda group, _: HEARTBEAT.request(group_id=group, member_id="m"),
        lambda row: int(row.error_code),
    ),
    (
        LEAVE_GROUP,
        lambda group, version: leave(group, "m", version),
        lambda row: int(row.error_code),
    ),
    (
        DESCRIBE_GROUPS,
        lambda group, _: DESCRIBE_GROUPS.request(groups=[group]),
        lambda row: int(row.groups[0].error_code),
    ),
    (
        DELETE_GROUPS,
        lambda group, _: DELETE_GROUPS.request(groups_names=[group]),
        lambda row: int(row.results[0].error_code),
    ),
    (
        OFFSET_COMMIT,
        lambda group, _: commit(group),
        lambda row: int(row.topics[0].partitions[0].error_code),
    ),
    (OFFSET_DELETE, lambda group, _: delete_offsets(group), lambda row: int(row.error_code)),
]


def fetch_error(row: OffsetFetchResponse, version: int) -> int:
    if version >= 8:
        return int(row.groups[0].error_code)
    (of_partitions,) = {
        partition.error_code for topic in row.topics for partition in topic.partitions
    }
    # there are clients that look at either alone
    assert version == 1 or row.error_code in (0, of_partitions)
    return int(of_partitions)


def errors(wire: Wire, group: str) -> dict[str, set[int]]:
    """Of each API, over all of its versions."""
    found = {
        api.name: {
            error(wire.ask(api, request(group, version), version))
            for version in range(api.min_version, api.max_version + 1)
        }
        for api, request, error in ASKED
    }
    versions = range(OFFSET_FETCH.min_version, OFFSET_FETCH.max_version + 1)
    found["OffsetFetch"] = {
        fetch_error(wire.ask(OFFSET_FETCH, offsets_of(group, version=version), version), version)
        for version in versions
    }
    return found


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(group_initial_rebalance_delay_ms="0") as stage:
        stage.create("t")
        with_groups(stage)
        yield stage


def with_groups(stage: Stage) -> None:
    """The topic is there, and each of its coordinators serves."""
    stage.wire().ask(FIND_COORDINATOR, FIND_COORDINATOR.request(coordinator_keys=["g"]))

    def serving() -> bool:
        return (
            sum(
                coordinator.state in LOADED
                for node in stage.nodes.values()
                for coordinator in node.groups.runtime.partitions.values()
            )
            == 50
        )

    stage.wait(serving)


# who coordinates


def test_the_first_who_asks_finds_nobody_and_then_there_is_one() -> None:
    with Stage(3) as stage:
        asked = FIND_COORDINATOR.request(coordinator_keys=["g", "h"])
        first = stage.wire().ask(FIND_COORDINATOR, asked).coordinators
        assert {row.error_code for row in first} == {Code.COORDINATOR_NOT_AVAILABLE}
        with_groups(stage)

        found = {
            row.key: row.node_id for row in stage.wire(2).ask(FIND_COORDINATOR, asked).coordinators
        }

        assert found == {
            group: stage.leader(OFFSETS, partition_for(group, 50)) for group in ("g", "h")
        }
        topic = stage.nodes[1].image.topic_named(OFFSETS)
        assert topic is not None
        assert {len(each.replicas) for each in topic.partitions} == {3}
        assert stage.nodes[1].image.config(2, OFFSETS)["cleanup.policy"] == "compact"


def test_without_enough_brokers_there_is_nobody() -> None:
    with Stage(offsets_topic_replication_factor="3") as stage:
        for _ in range(3):
            (row,) = (
                stage.wire()
                .ask(FIND_COORDINATOR, FIND_COORDINATOR.request(coordinator_keys=["g"]))
                .coordinators
            )
            assert row.error_code == Code.COORDINATOR_NOT_AVAILABLE
            stage.world.run(stage.world.now + 1.0)


def test_who_does_not_coordinate_says_so_in_every_request() -> None:
    with Stage(3) as stage:
        stage.create("t")
        with_groups(stage)
        other = next(iter({1, 2, 3} - {stage.leader(OFFSETS, partition_for("g", 50))}))

        assert errors(stage.wire(other), "g") == {
            name: {Code.NOT_COORDINATOR}
            for name in [*(api.name for api, *_ in ASKED), "OffsetFetch"]
        }


def test_before_the_topic_of_groups_exists_every_request_gets_not_coordinator() -> None:
    with Stage() as stage:
        stage.create("t")
        wire = stage.wire()

        assert errors(wire, "g") == {
            name: {Code.NOT_COORDINATOR}
            for name in [*(api.name for api, *_ in ASKED), "OffsetFetch"]
        }
        assert wire.ask(LIST_GROUPS, LIST_GROUPS.request()).error_code == Code.NONE


def test_while_a_coordinator_loads_only_heartbeats_are_well(stage: Stage) -> None:
    stage.nodes[1].groups.runtime.partitions[partition_for("g", 50)].state = LOADING

    found = errors(stage.wire(), "g")

    assert found.pop("Heartbeat") == {0}
    assert set().union(*found.values()) == {Code.COORDINATOR_LOAD_IN_PROGRESS}
    assert (
        stage.wire().ask(LIST_GROUPS, LIST_GROUPS.request()).error_code
        == Code.COORDINATOR_LOAD_IN_PROGRESS
    )


# who may


class Deny(AllowAll):
    def __init__(self, *denied: tuple[str, Resource]) -> None:
        self.denied = denied

    def allowed(self, session: Session, operation: str, resource: Resource) -> bool:
        return (operation, resource) not in self.denied


def test_every_request_of_a_group_needs_its_operation(stage: Stage) -> None:
    operations = {
        "DescribeGroups": "DESCRIBE",
        "OffsetFetch": "DESCRIBE",
        "DeleteGroups": "DELETE",
        "OffsetDelete": "DELETE",
    }
    for denied in ("READ", "DESCRIBE", "DELETE"):
        stage.nodes[1].dispatcher.authorizer = Deny((denied, ("group", "g")))

        found = errors(stage.wire(), "g")

        wrong = {
            name: codes
            for name, codes in found.items()
            if (codes == {Code.GROUP_AUTHORIZATION_FAILED})
            != (operations.get(name, "READ") == denied)
        }
        assert wrong == {}


def test_topics_that_may_not_be_read_are_reported_one_by_one(stage: Stage) -> None:
    stage.create("secret")
    wire = stage.wire()
    stage.nodes[1].dispatcher.authorizer = Deny(
        ("READ", ("topic", "secret")), ("DESCRIBE", ("topic", "secret"))
    )

    committed = wire.ask(OFFSET_COMMIT, commit("g", "secret", "t", "gone"), 9).topics
    fetched = wire.ask(OFFSET_FETCH, offsets_of("g", "t", "secret", version=9), 9).groups[0].topics
    everything = (
        wire.ask(
            OFFSET_FETCH,
            OFFSET_FETCH.request(groups=[OFFSET_FETCH.request.groups(group_id="g", topics=None)]),
            9,
        )
        .groups[0]
        .topics
    )
    deleted = wire.ask(OFFSET_DELETE, delete_offsets("g", "secret", "t")).topics

    denied, unknown = Code.TOPIC_AUTHORIZATION_FAILED, Code.UNKNOWN_TOPIC_OR_PARTITION
    assert [(topic.name, topic.partitions[0].error_code) for topic in committed] == [
        ("secret", denied),
        ("t", 0),
        ("gone", unknown),
    ]
    assert [
        (topic.name, topic.partitions[0].committed_offset, topic.partitions[0].error_code)
        for topic in fetched
    ] == [
        ("t", 1, 0),
        ("secret", -1, denied),
    ]
    assert [topic.name for topic in everything] == ["t"]
    assert [(topic.name, topic.partitions[0].error_code) for topic in deleted] == [
        ("secret", denied),
        ("t", 0),
    ]


def test_topics_that_may_not_be_read_are_reported_of_an_unknown_group(stage: Stage) -> None:
    stage.nodes[1].dispatcher.authorizer = Deny(("READ", ("topic", "secret")))

    deleted = stage.wire().ask(OFFSET_DELETE, delete_offsets("nobodys", "secret"))

    assert (deleted.error_code, deleted.topics[0].partitions[0].error_code) == (
        0,
        Code.TOPIC_AUTHORIZATION_FAILED,
    )


def test_only_groups_that_may_be_seen_are_listed(stage: Stage) -> None:
    wire = stage.wire()
    for group in ("open", "secret"):
        wire.ask(OFFSET_COMMIT, commit(group), 9)
    stage.nodes[1].dispatcher.authorizer = Deny(
        ("DESCRIBE", ("cluster", "kafka-cluster")), ("DESCRIBE", ("group", "secret"))
    )

    assert [group.group_id for group in wire.ask(LIST_GROUPS, LIST_GROUPS.request()).groups] == [
        "open"
    ]


# a member's life


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_syncs_commits_and_leaves(stage: Stage, version: int) -> None:
    wire, old = stage.wire(), min(version, 4)
    joined = wire.ask(JOIN_GROUP, join("g"), version)
    if version >= 4:
        assert joined.error_code == Code.MEMBER_ID_REQUIRED
        joined = wire.ask(JOIN_GROUP, join("g", joined.member_id), version)
    member = joined.member_id
    assert (joined.error_code, joined.leader, [each.member_id for each in joined.members]) == (
        0,
        member,
        [member],
    )
    assignments = [SYNC_GROUP.request.assignments(member_id=member, assignment=b"mine")]
    sync = SYNC_GROUP.request(
        group_id="g",
        generation_id=1,
        member_id=member,
        protocol_type="consumer",
        protocol_name="range",
        assignments=assignments,
    )
    assert wire.ask(SYNC_GROUP, sync, min(version, 5)).assignment == b"mine"
    assert (
        wire.ask(
            HEARTBEAT, HEARTBEAT.request(group_id="g", generation_id=1, member_id=member), old
        ).error_code
        == 0
    )
    row = commit("g", offset=7, generation_id_or_member_epoch=1, member_id=member)
    assert (
        wire.ask(OFFSET_COMMIT, row, max(2, min(version, 9))).topics[0].partitions[0].error_code
        == 0
    )

    (described,) = wire.ask(DESCRIBE_GROUPS, DESCRIBE_GROUPS.request(groups=["g"]), old).groups
    assert (described.group_state, [each.client_host for each in described.members]) == (
        "Stable",
        ["/client"],
    )
    assert wire.ask(LEAVE_GROUP, leave("g", member, old), old).error_code == 0
    assert (
        wire.ask(OFFSET_FETCH, offsets_of("g", version=5), 5)
        .topics[0]
        .partitions[0]
        .committed_offset
        == 7
    )


@pytest.mark.parametrize("version", range(2, 11))
def test_offsets_are_committed_in_every_version_and_fetched_in_every_other(
    stage: Stage, version: int
) -> None:
    """By name, or by id from version 10 on; the leader epoch since 6 (committed) and 5
    (fetched).
    """
    topic_id = stage.nodes[1].image.topic_ids["t"]
    partition = OFFSET_COMMIT.request.topics.partitions(
        partition_index=0,
        committed_offset=version,
        committed_metadata="m",
        **({"committed_leader_epoch": 3} if version >= 6 else {}),
    )
    which = {"topic_id": topic_id} if version >= 10 else {"name": "t"}
    wire = stage.wire()
    answer = wire.ask(
        OFFSET_COMMIT,
        OFFSET_COMMIT.request(
            group_id="g", topics=[OFFSET_COMMIT.request.topics(**which, partitions=[partition])]
        ),
        version,
    )
    assert answer.topics[0].partitions[0].error_code == Code.NONE

    for asked_in in range(1, 11):
        request = OFFSET_FETCH.request
        if asked_in < 8:
            row = request(group_id="g", topics=[request.topics(name="t", partition_indexes=[0])])
        else:
            by = {"topic_id": topic_id} if asked_in >= 10 else {"name": "t"}
            row = request(
                groups=[
                    request.groups(
                        group_id="g", topics=[request.groups.topics(**by, partition_indexes=[0])]
                    )
                ]
            )
        found = wire.ask(OFFSET_FETCH, row, asked_in)
        (topic,) = found.topics if asked_in < 8 else found.groups[0].topics
        (shown,) = topic.partitions
        assert (shown.committed_offset, shown.metadata) == (version, "m")
        assert shown.committed_leader_epoch == (3 if version >= 6 and asked_in >= 5 else -1)


def test_what_versions_make_of_groups_that_are_not_there(stage: Stage) -> None:
    wire = stage.wire()
    described = [
        wire.ask(DESCRIBE_GROUPS, DESCRIBE_GROUPS.request(groups=["g"]), version).groups[0]
        for version in range(7)
    ]
    assert [(each.error_code, each.group_state) for each in described] == [
        (Code.NONE, "Dead")
    ] * 6 + [(Code.GROUP_ID_NOT_FOUND, "Dead")]

    left = [wire.ask(LEAVE_GROUP, leave("g", "m", version), version) for version in range(6)]
    assert [each.error_code for each in left] == [Code.UNKNOWN_MEMBER_ID] * 3 + [Code.NONE] * 3
    assert [each.members[0].error_code for each in left[3:]] == [Code.UNKNOWN_MEMBER_ID] * 3
    assert (
        wire.ask(LEAVE_GROUP, LEAVE_GROUP.request(group_id="g", members=[]), 3).error_code
        == Code.NONE
    )

    wire.ask(OFFSET_COMMIT, commit("h"), 9)
    assert wire.ask(OFFSET_FETCH, OFFSET_FETCH.request(group_id="h", topics=[]), 1).topics == []
    assert [
        topic.name
        for topic in wire.ask(
            OFFSET_FETCH, OFFSET_FETCH.request(group_id="h", topics=None), 2
        ).topics
    ] == ["t"]


def test_a_join_that_waits_holds_up_nobody_and_is_told_when_the_group_is_complete(
    stage: Stage,
) -> None:
    first, second, third = stage.wire(), stage.wire(), stage.wire()
    member = first.ask(JOIN_GROUP, join("g"), 3).member_id
    second.request(JOIN_GROUP, join("g"), 3)
    stage.wait(
        lambda: (
            third.ask(
                HEARTBEAT, HEARTBEAT.request(group_id="g", generation_id=1, member_id=member)
            ).error_code
            == Code.REBALANCE_IN_PROGRESS
        )
    )

    first.request(JOIN_GROUP, join("g", member), 3)

    assert {
        first.answer(JOIN_GROUP, 3).generation_id,
        second.answer(JOIN_GROUP, 3).generation_id,
    } == {2}


def test_who_goes_away_while_it_waits_is_forgotten(stage: Stage) -> None:
    stage.wire().ask(JOIN_GROUP, join("g"), 3)
    second = stage.wire()
    second.request(JOIN_GROUP, join("g"), 3)
    coordinator = stage.nodes[1].groups.runtime.partitions[partition_for("g", 50)]
    stage.wait(lambda: len(coordinator.waiting) == 1)

    second.close()

    stage.wait(lambda: not coordinator.waiting)


def test_offsets_outlive_the_node(stage: Stage) -> None:
    assert (
        stage.wire().ask(OFFSET_COMMIT, commit("g", offset=7), 9).topics[0].partitions[0].error_code
        == 0
    )
    stage.kill(1, power_loss=True)
    stage.start(1)
    stage.wait(stage.nodes[1].ready.is_set)

    def found() -> Any:
        return stage.wire().ask(OFFSET_FETCH, offsets_of("g", version=8), 8).groups[0]

    while (row := found()).error_code == Code.COORDINATOR_LOAD_IN_PROGRESS:
        stage.world.run(stage.world.now + 0.01)
    assert (row.error_code, row.topics[0].partitions[0].committed_offset) == (0, 7)


def test_settings_of_the_node_are_the_groups() -> None:
    with Stage(group_min_session_timeout_ms="20000", offset_metadata_max_bytes="3") as stage:
        stage.create("t")
        with_groups(stage)
        row = commit("g")
        row.topics[0].partitions[0].committed_metadata = "long"

        assert stage.wire().ask(JOIN_GROUP, join("g"), 3).error_code == Code.INVALID_SESSION_TIMEOUT
        assert (
            stage.wire().ask(OFFSET_COMMIT, row, 9).topics[0].partitions[0].error_code
            == Code.OFFSET_METADATA_TOO_LARGE
        )
