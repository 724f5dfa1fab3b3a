"""Groups of both protocols at work while coordinators are struck: commits hold, no partition has two owners, and all goes on."""

import pytest

from raftka.chaos.simulated.consumer_group_workload import ConsumerGroupWork
from raftka.chaos.simulated.group_workload import GroupWork
from raftka.chaos.simulated.lives import Workload, play
from raftka.chaos.simulated.nemeses import OF_COORDINATORS


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("work", [GroupWork, ConsumerGroupWork])
def test_groups_survive_their_coordinators(work: type[Workload], seed: int) -> None:
    assert play(seed, work, OF_COORDINATORS) == []
