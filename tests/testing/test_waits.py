"""Waits and reads of a test's cluster: groups, lag, counts of records, values, topics in a line."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from raftka.testing import Cluster
from raftka.wire.errors import KafkaError


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    shared.clean()


def produce(cluster: Cluster, topic: str, *values: bytes | None, **settings: object) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **settings})
    for value in values:
        producer.produce(topic, value, key=b"k")
    assert producer.flush(10) == 0


@contextmanager
def consumer(cluster: Cluster, group: str, topic: str, **settings: object) -> Iterator[Consumer]:
    client = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    client.subscribe([topic])
    try:
        yield client
    finally:
        client.close()


@contextmanager
def polled(*clients: Consumer) -> Iterator[None]:
    """Poll the consumers in a thread, as a program under test does."""
    over = threading.Event()

    def poll() -> None:
        while not over.is_set():
            for client in clients:
                client.poll(0.01)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# groups


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_wait_for_a_group_ends_when_all_members_have_their_partitions(
    cluster: Cluster, protocol: str
) -> None:
    (topic,) = cluster.create_topics("orders:4")
    settings = {"group.protocol": protocol}
    with (
        consumer(cluster, "fleet", topic, **settings) as first,
        consumer(cluster, "fleet", topic, **settings) as second,
        polled(first, second),
    ):
        group = cluster.wait_for_group("fleet", members=2)

        assert sorted(len(member.partitions) for member in group.members) == [2, 2]


def test_a_wait_for_a_group_says_what_it_was_last(cluster: Cluster) -> None:
    (topic,) = cluster.create_topics("orders:1")
    with pytest.raises(
        TimeoutError, match=r"'fleet' is not stable within 0.01 s; last: Dead with 0.*"
    ):
        cluster.wait_for_group("fleet", timeout_s=0.01)
    with consumer(cluster, "fleet", topic) as client, polled(client):
        cluster.wait_for_group("fleet", members=1)
        with pytest.raises(
            TimeoutError,
            match=r"with 2 members within 0.01 s; last: Stable with 1 member \(.*: orders-0\)",
        ):
            cluster.wait_for_group("fleet", members=2, timeout_s=0.01)
    with pytest.raises(TimeoutError, match=r"last: (Empty|Dead) with 0 members$"):
        cluster.wait_for_group("fleet", timeout_s=0.01)


def test_a_view_of_a_group_meets_no_fault(cluster: Cluster) -> None:
    (topic,) = cluster.create_topics("orders:1")
    with consumer(cluster, "fleet", topic) as client, polled(client):
        cluster.wait_for_group("fleet")
    fault = cluster.fail_next("OffsetFetch", "UNKNOWN_SERVER_ERROR")

    assert cluster.group("fleet").offsets == {}
    assert fault.hits == 0


# lag


def test_lag_is_counted_by_partition_until_it_is_committed(cluster: Cluster) -> None:
    (topic,) = cluster.create_topics("orders:2")
    produce(cluster, topic, b"1", b"2", b"3")
    with consumer(cluster, "billing", topic) as client:
        with polled(client):
            cluster.wait_for_group("billing")
        with pytest.raises(
            TimeoutError, match=r"not at a lag of 0 within 0.01 s; last: orders-0: \d, orders-1: \d"
        ):
            cluster.wait_for_lag("billing", timeout_s=0.01)
        assert sum(cluster.lag("billing").values()) == 3
        assert cluster.wait_for_lag("billing", at_most=3) == cluster.lag("billing")

        (partition,) = {record.partition for record in cluster.records(topic)}
        client.commit(offsets=[TopicPartition(topic, partition, 3)], asynchronous=False)

        assert cluster.wait_for_lag("billing") == {(topic, 0): 0, (topic, 1): 0}


def test_no_partition_is_no_lag_of_zero(cluster: Cluster) -> None:
    """A group that has not come yet has not read everything."""
    (topic,) = cluster.create_topics("orders:1")
    with consumer(cluster, "billing", topic):
        cluster.wait_for(lambda: cluster.group("billing"))
    with pytest.raises(TimeoutError, match="last: no partition, neither committed nor given"):
        cluster.wait_for_lag("billing", timeout_s=0.5)


def test_markers_and_aborted_records_are_no_lag(cluster: Cluster) -> None:
    """A client commits the offset behind its last record: the marker behind that stays."""
    (topic,) = cluster.create_topics("orders:1")
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "shop"}
    )
    producer.init_transactions(10)
    for value, end in (
        (b"kept", producer.commit_transaction),
        (b"lost", producer.abort_transaction),
    ):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(10)
        end(10)
    with consumer(cluster, "billing", topic) as client:
        cluster.wait_for_group("billing", members=1)  # until then its coordinator may be loading
        assert cluster.lag("billing", topic) == {(topic, 0): 1}
        client.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)

        assert cluster.wait_for_lag("billing", topic=topic) == {(topic, 0): 0}
    assert cluster.values(topic) == [b"kept", b"lost"]
    assert cluster.values(topic, read_committed=True) == [b"kept"]


def test_records_of_an_open_transaction_are_not_committed(cluster: Cluster) -> None:
    (topic,) = cluster.create_topics("orders:1")
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "shop"}
    )
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(10)

    assert cluster.values(topic) == [b"open"]
    assert cluster.values(topic, read_committed=True) == []
    producer.abort_transaction(10)


# records


def test_a_wait_for_records_returns_them_when_there_are_enough(cluster: Cluster) -> None:
    (topic,) = cluster.create_topics("orders:1")
    with pytest.raises(TimeoutError, match=r"'orders' has not 2 records within 0.01 s; last: 0$"):
        cluster.wait_for_records(topic, 2, timeout_s=0.01)
    later = threading.Thread(target=produce, args=(cluster, topic, b"1", b"2"))
    later.start()
    assert [each.value for each in cluster.wait_for_records(topic, 2)] == [b"1", b"2"]
    later.join()
    with pytest.raises(TimeoutError, match=r"last: 2, orders-0: 2$"):
        cluster.wait_for_records(topic, 3, timeout_s=0.01)


def test_values_are_read_as_the_test_wants_them(cluster: Cluster) -> None:
    (topic,) = cluster.create_topics("orders:1")
    produce(cluster, topic, b'{"order": 1}', None)

    assert cluster.values(topic) == [b'{"order": 1}', None]
    assert cluster.values(topic, str) == ['{"order": 1}', None]
    assert cluster.values(topic, json) == [{"order": 1}, None]
    assert cluster.values(topic, len) == [12, None]

    produce(cluster, topic, b"\xff")
    for as_ in (str, json):
        with pytest.raises(ValueError, match=r"orders-0 at offset 2: .*decode"):
            cluster.values(topic, as_)


def test_a_topic_that_is_not_there_is_named(cluster: Cluster) -> None:
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION: there is no topic 'ordres'"):
        cluster.values("ordres")
    with pytest.raises(TimeoutError, match="there is no topic 'ordres'"):
        cluster.wait_for_records("ordres", 1, timeout_s=0.01)


# topics in a line


def test_topics_are_made_in_a_line(cluster: Cluster) -> None:
    names = cluster.create_topics("orders:3", "payments:1:compact", "audit:retention.ms=1000")

    assert names == ["orders", "payments", "audit"]
    assert [cluster.leader(*each) for each in (("orders", 2), ("payments", 0))] == [1, 1]
    with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
        cluster.create_topics("new", "orders:1")
    with pytest.raises(ValueError, match=r"topics have no setting retention\.sm"):
        cluster.create_topics("other:1:delete:retention.sm=1")
