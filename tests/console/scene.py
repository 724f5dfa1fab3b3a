"""Routes of a test beside the console's own."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from raftka.console import routes


@contextmanager
def own_routes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within the context `route` declares routes that are gone after the test."""
    routes.all_routes()  # the console's own modules are imported once
    with monkeypatch.context() as patch:
        patch.setattr(routes, "ROUTES", list(routes.ROUTES))
        routes.all_routes.cache_clear()
        yield
        routes.all_routes.cache_clear()
