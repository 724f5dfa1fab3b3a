"""Directed simulations of group coordinators: see directed.py."""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from raftka.chaos.simulated.clients.client import NoAnswer
from raftka.chaos.simulated.clients.groups import TOPIC, GroupClient, Story
from raftka.chaos.simulated.cluster import CLIENT_PORT, Cluster
from raftka.chaos.simulated.workloads.group import OFFSETS
from raftka.coordinator.commands import (
    CommitOffsets,
    CommitPartition,
    CommitTopic,
    DeleteGroup,
    FetchOffsets,
    FetchTopic,
    OffsetsCommitted,
)
from raftka.metadata.commands import ElectLeaders
from raftka.runtime.simulated.world import World
from raftka.wire.errors import Code
from raftka.wire.messages.consumer_groups import CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_HEARTBEAT
from raftka.wire.messages.groups import DESCRIBE_GROUPS, JOIN_GROUP, SYNC_GROUP
from raftka.wire.schema import Api, Req, Resp
from tests.broker.test_consumer_groups import (
    test_members_are_assigned_no_partition_that_they_have_not_heard_of,
)
from tests.coordinator.test_groups import (
    test_a_member_that_heard_of_refused_assignments_is_waited_for_while_a_rebalance_lasts,
)
from tests.mutants.directed import finds

SETTINGS = {"offsets.topic.num.partitions": "1", "broker.session.timeout.ms": "1000"}
SESSION_MS = 6_000
MANY_OFFSETS = 1_500  # more than are deleted in one turn
# version 0, one topic, no user data
SUBSCRIPTION = b"\0\0\0\0\0\1" + len(TOPIC).to_bytes(2, "big") + TOPIC.encode() + b"\xff" * 4


@finds
def coordinator_survives_its_leadership() -> None:
    """A coordinator is cut off while another takes its group, then coordinates again: it must have
    heard of what was committed meanwhile.
    """
    with World(30) as world:
        cluster = Cluster(world, settings=SETTINGS)
        group, first = _taken_over(cluster)
        world.network.heal()
        assert cluster.settled(lambda: len(cluster.isr_of(OFFSETS, 0)) == 3, 20.0)
        cluster.nodes[first].controller.call(ElectLeaders(0), lambda error, reply: None, 5.0)
        assert cluster.settled(lambda: cluster.leader_of(OFFSETS, 0) == first, 10.0)
        _assert_nothing_lost(cluster.do(group.client, lambda: _fetched(group)))


@finds
def coordinator_tells_what_it_remembers() -> None:
    """A coordinator that is cut off does not hear that another has taken its group: who asks it is
    sent on, once it hears.
    """
    with World(31) as world:
        cluster = Cluster(world, settings=SETTINGS)
        group, first = _taken_over(cluster)
        asked: list[int] = []

        async def ask() -> None:
            with suppress(NoAnswer):
                asked.extend((await group.fetch((f"n{first}", CLIENT_PORT), [0])).values())

        cluster.do(group.client, ask)
        for found in asked:
            _assert_nothing_lost(found)
        world.network.heal()
        _assert_nothing_lost(cluster.do(group.client, lambda: _fetched(group)))


@finds
def coordinator_answers_before_earlier_turns_are_committed() -> None:
    """A commit of an earlier turn has reached no follower: a fetch may not show it, for the next
    coordinator has never seen it.
    """
    with World(32) as world:
        cluster = Cluster(world, settings=SETTINGS)
        group, first = _committed_once(cluster)
        asked: list[int] = []

        # answers of one connection keep the order of its requests
        reader = GroupClient(cluster.client("reader"), group.story, "group")

        async def fetch() -> None:
            with suppress(NoAnswer):
                asked.extend((await reader.fetch((f"n{first}", CLIENT_PORT), [0])).values())

        async def commit() -> None:
            with suppress(NoAnswer):
                await group.commit((f"n{first}", CLIENT_PORT), {0: 2})

        _cut_off(cluster, first)
        group.client.runtime.spawn(commit, "commit")
        world.run(world.now + 0.05)
        reader.client.runtime.spawn(fetch, "fetch")
        assert cluster.settled(lambda: cluster.leader_of(OFFSETS, 0) not in (first, None), 20.0)
        # the others may still wait for their answers
        later = GroupClient(cluster.client("later"), group.story, "group")
        found = cluster.do(later.client, lambda: _fetched(later))
        assert asked in ([], [found]), (
            f"commit-lost: {asked} was read of a coordinator alone, and then {found} of the next"
        )


