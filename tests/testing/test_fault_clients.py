"""Faults as real clients meet them: kafka-python, confluent-kafka (librdkafka) and aiokafka."""

import asyncio
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as Where
from aiokafka.errors import CommitFailedError, RebalanceInProgressError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer

from raftka.testing import Cluster

WAIT_S = 60.0  # on a machine that is busy with much else


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    shared.heal()


def producer(cluster: Cluster, **options: object) -> Producer:
    named = {name.replace("_", "."): value for name, value in options.items()}
    return Producer({"bootstrap.servers": cluster.bootstrap_servers, **named})


def test_kafka_python_sends_the_partition_again_that_failed(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=2)
    fault = cluster.fail_next(
        "Produce", "NOT_LEADER_OR_FOLLOWER", topic=topic, partition=1, times=2
    )
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, retry_backoff_ms=10) as client:
        sent = [client.send(topic, b"x", partition=partition) for partition in (0, 1)]
        assert [each.get(WAIT_S).offset for each in sent] == [0, 0]

    assert fault.hits == 2
    assert [record.partition for record in cluster.records(topic)] == [0, 1]


def test_the_nth_request_of_one_client_fails_for_good(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    cluster.fail_next("Produce", "INVALID_RECORD", client_id="billing", nth=2)
    errors: dict[str, list[KafkaError | None]] = {"billing": [], "orders": []}
    for name, told in errors.items():
        client = producer(cluster, client_id=name, linger_ms=0)
        for _ in range(3):
            client.produce(topic, b"x", on_delivery=lambda error, _, told=told: told.append(error))
            assert client.flush(WAIT_S) == 0

    codes = {name: [each.code() if each else 0 for each in told] for name, told in errors.items()}
    assert codes == {
        "billing": [0, KafkaError.INVALID_RECORD, 0],
        "orders": [0, 0, 0],
    }
    assert len(cluster.records(topic)) == 5


def test_librdkafka_is_told_of_the_one_partition_that_it_cannot_fetch(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=2)
    client = producer(cluster)
    for partition in (0, 1):
        client.produce(topic, b"x", partition=partition)
    assert client.flush(WAIT_S) == 0
    cluster.fail_next("Fetch", "OFFSET_OUT_OF_RANGE", topic=topic, partition=1, times=1000)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "error",
        }
    )
    got: set[tuple[int | None, bool]] = set()
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(2)])

        def both() -> bool:
            message = consumer.poll(0.05)
            if message is not None:
                got.add((message.partition(), message.error() is not None))
            return got == {(0, False), (1, True)}

        cluster.wait_for(both, WAIT_S)
    finally:
        consumer.close()


def test_a_commit_of_one_group_fails_in_aiokafka(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    where = Where(topic, 0)
    cluster.fail_next("OffsetCommit", "UNKNOWN_MEMBER_ID", group="mine", topic=topic)

    async def commit(group: str) -> bool:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=group,
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            await consumer.commit({where: 1})
        except (CommitFailedError, RebalanceInProgressError):
            return False
        finally:
            await consumer.stop()
        return True

    assert asyncio.run(commit("other")) is True
    assert asyncio.run(commit("mine")) is False
    assert cluster.group("other").offsets == {(topic, 0): 1}
    assert cluster.group("mine").offsets == {}


def test_one_of_two_topics_is_not_created(cluster: Cluster) -> None:
    cluster.fail_next("CreateTopics", "POLICY_VIOLATION", topic="refused")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    created = admin.create_topics([NewTopic("made", 1), NewTopic("refused", 1)])

    created["made"].result(WAIT_S)
    with pytest.raises(KafkaException) as refused:
        created["refused"].result(WAIT_S)
    assert refused.value.args[0].code() == KafkaError.POLICY_VIOLATION


def test_the_end_of_one_transaction_fails(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    cluster.fail_next("EndTxn", "INVALID_PRODUCER_EPOCH", transactional_id="mine")

    def commit(name: str) -> int:
        client = producer(cluster, transactional_id=name)
        client.init_transactions(WAIT_S)
        client.begin_transaction()
        client.produce(topic, name.encode())
        try:
            client.commit_transaction(WAIT_S)
        except KafkaException as error:
            return int(error.args[0].code())
        return 0

    assert commit("other") == 0
    assert commit("mine") in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)


def test_librdkafka_is_throttled(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    fault = cluster.throttle("Produce", 70, topic=topic)
    told: list[float] = []
    client = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "throttle_cb": lambda event: told.append(event.throttle_time),
        }
    )
    client.produce(topic, b"x")
    assert client.flush(WAIT_S) == 0
    cluster.wait_for(lambda: client.poll(0.02) or told, WAIT_S)

    assert fault.hits == 1
    assert told[0] in (0.07, 70)
