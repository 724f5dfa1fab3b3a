"""Fetch sessions while leaders die and come back: a reader that asks only for what is new is told
of everything, once, and is never left waiting.
"""

from collections import defaultdict

import pytest
import trio

from raftka.chaos.simulated.clients.client import (
    FETCH_BYTES,
    PASSES,
    Address,
    Client,
    NoAnswer,
    batches_of,
)
from raftka.chaos.simulated.scene import TOPIC, Scene
from raftka.runtime.simulated.world import World
from raftka.wire.errors import Code
from raftka.wire.messages.fetch import FETCH, FetchRequest, FetchResponse, PartitionData

PARTITIONS = 8
WAIT_MS = 500
# a broker's session, an election, and what a partition waits that goes to a broker that is being
# asked
SOON_S = 4.0


class Session:
    """Of one reader with one broker: what both know."""

    def __init__(self) -> None:
        self.id = self.epoch = 0
        self.known: dict[int, tuple[int, int]] = {}  # partition -> (offset, leader epoch)

    def request(self, wanted: dict[int, tuple[int, int]]) -> FetchRequest:
        request = FETCH.request
        if self.epoch == 0:
            self.known = {}
        new = {p: asked for p, asked in wanted.items() if self.known.get(p) != asked}
        gone = tuple(p for p in self.known if p not in wanted)
        self.known = dict(wanted)
        rows = [
            request.topics.partitions(
                partition=p,
                fetch_offset=offset,
                current_leader_epoch=epoch,
                partition_max_bytes=FETCH_BYTES,
            )
            for p, (offset, epoch) in new.items()
        ]
        return request(
            session_id=self.id,
            session_epoch=self.epoch,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            topics=[request.topics(topic=TOPIC, partitions=rows)] if rows else [],
            forgotten_topics_data=[request.forgotten_topics_data(topic=TOPIC, partitions=gone)]
            if gone
            else [],
        )

    def answered(self, answer: FetchResponse) -> bool:
        if answer.error_code:
            self.id, self.epoch = 0, 0
            return False
        self.id = answer.session_id
        self.epoch = self.epoch + 1 if self.id else 0
        return True


class SessionReader:
    """Follows all partitions, with one session a broker."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.seen: dict[int, list[bytes]] = defaultdict(list)
        self.positions = dict.fromkeys(range(PARTITIONS), 0)
        self.sessions: dict[Address, Session] = defaultdict(Session)
        self.incremental = 0  # answers of a session that was there before
        self.leaders: dict[int, tuple[Address, int]] = {}

    async def run(self) -> None:
        for partition in range(PARTITIONS):
            await self._find(partition)
        async with trio.open_nursery() as nursery:
            for node_id in range(1, 4):
                nursery.start_soon(self._follow, (f"n{node_id}", 9092))

    async def _find(self, partition: int) -> None:
        leader = await self.client.leader(TOPIC, partition)
        self.leaders[partition] = leader.address, leader.epoch

    async def _follow(self, address: Address) -> None:
        while True:
            wanted = {
                p: (self.positions[p], epoch)
                for p, (where, epoch) in self.leaders.items()
                if where == address
            }
            if not wanted:
                await trio.sleep(0.05)
                continue
            session = self.sessions[address]
            try:
                answer = await self.client.ask(
                    address, FETCH, session.request(wanted), timeout_s=WAIT_MS / 1000 + 1
                )
            except NoAnswer:
                session.epoch = 0
                await self._lost(wanted)
                continue
            self.incremental += session.epoch > 0
            if session.answered(answer):
                for row in (row for topic in answer.responses for row in topic.partitions):
                    await self._told(row)

    async def _told(self, row: PartitionData) -> None:
        partition = row.partition_index
        if row.error_code:
            assert Code(row.error_code) in PASSES, Code(row.error_code)
            await self._lost([partition])
            return
        for batch in batches_of(row, self.positions[partition]):
            self.seen[partition] += [value for _, value in batch.records]
            self.positions[partition] = batch.next_offset

    async def _lost(self, partitions: "dict[int, tuple[int, int]] | list[int]") -> None:
        for partition in partitions:
            await self.client.lost_leader(TOPIC, partition)
            await self._find(partition)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_missed_and_nobody_is_left_waiting(seed: int) -> None:
    with World(seed) as world:
        scene = Scene(world, partitions=PARTITIONS)
        reader = SessionReader(scene.cluster.client("reader"))
        reader.client.runtime.spawn(reader.run, "reader")
        chance = world.random("faults")

        def caught_up() -> bool:
            return all(reader.seen[p] == values for p, values in scene.acknowledged.items())

        for _ in range(5):
            for partition in chance.sample(range(PARTITIONS), 4):
                scene.produce(1, partition)
            assert world.run(caught_up, at_most_s=SOON_S), "a reader was not told"
            world.run(world.now + chance.uniform(0.0, 2.0))
            victim = scene.cluster.leader_of(TOPIC, chance.randrange(PARTITIONS))
            assert victim is not None
            scene.cluster.kill(victim, power_loss=chance.random() < 0.5)
            for partition in chance.sample(range(PARTITIONS), 2):
                scene.produce(1, partition)
            scene.cluster.start(victim)
            scene.cluster.wait_ready()
            scene.wait_whole()
        for partition in range(PARTITIONS):
            scene.produce(1, partition)

        assert world.run(caught_up, at_most_s=SOON_S), "a reader was not told"
        assert reader.incremental > 20
        scene.wait_whole()
        scene.assert_nothing_lost()
        assert not world.failures
