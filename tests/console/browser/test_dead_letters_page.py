"""Dead letters and transactions in a real Chromium: find, understand, edit, send again, abort."""

from collections.abc import Iterator

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.testing import Cluster
from tests.clients.hanging import UNVERIFIED, begin, hang
from tests.console.browser.conftest import PHONE, OpenPage
from tests.kit.axe import TOO_WIDE, check_with_axe
from tests.kit.browser import Page
from tests.kit.dead_letters import ERROR, connect, spring, write_letters

BAD = "orders.dlq"
SCRIPT = "<img src=x onerror='window.hit = 1'>"
ROWS = "data-table[label='Letters, the newest first'] tbody tr"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1, properties=UNVERIFIED) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(addresses_of(cluster.bootstrap_servers), "test", 10.0) as client:
        yield client
    cluster.clean()


@pytest.fixture
def letters(cluster: Cluster, client: Client) -> None:
    cluster.create_topic("orders", partitions=2)
    cluster.create_topic(BAD)
    other = connect("orders", 1, 6, error="java.io.IOException", message=SCRIPT)
    write_letters(
        client,
        BAD,
        [
            (b"k0", b'{"amount": "twelve"}', connect("orders", 0, 4)),
            (b"k1", SCRIPT.encode(), other),
            (b"k2", b"\xff\xfe", spring("gone", 0, 7)),
        ],
    )


def values(cluster: Cluster) -> list[bytes | None]:
    return [each.value for each in cluster.records("orders")]


def send_all(page: Page) -> None:
    page.wait_for("document.querySelector('.head button.primary')?.disabled === false")
    page.click("button", "Send all again")


def test_the_failed_record_is_found_in_three_clicks_and_sent_again(
    cluster: Cluster, letters: None, open_page: OpenPage
) -> None:
    page = open_page("/#/")
    page.click("link", "Dead letters")
    page.click("link", BAD)
    page.wait_for(f'document.querySelectorAll("{ROWS}").length === 3')
    page.click("link", ERROR)
    page.wait_for_node("button", f"Leave the filter {ERROR}")
    page.click("button", "0@0")
    page.wait_for_text("no price for item 4711")
    page.click("button", "Send again")
    page.wait_for_text("raftka.redriven.from: orders.dlq-0@0")
    page.wait_for_text("raftka dead-letters redrive orders.dlq --letter 0@0")
    page.click("button", "Send 1 letter")
    assert cluster.wait_for(lambda: values(cluster)) == [b'{"amount": "twelve"}']
    page.wait_for_text("1 letter sent to orders (1)")
    page.wait_for("document.querySelector('.badge.good')?.innerText === 'done'")


def test_a_record_is_edited_before_it_is_sent(
    cluster: Cluster, letters: None, open_page: OpenPage
) -> None:
    page = open_page(f"/#/dead-letters/{BAD}")
    page.click("button", "0@0")
    page.click("button", "Edit")
    page.fill("Value", '{"amount": 12}')
    page.click("button", "Send the edited record")
    page.wait_for_text('{"amount": 12}')
    page.click("button", "Send 1 letter")
    (found,) = cluster.wait_for(lambda: cluster.records("orders"))
    assert (found.key, found.value) == (b"k0", b'{"amount": 12}')


def test_all_are_sent_once_and_what_cannot_be_sent_is_named(
    cluster: Cluster, letters: None, open_page: OpenPage
) -> None:
    page = open_page(f"/#/dead-letters/{BAD}")
    send_all(page)
    page.wait_for_text("not sent: gone: UNKNOWN_TOPIC_OR_PARTITION")
    page.click("button", "Send 2 letters")
    page.wait_for_text("2 letters sent to orders (2)")
    send_all(page)
    page.wait_for_text("not sent: it was sent before")
    assert page.wait_for_node("button", "Send").properties["disabled"]
    page.fill("To topic", "payments")
    page.wait_for_text("not sent: payments: UNKNOWN_TOPIC_OR_PARTITION")
    page.press("Escape")
    page.wait_for("!document.querySelector('redrive-dialog')")
    assert len(values(cluster)) == 2


def test_letters_that_hold_a_script_are_text(letters: None, open_page: OpenPage) -> None:
    page = open_page(f"/#/dead-letters/{BAD}?kind=java.io.IOException")
    page.click("button", "0@1")
    page.wait_for_text("IOException")
    page.wait_for_node("button", "Edit")
    assert SCRIPT in page.text("letter-detail")
    page.click("button", "Send again")
    page.wait_for_node("button", "Send 1 letter")
    assert page.evaluate("window.hit === undefined")


@pytest.mark.parametrize("size", [(1280, 860), PHONE], ids=["wide", "phone"])
def test_a_letter_and_its_redrive_have_no_finding(
    letters: None, open_page: OpenPage, axe: str, size: tuple[int, int]
) -> None:
    page = open_page(f"/#/dead-letters/{BAD}", size, dark=True)
    page.click("button", "0@0")
    page.wait_for_node("button", "Edit")
    assert check_with_axe(page, axe) == []
    assert page.evaluate(TOO_WIDE) == 0
    page.click("button", "Edit")
    page.wait_for_node("textbox", "Value")
    page.click("button", "Send the edited record")
    page.wait_for_node("button", "Send 1 letter")
    assert check_with_axe(page, axe) == []


def test_topics_are_found_by_their_headers(
    cluster: Cluster, client: Client, letters: None, open_page: OpenPage
) -> None:
    cluster.create_topic("trash")
    write_letters(client, "trash", [(None, b"v", connect("orders"))])
    page = open_page("/#/dead-letters")
    page.click("button", "Look into other topics")
    page.wait_for_text("headers of Kafka Connect")
    page.click("link", "trash")
    page.wait_for_text("no price for item 4711")


def test_a_hanging_transaction_is_seen_and_aborted(
    cluster: Cluster, client: Client, open_page: OpenPage, axe: str
) -> None:
    cluster.create_topic("payments", partitions=2)
    producer, _ = hang(client, "payments", 1, age_ms=3_600_000)
    known = begin(client, "pay-1")
    known.add("payments", 0)
    known.send("payments", 0)
    page = open_page("/#/transactions")
    page.wait_for_text("1 hanging transaction")
    page.wait_for_text("pay-1")
    assert check_with_axe(page, axe) == []
    page.click("button", "Abort the hanging transaction of payments-1")
    page.wait_for_text("raftka transactions abort --topic payments --partition 1 --start-offset 0")
    page.wait_for_text(f"Producer {producer.producer_id}")
    page.click("button", "Abort the transaction")
    page.wait_for("!document.body.innerText.includes('hanging')")
    page.click("button", "Abort pay-1")
    page.wait_for_text("raftka transactions fence pay-1")
    page.click("button", "Abort the transaction")
    page.wait_for_text("No partition is held back.")
    page.wait_for_text("No transaction is open")
