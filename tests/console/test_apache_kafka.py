"""The console in front of Apache Kafka: a broker of its own, everything that the pages ask."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from bench.systems import KAFKA_JARS, Kafka
from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import name_of
from raftka.console.server import ConsoleServer
from raftka.console.settings import ConsoleSettings
from tests.console.browser.conftest import browser, page_opener
from tests.console.browser.pages import PAGES, listed_pages
from tests.kit.browser import Browser
from tests.kit.console import Api
from tests.kit.groups import commit, produce

__all__ = ["browser"]
SETTLED = "document.querySelector('main h1, main .problem') && !document.querySelector('.waiting')"


@pytest.fixture(scope="module")
def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    if shutil.which("java") is None:
        pytest.skip("there is no java")
    if not KAFKA_JARS.is_dir() and not request.config.getoption("--all-clients"):
        pytest.skip(f"{KAFKA_JARS} is not there; ./run test --all-clients fetches it")
    kafka = Kafka(1)
    try:
        kafka.start()
        kafka.wait_ready()
        kafka.create_topic("orders", 3)
        with Client(kafka.addresses, "shop") as client:
            produce(client, ("orders", 0), [1_790_000_000_000 + at for at in range(10)])
            commit(client, "billing", {("orders", 0): 4})
        yield kafka
    finally:
        kafka.stop()


@pytest.fixture(scope="module")
def console(kafka: Kafka) -> Iterator[ConsoleServer]:
    failures: list[str] = []
    settings = ConsoleSettings(bootstrap=tuple(kafka.addresses), port=0)
    with ConsoleServer(settings, report=lambda *each: failures.append(": ".join(each))) as console:
        yield console
    assert failures == []


@pytest.fixture(scope="module")
def api(console: ConsoleServer) -> Api:
    return Api(console.url)


def test_cluster_has_its_broker_and_nothing_wrong(api: Api, kafka: Kafka) -> None:
    found = api.get("/api/cluster")

    assert [each["id"] for each in found["brokers"]] == [1]
    assert found["missing"] == {}, name_of(kafka.addresses[0])


def test_topic_has_its_records_groups_and_settings(api: Api) -> None:
    assert api.get("/api/topics/orders")["name"] == "orders"
    assert len(api.get("/api/topics/orders/partitions")["partitions"]) == 3
    records = api.get("/api/topics/orders/records")["records"]
    assert [record["offset"] for record in records] == list(range(9, -1, -1))
    changed = api.post(
        "/api/topics/orders/settings", changes={"retention.ms": "1234567"}, validate_only=False
    )
    assert changed
    settings = api.get("/api/topics/orders/settings", differs="true")["settings"]
    assert {each["name"]: each["value"] for each in settings}["retention.ms"] == "1234567"


def test_search_reads_to_the_end(api: Api) -> None:
    with api.stream("/api/topics/orders/search", {"text": "nowhere"}, "POST", {}) as events:
        last = list(events)[-1]

    assert (last.name, last.json["why"]) == ("done", "end")


def test_group_has_its_lag_and_is_reset(api: Api) -> None:
    assert api.get("/api/groups/billing")["lag"] == 6
    moved = api.post("/api/groups/billing/reset/preview", to="earliest")["moves"]
    assert [(each["before"], each["after"]) for each in moved] == [(4, 0), (None, 0), (None, 0)]


@pytest.mark.parametrize(
    "path",
    [
        "/api/topics",
        "/api/groups",
        "/api/dead-letters",
        "/api/transactions",
        "/api/transactions/held",
        "/api/access/quotas",
        "/api/access/users",
        "/api/brokers/1/settings",
        "/api/brokers/all/settings",
    ],
)
def test_list_is_answered(api: Api, path: str) -> None:
    assert api.get(path)


def test_a_cluster_without_an_authorizer_says_so(api: Api) -> None:
    assert not api.get("/api/access/acls")["has_authorizer"]


@pytest.mark.parametrize("path", [each.path for each in listed_pages()])
def test_page_opens(path: str, browser: Browser, console: ConsoleServer) -> None:
    modules = {each.path: each.module for each in listed_pages()}
    assert (PAGES / modules[path]).is_file()
    with ExitStack() as stack:
        page = page_opener(browser, console.url, stack)(f"/#{path}")
        if path.startswith(("/schemas", "/nodes")):
            page.allow_error("status of")  # there is no registry, and no launcher
        page.wait_for(SETTLED)
