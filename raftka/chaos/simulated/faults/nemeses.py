"""Nemeses that wait for their moment: they strike a node in the middle of what it does, between two
lines that random faults seldom part.

    nemesis = Nemesis(("an entry is in the journal",), seconds=10.0)
    with nemesis.lurking():
        live(seed, plan, nemesis.prepare)

A moment is a method of the node, wrapped from outside for that while; when the method has done its
work (or is about to), the seed decides whether something happens: the node dies or loses power
there and then, in the midst of its turn, alone or with all others; or it is paused, or cut off.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, NamedTuple

from raftka.broker.controller.controller_host import ControllerHost
from raftka.broker.controller.quorum import Quorum
from raftka.broker.coordinators.marker_sender import MarkerSender
from raftka.broker.coordinators.partition import CoordinatorPartition
from raftka.broker.delivery.delayed_delivery import DelayedDelivery
from raftka.broker.replica.alter_partition_manager import AlterPartitionManager
from raftka.broker.replica.fetcher import PartitionFetchState
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.replica.partition import Partition
from raftka.broker.share.dead_letters import ShareDeadLetters
from raftka.broker.share.partitions import ShareLeader
from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.faults.happened import Happened
from raftka.log.log import Log
from raftka.log.producers.state import ProducerState
from raftka.metadata.quorum.journal import Journal
from raftka.runtime.simulated.disk import SYNC_S
from raftka.runtime.simulated.tasks import NodeStopped
from raftka.runtime.simulated.world import World


class Moment(NamedTuple):
    owner: type
    method: str
    before: bool = False  # it strikes before the method has begun


MOMENTS: dict[str, Moment] = {
    "a leader has appended": Moment(Partition, "appended"),
    "a leader has written": Moment(Partition, "write"),
    "a leader is elected": Moment(ReplicaManager, "_lead"),
    "a follower begins": Moment(PartitionFetchState, "start"),
    "a follower has appended": Moment(PartitionFetchState, "_append"),
    "an ISR is asked for": Moment(AlterPartitionManager, "ask"),
    "an ISR is answered": Moment(ReplicaManager, "_altered", before=True),
    "a log is cut": Moment(Log, "truncate_to"),
    "a log is to be cut": Moment(Log, "truncate_to", before=True),
    "a segment is rolled": Moment(Log, "roll"),
    "a checkpoint begins": Moment(Log, "begin_checkpoint"),
    "an entry is in the journal": Moment(Journal, "take_sync"),
    "the journal is flushed": Moment(Journal, "synced"),
    "a voter has something to say": Moment(Quorum, "_ship", before=True),
    "a controller begins": Moment(ControllerHost, "_begin_leadership"),
    "a controller decides": Moment(ControllerHost, "_append"),
    "a metadata snapshot is written": Moment(Journal, "compact"),
    "a metadata snapshot is installed": Moment(Journal, "install"),
    "a compacted segment comes": Moment(Log, "begin_swap"),
    "a compacted segment takes its place": Moment(Log, "go_on_swap"),
    "a coordinator loads": Moment(CoordinatorPartition, "load"),
    "a coordinator serves": Moment(CoordinatorPartition, "serve"),
    "a coordinator appends": Moment(CoordinatorPartition, "_append"),
    "markers are to be sent": Moment(MarkerSender, "send", before=True),
    "a marker has its answer": Moment(MarkerSender, "_settle", before=True),
    "all markers are written": Moment(MarkerSender, "_written", before=True),
    "a leader has written a marker": Moment(Log, "append_marker"),
    "a leader has its answer from a coordinator": Moment(ProducerState, "verified"),
}
OF_REPLICATION = tuple(list(MOMENTS)[:11])
OF_THE_QUORUM = tuple(list(MOMENTS)[11:18])
OF_COMPACTION = (
    "a compacted segment comes",
    "a compacted segment takes its place",
    "a log is cut",
    "a segment is rolled",
    "a leader is elected",
)
OF_COORDINATORS = (
    "a coordinator loads",
    "a coordinator serves",
    "a coordinator appends",
    "a leader is elected",
    "a follower begins",
)
OF_TRANSACTIONS = (
    *OF_COORDINATORS,
    *list(MOMENTS)[-5:],
    "a segment is rolled",
    "a leader has appended",
    "a log is cut",
)
# for a workload that is alone: a fault of the schedule waits for one of MOMENTS
SHARE_MOMENTS: dict[str, Moment] = {
    "a share state is to be read": Moment(ShareLeader, "load"),
    "a share state is read": Moment(ShareLeader, "_on_read"),
    "an acknowledgement is to be written": Moment(ShareLeader, "write"),
    "an acknowledgement is written": Moment(ShareLeader, "_on_written", before=True),
    "locks have ended": Moment(ShareLeader, "expire"),
    "dead letters are to be sent": Moment(ShareDeadLetters, "send"),
}
OF_SHARES = (*SHARE_MOMENTS, *OF_COORDINATORS)
DELIVERY_MOMENTS: dict[str, Moment] = {
    "pending records are found": Moment(DelayedDelivery, "_on_pending"),
    "records are to be delivered": Moment(DelayedDelivery, "_append", before=True),
    "records are delivered": Moment(DelayedDelivery, "_append"),
}
OF_DELIVERY = (
    *DELIVERY_MOMENTS,
    "a leader has appended",
    "a leader is elected",
    "a follower begins",
    "a segment is rolled",
    "a log is cut",
)
KNOWN = MOMENTS | SHARE_MOMENTS | DELIVERY_MOMENTS

BLOWS = (
    "kill",
    "power_loss",
    "power_loss_of_all",
    "fall_soon",
    "fall_soon",
    "pause",
    "isolate",
    "slow_disk",
    "kill_another",
)
ODDS = (2, 5, 20, 100)  # one in so many
PAUSE_S = (0.3, 2.0)  # between two blows
AWAY_S = (0.0, 2.0)
SILENT_S = (0.2, 5.0)  # paused or cut off: perhaps long enough for others to take over
SOON_S = (0.0001, 0.004)  # when what it has said is heard, and not yet done by others
WARM_UP_S = 2.0
SLOW_SYNC_S = (0.2, 0.8)


class Nemesis:
    """`seconds`: after which it sleeps, so that all may heal."""

    def __init__(
        self, moments: Sequence[str], seconds: float, blows: Sequence[str] = BLOWS
    ) -> None:
        self.struck: list[Happened] = []
        self._known = tuple(moments)
        self._seconds = seconds
        self._blows = blows
        self._cluster: Cluster | None = None
        self._random: Random
        self._moments: dict[str, int] = {}  # those of this life -> the odds
        self._not_before = self._until = 0.0

    @contextmanager
    def lurking(self) -> Iterator["Nemesis"]:
        originals = [
            (KNOWN[name], KNOWN[name].owner.__dict__[KNOWN[name].method]) for name in self._known
        ]
        for name in self._known:
            owner, method, before = KNOWN[name]
            setattr(owner, method, self._wrapped(name, owner.__dict__[method], before))
        try:
            yield self
        finally:
            for moment, original in reversed(originals):
                setattr(moment.owner, moment.method, original)

    def prepare(self, world: World, cluster: Cluster) -> None:
        """The seed chooses one to three of the moments."""
        random = self._random = world.random("nemesis")
        chosen = random.sample(self._known, min(len(self._known), random.randint(1, 3)))
        self._moments = {name: random.choice(ODDS) for name in chosen}
        self._not_before, self._until = world.now + WARM_UP_S, world.now + self._seconds
        self._cluster = cluster

    def _wrapped(
        self, name: str, original: Callable[..., object], before: bool
    ) -> Callable[..., object]:
        def moment(*args: object, **named: object) -> Any:
            if before:
                self._came(name)
                return original(*args, **named)
            result = original(*args, **named)
            self._came(name)
            return result

        return moment

    def _came(self, name: str) -> None:
        cluster, odds = self._cluster, self._moments.get(name)
        if (
            cluster is None
            or odds is None
            or not self._not_before <= cluster.world.now < self._until
        ):
            return
        node_id = self._acting(cluster)
        if node_id is not None and self._random.randrange(odds) == 0:
            self._not_before = cluster.world.now + self._random.uniform(*PAUSE_S)
            blow = self._random.choice(self._blows)
            self.struck.append(
                Happened(cluster.world.now, len(self.struck), blow, f"{blow} n{node_id} as {name}")
            )
            getattr(self, f"_{blow}")(cluster, node_id)

    @staticmethod
    def _acting(cluster: Cluster) -> int | None:
        """The node whose turn it is."""
        for node_id in cluster.living:
            process = cluster.world.machine(f"n{node_id}").node
            if process is not None and process.in_turn:
                return node_id
        return None

    # blows

    def _kill(self, cluster: Cluster, node_id: int) -> None:
        self._die(cluster, node_id, power_loss=False)

    def _power_loss(self, cluster: Cluster, node_id: int) -> None:
        self._die(cluster, node_id, power_loss=True)

    def _die(self, cluster: Cluster, node_id: int, *, power_loss: bool) -> None:
        """In the midst of its turn: what it would have done next it does not."""
        cluster.kill(node_id, power_loss=power_loss)
        self._back(cluster, node_id)
        raise NodeStopped(f"n{node_id}")

    def _power_loss_of_all(self, cluster: Cluster, node_id: int) -> None:
        for each in cluster.nodes:
            cluster.kill(each, power_loss=True)
            self._back(cluster, each)
        raise NodeStopped(f"n{node_id}")

    def _fall_soon(self, cluster: Cluster, node_id: int) -> None:
        cluster.world.at(
            cluster.world.now + self._random.uniform(*SOON_S), lambda: self._fall(cluster, node_id)
        )

    def _kill_another(self, cluster: Cluster, node_id: int) -> None:
        others = [each for each in sorted(cluster.living) if each != node_id]
        if others:
            other = self._random.choice(others)
            cluster.world.at(cluster.world.now, lambda: self._fall(cluster, other))

    def _fall(self, cluster: Cluster, node_id: int) -> None:
        if cluster.alive(node_id):
            cluster.kill(node_id, power_loss=self._random.random() < 0.5)
            self._back(cluster, node_id)

    def _back(self, cluster: Cluster, node_id: int) -> None:
        cluster.world.at(
            cluster.world.now + self._random.uniform(*AWAY_S),
            lambda: None if cluster.alive(node_id) else cluster.start(node_id),
        )

    def _pause(self, cluster: Cluster, node_id: int) -> None:
        world, process = cluster.world, cluster.world.machine(f"n{node_id}").node

        def pause() -> None:
            if process is not None and process.alive and not process.paused:
                world.pause(f"n{node_id}")
                world.at(
                    world.now + self._random.uniform(*SILENT_S),
                    lambda: process.resume() if process.alive else None,
                )

        # a process is not stopped amid its turn, and need not be: nobody sees what it does before
        # the turn's end
        world.at(world.now, pause)

    def _isolate(self, cluster: Cluster, node_id: int) -> None:
        """Clients may still reach it."""
        world = cluster.world
        for other in cluster.nodes:
            if other != node_id:
                world.network.cut(f"n{node_id}", f"n{other}")
        world.at(world.now + self._random.uniform(*SILENT_S), world.network.heal)

    def _slow_disk(self, cluster: Cluster, node_id: int) -> None:
        disk, world = cluster.disk(node_id), cluster.world
        disk.sync_s = (SLOW_SYNC_S[0], self._random.uniform(*SLOW_SYNC_S))
        world.at(world.now + self._random.uniform(*AWAY_S), lambda: setattr(disk, "sync_s", SYNC_S))
