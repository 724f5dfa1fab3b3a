"""A secured cluster in Chromium: its users log in, and see what their ACLs allow."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from raftka.console.server import ConsoleServer
from raftka.testing import Cluster
from tests.console.browser.conftest import OpenPage, page_opener
from tests.console.browser.pages import SETTLED, listed_pages
from tests.kit.axe import check_with_axe
from tests.kit.browser import Browser, Page
from tests.kit.console import console_of
from tests.kit.secured_registry import secured

__all__ = ["secured"]


@pytest.fixture(scope="module")
def guarded(secured: Cluster) -> Iterator[ConsoleServer]:
    secured.create_topic("secret")
    with console_of(secured, login="PLAIN") as console:
        yield console


@pytest.fixture
def open_page(browser: Browser, guarded: ConsoleServer) -> Iterator[OpenPage]:
    with ExitStack() as stack:
        yield page_opener(browser, guarded.url, stack)


def log_in(page: Page, user: str, password: str | None = None) -> None:
    page.fill("User", user)
    page.fill("Password", f"{user}-secret" if password is None else password)
    page.press("Enter")


def test_wrong_password_is_told_and_the_right_one_leads_on(open_page: OpenPage, axe: str) -> None:
    page = open_page("/#/topics")
    page.allow_error("status of 401")
    page.wait_for_node("textbox", "User")
    assert check_with_axe(page, axe) == []
    log_in(page, "reader", "wrong")
    page.wait_for("document.querySelector('.field-error').textContent.trim()")

    log_in(page, "reader")
    page.wait_for_node("link", "orders")
    assert "secret" not in page.texts("main tbody a")


def test_administrator_sees_every_page(open_page: OpenPage) -> None:
    page = open_page("/#/topics")
    page.allow_error("status of")  # 401 before the login; no group billing; no registry
    log_in(page, "admin")
    page.wait_for_node("link", "secret")
    for each in listed_pages():
        page.evaluate(f"location.hash = '#{each.path}'")
        page.wait_for(SETTLED)
        assert "Log in" not in page.text("h1"), each.path


def test_user_without_rights_is_told_so(open_page: OpenPage) -> None:
    page = open_page("/#/access")
    page.allow_error("status of 40[13]")
    log_in(page, "nobody")
    page.wait_for_text("You may not see this")


def test_end_of_a_session_shows_its_login_and_leaves_the_other_browser(
    open_page: OpenPage, guarded: ConsoleServer
) -> None:
    one, other = open_page("/#/topics"), open_page("/#/topics")
    for page, user in ((one, "admin"), (other, "reader")):
        page.allow_error("status of 401")
        log_in(page, user)
        page.wait_for_node("link", "orders")
    one.wait_for_node("link", "secret")
    assert "secret" not in other.texts("main tbody a")

    newest_last = list(guarded._sessions._by_token.values())
    next(each for each in reversed(newest_last) if each.user == "admin").end()
    one.wait_for_node("textbox", "User")
    assert one.texts("main tbody a") == []
    assert "orders" in other.texts("main tbody a")

    log_in(one, "nobody")
    one.wait_for("document.querySelector('main h1') && !document.querySelector('.waiting')")
    assert one.texts("main tbody a") == [], "nothing is left of the user before"
