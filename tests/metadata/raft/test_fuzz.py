"""Forty seeds of the fuzz with every run of the tests; `python -m raftka.chaos.small.raft_life`
plays as many as one likes.
"""

import pytest

from raftka.chaos.small.raft_life import FAULTS, PROPOSALS, SECONDS, run_seed


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_no_promise_is_broken(first: int) -> None:
    for seed in range(first, first + 10):
        run = run_seed(seed)

        assert run.accepted >= PROPOSALS
        assert run.cluster.now >= SECONDS
        assert len(run.faults) >= 5
        assert {"crash"} < {kind for _, kind in run.faults} <= set(FAULTS)
