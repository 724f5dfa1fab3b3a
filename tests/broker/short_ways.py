"""Watch which requests go the short way."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from raftka.broker.network.connection import ServerConnection


@contextmanager
def short_ways(
    monkeypatch: pytest.MonkeyPatch, kind: type[Any], *, open: bool = True
) -> Iterator[list[bool]]:
    """Record for each request whether it went the short way; with `open` false none does."""
    taken: list[bool] = []
    run = kind.run

    def watched(
        self: Any, connection: ServerConnection, frame: memoryview, correlation_id: int
    ) -> bool:
        taken.append(open and run(self, connection, frame, correlation_id))
        return taken[-1]

    with monkeypatch.context() as patched:
        patched.setattr(kind, "run", watched)
        yield taken
