"""Topics of the API on a real cluster: the list with its order, pages and filters, one topic, and
changes.
"""

from collections.abc import Iterator
from contextlib import closing

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.member import commit_request
from raftka.client.blocking.producer import Producer
from raftka.console.topics.detail import find_topic
from raftka.console.view import cached
from raftka.console.view.view import View
from raftka.json_values import Json
from raftka.limits import Limit
from raftka.testing import Cluster
from raftka.wire.messages.offsets import OFFSET_COMMIT
from tests.kit.console import Api, console_of


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[Cluster, Api]]:
    with Cluster(3) as cluster, console_of(cluster) as console:
        yield cluster, Api(console.url)


@pytest.fixture
def cluster(shared: tuple[Cluster, Api]) -> Iterator[Cluster]:
    yield shared[0]
    shared[0].clean()


@pytest.fixture
def api(cluster: Cluster) -> Iterator[Api]:
    """A console of its own: nothing of another test is kept in it."""
    with console_of(cluster) as console:
        yield Api(console.url)


def fill(cluster: Cluster, topic: str, count: int, partition: int = 0) -> None:
    with Client(addresses_of(cluster.bootstrap_servers), "test") as client:
        producer = Producer(client)
        for number in range(count):
            producer.add((topic, partition), (None, b"%d" % number, (), 0))
        producer.flush()


def commit(cluster: Cluster, group: str, topic: str, offset: int) -> None:
    with Client(addresses_of(cluster.bootstrap_servers), "test") as client:
        row = commit_request(group, {(topic, 0): offset})
        answer = client.ask_coordinator(group, OFFSET_COMMIT, row, 9)
        assert answer.topics[0].partitions[0].error_code == 0


def names(answer: Json) -> list[str]:
    return [each["name"] for each in answer["topics"]]


def known(cluster: Cluster, api: Api, **query: object) -> Json:
    """The list, when all of it has been read."""

    def whole() -> Json:
        answer = api.get("/api/topics", **query)
        return None if answer["pending"] else answer

    return cluster.wait_for(whole)


def test_a_first_page_does_not_wait_for_sizes_and_lags(cluster: Cluster, api: Api) -> None:
    cluster.create_topic("orders", 2, replication_factor=3)
    with cluster.hold("DescribeLogDirs"):
        answer = api.get("/api/topics")
        row = answer["topics"][0]

        assert "sizes" in answer["pending"]
        assert (row["name"], row["partitions"], row["replication"]) == ("orders", 2, 3)
        assert row["bytes"] is None
    assert known(cluster, api)["topics"][0]["bytes"] == 0


def test_each_figure_is_there(cluster: Cluster, api: Api) -> None:
    cluster.create_topic("orders", 2)
    fill(cluster, "orders", 30)
    commit(cluster, "slow", "orders", 10)
    row = known(cluster, api)["topics"][0]

    assert {key: row[key] for key in ("messages", "lag", "groups", "error", "internal")} == {
        "messages": 30,
        "lag": 20,
        "groups": 1,
        "error": None,
        "internal": False,
    }
    assert row["bytes"] > 0
    assert (row["under_replicated"], row["offline"]) == (0, 0)


def test_topics_are_ordered_and_cut_into_pages(cluster: Cluster, api: Api) -> None:
    for name, records, partitions in (("a", 5, 1), ("b", 50, 2), ("c", 0, 3), ("d", 20, 2)):
        cluster.create_topic(name, partitions)
        if records:
            fill(cluster, name, records)
    known(cluster, api)

    def page(sort: str, page: int = 1, size: int = 10) -> list[str]:
        return names(api.get("/api/topics", sort=sort, page=page, size=size))

    assert page("name") == ["a", "b", "c", "d"]
    assert page("-name") == ["d", "c", "b", "a"]
    assert page("-messages") == ["b", "d", "a", "c"]
    assert page("bytes") == ["c", "a", "d", "b"]
    assert page("-partitions") == ["c", "b", "d", "a"], "equal ones by name"
    assert [page("name", number, 3) for number in (1, 2)] == [["a", "b", "c"], ["d"]]
    last = api.get("/api/topics", page=9, size=3)
    assert (last["page"], names(last), last["total"]) == (2, ["d"], 4)


