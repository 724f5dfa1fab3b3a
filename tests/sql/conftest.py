"""Fixtures of the pipeline's tests, and sessions of SQL on their cluster."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from raftka.pipeline.records.registry_client import RegistryAccess
from raftka.sql.session import Session
from raftka.testing import Cluster
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
