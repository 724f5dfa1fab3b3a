"""Fixtures of the pipeline's tests, sessions of SQL on their cluster, and SQL servers without
Spark: in this process, and as processes of their own.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from raftka.pipeline.records.registry_client import RegistryAccess
from raftka.sql.client import Connection
from raftka.sql.server import launch
from raftka.sql.server.folder import Address
from raftka.sql.server.launch import Wanted
from raftka.sql.server.server import Door, SqlServer
from raftka.sql.session import Session
from raftka.testing import Cluster
from tests.kit.sql_children import Child
from tests.kit.sql_server import TOKEN, FakeSession
from tests.pipeline.conftest import cluster, kafka_jars, player, spark

__all__ = ["cluster", "kafka_jars", "player", "spark"]

NewSession = Callable[..., Session]


@pytest.fixture
def new_session(spark: Any, cluster: Cluster) -> Iterator[NewSession]:
    opened: list[Session] = []

    def new(state: Path | None = None, registry: str | None = None) -> Session:
        access = None if registry is None else RegistryAccess((registry,))
        opened.append(
            Session(
                cluster.bootstrap_servers,
                registry=access,
                state=state,
                start_spark=lambda held: spark,
            )
        )
        return opened[-1]

    yield new
    for each in opened:
        each.close()


@pytest.fixture
def session(new_session: NewSession) -> Session:
    return new_session()


@pytest.fixture
def start_child(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[[], Child]]:
    started: list[Child] = []

    def start() -> Child:
        started.append(Child(cluster, tmp_path / "state"))
        return started[-1]

    yield start
    for each in started:
        each.kill()


@pytest.fixture
def fake() -> FakeSession:
    return FakeSession()


@pytest.fixture
def reports() -> list[str]:
    """Return the failures that a server takes for bugs."""
    return []


@pytest.fixture
def server(fake: FakeSession, reports: list[str]) -> Iterator[SqlServer]:
    with SqlServer(
        lambda: fake, Door(TOKEN), report=lambda subject, _: reports.append(subject)
    ) as server:
        yield server
        fake.hanging.set()


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