def test_topics_are_found_by_words_of_their_names(cluster: Cluster, api: Api) -> None:
    for name in ("shop.orders.v1", "shop.Orders.v2", "shop.payments.v1"):
        cluster.create_topic(name)

    assert names(api.get("/api/topics", search="v1 ORDERS")) == ["shop.orders.v1"]
    found = api.get("/api/topics", search="orders")
    assert (found["total"], found["of_all"]) == (2, 3)
    assert names(api.get("/api/topics", search="nothing")) == []


def test_internal_topics_are_hidden_until_asked_for(cluster: Cluster, api: Api) -> None:
    commit_topic = "__consumer_offsets"
    cluster.create_topic("orders")
    commit(cluster, "g", "orders", 0)

    assert names(api.get("/api/topics")) == ["orders"]
    assert names(api.get("/api/topics", internal="true")) == [commit_topic, "orders"]


def test_sick_topics_are_found(cluster: Cluster, api: Api) -> None:
    cluster.create_topic("alone", 1, replication_factor=1)
    cluster.create_topic("wide", 1, replication_factor=3)
    leader = cluster.leader("alone")
    assert names(api.get("/api/topics", state="sick")) == []
    cluster.kill(leader)

    def sick() -> Json:
        answer = api.get("/api/topics", state="sick")
        return (
            answer
            if answer["total"] == 2 and api.get("/api/topics", state="offline")["total"]
            else None
        )

    answer = cluster.wait_for(sick)
    rows = {each["name"]: each for each in answer["topics"]}
    assert rows["alone"]["offline"] == 1
    assert rows["wide"]["under_replicated"] == 1
    assert names(api.get("/api/topics", state="offline")) == ["alone"]
    assert str(leader) in answer["missing"]


def test_a_topic_has_its_figures_and_partitions(cluster: Cluster, api: Api) -> None:
    cluster.create_topic("orders", 3, replication_factor=2)
    fill(cluster, "orders", 30, partition=1)
    topic = api.get("/api/topics/orders")
    answer = api.get("/api/topics/orders/partitions", sort="-messages", size=2)
    first = answer["partitions"][0]

    assert (topic["partitions"], topic["replication"], topic["messages"]) == (3, 2, 30)
    assert topic["bytes"] > 0
    assert (answer["total"], len(answer["partitions"]), answer["missing"]) == (3, 2, {})
    assert (first["index"], first["start"], first["end"], first["messages"]) == (1, 0, 30, 30)
    assert first["leader"] == cluster.leader("orders", 1)
    assert [each["in_sync"] for each in first["replicas"]] == [True, True]
    assert first["bytes"] == max(each["bytes"] for each in first["replicas"])
    assert topic["bytes"] == first["bytes"]


def test_groups_of_a_topic_come_by_lag(cluster: Cluster, api: Api) -> None:
    cluster.create_topic("orders")
    cluster.create_topic("other")
    fill(cluster, "orders", 30)
    for group, offset in (("slow", 1), ("slower", 0), ("done", 30)):
        commit(cluster, group, "orders", offset)
    commit(cluster, "stranger", "other", 0)
    answer = api.get("/api/topics/orders/groups")

    assert [(each["group"], each["lag"]) for each in answer["groups"]] == [
        ("slower", 30),
        ("slow", 29),
        ("done", 0),
    ]
    assert {each["type"] for each in answer["groups"]} == {"classic"}


