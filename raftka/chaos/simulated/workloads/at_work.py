"""Many lives of clusters with a workload of their own (lives.py): which there are, and what came of each seed."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from time import process_time

from raftka.chaos.simulated.faults.nemeses import OF_COMPACTION, OF_COORDINATORS, OF_THE_QUORUM
from raftka.chaos.simulated.many import SHOWN, Summary, one_heap, spread
from raftka.chaos.simulated.workloads.compaction import CompactionWork
from raftka.chaos.simulated.workloads.consumer_group import ConsumerGroupWork
from raftka.chaos.simulated.workloads.group import GroupWork
from raftka.chaos.simulated.workloads.lives import Workload, live

ENTRY_POINTS = "raftka.workloads"  # packages beside raftka register more here: name = module:class, a Workload; its clusters' quorum is struck


def _made_by(entry_point: EntryPoint) -> Callable[[], Workload]:
    def make() -> Workload:
        work: Workload = entry_point.load()()
        return work

    return make


WORKS: dict[str, tuple[Callable[[], Workload], Sequence[str]]] = {
    "groups": (GroupWork, OF_COORDINATORS),
    "consumer-groups": (ConsumerGroupWork, OF_COORDINATORS),
    "compaction": (CompactionWork, OF_COMPACTION),
    **{each.name: (_made_by(each), OF_THE_QUORUM) for each in entry_points(group=ENTRY_POINTS)},
}


def one(seed: int, work: str) -> Summary:
    began = process_time()
    with one_heap():
        it = live(seed, *WORKS[work])
    seconds, found = process_time() - began, tuple(it.violations[:SHOWN])
    return Summary(seed, it.outcome, found, it.acknowledged, it.operations, len(it.faults), it.simulated_s, seconds, it.trace_hash, Counter())


def many(seeds: Iterable[int], work: str, jobs: int) -> AbstractContextManager[Iterator[Summary]]:
    return spread(partial(one, work=work), seeds, jobs)
