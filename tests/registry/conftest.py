"""A registry of its own for each test, on a cluster that all tests share."""

from collections.abc import Callable, Iterator

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.registry.log import SchemasLog
from raftka.registry.server import RegistryServer
from raftka.testing import Cluster
from tests.kit.secured_registry import secured, secured_registry
from tests.registry.rest import Rest

__all__ = ["secured", "secured_registry"]

TOPIC = "_schemas-writers"
Make = Callable[[], Client]


@pytest.fixture
def rest(raftka_registry: RegistryServer) -> Iterator[Rest]:
    with Rest(raftka_registry) as rest:
        yield rest


@pytest.fixture
def make_client(raftka_cluster: Cluster) -> Make:
    brokers = addresses_of(raftka_cluster.bootstrap_servers)
    return lambda: Client(brokers, "test")


@pytest.fixture
def logs(raftka_cluster: Cluster, make_client: Make) -> Iterator[list[SchemasLog]]:
    """Of two instances."""
    both = [SchemasLog(make_client, TOPIC) for _ in range(2)]
    for log in both:
        log.start()
    yield both
    for log in both:
        log.stop()
    raftka_cluster.delete_topic(TOPIC)
