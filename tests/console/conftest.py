"""A console in front of the cluster that all tests share, and a client of its API."""

from collections.abc import Iterator

import pytest

from raftka.console.server import ConsoleServer
from raftka.testing import Cluster
from tests.kit.console import Api, console_of


@pytest.fixture
def console(raftka_cluster: Cluster) -> Iterator[ConsoleServer]:
    with console_of(raftka_cluster) as console:
        yield console


@pytest.fixture
def api(console: ConsoleServer) -> Api:
    return Api(console.url)
