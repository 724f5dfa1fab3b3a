"""The pages of schemas: a subject is made, a version is tried, refused, registered and compared."""

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from raftka.json_values import Json
from raftka.testing import Cluster
from tests.console.browser.conftest import PHONE, WIDE, OpenPage, page_opener
from tests.kit.axe import TOO_WIDE, check_with_axe
from tests.kit.browser import Browser
from tests.kit.console import Api, console_of


@pytest.fixture
def url(cluster: Cluster) -> Iterator[str]:
    with (
        cluster.registry() as registry,
        console_of(cluster, registry=registry.url) as console,
    ):
        yield console.url


@pytest.fixture
def open_schemas(browser: Browser, url: str) -> Iterator[OpenPage]:
    with ExitStack() as stack:
        yield page_opener(browser, url, stack)


def order(*fields: Json) -> str:
    every = [{"name": "id", "type": "long"}, *fields]
    return json.dumps({"type": "record", "name": "Order", "fields": every})


NOTE = {"name": "note", "type": ["null", "string"], "default": None}
TOTAL = {"name": "total", "type": "double"}


def test_schema_is_tried_registered_and_compared(
    open_schemas: OpenPage, url: str, axe: str
) -> None:
    page = open_schemas("/#/schemas")
    page.wait_for_text("No schema is registered yet")
    page.click("button", "New subject")
    page.fill("Subject", "orders-value")
    page.fill("Schema", order())
    page.click("button", "Try it")
    page.wait_for_text("The subject is new")
    page.click("button", "Register")
    page.wait_for_text("/subjects/orders-value/versions")
    assert Api(url).get("/api/schemas")["total"] == 0, "nothing happens before the user agrees"
    page.click_css("dialog button.primary")
    page.wait_for_text("of the registry")
    assert page.evaluate("location.hash") == "#/schemas/orders-value"

    page.click("button", "New version")
    page.fill("Schema", order(TOTAL))
    page.click("button", "Try it")
    page.wait_for_text("It does not go with the level BACKWARD")
    assert page.nodes("button", "Register") == []
    page.fill("Schema", order(NOTE))
    page.click("button", "Try it")
    page.wait_for_text("It goes with the level BACKWARD")
    page.click("button", "Register")
    page.click_css("dialog button.primary")
    page.wait_for_text("Version 2")

    page.evaluate("location.hash = '#/schemas/orders-value?old=1'")
    page.wait_for("document.querySelector('.schema ins')?.innerText.startsWith('+ ')")
    assert '"name": "note"' in " ".join(page.texts(".schema ins"))
    found = {}
    for name, size in (("wide", WIDE), ("phone", PHONE)):
        page.resize(*size)
        found[name] = (check_with_axe(page, axe), page.evaluate(TOO_WIDE))
    assert found == dict.fromkeys(found, ([], 0))
