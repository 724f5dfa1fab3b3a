"""Queries that go on, as tests look at them: their state, what they have written, waiting."""

import json
import time
from collections.abc import Callable
from typing import Any

from raftka.sql.session import Session
from raftka.testing import Cluster

PATIENCE_S = 300.0


def values(cluster: Cluster, topic: str) -> list[Any]:
    """Return the committed values of a topic."""
    return list(cluster.values(topic, json, read_committed=True))


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def state_of(session: Session, query: str) -> dict[str, Any]:
    answer = session.execute("SHOW QUERIES")
    names = [each.name for each in answer.columns]
    (row,) = [each for each in answer.rows if each[0] == query]
    return dict(zip(names, row, strict=True))
