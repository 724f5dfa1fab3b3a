"""Chromium, a cluster of three nodes, and its console. A page with an error fails its test."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Protocol

import pytest

from raftka.console.server import ConsoleServer
from raftka.testing import Cluster
from tests.kit.axe import axe_script
from tests.kit.browser import WHY_NOT, Browser, Page, find_chromium, launch_browser
from tests.kit.console import console_of

TOPICS = {"orders": 3, "payments": 6, "orders.dead-letters": 1}  # partitions by name
WIDE, PHONE = (1280, 860), (390, 844)


class OpenPage(Protocol):
    def __call__(
        self, path: str = "/", size: tuple[int, int] = WIDE, *, dark: bool = False
    ) -> Page:
        """`path`: with its #; `size`: width and height in CSS pixels."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        pytest.skip(WHY_NOT)
    with launch_browser(program) as browser:
        yield browser


@pytest.fixture(scope="session")
def axe(request: pytest.FixtureRequest) -> str:
    """The script of axe."""
    return axe_script(fetch=request.config.getoption("--all-clients"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        for name, partitions in TOPICS.items():
            cluster.create_topic(name, partitions=partitions, replication_factor=3)
        yield cluster


@pytest.fixture(scope="module")
def site(cluster: Cluster) -> Iterator[ConsoleServer]:
    with console_of(cluster) as console:
        yield console


@pytest.fixture
def open_page(browser: Browser, site: ConsoleServer) -> Iterator[OpenPage]:
    with ExitStack() as stack:
        yield page_opener(browser, site.url, stack)


def page_opener(browser: Browser, url: str, stack: ExitStack) -> OpenPage:
    """Return a function that opens pages of a console. At the end of `stack` each is closed, and
    must have logged no error.
    """

    def open_page(path: str = "/", size: tuple[int, int] = WIDE, *, dark: bool = False) -> Page:
        page = browser.open_page(width=size[0], height=size[1], dark=dark)
        stack.callback(close_without_errors, browser, page)
        page.goto(url + path)
        page.wait_for("document.querySelector('main, login-view')")
        return page

    return open_page


def close_without_errors(browser: Browser, page: Page) -> None:
    page.evaluate("1")  # what it has logged until now arrives before the answer
    errors = page.errors
    browser.close_page(page)
    assert errors == []
