"""The records of a topic in a browser: look, open, search, go on, write, import, copy."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.producer import Producer
from raftka.console.server import ConsoleServer
from raftka.testing import Cluster
from tests.console.browser.conftest import PHONE, OpenPage, page_opener
from tests.kit.axe import TOO_WIDE, axe_script, check_with_axe
from tests.kit.browser import Browser, Page
from tests.kit.console import console_of

TOPIC = "orders"
SCRIPT = "<img src=x onerror=window.stolen=1>"
NOON_MS = int(time.time() * 1000) - 600_000  # young records: retention leaves them alone
ROWS = "[...document.querySelectorAll('records-panel .open-record')]"


@pytest.fixture(scope="module")
def filled(cluster: Cluster) -> Cluster:
    with Client(addresses_of(cluster.bootstrap_servers), "test") as client:
        producer = Producer(client)
        for number in range(300):
            value = json.dumps({"order": number, "city": f"City {number % 3}"})
            headers = [("trace", b"%d" % number)]
            record = (b"key-%d" % number, value.encode(), headers, NOON_MS + number)
            producer.add((TOPIC, number % 3), record)
        producer.add((TOPIC, 0), (SCRIPT.encode(), SCRIPT.encode(), [], NOON_MS + 10_000))
        producer.flush()
    return cluster


def wait_for_rows(page: Page, count: int) -> None:
    page.wait_for(f"{ROWS}.length === {count}")


def open_record(page: Page, text: str) -> None:
    """Click on the row with a text."""
    page.evaluate(
        f"{ROWS}.find((each) => each.closest('tr').innerText.includes({json.dumps(text)})).click()"
    )
    page.wait_for("document.querySelector('record-detail .record')")


def test_newest_records_come_first_and_older_ones_by_a_click(
    filled: Cluster, open_page: OpenPage
) -> None:
    page = open_page(f"/#/topics/{TOPIC}?tab=records")
    wait_for_rows(page, 50)
    assert "onerror" in page.texts("records-panel tbody tr")[0]
    assert page.evaluate("window.stolen") is None
    page.click("button", "Older")
    page.wait_for_text("key-250")
    page.click("button", "Newest")
    page.wait_for("document.querySelector('records-panel tbody tr').innerText.includes('onerror')")


def test_a_record_is_opened_with_its_fields_and_headers(
    filled: Cluster, open_page: OpenPage
) -> None:
    page = open_page(f"/#/topics/{TOPIC}?tab=records&partition=2&at=offset:0")
    wait_for_rows(page, 50)
    open_record(page, "key-5")
    page.wait_for_text('"City 2"')
    detail = page.text("record-detail")
    assert all(each in detail for each in ("partition 2, offset 1,", "JSON", "trace"))
    assert f"raftka consume {TOPIC} -p 2 --from 1 -n 1 -o json" in detail
    page.evaluate(
        """(() => {
            const choice = document.querySelector("[aria-label='Value as']");
            choice.value = "hex";
            choice.dispatchEvent(new Event("change"));
        })()"""
    )
    page.wait_for_text(b'{"order": 5'.hex())
    # the address leads to the opened record
    again = open_page("/" + page.evaluate("location.hash"))
    again.wait_for_text(b'{"order": 5'.hex())


def test_numbers_of_an_open_record_are_shown_as_they_are_written(
    cluster: Cluster, open_page: OpenPage
) -> None:
    topic = cluster.create_topic(partitions=1)
    numbers = ("9007199254740993", "1.10", "1e400", "123456789012345678901234567890", "-0.0")
    with Client(addresses_of(cluster.bootstrap_servers), "test") as client:
        producer = Producer(client)
        value = f"[{', '.join(numbers)}, 7]".encode()
        producer.add((topic, 0), (b"numbers", value, [], NOON_MS))
        producer.flush()
    page = open_page(f"/#/topics/{topic}?tab=records")
    wait_for_rows(page, 1)
    open_record(page, "numbers")
    page.wait_for("document.querySelector('record-detail .json-number')")
    assert page.texts("record-detail .json-number") == [*numbers, "7"]


def test_a_search_shows_hits_and_goes_on(filled: Cluster, open_page: OpenPage) -> None:
    page = open_page(f"/#/topics/{TOPIC}?tab=records")
    page.fill("Find in records", "city", role="searchbox")
    page.click("button", "More")
    page.fill("JSON path", "$.order < 250")
    page.click("button", "Search")
    page.wait_for_text("100 records found")
    assert page.texts("records-panel mark")[0] == "city"
    page.click("button", "Go on")
    page.wait_for_text("200 records found")
    page.click("button", "Go on")
    page.wait_for_text("250 records found")
    page.wait_for_text("searched to the end")
    wait_for_rows(page, 250)
    page.click("button", "Clear")
    wait_for_rows(page, 50)


def test_a_search_by_path_and_header(filled: Cluster, open_page: OpenPage) -> None:
    page = open_page(f"/#/topics/{TOPIC}?tab=records")
    wait_for_rows(page, 50)  # from now on nothing moves
    page.click("button", "More")
    page.fill("JSON path", "$.order >= 100")
    page.fill("Headers", "trace=101")
    page.click("button", "Search")
    page.wait_for_text("1 record found")
    assert "key-101" in page.text("records-panel")


def test_an_expression_that_is_none_is_told(filled: Cluster, open_page: OpenPage) -> None:
    page = open_page(f"/#/topics/{TOPIC}?tab=records&text=(&regex=1")
    page.allow_error("status of 400")
    page.wait_for_text("no regular expression")


def test_a_record_is_written_after_a_preview(filled: Cluster, open_page: OpenPage) -> None:
    name = filled.create_topic(partitions=2)
    page = open_page(f"/#/topics/{name}?tab=records")
    page.wait_for_text("This topic has no records")
    page.click("button", "New record")
    page.fill("Key", "k")
    page.fill("Value", "it's new")
    page.fill("Headers, a line each: name=value", "a=1")
    page.fill("Partition", "1", role="spinbutton")
    page.click("button", "Preview")
    page.wait_for_text(f"raftka produce {name} -i json")
    page.click("button", "Write")
    page.wait_for_text("Written to partition 1 at offset 0")
    page.wait_for_text("it's new")

    open_record(page, "it's new")
    page.click("button", "Send again")
    page.wait_for_text("are written to")
    page.click("button", "Send again")
    page.wait_for_text(f"Written to {name}, partition 1, offset 1")


def test_lines_are_imported_after_a_preview(filled: Cluster, open_page: OpenPage) -> None:
    name = filled.create_topic(partitions=1)
    page = open_page(f"/#/topics/{name}?tab=records")
    page.click("button", "Import")
    page.fill("or lines", '{"value": "one"}\n{"value": 5, "no": 1}\n')
    page.click("button", "Preview")
    page.wait_for_text("Line 2")
    page.click("button", "Cancel")
    page.wait_for("!document.querySelector('dialog[open]')")
    page.click("button", "Import")
    page.fill("or lines", '{"value": "one"}\n{"value": "two"}\n')
    page.click("button", "Preview")
    page.wait_for_text("2 records with 6 B")
    page.evaluate("document.querySelector('confirm-dialog button.primary').click()")
    page.wait_for_text(f"2 records written to {name}")
    wait_for_rows(page, 2)


@pytest.fixture(scope="session")
def axe(request: pytest.FixtureRequest) -> str:
    return axe_script(fetch=request.config.getoption("--all-clients"))


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_an_open_record_and_a_search_have_no_finding(
    filled: Cluster, open_page: OpenPage, axe: str, look: str
) -> None:
    size = {"size": PHONE} if look == "phone" else {}
    for query in ("partition=2&at=offset:0&open=2-1", "text=City&partition=0&open=0-0"):
        page = open_page(f"/#/topics/{TOPIC}?tab=records&{query}", dark=look == "dark", **size)
        page.wait_for("document.querySelector('record-detail .json')")
        assert check_with_axe(page, axe) == []
        assert page.evaluate(TOO_WIDE) == 0


@pytest.fixture
def read_only(browser: Browser, filled: Cluster) -> Iterator[OpenPage]:
    with (
        console_of(filled, read_only=True, masked=("city",)) as console,
        ExitStack() as stack,
    ):
        assert isinstance(console, ConsoleServer)
        yield page_opener(browser, console.url, stack)


def test_a_read_only_console_with_masks(read_only: OpenPage) -> None:
    page = read_only(f"/#/topics/{TOPIC}?tab=records&partition=1")
    wait_for_rows(page, 50)
    assert "City" not in page.text("records-panel")
    assert page.nodes("button", "New record") == []
    assert page.nodes("button", "Import") == []
