"""SQL in a real Chromium: write, complete, run, stop, the caret of an error, and queries."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from raftka.console.server import ConsoleServer
from raftka.console.settings import ConsoleSettings
from raftka.console.sql.target import SqlTarget
from raftka.sql.server.folder import Address
from raftka.sql.server.server import Door, SqlServer
from tests.console.browser.conftest import PHONE, OpenPage, page_opener
from tests.kit.axe import TOO_WIDE, check_with_axe
from tests.kit.browser import Browser
from tests.kit.sql_server import TOKEN, FakeSession, wait_for

ROWS = "document.querySelectorAll('.sql-answer tbody tr').length"


@pytest.fixture
def fake() -> FakeSession:
    found = FakeSession()
    found.queries = {"csas_fast": "running", "csas_late": "paused"}
    return found


@pytest.fixture
def target(fake: FakeSession) -> Iterator[SqlTarget]:
    with SqlServer(lambda: fake, Door(TOKEN)) as server:
        yield SqlTarget(address=Address(server.url, TOKEN, 0))
        fake.hanging.set()


@pytest.fixture
def open_page(browser: Browser, target: SqlTarget) -> Iterator[OpenPage]:
    settings = ConsoleSettings([("127.0.0.1", 1)], port=0, sql=target)
    with ConsoleServer(settings) as console, ExitStack() as stack:
        yield page_opener(browser, console.url, stack)


def test_a_statement_is_completed_and_run_by_keys(open_page: OpenPage) -> None:
    page = open_page("/#/")
    page.allow_error("status of")  # no broker is there
    page.click("link", "SQL")
    page.wait_for_text("Spark runs")
    page.fill("Statements", "rows 2; sel")
    page.wait_for_node("option", "SELECT")
    page.press("Tab")
    assert page.evaluate("document.querySelector('#sql-text').value") == "rows 2; SELECT"
    page.press("Control+Enter")
    page.wait_for_text("2 rows (")
    page.wait_for_text("truck-7")
    assert page.evaluate(ROWS) == 3
    page.wait_for("document.activeElement?.id === 'sql-text'")


def test_the_caret_of_an_error_stands_below_the_place(open_page: OpenPage) -> None:
    page = open_page("/#/sql")
    page.fill("Statements", "bad;")
    page.click("button", "Run")
    page.wait_for_text("there is no such thing")
    assert page.evaluate("document.querySelector('.sql-place').textContent") == "bad\n^"


def test_live_rows_are_the_newest_and_end_with_the_page(
    open_page: OpenPage, fake: FakeSession
) -> None:
    page = open_page("/#/sql")
    page.fill("Statements", "ticks")
    page.click("button", "Run")
    page.wait_for_text("the last 200 of")
    assert page.evaluate(ROWS) == 200
    page.click("button", "Stop")
    page.wait_for_text("Stopped")
    wait_for(lambda: fake.closed.count("ticks") == 1)
    page.click("button", "Run")
    page.wait_for(f"{ROWS} > 5")
    page.evaluate("location.hash = '#/topics'")
    wait_for(lambda: fake.closed.count("ticks") == 2)
    page.allow_error("status of")


def test_earlier_statements_are_there_after_a_reload(open_page: OpenPage) -> None:
    page = open_page("/#/sql")
    for text in ("rows 1", "rows 3"):
        page.fill("Statements", text)
        page.click("button", "Run")
        page.wait_for_text(f"{text[-1]} row")
        page.wait_for("document.querySelector('.sql-form .primary').disabled === false")
    page.reload()
    page.wait_for("document.querySelectorAll('.sql-history li').length === 2")
    page.evaluate("document.querySelector('.sql-history').open = true")
    page.click("button", "rows 1")
    assert page.evaluate("document.querySelector('#sql-text').value") == "rows 1"
    page.click("button", "Forget them")
    page.wait_for("!document.querySelector('.sql-history')")


def test_a_query_is_paused_and_terminated(open_page: OpenPage, fake: FakeSession) -> None:
    page = open_page("/#/sql")
    page.click("button", "Pause csas_fast")
    page.wait_for_text("raftka sql -e 'PAUSE csas_fast'")
    page.click("button", "Pause the query")
    page.click("button", "Resume csas_fast")
    page.press("Escape")
    page.click("button", "Terminate csas_late")
    page.wait_for_text("Its rows stay in the topic")
    page.click("button", "Terminate the query")
    page.wait_for("!document.body.innerText.includes('csas_late')")
    assert fake.queries == {"csas_fast": "paused"}


def test_a_read_only_console_has_no_button(browser: Browser, target: SqlTarget) -> None:
    settings = ConsoleSettings([("127.0.0.1", 1)], port=0, sql=target, read_only=True)
    with ConsoleServer(settings) as console, ExitStack() as stack:
        page = page_opener(browser, console.url, stack)("/#/sql")
        page.wait_for_text("csas_fast")
        page.wait_for_text("it runs no statements")
        assert page.evaluate("document.querySelectorAll('main button').length") == 0


@pytest.mark.parametrize("size", [(1280, 860), PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_has_no_finding(
    open_page: OpenPage, axe: str, size: tuple[int, int], *, dark: bool
) -> None:
    page = open_page("/#/sql", size, dark=dark)
    page.fill("Statements", "rows 3; bad")
    page.click("button", "Run")
    page.wait_for_text("there is no such thing")
    page.wait_for_text("csas_late")
    page.fill("Statements", "sel")
    page.wait_for_node("option", "SELECT")
    assert check_with_axe(page, axe) == []
    assert page.evaluate(TOO_WIDE) == 0
