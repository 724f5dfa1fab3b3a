"""Small lives: a seed that is even is one of the metadata quorum, in one of five the voters come
and go; an odd one is one of replication, a third of these with transactions.
"""

from hashlib import blake2b
from typing import NamedTuple

from raftka.chaos.small import raft_life, replication_life
from raftka.chaos.small.raft_oracle import Violation
from raftka.chaos.verdict import Outcome

CHANGING_VOTERS = 8  # the last digit of such seeds


class Life(NamedTuple):
    outcome: Outcome
    violations: tuple[str, ...]
    acknowledged: int
    operations: int
    faults: int
    simulated_s: float
    trace_hash: str


def play(seed: int) -> Life:
    try:
        acknowledged, operations, faults, simulated_s, everything = (
            _quorum(seed) if seed % 2 == 0 else _replication(seed)
        )
    except Violation as violation:
        return Life(Outcome.VIOLATED, (str(violation),), 0, 0, 0, 0.0, _hash(str(violation)))
    outcome = Outcome.VALID if acknowledged else Outcome.INCONCLUSIVE
    return Life(outcome, (), acknowledged, operations, faults, simulated_s, _hash(everything))


def _quorum(seed: int) -> tuple[int, int, int, float, str]:
    changing = seed % 10 == CHANGING_VOTERS
    run = raft_life.run_voters_seed(seed) if changing else raft_life.run_seed(seed)
    everything = (
        f"{run.faults} {run.oracle.chain} {run.oracle.leaders} {run.cluster.sent} {run.cluster.now}"
    )
    return (
        run.accepted,
        run.accepted + run.oracle.reads,
        len(run.faults),
        run.cluster.now,
        everything,
    )


def _replication(seed: int) -> tuple[int, int, int, float, str]:
    life = replication_life.run_seed(seed)
    oracle = life.oracle
    everything = (
        f"{life.faults} {oracle.known} {oracle.leaders} {oracle.truncations} {life.sent} {life.now}"
    )
    return (
        len(oracle.acknowledged),
        life.records + (life.transactions.sent if life.transactions is not None else 0),
        len(life.faults),
        life.now,
        everything,
    )


def _hash(everything: str) -> str:
    return blake2b(everything.encode(), digest_size=16).hexdigest()
