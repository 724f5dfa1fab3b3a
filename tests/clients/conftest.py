"""Live clusters for real clients: processes on free ports, gone when the test is."""

from collections.abc import Iterator

import pytest

from raftka.cluster.processes import Processes, running


@pytest.fixture
def three_processes() -> Iterator[Processes]:
    with running(nodes=3) as cluster:
        yield cluster
