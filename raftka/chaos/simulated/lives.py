"""Lives of clusters with a workload of their own: groups, compacted topics, logs that are deleted from. A nemesis is about; in the end all heals.

violations = play(seed, GroupWork, OF_COORDINATORS)
"""

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import ClassVar, Protocol

from raftka.broker import replica_manager, shard
from raftka.chaos.simulated import verify
from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.nemeses import Nemesis
from raftka.chaos.simulated.watch import Watch
from raftka.runtime.simulated import World
from raftka.runtime.simulated_disk import SYNC_S

TROUBLE_S = 10.0
PROGRESS_S = 30.0
WHOLE_S = 60.0


class Workload(Protocol):
    settings: ClassVar[Mapping[str, str]]  # of the nodes
    topics: Sequence[tuple[str, int]]  # name, partitions: their replicas must be equal in the end

    def begin(self, cluster: Cluster, chance: Random) -> None:
        """Topics are made, clients begin."""

    @property
    def wrong(self) -> list[str]: ...

    @property
    def counts(self) -> Sequence[int]:
        """Each must grow when all is healed."""

    def end(self) -> None:
        """Clients come to their end."""

    @property
    def ended(self) -> bool: ...

    def check(self, cluster: Cluster) -> list[str]: ...


@dataclass(frozen=True)
class Lived:
    violations: list[str]
    done: int  # things that clients were told to be done
    struck: int  # times that the nemesis came
    simulated_s: float
    trace_hash: str


def play(seed: int, make: Callable[[], Workload], moments: Sequence[str]) -> list[str]:
    return live(seed, make, moments).violations


def live(seed: int, make: Callable[[], Workload], moments: Sequence[str]) -> Lived:
    nemesis = Nemesis(moments, TROUBLE_S)
    with World(seed) as world, nemesis.lurking(), often():
        workload = make()
        try:
            violations = _play(world, workload, nemesis)
        except Exception:
            violations = [*workload.wrong, traceback.format_exc()]
        return Lived(violations, sum(workload.counts), len(nemesis.struck), world.now, world.trace_hash)


@contextmanager
def often() -> Iterator[None]:
    """Checkpoints are written ten times as often, because cleaners go by them, and coordinators load a little at a time: a life is short."""
    before = replica_manager.CHECKPOINT_EVERY_S, shard.SLICE_BYTES
    replica_manager.CHECKPOINT_EVERY_S, shard.SLICE_BYTES = 0.5, 400
    try:
        yield
    finally:
        replica_manager.CHECKPOINT_EVERY_S, shard.SLICE_BYTES = before


def _play(world: World, workload: Workload, nemesis: Nemesis) -> list[str]:
    cluster = Cluster(world, 3, 3, workload.settings)
    cluster.wait_ready()
    workload.begin(cluster, world.random("workload"))
    watch = Watch(cluster)
    watch.begin()
    nemesis.prepare(world, cluster)
    cluster.settled(lambda: bool(workload.wrong), TROUBLE_S)
    _heal(cluster)
    before = tuple(workload.counts)

    def settled(holds: Callable[[], bool], at_most_s: float) -> bool:
        return cluster.settled(lambda: bool(workload.wrong) or holds(), at_most_s)

    found = []
    if not settled(lambda: all(now > then for now, then in zip(workload.counts, before, strict=True)), PROGRESS_S):
        found.append(f"no progress within {PROGRESS_S} s after all was healed")
    workload.end()
    if not settled(lambda: workload.ended, PROGRESS_S):
        found.append("what was begun does not come through")
    for topic, partitions in workload.topics:
        if not settled(lambda topic=topic, partitions=partitions: verify.whole(cluster, topic, range(partitions)), WHOLE_S):  # type: ignore[misc]
            found.append(f"not every replica of {topic} is in sync within {WHOLE_S} s")
    if not workload.wrong and not found:
        found = workload.check(cluster) + verify.metadata(cluster) + verify.log_lines(cluster)
    return [*workload.wrong, *found]


def _heal(cluster: Cluster) -> None:
    cluster.world.network.heal()
    for node_id in cluster.nodes:
        cluster.disk(node_id).sync_s = SYNC_S
        if cluster.alive(node_id):
            cluster.world.resume(f"n{node_id}")
            cluster.world.hurry(f"n{node_id}")
        else:
            cluster.start(node_id)
