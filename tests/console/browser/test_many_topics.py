"""Every page of a cluster of 10,000 topics, with groups beside them: it shows itself whole, without
an error, and holds no more rows than a page of a list.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.topics import create_topics
from raftka.testing import Cluster
from raftka.wire.errors import Code
from tests.console.browser.conftest import OpenPage, page_opener
from tests.console.browser.pages import SETTLED, TABS, listed_pages
from tests.kit.browser import Browser
from tests.kit.groups import commit, produce

TOPICS, GROUPS = 10_000, 100
AT_ONCE = 500  # topics of a request
ROWS_MOST = 500  # of all tables of a page
PATIENCE_S = 120.0
NAMES = [f"topic-{number:05}" for number in range(TOPICS - 2)] + ["orders", "orders.dead-letters"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1) as cluster:
        with Client(addresses_of(cluster.bootstrap_servers), "many", PATIENCE_S) as client:
            for at in range(0, TOPICS, AT_ONCE):
                rows = create_topics(client, NAMES[at : at + AT_ONCE], 1, 1, {})
                assert {each.error_code for each in rows} == {Code.NONE}
            now_ms = round(time.time() * 1000)
            for topic in ("orders", "orders.dead-letters"):
                produce(client, (topic, 0), [now_ms - 1_000 * at for at in range(5)])
            commit(client, "billing", {("orders", 0): 2})
            for number in range(GROUPS):
                commit(client, f"group-{number:03}", {(NAMES[number], 0): 0})
        yield cluster


@pytest.fixture
def open_page(browser: Browser, cluster: Cluster) -> Iterator[OpenPage]:
    with ExitStack() as stack:
        yield page_opener(browser, cluster.console_url.rstrip("/"), stack)


@pytest.mark.parametrize(
    "path",
    [
        path
        for listed in listed_pages()
        for path in (
            listed.path,
            *(f"{listed.path}?tab={tab}" for tab in TABS.get(listed.module, ())),
        )
    ],
)
def test_page_shows_itself(path: str, open_page: OpenPage) -> None:
    page = open_page(f"/#{path}")
    if path.startswith("/schemas"):
        page.allow_error("status of")  # this cluster has no registry
    page.wait_for(SETTLED, PATIENCE_S)

    assert page.evaluate("document.querySelectorAll('main tr, main option').length") < ROWS_MOST


def test_one_topic_of_10_000_is_found(open_page: OpenPage) -> None:
    page = open_page("/#/topics")
    page.wait_for_text("10,000")
    page.fill("Find a topic", "07777", role="searchbox")
    page.wait_for("document.querySelectorAll('tbody tr').length === 1")
    assert "topic-07777" in page.texts("tbody tr")[0]
    page.click("link", "topic-07777")
    page.wait_for("location.hash.startsWith('#/topics/topic-07777')")
