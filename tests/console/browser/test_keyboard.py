"""The console without a mouse: focus goes where a user expects it, and can be seen."""

from tests.console.browser.conftest import PHONE, OpenPage
from tests.kit.browser import Page

READY = "document.querySelector('data-table tbody tr')"
OUTLINE = "getComputedStyle(document.activeElement).outlineStyle"


def walk(page: Page, most: int = 80) -> list[str]:
    """Press Tab until the focus has been everywhere; return what had it, without visible focus
    marked by "!".
    """
    seen: list[str] = []
    for _ in range(most):
        page.press("Tab")
        name = page.focused()
        if name.startswith("body") or (seen and name == seen[0]):
            break
        seen.append(name if page.evaluate(OUTLINE) != "none" else f"! {name}")
    return seen


def test_tab_reaches_every_control_and_each_shows_its_focus(open_page: OpenPage) -> None:
    page = open_page("/#/")
    page.wait_for(READY)
    seen = walk(page)
    assert seen[0] == "a Skip to the page"
    wanted = {"a Cluster", "a Topics", "a Groups", "button Leaders", "button Dark"}
    assert wanted <= {each.replace("button Light", "button Dark") for each in seen}
    assert [each for each in seen if each.startswith("!")] == []


def test_the_first_link_skips_the_navigation(open_page: OpenPage) -> None:
    page = open_page("/#/")
    page.wait_for(READY)
    page.press("Tab", "Enter")
    assert page.evaluate("document.activeElement.localName") == "main"
    assert page.evaluate("location.hash") == "#/"


def test_the_menu_of_a_phone_opens_and_closes_by_keys(open_page: OpenPage) -> None:
    page = open_page("/#/", PHONE)
    page.wait_for(READY)
    is_open = "document.querySelector('nav').checkVisibility()"
    assert not page.evaluate(is_open)
    page.press("Tab", "Tab", "Enter")
    page.wait_for(is_open)
    assert page.nodes("button", "Menu")[0].properties["expanded"]
    page.press("Tab", "Tab", "Tab")
    page.press("Escape")
    page.wait_for(f"!({is_open})")


def test_a_column_is_sorted_by_its_title(open_page: OpenPage) -> None:
    page = open_page("/#/")
    page.wait_for(READY)
    ids = "data-table[aria-label=Brokers] td:first-child, section .table-scroll td:first-child b"
    page.evaluate("[...document.querySelectorAll('button.sort')][0].focus()")
    page.press("Enter")
    page.wait_for("document.querySelector('th[aria-sort=descending]')")
    assert page.texts(ids)[:3] == ["3", "2", "1"]
    page.press("Enter")
    page.wait_for("document.querySelector('th[aria-sort=ascending]')")
    assert page.texts(ids)[:3] == ["1", "2", "3"]


DIALOG = """import("/elements/confirm_dialog.js").then(({ confirmChange }) => {
    window.answer = "none yet";
    document.querySelector("nav a").focus();
    confirmChange({
        title: "Delete topic orders?", preview: "3 partitions", action: "Delete topic",
        command: "raftka topics delete orders", danger: true, typed: "orders",
        run: async () => { window.runs = (window.runs ?? 0) + 1; return "done"; },
    }).then((answer) => { window.answer = answer; });
})"""


def test_a_dialog_keeps_the_focus_until_it_is_answered(open_page: OpenPage) -> None:
    page = open_page("/#/")
    page.wait_for(READY)
    page.evaluate(DIALOG)
    page.wait_for_node("dialog", "Delete topic orders?")
    inside = "document.querySelector('dialog').contains(document.activeElement)"
    for _ in range(8):
        page.press("Tab")
        assert page.evaluate(f"{inside} || document.activeElement === document.body")
    page.press("Escape")
    page.wait_for("window.answer === null")
    assert page.evaluate("window.runs ?? 0") == 0
    assert page.evaluate("document.activeElement.closest('nav') !== null")


def test_a_dangerous_change_runs_only_after_its_name_is_typed(open_page: OpenPage) -> None:
    page = open_page("/#/")
    page.wait_for(READY)
    page.evaluate(DIALOG)
    button = page.wait_for_node("button", "Delete topic")
    assert button.properties.get("disabled")
    page.fill("Type orders to go on", "orders")
    page.wait_for("!document.querySelector('dialog button.danger').disabled")
    page.press("Enter")
    page.wait_for("window.answer === 'done'")
    assert page.evaluate("window.runs") == 1
    assert page.evaluate("document.querySelector('dialog')") is None
