"""A table of planted bugs with the seeds and the kinds of lives that find them, and what was wrong
there. Plants one bug at a time, in this process.

A bug counts when it *survives* the first three seeds of the default plan: the cluster forms and
clients see nothing. What is found after that is found by random lives, by lives in which a nemesis
waits for one moment of the code, by a workload of its own, or by a scenario; the first that finds
it is told, with how many lives it took.
"""

import re
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType

from raftka.chaos.simulated.checks.watch import EVERY_S
from raftka.chaos.simulated.faults.nemeses import OF_REPLICATION, OF_THE_QUORUM, Nemesis
from raftka.chaos.simulated.swarm import ROLLING
from raftka.chaos.simulated.workloads.at_work import WORKS, Alone
from raftka.chaos.simulation import (
    DIRECTORIES,
    FAULTS,
    POWER,
    WIDTH,
    Options,
    Plan,
    at_work,
    live,
    simulate,
)
from raftka.chaos.small import raft_life, replication_life
from raftka.chaos.small.raft_oracle import Violation
from tests.kit.versions.earlier import earlier_release
from tests.mutants.catalogue import MUTANTS, SCENARIOS, Mutant, mutated

SURVIVES = (FAULTS, range(3))
QUIET = replace(FAULTS, name="quiet", gap_s=(1.0, 3.0))
BEFORE_SCENARIO = 1  # seeds of lives that are not small
LIFE_CPU_S = 60.0  # a bug may make two nodes ask each other for ever
Lived = Callable[[int], list[str]]  # seed -> violations


def _random(plan: Plan) -> Lived:
    return lambda seed: simulate(seed, Options(plan, watch_s=EVERY_S)).violations


def _struck(plan: Plan, moments: Sequence[str]) -> Lived:
    """The random faults of the plan, and a nemesis that waits for its moments."""

    def lived(seed: int) -> list[str]:
        nemesis = Nemesis(moments, plan.seconds)
        with nemesis.lurking():
            return simulate(
                seed, Options(plan, prepare=(nemesis.prepare,), watch_s=EVERY_S)
            ).violations

    return lived


def _small(run_seed: Callable[[int], object]) -> Lived:
    def lived(seed: int) -> list[str]:
        try:
            run_seed(seed)
        except Violation as violation:
            return [str(violation)]
        return []

    return lived


def _at_work(alone: Alone) -> Lived:
    return lambda seed: at_work(seed, *alone).violations


def _upgraded(plan: Plan) -> Lived:
    return lambda seed: simulate(seed, Options(plan, earlier=earlier_release())).violations


HUNTS: dict[str, Lived] = {
    "small quorum": _small(raft_life.run_seed),
    "small replication": _small(replication_life.run_seed),
    "small voters": _small(raft_life.run_voters_seed),
    **{plan.name: _random(plan) for plan in (FAULTS, POWER, WIDTH, DIRECTORIES)},
    "replication struck": _struck(QUIET, OF_REPLICATION),
    "quorum struck": _struck(QUIET, OF_THE_QUORUM),
    ROLLING.name: _upgraded(ROLLING),
    **{name: _at_work(work) for name, work in WORKS.items()},
}
SMALL = ("small quorum", "small replication", "small voters")
OF_AREA: dict[str, tuple[str, ...]] = {
    "raft": ("small quorum", "quorum struck"),
    "voters": ("small voters",),
    "controller": ("small replication", "quorum struck", "width"),
    "replication": ("small replication", "replication struck", "power"),
    "log": ("replication struck", "power", "compaction"),
    "producers": ("replication struck", "power"),
    "reading": ("replication struck", "faults"),
    "groups": ("groups",),
    "streams": ("streams",),
    "transactions": (),  # scenarios alone
    "cleaner": ("compaction",),
    "exactly_once": ("transactions",),
    "read_committed": ("small replication", "transactions"),
    "login": (),  # scenarios alone
    "rights": (),  # scenarios alone
    "secured_lives": ("security",),
    "tls": (),  # scenarios alone
    "quotas": (),  # scenarios alone
    "ports": (),  # scenarios alone
    "backups": (),  # scenarios alone
    "requests": (),  # scenarios alone
    "share_partitions": ("share",),
    "schemas": (),  # scenarios alone
    "share_groups": ("share",),
    "share_states": ("share",),
    "delivery": ("delayed",),
    "versions": (ROLLING.name,),
    "times": (),  # scenarios alone, but for those that say otherwise
}


@dataclass(frozen=True)
class Finding:
    bug: str
    hunt: str = ""  # "": not found
    seed: int = -1
    kind: str = ""
    lives: int = 0  # with the one that found it
    seconds: float = 0.0

    @property
    def found(self) -> bool:
        return bool(self.hunt)


def hunts_of(bug: Mutant) -> tuple[str, ...]:
    return bug.hunted_by or OF_AREA[bug.area]


