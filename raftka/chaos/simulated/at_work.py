"""Many lives of clusters with a workload of their own (lives.py): which there are, and what came of each seed."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from importlib import import_module
from time import process_time

from raftka.chaos.simulated.compaction_workload import CompactionWork
from raftka.chaos.simulated.consumer_group_workload import ConsumerGroupWork
from raftka.chaos.simulated.group_workload import GroupWork
from raftka.chaos.simulated.lives import Workload, live
from raftka.chaos.simulated.many import SHOWN, Summary, spread
from raftka.chaos.simulated.nemeses import OF_COMPACTION, OF_COORDINATORS, OF_THE_QUORUM
from raftka.chaos.verdict import Outcome


def _of_sessions() -> Workload:
    """Of a package beside raftka: found by its name."""
    work: Workload = import_module("zookeeper_bridge.session_workload").SessionWork()
    return work


WORKS: dict[str, tuple[Callable[[], Workload], Sequence[str]]] = {
    "groups": (GroupWork, OF_COORDINATORS),
    "consumer-groups": (ConsumerGroupWork, OF_COORDINATORS),
    "compaction": (CompactionWork, OF_COMPACTION),
    "sessions": (_of_sessions, OF_THE_QUORUM),
}


def one(seed: int, work: str) -> Summary:
    began = process_time()
    lived = live(seed, *WORKS[work])
    outcome = Outcome.VIOLATED if lived.violations else Outcome.VALID if lived.done else Outcome.INCONCLUSIVE
    seconds = process_time() - began
    found = tuple(lived.violations[:SHOWN])
    return Summary(seed, outcome, found, lived.done, lived.done, lived.struck, lived.simulated_s, seconds, lived.trace_hash, Counter())


def many(seeds: Iterable[int], work: str, jobs: int) -> AbstractContextManager[Iterator[Summary]]:
    return spread(partial(one, work=work), seeds, jobs)
