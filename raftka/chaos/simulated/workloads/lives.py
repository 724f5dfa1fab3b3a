"""Lives of clusters with a workload of their own: groups, compacted topics, logs that are deleted from. A nemesis is about; in the end all heals.

violations = play(seed, GroupWork, OF_COORDINATORS)
"""

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar, Protocol

from raftka.broker.coordinators import partition as coordinator_partition
from raftka.broker.replica import manager as replica_manager
from raftka.chaos.simulated.checks import verify
from raftka.chaos.simulated.checks.shadows import Shadows
from raftka.chaos.simulated.checks.watch import Watch
from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.faults.happened import Happened, Stopped, stop_at
from raftka.chaos.simulated.faults.nemeses import Nemesis
from raftka.chaos.verdict import Outcome
from raftka.runtime.simulated.disk import SYNC_S
from raftka.runtime.simulated.guard import sim_guard
from raftka.runtime.simulated.world import World

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


@dataclass
class Lived:
    """Named as in simulation.Run: both are told by the same command."""

    violations: list[str] = field(default_factory=list)
    acknowledged: int = 0  # things that clients were told to be done
    faults: list[Happened] = field(default_factory=list)  # each time that the nemesis came
    simulated_s: float = 0.0
    trace_hash: str = ""
    trace: list[tuple[float, str, int, int, int]] = field(default_factory=list)
    lines: list[tuple[float, str]] = field(default_factory=list)  # what the nodes logged, and when
    stopped: bool = False  # before its end, as was asked for

    @property
    def operations(self) -> int:
        return self.acknowledged

    @property
    def outcome(self) -> Outcome:
        if self.violations:
            return Outcome.VIOLATED
        return Outcome.VALID if self.acknowledged else Outcome.INCONCLUSIVE


def play(seed: int, make: Callable[[], Workload], moments: Sequence[str]) -> list[str]:
    return live(seed, make, moments).violations


def live(seed: int, make: Callable[[], Workload], moments: Sequence[str], *, until_s: float | None = None, keep_trace: int = 0) -> Lived:
    """`until_s`: it is stopped there. `keep_trace`: so many of its last steps can be shown."""
    nemesis, lived = Nemesis(moments, TROUBLE_S), Lived()
    with World(seed, keep_trace=keep_trace) as world, sim_guard(), nemesis.lurking(), often():
        stop_at(world, until_s)
        workload, cluster = make(), None
        try:
            cluster = Cluster(world, 3, 3, workload.settings)
            lived.violations = _play(cluster, workload, nemesis)
        except Stopped:
            lived.violations, lived.stopped = list(workload.wrong), True
        except Exception:
            lived.violations = [*workload.wrong, traceback.format_exc()]
        lived.acknowledged, lived.faults = sum(workload.counts), nemesis.struck
        lived.lines = cluster.log.timed if cluster is not None else []
        lived.simulated_s, lived.trace_hash, lived.trace = world.now, world.trace_hash, list(world.trace)
    return lived


@contextmanager
def often() -> Iterator[None]:
    """Checkpoints are written ten times as often, because cleaners go by them, and coordinators load a little at a time: a life is short."""
    before = replica_manager.CHECKPOINT_EVERY_S, coordinator_partition.SLICE_BYTES
    replica_manager.CHECKPOINT_EVERY_S, coordinator_partition.SLICE_BYTES = 0.5, 400
    try:
        yield
    finally:
        replica_manager.CHECKPOINT_EVERY_S, coordinator_partition.SLICE_BYTES = before


def _play(cluster: Cluster, workload: Workload, nemesis: Nemesis) -> list[str]:
    cluster.wait_ready()
    workload.begin(cluster, cluster.world.random("workload"))
    watch = Watch(cluster)
    watch.begin()
    shadows = Shadows(cluster)
    shadows.begin(TROUBLE_S)
    nemesis.prepare(cluster.world, cluster)
    cluster.settled(lambda: bool(workload.wrong or cluster.wrong), TROUBLE_S)
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
        found = workload.check(cluster) + shadows.look() + shadows.files() + verify.metadata(cluster) + verify.log_lines(cluster)
    return [*cluster.wrong, *workload.wrong, *found]


def _heal(cluster: Cluster) -> None:
    cluster.world.network.heal()
    for node_id in cluster.nodes:
        cluster.disk(node_id).sync_s = SYNC_S
        if cluster.alive(node_id):
            cluster.world.resume(f"n{node_id}")
            cluster.world.hurry(f"n{node_id}")
        else:
            cluster.start(node_id)
