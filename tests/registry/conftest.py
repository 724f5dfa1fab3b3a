"""A registry of its own for each test, on a cluster that all tests share."""

from collections.abc import Iterator

import pytest

from raftka.registry.server import RegistryServer
from tests.registry.rest import Rest


@pytest.fixture
def rest(raftka_registry: RegistryServer) -> Iterator[Rest]:
    with Rest(raftka_registry) as rest:
        yield rest
