"""The page of nodes: a leader is killed by a click, and the time line shows who leads then."""

import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from raftka.testing import Cluster
from tests.console.browser.conftest import OpenPage, page_opener
from tests.kit.browser import Browser, Page


@pytest.fixture
def open_nodes(browser: Browser, cluster: Cluster) -> Iterator[OpenPage]:
    """Pages of a console that controls the cluster, as the pytest fixture has it."""
    with ExitStack() as stack:
        yield page_opener(browser, cluster.console_url.rstrip("/"), stack)
    cluster.heal()


def settled(open_nodes: OpenPage) -> Page:
    """The page when its parts are there: what comes later would move what is clicked."""
    page = open_nodes("/#/nodes")
    page.wait_for_node("button", "Kill node 1")
    page.wait_for_text("None is set.")
    page.wait_for_text("topic 'orders' created")
    return page


def leading(cluster: Cluster, node: int) -> str:
    """Return the words of the page for the partitions that a node leads."""
    image = cluster._sync(lambda: cluster._a_node().image)
    count = sum(each.leader == node for topic in image.topics.values() for each in topic.partitions)
    return f"{count} partition{'s' * (count != 1)}"


def test_leader_is_killed_by_a_click(cluster: Cluster, open_nodes: OpenPage) -> None:
    topic = cluster.create_topic(replication_factor=3)
    leader = cluster.leader(topic)
    page = settled(open_nodes)
    page.click("button", f"Kill node {leader}")
    page.wait_for_text(f"cluster.kill({leader})")
    assert leader in cluster.alive, "nothing happens before the user has seen the command"
    page.click_css("dialog button.danger")

    page.wait_for_text(f"node {leader}: killed at the console")
    page.wait_for_text(f": leader {leader} -> ")
    page.wait_for_text(f"leads {leading(cluster, cluster.leader(topic))}")
    assert leader not in cluster.alive
    page.click("button", f"Start node {leader}")
    page.click_css("dialog button.primary")
    cluster.wait_for(lambda: leader in cluster.alive)
    page.wait_for_node("button", f"Pause node {leader}")


def test_node_is_paused_and_resumed_by_keys_alone(cluster: Cluster, open_nodes: OpenPage) -> None:
    page = settled(open_nodes)
    page.wait_for_node("button", "Pause node 2")
    page.evaluate("document.querySelector('[data-node=\"2\"] button').focus()")
    page.press("Enter")
    page.wait_for_text("cluster.pause(2)")
    page.press(
        "Tab", "Tab", "Tab", "Enter"
    )  # the command, its copy, Cancel: the last is the action
    page.wait_for("!document.querySelector('dialog')")
    assert cluster._embedded.nodes[2].paused
    page.wait_for_node("button", "Resume node 2")


def test_fault_is_set_and_removed(cluster: Cluster, open_nodes: OpenPage) -> None:
    page = settled(open_nodes)
    page.click_css(".card summary")
    page.fill("Topic", "orders")
    page.fill("From the n-th on", "3")
    page.click("button", "Set fault")
    page.wait_for_text(
        "cluster.fail_next('Produce', 'NOT_LEADER_OR_FOLLOWER', topic='orders', nth=3)"
    )
    page.click_css("dialog button.primary")
    page.wait_for_text("0 hits, 1 left")
    page.wait_for_text("fault set: fail_next Produce NOT_LEADER_OR_FOLLOWER")

    page.click("button", re.compile("^Remove the fault fail_next"))
    page.click_css("dialog button.primary")
    page.wait_for_text("None is set.")


def test_page_is_left_without_a_question(open_nodes: OpenPage) -> None:
    page = settled(open_nodes)
    page.click("link", "Cluster")
    page.wait_for_text("Quorum of controllers")
    assert page.evaluate("document.querySelectorAll('dialog, nodes-view').length") == 0


def test_fault_that_no_request_can_match_is_refused_in_the_form(open_nodes: OpenPage) -> None:
    page = settled(open_nodes)
    page.allow_error("400")
    page.click_css(".card summary")
    page.fill("Group", "billing")
    page.click("button", "Set fault")
    page.wait_for_text("requests of Produce name no group")


def test_kinds_of_events_are_hidden_and_shown(cluster: Cluster, open_nodes: OpenPage) -> None:
    cluster.pause(3)
    page = settled(open_nodes)
    page.wait_for_text("node 3: paused by the test")
    page.click("button", "done here")
    page.wait_for("!document.body.innerText.includes('node 3: paused by the test')")
    page.click("button", "done here")
    page.wait_for_text("node 3: paused by the test")
