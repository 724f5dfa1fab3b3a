"""The pages of groups in a real Chromium: find the group that lags, see why it does not move, move
its offsets, delete it.
"""

import json
import time
from collections.abc import Iterator

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.groups import committed
from raftka.client.blocking.share_groups import alter_share_offsets
from raftka.testing import Cluster
from tests.console.browser.conftest import PHONE, WIDE, OpenPage
from tests.kit.axe import TOO_WIDE, axe_script, check_with_axe
from tests.kit.groups import (
    LEAVE,
    ConsumerMember,
    commit,
    produce,
    share_beat,
    streams_beat,
    streams_join,
)

READY = "document.querySelector('main h1') && !document.querySelector('.waiting')"


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(addresses_of(cluster.bootstrap_servers), "shop") as client:
        yield client


@pytest.fixture
def lagging(cluster: Cluster, client: Client) -> str:
    """The name of a group without members, four records behind in a topic of its own."""
    topic = cluster.create_topic(partitions=1)
    now = round(time.time() * 1000)
    produce(client, (topic, 0), [now - 1_000 * (20 - at) for at in range(10)])
    commit(client, f"late-{topic}", {(topic, 0): 6})
    commit(client, f"done-{topic}", {(topic, 0): 10})
    return f"late-{topic}"


def topic_of(group: str) -> str:
    return group.removeprefix("late-")


def test_the_group_that_lags_is_found_and_explained(open_page: OpenPage, lagging: str) -> None:
    page = open_page("/#/groups")
    page.fill("Find a group", topic_of(lagging), role="searchbox")
    page.wait_for(
        "document.querySelectorAll('tbody tr').length === 2 && "
        f"document.querySelector('tbody tr').innerText.includes({json.dumps(lagging)})"
    )
    cells = page.texts("tbody tr:first-child td")
    assert cells[3] == "4"
    assert cells[4].endswith(" s")
    page.click("link", lagging)
    page.wait_for_text("No consumer is a member. 4 records wait.")
    assert f"raftka groups describe {lagging}" in page.text(".findings")
    assert page.texts("tbody tr td")[:2] == [f"{topic_of(lagging)}-0", "4"]


def test_groups_are_sorted_by_seconds_with_the_age_of_the_order(
    open_page: OpenPage, lagging: str
) -> None:
    page = open_page(f"/#/groups?search={topic_of(lagging)}&sort=seconds")
    page.wait_for_text("In the order of")
    first = "document.querySelector('tbody tr').innerText.includes"
    page.wait_for(f"{first}('done-') && !document.body.innerText.includes('at the end')")
    page.click("button", "Behind")
    page.wait_for(f"{first}({json.dumps(lagging)})")


def test_offsets_are_moved_with_a_preview(
    open_page: OpenPage, client: Client, lagging: str
) -> None:
    page = open_page(f"/#/groups/{lagging}")
    page.click("button", "Move offsets")
    page.evaluate(
        """(() => {
            const to = [...document.querySelectorAll("form select")].at(-1);
            to.value = "offset";
            to.dispatchEvent(new Event("change"));
        })()"""
    )
    page.fill("Offset", "2", role="spinbutton")
    page.click("button", "Preview")
    page.wait_for("document.querySelector('dialog tbody tr')")
    assert page.texts("dialog tbody td") == [f"{topic_of(lagging)}-0", "6", "2", "-4"]
    assert f"raftka groups reset-offsets {lagging} --to 2" in page.text("dialog")
    assert committed(client, lagging) == {(topic_of(lagging), 0): 6}
    page.click_css("dialog button.primary")
    page.wait_for_text("1 offset was moved")
    assert committed(client, lagging) == {(topic_of(lagging), 0): 2}
    page.wait_for("document.querySelector('tbody td.number').innerText === '8'")


def test_members_in_the_way_are_named(
    open_page: OpenPage, client: Client, cluster: Cluster
) -> None:
    topic = cluster.create_topic(partitions=2)
    member = ConsumerMember(client, f"read-{topic}", [topic], instance_id="till-7").join()
    member.commit({(topic, 0): 0})
    page = open_page(f"/#/groups/read-{topic}?tab=members")
    page.wait_for_text("till-7")
    assert f"{topic}-0, {topic}-1" in page.text("tbody")
    page.click("button", "Move offsets")
    page.click("button", "Preview")
    page.wait_for_text("stop these consumers first")
    assert page.evaluate("document.querySelector('dialog button.primary').disabled")
    page.press("Escape")
    member.leave()


