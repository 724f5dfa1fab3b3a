"""Directed simulations of group coordinators: see directed.py."""

from contextlib import suppress

from raftka.chaos.simulated.client import NoAnswer
from raftka.chaos.simulated.cluster import CLIENT_PORT, Cluster
from raftka.chaos.simulated.group_workload import OFFSETS, TOPIC, GroupClient, Story
from raftka.chaos.zoo.directed import finds
from raftka.metadata.commands import ElectLeaders
from raftka.runtime.simulated import World

SETTINGS = {"offsets.topic.num.partitions": "1", "broker.session.timeout.ms": "1000"}


@finds
def coordinator_survives_its_leadership() -> None:
    """A coordinator is cut off while another takes its group, then coordinates again: it must have heard of what was committed meanwhile."""
    with World(30) as world:
        cluster = Cluster(world, settings=SETTINGS)
        group, first = _taken_over(cluster)
        world.network.heal()
        assert cluster.settled(lambda: len(cluster.isr_of(OFFSETS, 0)) == 3, 20.0)
        cluster.nodes[first].link.call(ElectLeaders(0), lambda error, reply: None, 5.0)
        assert cluster.settled(lambda: cluster.leader_of(OFFSETS, 0) == first, 10.0)
        _assert_nothing_lost(cluster.do(group.client, lambda: _fetched(group)))


@finds
def coordinator_tells_what_it_remembers() -> None:
    """A coordinator that is cut off does not hear that another has taken its group: who asks it is sent on, once it hears."""
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


def _taken_over(cluster: Cluster) -> tuple[GroupClient, int]:
    """A group that has committed 1 to its first coordinator, which is cut off now, and 2 to its second."""
    cluster.wait_ready()
    client = cluster.client()
    cluster.do(client, lambda: client.create_topic(TOPIC, 1, 3))
    group = GroupClient(client, Story(), "group")
    cluster.do(client, lambda: _commit(group, 1))
    first = cluster.replicas_of(OFFSETS, 0)[0]
    assert cluster.leader_of(OFFSETS, 0) == first
    for other in cluster.nodes:
        if other != first:
            cluster.world.network.cut(f"n{first}", f"n{other}")
    assert cluster.settled(lambda: cluster.leader_of(OFFSETS, 0) not in (first, None), 20.0)
    cluster.do(client, lambda: _commit(group, 2))
    return group, first


def _assert_nothing_lost(found: int) -> None:
    assert found == 2, f"commit-lost: {found} was read after 2 had been acknowledged"


async def _commit(group: GroupClient, offset: int) -> None:
    while True:
        try:
            await group.commit(await group.coordinator(), {0: offset})
            return
        except NoAnswer:
            await group.rest()


async def _fetched(group: GroupClient) -> int:
    while True:
        try:
            return (await group.fetch(await group.coordinator(), [0]))[0]
        except NoAnswer:
            await group.rest()
