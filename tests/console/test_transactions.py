"""The API of transactions on a real node: open, late and hanging ones, and how they are ended."""

import time
from collections.abc import Iterator

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.groups import commit_offsets
from raftka.console.transactions import monitor as module
from raftka.json_values import Json
from raftka.limits import Limit
from raftka.testing import Cluster
from tests.clients.hanging import UNVERIFIED, Producer, begin, hang
from tests.kit.console import Api, console_of


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1, properties=UNVERIFIED) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(addresses_of(cluster.bootstrap_servers), "test", 10.0) as client:
        yield client


@pytest.fixture(autouse=True)
def clean(cluster: Cluster) -> Iterator[None]:
    yield
    cluster.clean()


@pytest.fixture
def api(cluster: Cluster, client: Client) -> Iterator[Api]:
    with console_of(cluster) as console:
        yield Api(console.url)


@pytest.fixture
def topic(cluster: Cluster) -> str:
    return cluster.create_topic("payments", partitions=3)


def open_one(client: Client, topic: str, name: str, partition: int = 0) -> Producer:
    producer = begin(client, name)
    producer.add(topic, partition)
    producer.send(topic, partition)
    return producer


def held(cluster: Cluster, api: Api, count: int) -> list[Json]:
    """The held partitions, when there are so many: the view is some seconds old."""

    def read() -> tuple[list[Json]] | None:
        found: list[Json] = api.get("/api/transactions/held")["partitions"]
        return (found,) if len(found) == count else None

    (found,) = cluster.wait_for(read) or ([],)
    return found


def test_open_transactions_are_listed_with_their_ages(api: Api, client: Client, topic: str) -> None:
    first = open_one(client, topic, "pay-1", 0)
    open_one(client, topic, "pay-2", 1)
    begin(client, "idle")
    found = api.get("/api/transactions")

    assert [each["id"] for each in found["transactions"]] == ["pay-1", "pay-2"]
    row = found["transactions"][0]
    assert (row["state"], row["producer_id"], row["epoch"], row["timeout_ms"]) == (
        "Ongoing",
        first.producer_id,
        first.epoch,
        60_000,
    )
    assert (row["partitions"], row["partition_count"], row["late"], row["coordinator"]) == (
        [{"topic": topic, "partition": 0}],
        1,
        False,
        1,
    )
    assert 0 <= row["age_ms"] < 60_000
    assert found["states"] == {"Empty": 1, "Ongoing": 2, "open": 2, "late": 0, "all": 3}

    every = api.get("/api/transactions", state="all", sort="id")
    assert [each["id"] for each in every["transactions"]] == ["idle", "pay-1", "pay-2"]
    idle = every["transactions"][0]
    assert (idle["age_ms"], idle["timeout_ms"], idle["partitions"]) == (None, 60_000, [])
    assert api.get("/api/transactions", search="PAY-2")["total"] == 1
    own = api.get("/api/transactions", producer_id=first.producer_id)
    assert [each["id"] for each in own["transactions"]] == ["pay-1"]
    second = api.get("/api/transactions", size=1, page=2, sort="-id")
    assert [each["id"] for each in second["transactions"]] == ["pay-1"]
    assert api.ask("GET", "/api/transactions", {"state": "Often"}).status == 400


def test_a_transaction_that_is_older_than_its_timeout_is_late(
    api: Api, client: Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_one(client, topic, "pay-1")
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 61)
    found = api.get("/api/transactions", state="late")

    assert [(each["id"], each["late"]) for each in found["transactions"]] == [("pay-1", True)]
    assert found["states"]["late"] == 1


