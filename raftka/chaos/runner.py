"""Runs many seeds of one kind, one after the other or in several processes: what came of each, in
few words, and the sums.

A kind is the name of a plan (swarm.py), of a workload that is alone (at_work.py), or `small`: parts
of the broker without their shell.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from multiprocessing import get_context
from pathlib import Path
from time import process_time

from raftka.chaos.simulated.releases import load
from raftka.chaos.simulated.swarm import PLANS
from raftka.chaos.simulated.workloads.at_work import WORKS
from raftka.chaos.simulation import Options, Outcome, simulate
from raftka.chaos.small import lives
from raftka.runtime.simulated.tasks import NodeStopped

SHOWN = 5  # violations of a seed
AT_ONCE, SMALL_AT_ONCE = 2, 10  # seeds that a process is given
SMALL = "small"


@dataclass(frozen=True)
class Summary:
    """The summary of one seed. Small, because it travels between processes."""

    seed: int
    outcome: Outcome
    violations: tuple[str, ...]
    acknowledged: int
    operations: int
    faults: int
    simulated_s: float
    cpu_s: float
    trace_hash: str
    probes: Counter[str]
    longest_write_s: float = 0.0


@dataclass
class Total:
    """The sum over all seeds that are done."""

    seeds: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    probes: Counter[str] = field(default_factory=Counter)  # in how many seeds each was seen
    acknowledged: int = 0
    operations: int = 0
    faults: int = 0
    simulated_s: float = 0.0
    cpu_s: float = 0.0
    longest_write_s: float = 0.0
    bad: list[Summary] = field(default_factory=list)
    hashes: dict[int, str] = field(default_factory=dict)  # of the traces, by seed

    def add(self, one: Summary) -> None:
        self.seeds += 1
        self.outcomes[one.outcome] += 1
        self.probes.update(one.probes.keys())
        self.acknowledged += one.acknowledged
        self.operations += one.operations
        self.faults += one.faults
        self.simulated_s += one.simulated_s
        self.cpu_s += one.cpu_s
        self.longest_write_s = max(self.longest_write_s, one.longest_write_s)
        self.hashes[one.seed] = one.trace_hash
        if one.outcome is not Outcome.VALID:
            self.bad.append(one)

    @property
    def exit_code(self) -> int:
        """A few lives in which too little got through are no more than that; if all are such, the
        run shows nothing.
        """
        if self.outcomes[Outcome.VIOLATED]:
            return 1
        return 0 if self.outcomes[Outcome.VALID] > self.outcomes[Outcome.INCONCLUSIVE] else 2

    def as_json(self) -> dict[str, object]:
        return {
            "seeds": self.seeds,
            **{outcome.value: self.outcomes[outcome] for outcome in Outcome},
            "faults": self.faults,
            "operations": self.operations,
            "acknowledged": self.acknowledged,
            "simulated_s": round(self.simulated_s),
            "cpu_s": round(self.cpu_s),
        }


@contextmanager
def one_heap() -> Iterator[None]:
    """A life is one heap of circles that goes as a whole: a look at it every few thousand objects
    is a tenth of the time.

    What is there before the first one are the modules: no look at the end of a life needs to pass
    over them.
    """
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        # of the life before: the clock of the Raft engine is a global, and holds the last one
        gc.collect()
        gc.enable()


def options_of(kind: str, earlier: Path | None = None) -> Options:
    """The options of a plan, or of a workload alone. `earlier`: the wheel from which is upgraded.
    Raises KeyError, and OSError, BadZipFile or ImportError for a file that is no such wheel.
    """
    if kind in PLANS:
        return Options(PLANS[kind], earlier=load(earlier) if earlier is not None else None)
    alone = WORKS[kind]
    return Options(alone.plan, work=alone.make, moments=alone.moments)


def run_one(seed: int, kind: str, earlier: Path | None = None) -> Summary:
    return run_small(seed) if kind == SMALL else run_whole(seed, options_of(kind, earlier))


def run_whole(seed: int, options: Options) -> Summary:
    """Run a whole cluster. The end of its heap is a part of what it costs."""
    began = process_time()
    with one_heap():
        summary = _told(seed, options)
    return replace(summary, cpu_s=process_time() - began)


def _told(seed: int, options: Options) -> Summary:
    try:
        run = simulate(seed, options)
    except NodeStopped as stopped:  # no Exception: a pool would lose its process, and wait for it
        raise RuntimeError(f"seed {seed}: something ran on in the name of {stopped}") from stopped
    return Summary(
        seed,
        run.outcome,
        tuple(run.violations[:SHOWN]),
        run.acknowledged,
        run.operations,
        len(run.faults) if options.work is not None else len({each.number for each in run.faults}),
        run.simulated_s,
        0.0,
        run.trace_hash,
        run.probes,
        run.longest_write_s if options.plan.longest_write_s < inf else 0.0,
    )


def run_small(seed: int) -> Summary:
    began = process_time()
    life = lives.play(seed)
    return Summary(
        seed,
        life.outcome,
        life.violations,
        life.acknowledged,
        life.operations,
        life.faults,
        life.simulated_s,
        process_time() - began,
        life.trace_hash,
        Counter(),
    )


def many(
    seeds: Iterable[int], kind: str, jobs: int, earlier: Path | None = None
) -> AbstractContextManager[Iterator[Summary]]:
    run = partial(run_one, kind=kind, earlier=earlier)
    return spread(run, seeds, jobs, SMALL_AT_ONCE if kind == SMALL else AT_ONCE)


@contextmanager
def spread(
    work: Callable[[int], Summary], seeds: Iterable[int], jobs: int, at_once: int = AT_ONCE
) -> Iterator[Iterator[Summary]]:
    """Over so many processes; in the order in which they end. `at_once`: seeds that a process is
    given.
    """
    if jobs == 1:
        yield map(work, seeds)
        return
    with get_context("spawn").Pool(jobs) as pool:
        yield pool.imap_unordered(work, seeds, chunksize=at_once)
