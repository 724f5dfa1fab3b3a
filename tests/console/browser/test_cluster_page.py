"""The first page while a cluster lives: brokers, moves, what is wrong and the next step."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from raftka.testing import Cluster
from tests.console.browser.conftest import OpenPage, page_opener
from tests.kit.browser import Browser
from tests.kit.console import console_of

BROKERS = "section:has(#brokers-title) tbody tr"


@pytest.fixture
def small(browser: Browser) -> Iterator[tuple[Cluster, OpenPage]]:
    """A cluster of its own: these tests break it."""
    with Cluster(3) as cluster, console_of(cluster) as console, ExitStack() as stack:
        cluster.create_topic("orders", partitions=3, replication_factor=3)
        yield cluster, page_opener(browser, console.url, stack)


def test_a_dead_broker_is_a_finding_until_it_is_back(small: tuple[Cluster, OpenPage]) -> None:
    cluster, open_page = small
    page = open_page("/#/")
    page.wait_for_text("Nothing is wrong.")
    assert [each.split()[0] for each in page.texts(BROKERS)] == ["1", "2", "3"]
    assert "3 of 3" in page.text(".facts")
    cluster.kill(2)
    page.wait_for_text("Broker 2 is gone")
    page.wait_for_text("partitions have 3 replicas, and of the brokers 2 are alive")
    page.wait_for_text("When one more fails, there is no controller")
    page.wait_for_text("broker 2 fell out, 2 of 3 in sync")
    assert "gone" in page.texts(BROKERS)[1]
    assert page.evaluate("document.querySelectorAll('.strip .shrunk').length") > 0
    cluster.restart(2)
    page.wait_for_text("broker 2 came back, 3 of 3 in sync")
    page.wait_for("!document.body.innerText.includes('Broker 2 is gone')")


def test_voters_and_eligible_replicas_are_shown(small: tuple[Cluster, OpenPage]) -> None:
    cluster, open_page = small
    page = open_page("/#/")
    page.wait_for_text("3 voters, 0 observers")
    roles = page.texts("section:has(#quorum-title) tbody .badge")
    assert sorted(roles) == ["voter", "voter", "voter, leader"]
    topic = cluster.create_topic(replication_factor=3, min_insync_replicas=3)
    cluster.kill(2)
    page.evaluate(f"location.hash = '#/topics/{topic}?tab=partitions'")
    page.wait_for_text("eligible")


def test_a_console_that_is_gone_is_told_and_comes_back_by_itself(
    browser: Browser, cluster: Cluster
) -> None:
    with ExitStack() as stack:
        with console_of(cluster) as console:
            page = page_opener(browser, console.url, stack)("/#/")
            page.allow_error("Failed to load|ERR_")
            page.wait_for_text("Brokers")
            port = console.port
        page.wait_for_text("You see what was last known.")
        assert "3 of 3" in page.text(".facts")
        with console_of(cluster, port=port):
            page.wait_for("!document.body.innerText.includes('You see what was last known.')")


def test_the_chosen_theme_outlives_the_page(open_page: OpenPage) -> None:
    page = open_page("/#/")
    page.wait_for_text("Brokers")
    colour = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(colour)
    page.click("button", "Dark")
    page.wait_for(f"{colour} !== '{light}'")
    dark = page.evaluate(colour)
    page.reload()
    page.wait_for_text("Brokers")
    assert page.evaluate(colour) == dark
