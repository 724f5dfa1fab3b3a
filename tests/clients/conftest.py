"""Live clusters for real clients: processes on free ports, gone when the test is."""

import gc
import socket
from collections.abc import Iterator

import pytest

from raftka.cluster.processes import Processes, running


@pytest.fixture
def three_processes() -> Iterator[Processes]:
    with running(nodes=3) as cluster:
        yield cluster


@pytest.fixture
def forgotten_sockets() -> Iterator[None]:
    """For a client that forgets sockets whose connecting failed: they are closed here, else their warning fails whatever runs next."""
    before = set(map(id, _sockets()))
    yield
    for sock in _sockets():
        if id(sock) not in before:
            sock.close()


def _sockets() -> list[socket.socket]:
    return [thing for thing in gc.get_objects() if type(thing) is socket.socket]