def hunt(name: str, seeds: Sequence[int], hunts: Sequence[str] = ()) -> Finding:
    """One with a scenario of its own is hunted by chance for a little while only."""
    few = seeds[:BEFORE_SCENARIO] if name in SCENARIOS else seeds
    began, lives = time.process_time(), 0
    with mutated(name):
        for each, seed in _tries(hunts or hunts_of(MUTANTS[name]), seeds, few):
            lives += 1
            violations = lived(each, seed)
            if violations:
                return Finding(
                    name, each, seed, kind_of(violations), lives, time.process_time() - began
                )
    return (
        replace(directed(name), lives=lives + 1, seconds=time.process_time() - began)
        if name in SCENARIOS
        else Finding(name, lives=lives)
    )


def _tries(
    hunts: Sequence[str], seeds: Sequence[int], few: Sequence[int]
) -> Iterator[tuple[str, int]]:
    """All small lives first: they cost a twentieth."""
    small = [each for each in hunts if each in SMALL]
    yield from ((each, seed) for each in small for seed in seeds)
    yield from ((each, seed) for seed in few for each in hunts if each not in SMALL)


def directed(name: str) -> Finding:
    """By the scenario of its name."""
    began = time.process_time()
    with mutated(name):
        try:
            SCENARIOS[name]()
        except Exception:
            return Finding(
                name,
                "scenario",
                0,
                kind_of([traceback.format_exc()]),
                1,
                time.process_time() - began,
            )
    return Finding(name)


def lived(name: str, seed: int) -> list[str]:
    """The violations of one life. One that does not end is none: who is stuck has shown nothing."""
    try:
        with _bounded():
            violations = HUNTS[name](seed)
    except _Stuck:
        return []
    return [] if any("_Stuck" in each for each in violations) else violations


def survives(name: str) -> bool:
    """Nor does it keep a life from ending."""
    plan, seeds = SURVIVES
    with mutated(name):
        try:
            with _bounded():
                return not any(live(seed, plan).violations for seed in seeds)
        except _Stuck:
            return False


class _Stuck(Exception):
    pass


@contextmanager
def _bounded() -> Iterator[None]:
    def stuck(_: int, __: FrameType | None) -> None:
        raise _Stuck

    before = signal.signal(signal.SIGPROF, stuck)
    signal.setitimer(signal.ITIMER_PROF, LIFE_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


KINDS = (  # of a violation's sentence, the first that fits
    (r"acknowledged records are lost|lacks committed|without all that is committed", "lost write"),
    (r" lead term| leads the same term", "two leaders in a term"),
    (r"applies another entry|another history|commit(ted)? another", "metadata differs"),
    (r"not all is well|after all healed", "no progress"),
    (r"last value|keys differ|deleted key", "a key has another value"),
    (
        r"^(two locks|delivered again|count back|count skips|delivery limit|not the owner|"
        r"acknowledgement lost|record lost|done by nobody|complete count|left over|dead letter|"
        r"dead letter lost|aborted|not committed yet|unassigned):",
        r"\1",
    ),
    (r"^(commit-lost|zombie|two owners|generation back|phantom-commit)", r"\1"),
    (
        r"^(torn|hanging|dirty|dirty read|lost read|not exactly once|last stable offset|aborted "
        r"transactions):",
        r"\1",
    ),
    (r"without a cause", "refused without a cause"),
    (r"taken back|not there any more", "read is taken back"),
    (r"there twice", "duplicate"),
    (r"two records at offset", "two records at one offset"),
    (r"out of order|OUT_OF_ORDER", "out of order"),
    (r"there is a gap|skipped", "gap"),
    (r"is at \d+, acknowledged at", "another offset than told"),
    (r"logs differ", "replicas differ"),
    (r"high watermarks are|remember producers", "replicas differ"),
    (r"metadata differs|another committed entry", "metadata differs"),
    (r"two leaders of the quorum", "two leaders in a term"),
    (r"ISR member behind", "ISR member lacks what is committed"),
    (r"high watermark back|high watermark \d+ of epoch", "high watermark goes back"),
    (r"log start", "log start ahead of the commits"),
    (r"committed below min", "commit below min.insync.replicas"),
    (r"the end was", "end goes back"),
    (r"diverges at", "what was read diverges"),
    (r"no progress|does not come through|not in sync|not every replica|never", "no progress"),
    (r"SafetyViolated", "Raft's guard"),
    (r"JournalDamaged|refused to start", "node does not start"),
    (r"AssertionError: (.*)", r"assertion: \1"),
    (r"(\w+(?:Error|Exception|Refused|Failed))\b", r"\1"),
)


def kind_of(violations: Sequence[str]) -> str:
    """In two to five words."""
    text = (
        violations[0].strip().splitlines()[-1]
        if violations[0].startswith("Traceback")
        else violations[0]
    )
    if text.startswith("in a task of"):
        text = next(
            (
                line
                for line in reversed(violations[0].strip().splitlines())
                if re.match(r"\w+(\.\w+)*(Error|Exception|Violated|Damaged)", line)
            ),
            text,
        )
    for pattern, kind in KINDS:
        if (match := re.search(pattern, text)) is not None:
            return match.expand(kind)[:60]
    return text[:60]
