"""A simulated cluster with a topic and a client that knows what it was promised: what directed
tests begin with.
"""

from collections.abc import Iterable, Mapping
from functools import partial

from raftka.broker.replica.partition import Partition
from raftka.chaos.simulated.checks import verify
from raftka.chaos.simulated.clients.client import Client, produce_row
from raftka.chaos.simulated.cluster import CLIENT_PORT, Cluster
from raftka.runtime.simulated.world import World
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import build_batch

TOPIC = "trucks_gps"


class Scene:
    def __init__(
        self,
        world: World,
        nodes: int = 3,
        voters: int | None = None,
        settings: Mapping[str, str] | None = None,
        *,
        partitions: int = 1,
        replication_factor: int = 3,
        configs: Mapping[str, str] | None = None,
        controllers: Iterable[int] = (),
        later_voters: Iterable[int] = (),
    ) -> None:
        self.world = world
        self.partitions = partitions
        self.cluster = Cluster(
            world, nodes, voters, settings, controllers=controllers, later_voters=later_voters
        )
        self.cluster.wait_ready()
        self.client: Client = self.cluster.client()
        self.cluster.do(
            self.client,
            lambda: self.client.create_topic(
                TOPIC, partitions, replication_factor, dict(configs or {})
            ),
        )
        self.producer_id: int = self.cluster.do(self.client, self.client.producer_id)
        self.acknowledged: dict[int, list[bytes]] = {
            partition: [] for partition in range(partitions)
        }

    def produce(self, batches: int = 5, partition: int = 0, at_most_s: float = 30.0) -> None:
        """Three records each, acks=all, each batch acknowledged before the next is sent."""
        known = self.acknowledged[partition]

        async def run() -> None:
            for _ in range(batches):
                values = [b"%d-%d" % (partition, len(known) + i) for i in range(3)]
                await self.client.produce(TOPIC, partition, values, self.producer_id, len(known))
                known.extend(values)

        self.cluster.do(self.client, run, at_most_s)

    def read(self, partition: int = 0) -> list[bytes]:
        values: list[bytes] = self.cluster.do(
            self.client, partial(self.client.read_all, TOPIC, partition)
        )
        return values

    def assert_nothing_lost(self) -> None:
        """Every acknowledged record once and in order, the replicas of those that live equal."""
        for partition, acknowledged in self.acknowledged.items():
            assert self.read(partition) == acknowledged
            assert verify.replicas(self.cluster, TOPIC, partition) == []
        assert verify.metadata(self.cluster) == []

    def wait_whole(self, at_most_s: float = 30.0) -> None:
        assert self.cluster.settled(
            lambda: verify.whole(self.cluster, TOPIC, range(self.partitions)), at_most_s
        ), "not every replica is in sync"

    def write_for_nobody(self) -> int:
        """The leader flushes a record that none of its followers gets, and loses its power. Which
        it was; it stays cut off from them.
        """
        leader = self.leader
        for other in self.followers:
            self.cluster.world.network.cut(f"n{leader}", f"n{other}")
        row = produce_row(TOPIC, 0, build_batch([(None, b"for nobody", (), 0)]), acks=1)
        self.cluster.do(
            self.client, lambda: self.client.ask((f"n{leader}", CLIENT_PORT), PRODUCE, row)
        )
        log = self.partition(leader).log
        assert self.cluster.world.run(lambda: log.flushed_offset == log.end_offset, at_most_s=1.0)
        self.cluster.kill(leader, power_loss=True)
        return leader

    # who is who

    @property
    def leader(self) -> int:
        leader = self.cluster.leader_of(TOPIC, 0)
        assert leader is not None
        return leader

    @property
    def followers(self) -> list[int]:
        return [node_id for node_id in self.replicas if node_id != self.leader]

    @property
    def replicas(self) -> tuple[int, ...]:
        return self.cluster.replicas_of(TOPIC, 0)

    @property
    def isr(self) -> set[int]:
        return set(self.cluster.isr_of(TOPIC, 0))

    def partition(self, node_id: int) -> Partition:
        return self.cluster.partitions(TOPIC, 0)[node_id]

    def other_than(self, *node_ids: int) -> int:
        return next(node_id for node_id in self.cluster.living if node_id not in node_ids)