@finds
def coordinator_decides_between_two_steps() -> None:
    """A commit comes while its group, which has many offsets, is deleted: it makes the group
    anew.
    """
    with World(35) as world:
        cluster = Cluster(world, settings=SETTINGS)
        group, first = _committed_once(cluster)
        cluster.do(group.client, lambda: group.client.create_topic("wide", MANY_OFFSETS, 1))
        _answers(cluster, first, _commit_of("wide", dict.fromkeys(range(MANY_OFFSETS), 1)))
        last = MANY_OFFSETS - 1
        answers = _answers(cluster, first, DeleteGroup("group"), _commit_of("wide", {last: 2}))
        assert answers == [None, OffsetsCommitted(((Code.NONE,),))]
        (fetched,) = _answers(cluster, first, FetchOffsets("group", (FetchTopic("wide", (last,)),)))
        _assert_nothing_lost(fetched.topics[0].partitions[0].offset)


@finds
def loaded_members_never_expire() -> None:
    """A member dies together with its coordinator: the next coordinator removes it when its session
    is over.
    """
    with World(33) as world:
        cluster = Cluster(world, settings=SETTINGS)
        group, first = _committed_once(cluster)
        cluster.do(group.client, lambda: _join(group, "members"))
        cluster.kill(first, power_loss=False)
        assert cluster.settled(lambda: cluster.leader_of(OFFSETS, 0) not in (first, None), 20.0)
        world.run(world.now + 2 * SESSION_MS / 1000)
        found = cluster.do(
            group.client,
            lambda: _ask(group, DESCRIBE_GROUPS, DESCRIBE_GROUPS.request(groups=["members"])),
        )
        assert found.groups[0].group_state == "Empty", (
            f"a member that died long ago is there still: {found}"
        )


@finds
def loaded_classic_members_never_expire() -> None:
    """So it is with a classic member of a consumer group."""
    with World(34) as world:
        cluster = Cluster(world, settings=SETTINGS)
        group, first = _committed_once(cluster)
        consumer = CONSUMER_GROUP_HEARTBEAT.request(
            group_id="mixed",
            member_id="new",
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[TOPIC],
            topic_partitions=[],
        )
        cluster.do(group.client, lambda: _ask(group, CONSUMER_GROUP_HEARTBEAT, consumer))
        cluster.do(group.client, lambda: _join(group, "mixed"))
        cluster.kill(first, power_loss=False)
        assert cluster.settled(lambda: cluster.leader_of(OFFSETS, 0) not in (first, None), 20.0)
        world.run(world.now + 2 * SESSION_MS / 1000)
        described = CONSUMER_GROUP_DESCRIBE.request(group_ids=["mixed"])
        found = cluster.do(group.client, lambda: _ask(group, CONSUMER_GROUP_DESCRIBE, described))
        members = [each.member_id for each in found.groups[0].members]
        assert members == ["new"], f"a member that died long ago is there still: {members}"


def _answers(cluster: Cluster, node_id: int, *commands: Any) -> list[Any]:
    """Of the coordinator of the group, asked in one turn."""
    answers: dict[int, Any] = {}

    def ask(_: object) -> None:
        for number, command in enumerate(commands):
            cluster.nodes[node_id].groups.runtime.submit(
                "group", command, partial(answers.__setitem__, number)
            )

    cluster.nodes[node_id].runtime.take(ask, None)  # type: ignore[attr-defined]
    assert cluster.settled(lambda: len(answers) == len(commands), 20.0)
    return [answers[number] for number in range(len(commands))]


