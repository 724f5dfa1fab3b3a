"""Limits of the registry made small, and how often they were met."""

import re

import pytest

from raftka.limits import Limit
from raftka.registry import limits
from raftka.registry.server import RegistryServer
from tests.registry.rest import talk


def small(monkeypatch: pytest.MonkeyPatch, module: str, limit: Limit, value: int) -> None:
    """The limit, as this module of the registry sees it."""
    name = next(name for name, each in vars(limits).items() if each is limit)
    monkeypatch.setattr(f"raftka.registry.{module}.{name}", Limit(limit.name, value, limit.reason))


def hits(registry: RegistryServer, limit: Limit) -> int:
    found = re.search(
        rf"^{limit.metric} (\d+)$",
        talk(registry, b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").decode(),
        re.MULTILINE,
    )
    assert found is not None
    return int(found[1])
