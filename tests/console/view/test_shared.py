"""Sessions of one login share a view; those of others have one of their own."""

import pytest

from raftka.client.blocking.client import Client
from raftka.console.view.shared import SharedViews
from raftka.security.client_security import ClientSecurity
from raftka.testing import Cluster
from tests.kit.console import Api, console_of
from tests.kit.secured_registry import secured

__all__ = ["secured"]

ADA, BOB = (ClientSecurity("SASL_PLAINTEXT", "PLAIN", each, "secret") for each in ("ada", "bob"))
NOBODY = [("127.0.0.1", 1)]


def make_client() -> Client:
    return Client(NOBODY, "test")


def test_a_view_ends_with_its_last_session() -> None:
    views = SharedViews()
    first, second = views.take(ADA, make_client), views.take(ADA, make_client)
    other = views.take(BOB, make_client)
    assert first is second is not other
    views.give(ADA)
    with pytest.raises(OSError, match="refused"):
        second.metadata()
    views.give(ADA)
    second.forget()

    with pytest.raises(OSError, match="the session has ended"):
        second.metadata()
    assert views.take(ADA, make_client) is not first


def test_browsers_of_one_user_ask_the_cluster_once(secured: Cluster) -> None:
    with console_of(secured, login="PLAIN") as console:
        browsers = [Api(console.url) for _ in range(3)]
        for each in browsers:
            each.post("/api/login", user="admin", password="admin-secret")
        asked = secured.record_requests("ListGroups")
        for each in browsers:
            each.get("/api/topics")
        secured.wait_for(lambda: not browsers[0].get("/api/topics")["pending"])

        assert len(asked.requests) == len(secured.alive)
