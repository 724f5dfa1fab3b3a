"""The pages of topics as a user works with them: find, order, create, change a setting, grow,
delete.
"""

import re

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.producer import Producer
from raftka.testing import Cluster
from tests.console.browser.conftest import OpenPage
from tests.kit.browser import Page

LINKS = "data-table .row-link"


def fill(cluster: Cluster, topic: str, count: int) -> None:
    with Client(addresses_of(cluster.bootstrap_servers), "test") as client:
        producer = Producer(client)
        for number in range(count):
            producer.add((topic, 0), (None, b"%d" % number, (), 0))
        producer.flush()


def wait_for_rows(page: Page, *names: str) -> None:
    page.wait_for(
        f"[...document.querySelectorAll('{LINKS}')].map((each) => each.innerText.trim()).join()"
        f" === '{','.join(names)}'"
    )


def test_topics_are_found_while_the_user_types(open_page: OpenPage) -> None:
    page = open_page("/#/topics")
    page.wait_for_text("payments")
    page.fill("Find a topic", "orders", role="searchbox")

    wait_for_rows(page, "orders", "orders.dead-letters")
    assert page.evaluate("location.hash") == "#/topics?search=orders"


def test_topics_are_ordered_by_a_click(cluster: Cluster, open_page: OpenPage) -> None:
    page = open_page("/#/topics")
    page.click("button", "Partitions")
    wait_for_rows(page, "payments", "orders", "orders.dead-letters")
    page.click("button", "Partitions")
    wait_for_rows(page, "orders.dead-letters", "orders", "payments")


def test_a_topic_is_created_changed_grown_and_deleted(
    cluster: Cluster, open_page: OpenPage
) -> None:
    page = open_page("/#/topics")
    page.click("button", "Create topic")
    page.fill("Name", "created-here")
    page.fill("Partitions", "2", role="spinbutton")
    page.fill("Settings, one NAME=VALUE a line", "retention.ms=77000")
    page.click("button", "Preview")
    page.wait_for_text("2 partitions, each with 3 replicas")
    page.wait_for_text(
        "raftka topics create created-here --partitions 2 --config retention.ms=77000"
    )
    page.click("button", "Create topic")
    page.wait_for("location.hash === '#/topics/created-here?tab=partitions'")

    page.click("tab", re.compile("Settings"))
    page.click("button", "retention.ms")
    page.fill("New value", "88000")
    page.click("button", "Preview")
    page.wait_for_text("becomes")
    page.wait_for_text("raftka configs alter topic created-here --config retention.ms=88000")
    page.click("button", "Change")
    page.wait_for_text("retention.ms was changed")
    page.wait_for("document.querySelector('settings-panel').innerText.includes('88000')")

    page.click("button", "Add partitions")
    page.fill("Partitions, those that there are included", "5", role="spinbutton")
    page.click("button", "Preview")
    page.wait_for_text("2 partitions become 5")
    page.click("button", "Add partitions")
    page.wait_for_text("created-here has 5 partitions")
    cluster.wait_for(lambda: cluster.leader("created-here", 4) > 0)

    page.click("button", "Delete")
    page.wait_for_text("will be gone")
    assert page.nodes("button", "Delete topic")[0].properties.get("disabled")
    page.fill("Type created-here to go on", "created-here")
    page.click("button", "Delete topic")
    page.wait_for("location.hash === '#/topics'")
    wait_for_rows(page, "orders", "orders.dead-letters", "payments")


def test_a_refusal_stays_in_the_dialog(open_page: OpenPage) -> None:
    page = open_page("/#/topics/payments?tab=settings")
    page.allow_error("status of 400")
    page.click("checkbox", "Only those that differ from the default")
    page.click("button", "retention.ms")
    page.fill("New value", "soon")
    page.click("button", "Preview")

    page.wait_for("document.querySelector('dialog .problem')?.innerText.includes('retention.ms')")
    assert page.nodes("button", "Change")[0].properties.get("disabled")


def test_partitions_show_leaders_and_replicas(cluster: Cluster, open_page: OpenPage) -> None:
    fill(cluster, "payments", 20)
    page = open_page("/#/topics/payments?tab=partitions")
    page.wait_for_text("First offset")
    page.wait_for("[...document.querySelectorAll('tbody tr')].length === 6")
    page.wait_for("document.querySelector('tbody tr').innerText.split(/\\s+/).includes('20')")
    first = page.texts("tbody tr")[0].split()

    assert first[:2] == ["0", str(cluster.leader("payments", 0))]


def test_settings_of_a_broker_have_a_page(open_page: OpenPage) -> None:
    page = open_page("/#/brokers/1/settings")
    page.click("checkbox", "Only those that differ from the default")
    page.fill("Find a setting", "log retention hours", role="searchbox")
    page.wait_for_text("log.retention.hours")
    page.wait_for_text("168")


def test_a_name_that_is_markup_is_text(open_page: OpenPage) -> None:
    page = open_page("/#/topics/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E?tab=partitions")
    page.allow_error("status of (404|400)")
    page.wait_for_text("<img src=x onerror=alert(1)>")

    assert page.evaluate("document.querySelectorAll('main img').length") == 0