def _commit_of(topic: str, offsets: Mapping[int, int]) -> CommitOffsets:
    return CommitOffsets(
        "group",
        -1,
        "",
        None,
        (CommitTopic(topic, tuple([CommitPartition(*each) for each in offsets.items()])),),
    )


def _committed_once(cluster: Cluster) -> tuple[GroupClient, int]:
    """A group that has committed 1, and its coordinator."""
    cluster.wait_ready()
    client = cluster.client()
    cluster.do(client, lambda: client.create_topic(TOPIC, 1, 3))
    group = GroupClient(client, Story(), "group")
    cluster.do(client, lambda: _commit(group, 1))
    first = cluster.replicas_of(OFFSETS, 0)[0]
    assert cluster.leader_of(OFFSETS, 0) == first
    return group, first


def _cut_off(cluster: Cluster, node_id: int) -> None:
    for other in cluster.nodes:
        if other != node_id:
            cluster.world.network.cut(f"n{node_id}", f"n{other}")


def _taken_over(cluster: Cluster) -> tuple[GroupClient, int]:
    """A group that has committed 1 to its first coordinator, which is cut off now, and 2 to its
    second.
    """
    group, first = _committed_once(cluster)
    _cut_off(cluster, first)
    assert cluster.settled(lambda: cluster.leader_of(OFFSETS, 0) not in (first, None), 20.0)
    second = cluster.leader_of(OFFSETS, 0)
    # the first would remember a commit of its own
    cluster.do(group.client, lambda: _commit(group, 2, f"n{second}"))
    return group, first


def _assert_nothing_lost(found: int) -> None:
    assert found == 2, f"commit-lost: {found} was read after 2 had been acknowledged"


async def _commit(group: GroupClient, offset: int, host: str | None = None) -> None:
    """To the coordinator, or to that host."""
    while True:
        try:
            await group.commit(
                (host, CLIENT_PORT) if host is not None else await group.coordinator(), {0: offset}
            )
            return
        except NoAnswer:
            await group.rest()


async def _fetched(group: GroupClient) -> int:
    while True:
        try:
            return (await group.fetch(await group.coordinator(), [0]))[0]
        except NoAnswer:
            await group.rest()


async def _ask(group: GroupClient, api: Api[Req, Resp], row: Req) -> Resp:
    """Ask the group's coordinator, whichever it is by then: the topic of groups has one
    partition.
    """
    while True:
        try:
            return await group.client.ask(await group.coordinator(), api, row)
        except NoAnswer:
            await group.rest()


@finds
def only_the_leader_is_waited_for_again() -> None:
    test_a_member_that_heard_of_refused_assignments_is_waited_for_while_a_rebalance_lasts()


async def _join(group: GroupClient, group_id: str) -> None:
    """A classic member joins, and is in the group's record."""
    request = JOIN_GROUP.request
    protocols = [request.protocols(name="range", metadata=SUBSCRIPTION)]
    member_id = ""
    while True:
        row = request(
            group_id=group_id, member_id=member_id, protocol_type="consumer", protocols=protocols
        )
        row.session_timeout_ms, row.rebalance_timeout_ms = SESSION_MS, 60_000
        joined = await _ask(group, JOIN_GROUP, row)
        if joined.error_code != Code.MEMBER_ID_REQUIRED:
            break
        member_id = joined.member_id
    given = [SYNC_GROUP.request.assignments(member_id=joined.member_id, assignment=b"")]
    named = {"protocol_type": "consumer", "protocol_name": "range"}
    sync = SYNC_GROUP.request(
        group_id=group_id,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=given,
        **named,
    )
    synced = await _ask(group, SYNC_GROUP, sync)
    assert joined.error_code == Code.NONE
    # a consumer group computes targets later
    assert synced.error_code in (Code.NONE, Code.REBALANCE_IN_PROGRESS)


@finds
def partitions_are_assigned_before_members_hear_of_them() -> None:
    """A topic grows while two members read it that keep metadata for five seconds."""
    for seed in range(4):
        test_members_are_assigned_no_partition_that_they_have_not_heard_of(seed)
