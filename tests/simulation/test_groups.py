"""Groups of unmodified nodes in a simulated world: commits on many connections while coordinators
are killed and lose power.

What was acknowledged is never taken back, and each group is served again in time.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from random import Random

import pytest
import trio

from raftka.broker.coordinators.runtime import partition_for
from raftka.chaos.simulated.clients.client import Address, Client, NoAnswer
from raftka.chaos.simulated.cluster import Cluster
from raftka.runtime.simulated.world import World
from raftka.wire.errors import Code
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.offsets import (
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OffsetCommitRequest,
    OffsetFetchRequest,
)

OFFSETS, TOPIC = "__consumer_offsets", "t"
GROUPS, ROUNDS = 4, 4
PAUSE_S = 0.05
SERVED_S = 10.0  # virtual, with broker.session.timeout.ms at 2,000
PASSES = {Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE, Code.COORDINATOR_LOAD_IN_PROGRESS}


def commit_row(group: str, offset: int) -> OffsetCommitRequest:
    request = OFFSET_COMMIT.request
    partition = request.topics.partitions(
        partition_index=0, committed_offset=offset, committed_metadata=f"at {offset}"
    )
    return request(group_id=group, topics=[request.topics(name=TOPIC, partitions=[partition])])


def fetch_row(group: str) -> OffsetFetchRequest:
    request = OFFSET_FETCH.request
    return request(
        groups=[
            request.groups(
                group_id=group, topics=[request.groups.topics(name=TOPIC, partition_indexes=[0])]
            )
        ]
    )


class Committer:
    """One group's only client: commits 1, 2, 3, ... and looks now and then what there is."""

    def __init__(self, client: Client, group: str) -> None:
        self.client = client
        self.group = group
        self.acknowledged = 0
        self.sent = 0
        self.looks = 0
        self.wrong: list[str] = []
        self.over = False

    async def run(self) -> None:
        while not self.over:
            where = await self._coordinator()
            try:
                await self._look(where)  # before another commit hides what is gone
                while not self.over:
                    await self._commit(where)
                    await trio.sleep(PAUSE_S)
            except NoAnswer:
                await trio.sleep(0.05)

    async def tries(self, what: Callable[[Address], Awaitable[None]]) -> bool:
        """Once: whether it was answered."""
        try:
            await what(await self._coordinator())
        except NoAnswer:
            return False
        return True

    async def _coordinator(self) -> Address:
        while True:
            row = await self.client.anybody(
                FIND_COORDINATOR, FIND_COORDINATOR.request(coordinator_keys=[self.group])
            )
            (found,) = row.coordinators
            if found.error_code == Code.NONE:
                return found.host, found.port
            assert found.error_code == Code.COORDINATOR_NOT_AVAILABLE
            await trio.sleep(0.05)

    async def _commit(self, where: Address) -> None:
        offset = self.sent = self.sent + 1
        row = await self.client.ask(where, OFFSET_COMMIT, commit_row(self.group, offset))
        self._check(row.topics[0].partitions[0].error_code)
        self.acknowledged = offset

    async def _look(self, where: Address) -> None:
        row = await self.client.ask(where, OFFSET_FETCH, fetch_row(self.group))
        (group,) = row.groups
        self._check(group.error_code)
        partition = group.topics[0].partitions[0]
        if not self.acknowledged <= max(0, partition.committed_offset) <= self.sent:
            self.wrong.append(
                f"{self.group}: {self.acknowledged} was acknowledged, there is "
                f"{partition.committed_offset}"
            )
        if (
            partition.committed_offset > 0
            and partition.metadata != f"at {partition.committed_offset}"
        ):
            self.wrong.append(
                f"{self.group}: {partition.committed_offset} with {partition.metadata}"
            )
        self.looks += 1

    @staticmethod
    def _check(code: int) -> None:
        if code:
            assert code in PASSES, Code(code)
            raise NoAnswer


@pytest.mark.parametrize("seed", range(3))
def test_no_offset_goes_back_when_nodes_die(seed: int) -> None:
    with World(seed) as world:
        cluster = Cluster(
            world, settings={"offsets.topic.num.partitions": "4", "min.insync.replicas": "2"}
        )
        cluster.wait_ready()
        client = cluster.client()
        cluster.do(client, lambda: client.create_topic(TOPIC, 1, 3))
        committers = [Committer(cluster.client(f"client{i}"), f"group{i}") for i in range(GROUPS)]
        for each in committers:
            each.client.runtime.spawn(each.run, each.group)
        served(cluster, committers, dict.fromkeys(committers, 0))
        chance = world.random("kills")

        for _ in range(ROUNDS):
            doomed = victim(cluster, chance)
            just_now = sum(each.acknowledged for each in committers)
            world.run(
                lambda just_now=just_now: sum(each.acknowledged for each in committers) > just_now  # type: ignore[misc]
            )
            cluster.kill(doomed, power_loss=chance.random() < 0.5)
            served(cluster, committers, {each: each.acknowledged for each in committers})
            cluster.start(doomed)
            cluster.wait_ready()

        assert [wrong for each in committers for wrong in each.wrong] == []
        assert all(each.looks for each in committers)


def test_without_a_controller_offsets_are_answered_as_long_as_the_isr_agrees() -> None:
    """A coordinator can not know then that nobody else was made one: what it tells is asked of its
    followers, by a record.
    """
    with World(7) as world:
        cluster = Cluster(
            world,
            nodes=6,
            voters=3,
            controllers=(1, 2, 3),
            settings={"offsets.topic.num.partitions": "1"},
        )
        cluster.wait_ready()
        group = Committer(cluster.client(), "group")
        client = group.client
        cluster.do(client, lambda: client.create_topic(TOPIC, 1, 3))
        assert cluster.settled(lambda: cluster.do(client, lambda: group.tries(group._commit)))
        leader = cluster.leader_of(OFFSETS, 0)
        assert leader is not None
        log = cluster.partitions(OFFSETS, 0)[leader].log

        end = log.end_offset
        assert cluster.do(client, lambda: group.tries(group._look))
        assert log.end_offset == end

        for controller in cluster.controllers:
            cluster.kill(controller, power_loss=False)
        world.run(world.now + 3.0)
        assert cluster.do(client, lambda: group.tries(group._look))
        assert log.end_offset == end + 1

        cluster.kill(
            next(each for each in cluster.isr_of(OFFSETS, 0) if each != leader), power_loss=False
        )
        assert not cluster.do(client, lambda: group.tries(group._look))
        assert group.looks == 2
        assert group.wrong == []


def victim(cluster: Cluster, chance: Random) -> int:
    """Most often one who coordinates a group."""
    leaders: dict[int, int] = defaultdict(int)
    for i in range(GROUPS):
        leader = cluster.leader_of(OFFSETS, partition_for(f"group{i}", 4))
        if leader is not None:
            leaders[leader] += 1
    return chance.choice(sorted(leaders))


def served(cluster: Cluster, committers: list[Committer], before: dict[Committer, int]) -> None:
    """Each has had more than five commits acknowledged since."""
    went_on = cluster.settled(
        lambda: all(each.wrong or each.acknowledged > before[each] + 5 for each in committers),
        SERVED_S,
    )
    assert went_on, [(each.group, before[each], each.acknowledged) for each in committers]
