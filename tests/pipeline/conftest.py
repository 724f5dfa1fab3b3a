"""A cluster of three for the readers, and what fills its topics."""

from collections.abc import Iterator

import pytest

from raftka.testing import Cluster
from tests.pipeline.players import Player


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, log_retention_check_interval_ms=3_600_000) as started:
        yield started


@pytest.fixture
def player(cluster: Cluster) -> Iterator[Player]:
    cluster.heal()
    played = Player(cluster)
    yield played
    played.close()
    cluster.clear_faults()