def test_partitions_that_are_held_back_name_their_transactions_and_the_groups_that_wait(
    cluster: Cluster, api: Api, client: Client, topic: str
) -> None:
    producer = open_one(client, topic, "pay-1", 2)
    open_one(client, topic, "pay-2", 2)
    hanging, start = hang(client, topic, 1, age_ms=3_600_000)
    for group, offset in (("at-the-end", 0), ("reads-uncommitted", 2)):
        assert commit_offsets(client, group, {(topic, 2): offset}, {}) == {}
    one, two = sorted(held(cluster, api, 2), key=lambda each: each["partition"])

    assert (one["partition"], one["stable"], one["end"], one["held"]) == (1, start, start + 1, 1)
    (held_by,) = one["transactions"]
    assert (held_by["state"], held_by["id"], held_by["producer_id"]) == (
        "hanging",
        None,
        hanging.producer_id,
    )
    assert held_by["age_ms"] >= 3_600_000
    assert (two["stable"], two["end"], two["groups"]) == (0, 2, ["at-the-end"])
    assert [(each["id"], each["state"]) for each in two["transactions"]] == [
        ("pay-1", "Ongoing"),
        ("pay-2", "Ongoing"),
    ]
    assert two["transactions"][0]["producer_id"] == producer.producer_id
    assert api.get("/api/transactions/held")["hanging"] == 1


def test_a_hanging_transaction_is_aborted_and_one_with_a_coordinator_is_not(
    cluster: Cluster, api: Api, client: Client, topic: str
) -> None:
    _, start = hang(client, topic, 1)
    open_one(client, topic, "pay-1", 2)
    held(cluster, api, 2)

    def abort(partition: int, offset: int) -> tuple[int, Json]:
        body = {"topic": topic, "partition": partition, "start_offset": offset}
        answer = api.ask("POST", "/api/transactions/abort", body=body)
        return answer.status, answer.json

    status, refused = abort(2, 0)
    assert (status, refused["error"]) == (409, "NOT_HANGING")
    assert "as pay-1" in refused["message"]
    assert abort(1, start + 7)[0] == 409
    assert abort(9, 0)[0] == 404
    status, done = abort(1, start)
    assert (status, done["start_offset"]) == (200, start)
    (left,) = held(cluster, api, 1)
    assert left["partition"] == 2


def test_fencing_ends_what_an_id_has_open(
    cluster: Cluster, api: Api, client: Client, topic: str
) -> None:
    producer = open_one(client, topic, "pay/1 ä", 2)
    held(cluster, api, 1)
    done = api.post("/api/transactions/ids/pay%2F1%20%C3%A4/fence")

    assert (done["id"], done["producer_id"]) == ("pay/1 ä", producer.producer_id)
    assert done["epoch"] > producer.epoch
    held(cluster, api, 0)
    assert api.get("/api/transactions")["transactions"] == []
    assert api.ask("POST", "/api/transactions/ids/nobody/fence").status == 404


def test_more_than_may_be_looked_at_is_told(
    cluster: Cluster, api: Api, client: Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HELD_PARTITIONS", Limit("few", 1, "of the test"))
    monkeypatch.setattr(module, "DESCRIBED_TRANSACTIONS", Limit("few", 1, "of the test"))
    for partition in range(3):
        open_one(client, topic, f"pay-{partition}", partition)
    held(cluster, api, 1)

    assert api.get("/api/transactions/held")["is_cut"]
    found = api.get("/api/transactions")
    assert (found["is_cut"], len(found["transactions"])) == (True, 3)
    # those of the page are described all the same
    assert all(each["age_ms"] is not None for each in found["transactions"])


def test_a_broker_that_is_away_is_named() -> None:
    with Cluster(3, properties=UNVERIFIED) as three, console_of(three) as console:
        api = Api(console.url)
        with Client(addresses_of(three.bootstrap_servers), "test", 10.0) as client:
            open_one(client, three.create_topic("t", replication_factor=3), "pay-1")
        assert api.get("/api/transactions")["total"] == 1
        with three.killed(3):
            missing = three.wait_for(lambda: api.get("/api/transactions", state="all")["missing"])
            assert "3" in missing


def test_a_read_only_console_ends_no_transaction(cluster: Cluster, topic: str) -> None:
    with console_of(cluster, read_only=True) as console:
        api = Api(console.url)
        body = {"topic": topic, "partition": 0, "start_offset": 0}
        assert api.ask("POST", "/api/transactions/abort", body=body).status == 403
        assert api.ask("POST", "/api/transactions/ids/a/fence").status == 403
