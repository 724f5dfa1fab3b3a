"""Many small lives: a seed that is even is one of the metadata quorum, an odd one is one of replication."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from hashlib import blake2b
from time import process_time

from raftka.chaos.simulated.many import Summary, spread
from raftka.chaos.small import raft_life, replication_life
from raftka.chaos.small.raft_oracle import Violation
from raftka.chaos.verdict import Outcome

AT_ONCE = 10  # seeds that a process is given


def one(seed: int) -> Summary:
    began = process_time()
    try:
        run = _quorum(seed) if seed % 2 == 0 else _replication(seed)
    except Violation as violation:
        return Summary(seed, Outcome.VIOLATED, (str(violation),), 0, 0, 0, 0.0, process_time() - began, _hash(str(violation)), Counter())
    acknowledged, operations, faults, simulated_s, everything = run
    outcome = Outcome.VALID if acknowledged else Outcome.INCONCLUSIVE
    return Summary(seed, outcome, (), acknowledged, operations, faults, simulated_s, process_time() - began, _hash(everything), Counter())


def _quorum(seed: int) -> tuple[int, int, int, float, str]:
    run = raft_life.run_seed(seed)
    everything = f"{run.faults} {run.oracle.chain} {run.oracle.leaders} {run.cluster.sent} {run.cluster.now}"
    return run.accepted, run.accepted + run.oracle.reads, len(run.faults), run.cluster.now, everything


def _replication(seed: int) -> tuple[int, int, int, float, str]:
    life = replication_life.run_seed(seed)
    oracle = life.oracle
    everything = f"{life.faults} {oracle.known} {oracle.leaders} {oracle.truncations} {life.sent} {life.now}"
    return len(oracle.acknowledged), replication_life.RECORDS, len(life.faults), life.now, everything


def _hash(everything: str) -> str:
    return blake2b(everything.encode(), digest_size=16).hexdigest()


def many(seeds: Iterable[int], jobs: int) -> AbstractContextManager[Iterator[Summary]]:
    return spread(one, seeds, jobs, AT_ONCE)