def test_a_topic_that_is_not_there_is_404(api: Api) -> None:
    for path in ("", "/partitions", "/groups", "/settings"):
        answer = api.ask("GET", f"/api/topics/nothing{path}")
        assert (answer.status, answer.json["error"]) == (404, "UNKNOWN_TOPIC_OR_PARTITION"), path


def test_topic_is_found_that_is_younger_than_the_kept_metadata(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached, "DUTY", Limit("none", 0, "no pause after a refresh"))
    view = View(lambda: Client(addresses_of(cluster.bootstrap_servers), "test"))
    with closing(view):
        view.metadata()
        topic = cluster.create_topic()
        assert find_topic(view, topic).partitions


def test_a_topic_is_created_after_a_preview(cluster: Cluster, api: Api) -> None:
    assert names(api.get("/api/topics")) == []
    body = {"name": "orders", "partitions": 4, "settings": {"retention.ms": "77"}}
    preview = api.post("/api/topics", **body, validate_only=True)
    assert (preview["name"], preview["partitions"]) == ("orders", 4)
    assert names(api.get("/api/topics")) == []
    api.post("/api/topics", **body)

    assert names(api.get("/api/topics")) == ["orders"], "at once, in spite of what was kept"
    rows = api.get("/api/topics/orders/settings", differs="true")["settings"]
    assert {each["name"]: each["value"] for each in rows}["retention.ms"] == "77"
    again = api.ask("POST", "/api/topics", body=body)
    assert (again.status, again.json["error"]) == (409, "TOPIC_ALREADY_EXISTS")
    wrong = api.ask("POST", "/api/topics", body={"name": "a/b", "validate_only": True})
    assert (wrong.status, wrong.json["error"]) == (400, "INVALID_TOPIC_EXCEPTION")


def test_a_topic_gets_more_partitions(cluster: Cluster, api: Api) -> None:
    cluster.create_topic("orders", 2)
    assert api.get("/api/topics/orders")["partitions"] == 2
    path = "/api/topics/orders/partitions"
    api.post(path, count=5, validate_only=True)
    assert api.get("/api/topics/orders")["partitions"] == 2
    api.post(path, count=5)

    assert cluster.wait_for(lambda: api.get("/api/topics/orders")["partitions"] == 5)
    less = api.ask("POST", path, body={"count": 3})
    assert (less.status, less.json["error"]) == (400, "INVALID_PARTITIONS")


def test_topics_are_deleted(cluster: Cluster, api: Api) -> None:
    for name in ("a", "b", "c"):
        cluster.create_topic(name)
    answer = api.post("/api/topics/delete", names=["a", "b", "nothing"])

    assert sorted(answer["deleted"]) == ["a", "b"]
    assert list(answer["refused"]) == ["nothing"]
    assert names(api.get("/api/topics")) == ["c"]
    one = api.ask("POST", "/api/topics/delete", body={"names": ["nothing"]})
    assert one.status == 404
    assert api.ask("POST", "/api/topics/delete", body={"names": []}).status == 400


def test_a_read_only_console_changes_no_topic(cluster: Cluster) -> None:
    cluster.create_topic("orders")
    with console_of(cluster, read_only=True) as console:
        api = Api(console.url)
        for path, body in (
            ("/api/topics", {"name": "x"}),
            ("/api/topics/delete", {"names": ["orders"]}),
            ("/api/topics/orders/partitions", {"count": 9}),
            ("/api/topics/orders/settings", {"changes": {"retention.ms": "1"}}),
        ):
            assert api.ask("POST", path, body=body).status == 403, path
        assert names(api.get("/api/topics")) == ["orders"]


def test_the_list_is_kept_live(cluster: Cluster, api: Api) -> None:
    with api.stream("/api/topics", {"every": 1, "search": "order"}) as events:
        event = events.next()
        assert event is not None
        assert names(event.json) == []
        cluster.create_topic("orders")
        while event is not None and not names(event.json):
            event = events.next()

        assert event is not None
        assert names(event.json) == ["orders"]
