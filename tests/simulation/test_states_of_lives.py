"""State machines of a node go through the changes of their tables alone, whatever happens to a
cluster.
"""

import pytest

from raftka.broker.coordinators.partition import COORDINATOR_STATES, CoordinatorPartition
from raftka.broker.network.connection import ARRIVALS, READINGS, ServerConnection
from raftka.broker.replica.fetcher import FETCHER_STATES, ReplicaFetcher
from raftka.chaos.simulation import simulate
from tests.kit.transitions import changes_of, recorded


@pytest.mark.parametrize("seed", [1, 2])
def test_a_life_makes_no_change_of_state_beside_the_tables(seed: int) -> None:
    with (
        recorded(ServerConnection, "_arrival") as arrivals,
        recorded(ServerConnection, "_reading") as readings,
        recorded(ReplicaFetcher, "state") as fetches,
        recorded(CoordinatorPartition, "state") as coordinators,
    ):
        run = simulate(seed)

    assert run.violations == []
    for changes, table in (
        (arrivals, ARRIVALS),
        (readings, READINGS),
        (fetches, FETCHER_STATES),
        (coordinators, COORDINATOR_STATES),
    ):
        assert changes
        assert changes <= changes_of(table)
