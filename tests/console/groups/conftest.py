"""A cluster for tests of groups, a client of it, and a view with what its pages remember."""

from collections.abc import Iterator

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.console.groups.memory import MEMORIES, Memory
from raftka.console.view.view import View
from raftka.testing import Cluster
from tests.clients.hanging import UNVERIFIED


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(3, properties=UNVERIFIED) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    shared.heal()
    shared.clean()


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(addresses_of(cluster.bootstrap_servers), "test") as client:
        yield client


@pytest.fixture
def view(cluster: Cluster) -> Iterator[View]:
    view = View(lambda: Client(addresses_of(cluster.bootstrap_servers), "test"))
    yield view
    view.close()


@pytest.fixture
def memory(view: View) -> Memory:
    return MEMORIES.of(view)
