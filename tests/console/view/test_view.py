"""The view of a real cluster: topics, sizes, offsets, groups and their lag; and what is shown while
a broker is silent.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.member import commit_request
from raftka.client.blocking.producer import Producer
from raftka.console.view import view as view_module
from raftka.console.view.view import View
from raftka.testing import Cluster
from raftka.wire.errors import Code
from raftka.wire.messages.list_offsets import EARLIEST, LATEST
from raftka.wire.messages.offsets import OFFSET_COMMIT

RECORDS = 30


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    shared.clean()


@pytest.fixture
def view(cluster: Cluster) -> Iterator[View]:
    view = View(lambda: Client(addresses_of(cluster.bootstrap_servers), "test"))
    yield view
    view.close()


def fill(cluster: Cluster, topic: str, count: int = RECORDS, partition: int = 0) -> None:
    with Client(addresses_of(cluster.bootstrap_servers), "test") as client:
        producer = Producer(client)
        for number in range(count):
            producer.add((topic, partition), (None, b"%d" % number, (), 0))
        producer.flush()


def commit(cluster: Cluster, group: str, topic: str, offset: int, partition: int = 0) -> None:
    with Client(addresses_of(cluster.bootstrap_servers), "test") as client:
        row = commit_request(group, {(topic, partition): offset})
        answer = client.ask_coordinator(group, OFFSET_COMMIT, row, 9)
        assert answer.topics[0].partitions[0].error_code == 0


def test_metadata_has_brokers_and_topics(cluster: Cluster, view: View) -> None:
    cluster.create_topic("orders", 4, replication_factor=2)
    metadata = view.metadata()
    topic = metadata.topics["orders"]

    assert sorted(metadata.brokers) == [1, 2, 3]
    assert [each.index for each in topic.partitions] == [0, 1, 2, 3]
    assert (topic.replication, topic.internal, topic.error) == (2, False, None)
    for each in topic.partitions:
        assert each.leader == cluster.leader("orders", each.index)
        assert set(each.isr) == set(each.replicas)
    assert metadata.led[topic.partitions[0].leader].count(("orders", 0)) == 1
    assert metadata.partition(("orders", 4)) is None


def test_a_change_is_seen_after_it_was_made_known(cluster: Cluster, view: View) -> None:
    assert "new" not in view.metadata().topics
    cluster.create_topic("new")
    view.forget()

    assert "new" in view.metadata().topics


def test_sizes_are_those_of_the_largest_replica(cluster: Cluster, view: View) -> None:
    cluster.create_topic("orders", 2, replication_factor=3)
    fill(cluster, "orders")
    sizes = view.sizes()
    replicas = view.replicas("orders").by_partition[0]

    assert sizes.by_partition["orders", 0] == max(each.size for each in replicas) > 0
    assert sizes.by_topic["orders"] == sizes.by_partition["orders", 0]
    assert {each.node_id for each in replicas} == {1, 2, 3}
    assert sum(each.used for each in sizes.directories) == sum(sizes.by_broker.values())
    assert {each.error for each in sizes.directories} == {None}
    assert (sizes.missing, view.missing) == ({}, {})


def test_offsets_are_those_of_leaders(cluster: Cluster, view: View) -> None:
    cluster.create_topic("orders", 2)
    fill(cluster, "orders")
    wheres = [("orders", 0), ("orders", 1)]

    assert view.ends(wheres) == {("orders", 0): RECORDS, ("orders", 1): 0}
    assert view.starts(wheres) == {("orders", 0): 0, ("orders", 1): 0}
    assert view.messages()["orders"] == RECORDS
    found = view.offsets([("orders", 7)], LATEST)
    assert (found.of, found.failed) == ({}, {("orders", 7): "LEADER_NOT_AVAILABLE"})


def test_offsets_of_very_many_partitions_are_read_of_all_at_once(
    cluster: Cluster, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic("orders", 4)
    fill(cluster, "orders", 5, partition=3)
    wheres = [("orders", index) for index in range(4)]
    single = view.offsets(wheres, LATEST), view.offsets(wheres, EARLIEST)
    monkeypatch.setattr(view_module, "SINGLE_QUESTIONS", type("Few", (), {"value": 3}))
    asked = cluster.record_requests("ListOffsets")

    assert (view.ends(wheres), view.starts(wheres)) == (single[0].of, single[1].of)
    assert view.ends(wheres[:1]) == {("orders", 0): 0}
    assert len(asked.requests) == 7, "three brokers twice, and one for the last question"


def test_rates_compare_two_readings(
    cluster: Cluster, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftka.console.view.ends.LEAST_RATE_S", 0.0)
    cluster.create_topic("orders", 2)
    fill(cluster, "orders")
    before = view.all_ends()
    assert before.rates_by_topic == {}
    fill(cluster, "orders", 10)
    view.kept_ends._not_before = 0.0  # the pause is not what is tested
    after = view.all_ends(0.0)
    passed_s = after.offsets.taken - before.offsets.taken

    assert after.rates["orders", 0] == pytest.approx(10 / passed_s)
    assert after.rates_by_topic["orders"] == after.rates["orders", 0]


def test_groups_have_offsets_and_lag(cluster: Cluster, view: View) -> None:
    cluster.create_topic("orders", 2)
    cluster.create_topic("payments", 1)
    fill(cluster, "orders")
    fill(cluster, "payments", 7)
    commit(cluster, "slow", "orders", 10)
    commit(cluster, "slow", "payments", 5)
    commit(cluster, "quick", "orders", RECORDS)
    groups = view.groups()
    lags = view.lags()

    assert {each: groups.of[each].type for each in ("slow", "quick")} == {
        "slow": "classic",
        "quick": "classic",
    }
    assert groups.of["slow"].state == "Empty"
    assert view.committed(["slow", "quick"]) == {
        "slow": {("orders", 0): 10, ("payments", 0): 5},
        "quick": {("orders", 0): RECORDS},
    }
    assert {each: lags.by_group[each] for each in ("slow", "quick")} == {"slow": 22, "quick": 0}
    assert lags.of_topic["orders"] == {"slow": 20, "quick": 0}
    assert (lags.by_topic["orders"], lags.by_topic["payments"]) == (20, 2)


def test_offsets_of_many_groups_are_fetched_in_parts(
    cluster: Cluster, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "raftka.console.view.groups.GROUPS_OF_REQUEST", type("Few", (), {"value": 2})
    )
    cluster.create_topic("orders")
    names = [f"group-{number}" for number in range(7)]
    for number, name in enumerate(names):
        commit(cluster, name, "orders", number)

    assert view.committed(names) == {
        name: {("orders", 0): number} for number, name in enumerate(names)
    }


def test_a_silent_broker_is_named_and_the_rest_is_shown(
    cluster: Cluster, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANSWER_SECONDS", "BULK_ANSWER_SECONDS"):
        monkeypatch.setattr(
            f"raftka.console.view.brokers.{name}", type("Short", (), {"value": 1.0})
        )
    cluster.create_topic("orders", 3, replication_factor=3)
    view.metadata()
    with cluster.paused(2):
        sizes = view.sizes()

        assert (sorted(sizes.by_broker), sorted(sizes.missing)) == ([1, 3], [2])
        assert sorted(view.missing) == [2]
        ends = view.offsets([("orders", index) for index in range(3)], LATEST)
        assert len(ends.of) == 2, "of the partitions that living brokers lead"


def test_a_broker_that_ends_is_missing(cluster: Cluster, view: View) -> None:
    view.metadata()
    cluster.kill(2)

    def seen() -> bool:
        view.forget()
        return 2 not in view.metadata().brokers

    cluster.wait_for(seen)
    assert view.metadata().missing == {2: "it is registered and not alive"}


def test_a_refusal_of_a_broker_is_named(cluster: Cluster, view: View) -> None:
    cluster.fail_next("ListGroups", "COORDINATOR_LOAD_IN_PROGRESS", times=3)

    assert set(view.groups().missing.values()) == {Code.COORDINATOR_LOAD_IN_PROGRESS.name}


def test_many_pages_ask_once(cluster: Cluster, view: View) -> None:
    view.metadata()
    asked = cluster.record_requests("ListGroups")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: view.groups(), range(40)))

    assert len(asked.requests) == len(cluster.alive)


def test_an_overview_does_not_wait(cluster: Cluster, view: View) -> None:
    cluster.create_topic("orders")
    fill(cluster, "orders")
    commit(cluster, "slow", "orders", 10)
    first = view.overview()
    assert first.pending == ["sizes", "ends", "messages", "lags"]
    cluster.wait_for(lambda: not view.overview().pending)
    known = view.overview()

    assert known.messages is not None
    assert known.messages["orders"] == RECORDS
    assert first.age_s == 0 < known.age_s
    assert known.lags is not None
    assert known.lags.of_topic["orders"] == {"slow": RECORDS - 10}


def test_no_cluster_is_an_error() -> None:
    with Cluster() as cluster:
        servers = addresses_of(cluster.bootstrap_servers)
    view = View(lambda: Client(servers, "test"))

    with pytest.raises(OSError, match="refused"):
        view.metadata()
    view.close()


def test_one_broker_alone_makes_the_large_answer(
    cluster: Cluster, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each broker that is asked for all topics works for seconds in a large cluster."""
    monkeypatch.setattr("raftka.client.blocking.client.QUICK_S", 0.2)
    view.metadata()
    asked = cluster.record_requests("Metadata")
    view.forget()
    with cluster.delay("Metadata", 600, times=1, nth=2):
        view.metadata()

    assert len(asked.requests) == 2, "a small one, and the large one, which was late"
