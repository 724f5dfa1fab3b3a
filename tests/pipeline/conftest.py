"""A cluster of three for the readers, and what fills its topics. Its records are years old, so they are kept for ever."""

from collections.abc import Iterator

import pytest

from raftka.testing import Cluster
from tests.pipeline.players import Player


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, log_retention_ms=-1) as started:
        yield started


@pytest.fixture
def player(cluster: Cluster) -> Iterator[Player]:
    cluster.heal()
    played = Player(cluster)
    yield played
    played.close()
    cluster.clear_faults()