def test_a_group_is_deleted_after_its_name_is_typed(
    open_page: OpenPage, client: Client, lagging: str
) -> None:
    page = open_page(f"/#/groups/{lagging}?tab=topics")
    page.wait_for_text("by no member")
    page.click("button", "Delete group")
    page.wait_for("document.querySelector('dialog button.danger').disabled")
    page.fill(f"Type {lagging} to go on", lagging)
    page.click_css("dialog button.danger:not(:disabled)")
    page.wait_for_text("was deleted")
    assert committed(client, lagging) == {}
    page.wait_for("location.hash === '#/groups'")


@pytest.fixture(scope="session")
def axe(request: pytest.FixtureRequest) -> str:
    return axe_script(fetch=request.config.getoption("--all-clients"))


@pytest.mark.parametrize(("size", "dark"), [(WIDE, False), (WIDE, True), (PHONE, False)])
def test_the_parts_of_a_group_have_no_finding(
    open_page: OpenPage,
    client: Client,
    lagging: str,
    axe: str,
    size: tuple[int, int],
    dark: bool,
) -> None:
    name = f"read-{topic_of(lagging)}"
    member = ConsumerMember(client, name, [topic_of(lagging)], instance_id="till-7").join()
    page = open_page("/#/groups", size, dark=dark)
    for path in [f"/{name}?tab={tab}" for tab in ("lag", "members", "topics", "history")]:
        page.evaluate(f"location.hash = '#/groups{path}'")
        page.wait_for(f"{READY} && document.querySelector('[role=tabpanel] table')")
        assert check_with_axe(page, axe) == []
        assert page.evaluate(TOO_WIDE) <= 0
    member.leave()
    page.evaluate(f"location.hash = '#/groups/{lagging}'")
    page.click("button", "Move offsets")
    page.wait_for("document.querySelector('form select')")
    assert check_with_axe(page, axe) == []
    page.click("button", "Preview")
    page.wait_for("document.querySelector('dialog table')")
    assert check_with_axe(page, axe) == []


def test_a_share_group_and_a_streams_group_have_pages(
    open_page: OpenPage, client: Client, lagging: str, axe: str
) -> None:
    topic = topic_of(lagging)
    share, streams = f"share-{topic}", f"streams-{topic}"
    share_beat(client, share, 0, [topic])
    share_beat(client, share, LEAVE)
    assert alter_share_offsets(client, share, {(topic, 0): 4}) == {}
    share_beat(client, share, 0, [topic])
    streams_join(client, streams, topic)
    page = open_page(f"/#/groups/{share}")
    page.wait_for_text("Done ahead")
    page.wait_for_text(f"{topic}-0")
    assert "4" in page.texts("tbody tr")[0].split()
    assert check_with_axe(page, axe) == []
    page.evaluate(f"location.hash = '#/groups/{share}?tab=members'")
    page.wait_for_text("shop")
    page.evaluate(f"location.hash = '#/groups/{streams}?tab=members'")
    page.wait_for_text("app:7070")
    page.evaluate(f"location.hash = '#/groups/{streams}?tab=topology'")
    page.wait_for_text(f"{streams}-store-changelog")
    page.wait_for("document.querySelector('[aria-label=Subtopologies] tbody tr')")
    assert check_with_axe(page, axe) == []
    assert page.evaluate(TOO_WIDE) <= 0
    share_beat(client, share, LEAVE)
    streams_beat(client, streams, LEAVE)


def test_keys_alone_lead_to_a_reset(open_page: OpenPage, client: Client, lagging: str) -> None:
    page = open_page(f"/#/groups/{lagging}")
    page.wait_for(f"{READY} && document.querySelector('tbody tr')")

    def tab_to(text: str) -> None:
        for _ in range(60):
            page.press("Tab")
            if page.focused().endswith(text):
                return
        raise AssertionError(f"{text} is not reached: {page.focused()}")

    tab_to("button Move offsets")
    page.press("Enter")
    tab_to("button Preview")
    page.press("Enter")
    page.wait_for("document.querySelector('dialog table')")
    tab_to("button Move offsets")
    page.press("Enter")
    page.wait_for_text("1 offset was moved")
    assert committed(client, lagging) == {(topic_of(lagging), 0): 0}


def test_names_that_are_markup_stay_text(
    open_page: OpenPage, client: Client, cluster: Cluster
) -> None:
    topic = cluster.create_topic(partitions=1)
    name = "<img src=x onerror=alert(1)>/a?b#c"
    commit(client, name, {(topic, 0): 0})
    page = open_page("/#/groups")
    page.fill("Find a group", "onerror", role="searchbox")
    page.click("link", name)
    page.wait_for(f"document.querySelector('h1')?.innerText === {json.dumps(name)}")
    assert page.evaluate("document.querySelector('main img')") is None
