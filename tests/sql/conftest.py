"""SQL servers without Spark: in this process, and as processes of their own."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from raftka.sql.client import Connection
from raftka.sql.server import launch
from raftka.sql.server.folder import Address
from raftka.sql.server.launch import Wanted
from raftka.sql.server.server import Door, SqlServer
from tests.kit.sql_server import TOKEN, FakeSession


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()


@pytest.fixture
def reports() -> list[str]:
    """Return the failures that a server takes for bugs."""
    return []


@pytest.fixture
def server(session: FakeSession, reports: list[str]) -> Iterator[SqlServer]:
    with SqlServer(
        lambda: session, Door(TOKEN), report=lambda subject, _: reports.append(subject)
    ) as server:
        yield server
        session.hanging.set()


@pytest.fixture
def connection(server: SqlServer) -> Connection:
    return Connection(Address(server.url, TOKEN, 0), patience_s=60)


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wanted]:
    """A server that is a process; it ends with the test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    wanted = Wanted("localhost:1", module="tests.kit.sql_server")
    yield wanted
    address = wanted.folder.address()
    if address is not None:
        with suppress(ProcessLookupError):
            os.kill(address.pid, signal.SIGKILL)
    while launch._started:
        process = launch._started.pop()
        process.kill()
        process.wait()
