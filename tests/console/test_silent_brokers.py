"""Pages while a broker is paused, as SIGSTOP does: they show what the living answer, name the
silent one, and are whole again when it comes back.
"""

import time
from collections.abc import Iterator

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.json_values import Json
from raftka.testing import Cluster
from tests.kit.console import Api, console_of
from tests.kit.groups import commit, produce

PARTITIONS, NODES, PAUSED = 6, 3, 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Each node leads two partitions of `orders` without other replicas: none moves away."""
    # the paused node stays in the cluster
    with Cluster(NODES, properties={"broker.session.timeout.ms": "600000"}) as cluster:
        cluster.create_topic("orders", partitions=PARTITIONS, replication_factor=1)
        with Client(addresses_of(cluster.bootstrap_servers), "shop") as client:
            for partition in range(PARTITIONS):
                produce(client, ("orders", partition), [round(time.time() * 1000)] * 5)
            commit(client, "billing", {("orders", each): 2 for each in range(PARTITIONS)})
        yield cluster


@pytest.fixture
def api(cluster: Cluster) -> Iterator[Api]:
    with console_of(cluster) as console:
        yield Api(console.url)


@pytest.fixture
def paused(cluster: Cluster, api: Api) -> Iterator[Cluster]:
    """The cluster with a node that is paused after the pages have seen it."""
    api.get("/api/topics/orders/records")
    cluster.pause(PAUSED)
    yield cluster
    cluster.resume(PAUSED)


def led_by(cluster: Cluster, node: int) -> set[int]:
    return {each for each in range(PARTITIONS) if cluster.leader("orders", each) == node}


def test_records_of_living_leaders_are_shown_and_the_others_named(
    paused: Cluster, api: Api
) -> None:
    away = led_by(paused, PAUSED)
    assert away
    for query in ({}, {"at": "begin"}, {"at": "offset:1"}):
        page = api.get("/api/topics/orders/records", **query)
        assert {each["partition"] for each in page["records"]} == set(range(PARTITIONS)) - away
        assert page["left_out"] == {str(each): "broker 2: it does not answer" for each in away}

    first = api.get("/api/topics/orders/records", at="begin", size=3)
    back = api.get("/api/topics/orders/records", size=3)
    paused.resume(PAUSED)
    paused.wait_for(lambda: not api.get("/api/topics/orders/records")["left_out"])
    after = api.get("/api/topics/orders/records", at=first["newer"], size=200)
    assert len(after["records"]) == 5 * PARTITIONS - 3, "those that were left out come now"
    older = api.get("/api/topics/orders/records", at=back["older"], size=200, back="true")
    assert len(older["records"]) == 5 * PARTITIONS - 3


def test_one_record_of_a_silent_leader_is_refused_by_its_name(paused: Cluster, api: Api) -> None:
    partition = min(led_by(paused, PAUSED))
    answer = api.ask("GET", f"/api/topics/orders/records/{partition}/0")
    says = f"orders-{partition}: broker 2: it does not answer"
    assert (answer.status, answer.json["message"]) == (503, says)
    answer = api.ask("GET", "/api/brokers/2/settings")
    assert (answer.status, answer.json["message"]) == (503, "broker 2: it does not answer")


def test_group_of_a_silent_coordinator_is_refused_by_its_name(cluster: Cluster, api: Api) -> None:
    (row,) = api.get("/api/groups")["rows"]
    coordinator = row["coordinator"]
    cluster.pause(coordinator)
    try:
        answer = api.ask("GET", "/api/groups/billing")
    finally:
        cluster.resume(coordinator)
    says = f"billing: its coordinator, broker {coordinator}, has not answered"
    assert answer.status == 503
    assert answer.json["message"].startswith(says)


def test_search_and_export_tell_what_they_could_not_read(paused: Cluster, api: Api) -> None:
    away = {str(each): "broker 2: it does not answer" for each in led_by(paused, PAUSED)}
    with api.stream("/api/topics/orders/search", method="POST", body={}) as events:
        told = [each.json for each in events if each.name == "progress"]
    assert told[-1]["left_out"] == away
    lines = api.ask("GET", "/api/topics/orders/export").body.splitlines()
    assert len(lines) == 5 * (PARTITIONS - len(away)) + 1
    assert b"left_out" in lines[-1]


PAGES = (
    "/api/topics",
    "/api/topics/orders",
    "/api/topics/orders/partitions",
    "/api/topics/orders/groups",
    "/api/groups",
    "/api/cluster",
    "/api/clients",
    "/api/reassignments",
    "/api/transactions",
    "/api/transactions/held",
    "/api/dead-letters/topics/orders/letters",
)


def named(answer: Json) -> set[str]:
    found: set[str] = set(answer["missing"])
    return found


def test_a_watched_page_names_the_silent_broker_until_it_is_back(paused: Cluster, api: Api) -> None:
    with api.stream("/api/topics/orders/partitions", {"every": 1}) as events:
        for event in events:
            if str(PAUSED) in named(event.json):
                break
        rows = {row["index"]: row["end"] for row in event.json["partitions"]}
        assert {each for each, end in rows.items() if end is None} == led_by(paused, PAUSED)
        paused.resume(PAUSED)
        for event in events:
            if not event.json["missing"]:
                break
        assert {row["end"] for row in event.json["partitions"]} == {5}


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_an_answer_of_the_living(paused: Cluster, api: Api, path: str) -> None:
    answer = api.ask("GET", path)
    assert answer.status == 200, answer.body
    assert named(answer.json) <= {str(PAUSED)}
