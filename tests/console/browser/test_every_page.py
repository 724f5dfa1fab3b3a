"""Every page in light, in dark and on a phone: no error, no finding of axe, nothing too wide."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.testing import Cluster
from tests.console.browser.conftest import PHONE, WIDE, OpenPage, page_opener
from tests.console.browser.pages import PAGES, SETTLED, TABS, listed_pages
from tests.kit.axe import TOO_WIDE, check_with_axe
from tests.kit.browser import Browser
from tests.kit.groups import commit, produce

LOOKS = {"light": (WIDE, False), "dark": (WIDE, True), "phone": (PHONE, False)}

# main shows one page, the one of a path
HERE = """(path) => {
    const pages = [...document.querySelector("main").children];
    const { hash } = location;
    return pages.length === 1 && hash.startsWith("#" + path) && pages[0].isConnected &&
        document.querySelector("nav [aria-current]") && pages[0].localName.endsWith("-view");
}"""


@pytest.fixture
def open_page(browser: Browser, cluster: Cluster) -> Iterator[OpenPage]:
    """Pages of a console that controls the cluster: it has one page more."""
    with ExitStack() as stack:
        yield page_opener(browser, cluster.console_url.rstrip("/"), stack)


@pytest.fixture(scope="module")
def shop(cluster: Cluster) -> None:
    """Records of two topics, one of them dead letters, and a group that is behind."""
    now_ms = round(time.time() * 1000)
    with Client(addresses_of(cluster.bootstrap_servers), "shop") as client:
        for topic in ("orders", "orders.dead-letters"):
            produce(client, (topic, 0), [now_ms - 1_000 * at for at in range(5)])
        commit(client, "billing", {("orders", 0): 2})


def paths() -> list[str]:
    """Return the addresses of all pages that are there, and of their tabs."""
    found = []
    for listed in listed_pages():
        if (PAGES / listed.module).is_file():
            tabs = TABS.get(listed.module, ())
            found += [listed.path, *(f"{listed.path}?tab={tab}" for tab in tabs)]
    return found


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("path", paths())
def test_page_has_no_finding(path: str, open_page: OpenPage, axe: str) -> None:
    page = open_page(f"/#{path}")
    if path.startswith("/schemas"):
        page.allow_error("status of")  # this cluster has no registry
    found = {}
    for look, (size, dark) in LOOKS.items():
        page.resize(*size)
        page.set_dark(dark)
        page.wait_for(SETTLED)
        found[look] = (check_with_axe(page, axe), page.evaluate(TOO_WIDE))
    assert found == dict.fromkeys(LOOKS, ([], 0))


@pytest.mark.usefixtures("shop")
def test_a_page_goes_when_the_next_one_comes(open_page: OpenPage) -> None:
    page = open_page("/#/")
    page.wait_for(SETTLED)
    for path in [*paths(), "/"]:
        page.evaluate(f"location.hash = {json.dumps('#' + path)}")
        page.wait_for(f"({HERE})({json.dumps(path.partition('?')[0])}) && {SETTLED}")


def test_planted_findings_are_found(open_page: OpenPage, axe: str) -> None:
    page = open_page("/#/", PHONE)
    page.wait_for(SETTLED)
    page.evaluate(
        """(() => {
            const main = document.querySelector("main > *");
            main.append(document.createElement("input"), document.createElement("pre"));
            main.querySelector("pre").textContent = "x".repeat(400);
        })()"""
    )
    assert [each.partition(":")[0] for each in check_with_axe(page, axe)] == ["label"]
    assert page.evaluate(TOO_WIDE) > 0
