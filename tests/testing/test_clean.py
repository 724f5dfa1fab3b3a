"""A clean cluster: the next test sees what it would see on a new one."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.metadata.image import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, MetadataImage
from raftka.metadata.security_commands import AlterScramCredentials, ScramDeletion
from raftka.security.acls import ALLOW, LITERAL, READ, TOPIC
from raftka.testing import Cluster
from raftka.testing import clean as cleaning
from raftka.wire.errors import KafkaError
from raftka.wire.messages.acls import CREATE_ACLS
from raftka.wire.messages.client_quotas import ALTER_CLIENT_QUOTAS
from raftka.wire.messages.configs import INCREMENTAL_ALTER_CONFIGS
from raftka.wire.messages.delegation_tokens import CREATE_DELEGATION_TOKEN
from raftka.wire.messages.groups import LIST_GROUPS
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.messages.transactions import LIST_TRANSACTIONS

LEFT_OUT = {"offset": 0, "next_producer_id": 0, "brokers": {}}  # they go on


@pytest.fixture(scope="module", params=[1, 3])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    properties = {"delegation.token.secret.key": "key"}
    with Cluster(request.param, security="sasl", properties=properties) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    security = cluster.client().login.security
    with Client(addresses_of(cluster.bootstrap_servers), security=security) as client:
        yield client


def image_of(cluster: Cluster) -> MetadataImage:
    return replace(cluster._sync(lambda: cluster._a_node().image), **LEFT_OUT)  # type: ignore[arg-type]


def levels(cluster: Cluster) -> set[str]:
    """Of the nodes' logs."""
    return cluster._sync(lambda: {node.events.level for node in cluster._serving_nodes()})


def use(cluster: Cluster) -> list[object]:
    """Produce, consume and commit in both protocols of groups; return what a client can see of
    earlier uses.
    """
    options = cluster.client().librdkafka()
    cluster.create_topics("orders:2", "payments:1:compact")
    producer = Producer({**options, "transactional.id": "shop"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("orders", b"1", partition=0)
    seen: list[object] = []
    producer.flush(10)
    producer.commit_transaction(10)
    for protocol in ("classic", "consumer"):
        consumer = Consumer(
            {
                **options,
                "group.id": f"group-{protocol}",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe(["orders"])
        record = consumer.poll(10)
        assert record is not None
        seen.append((record.offset(), record.value()))
        seen.append(consumer.committed([TopicPartition("orders", 0)], 10)[0].offset)
        consumer.commit(record, asynchronous=False)
        consumer.close()
    seen.append([(each.partition, each.offset, each.value) for each in cluster.records("orders")])
    return seen


def leave_open(cluster: Cluster) -> Consumer:
    """Leave a member in a group, and a transaction that never ends."""
    options = cluster.client().librdkafka()
    producer = Producer({**options, "transactional.id": "open"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("orders", b"open", partition=1)
    producer.flush(10)
    consumer = Consumer({**options, "group.id": "open", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    cluster.wait_for(lambda: consumer.poll(0.01) or cluster.group("open").state == "Stable")
    return consumer


def change_settings(client: Client) -> None:
    """Change whatever can be changed at run time."""
    configs = INCREMENTAL_ALTER_CONFIGS.request.resources
    for kind, name, key, value in (
        (BROKER, "", "log.retention.ms", "1000"),
        (BROKER, "1", "log.cleaner.threads", "2"),
        (GROUP, "group-consumer", "consumer.session.timeout.ms", "50000"),
        (CLIENT_METRICS, "all", "interval.ms", "1000"),
        (BROKER_LOGGER, "1", "root", "DEBUG"),
    ):
        change = configs.configs(name=key, config_operation=0, value=value)
        row = configs(resource_type=kind, resource_name=name, configs=[change])
        request = INCREMENTAL_ALTER_CONFIGS.request(resources=[row])
        (answer,) = client.ask_broker(1, INCREMENTAL_ALTER_CONFIGS, request).responses
        assert answer.error_code == 0, answer
    acl = CREATE_ACLS.request.creations(
        resource_type=TOPIC,
        resource_name="orders",
        resource_pattern_type=LITERAL,
        principal="User:alice",
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )
    (made,) = client.ask(CREATE_ACLS, CREATE_ACLS.request(creations=[acl])).results
    assert made.error_code == 0, made
    entries = ALTER_CLIENT_QUOTAS.request.entries
    quota = entries(
        entity=[entries.entity(entity_type="user", entity_name="alice")],
        ops=[entries.ops(key="request_percentage", value=50.0, remove=False)],
    )
    (set_,) = client.ask(ALTER_CLIENT_QUOTAS, ALTER_CLIENT_QUOTAS.request(entries=[quota])).entries
    assert set_.error_code == 0, set_
    token = client.ask(CREATE_DELEGATION_TOKEN, CREATE_DELEGATION_TOKEN.request(max_lifetime_ms=-1))
    assert token.error_code == 0, token


def test_nothing_of_a_use_can_be_seen_after_it(cluster: Cluster, client: Client) -> None:
    cluster.clean()
    start = image_of(cluster)
    first = use(cluster)
    with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
        use(cluster)
    consumer = leave_open(cluster)
    change_settings(client)
    assert "debug" in levels(cluster)
    assert cluster.client("alice").kafka_python()["sasl_plain_username"] == "alice"
    consumer.close()

    cluster.clean()

    assert image_of(cluster) == start
    assert client.ask(METADATA, METADATA.request(topics=None)).topics == []
    for node in cluster.nodes:
        assert client.ask_broker(node, LIST_GROUPS, LIST_GROUPS.request()).groups == []
        transactions = client.ask_broker(node, LIST_TRANSACTIONS, LIST_TRANSACTIONS.request())
        assert transactions.transaction_states == []
    assert levels(cluster) == {"info"}
    assert use(cluster) == first


def test_a_transactional_id_begins_anew(cluster: Cluster, client: Client) -> None:
    def init() -> int:
        request = INIT_PRODUCER_ID.request(transactional_id="shop", transaction_timeout_ms=60_000)
        answer = client.ask_coordinator("shop", INIT_PRODUCER_ID, request, kind=1)
        assert answer.error_code == 0
        return answer.producer_epoch

    cluster.clean()
    assert [init(), init()] == [0, 1]
    cluster.clean()
    assert init() == 0


def test_a_user_that_was_changed_is_as_before(cluster: Cluster) -> None:
    """The administrator's password is part of the start."""
    start = image_of(cluster)
    key = next(iter(start.scram))
    cluster.client("alice")
    command = AlterScramCredentials((ScramDeletion(key[1], key[0]),), ())
    cluster._ask(command)
    cluster.wait_for(lambda: key not in image_of(cluster).scram)

    cluster.clean()

    assert image_of(cluster).scram == start.scram
    assert cluster.client("alice").login.security.user == "alice"  # made again


def test_a_clean_cluster_is_healed(cluster: Cluster) -> None:
    cluster.fail_next("Metadata", "UNKNOWN_SERVER_ERROR")
    node = cluster.nodes[-1]
    cluster.kill(node)

    cluster.clean()

    assert cluster.alive == cluster.nodes
    assert cluster.create_topics("orders:3") == ["orders"]


def test_many_topics_and_settings_are_removed(cluster: Cluster) -> None:
    """More than one command of each kind."""
    cluster.create_topics(*(f"topic-{number}:1" for number in range(120)))
    cluster.clean()
    assert image_of(cluster).topics == {}


def test_a_client_that_goes_on_is_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error says what cannot be removed."""
    monkeypatch.setattr(cleaning, "SETTLE_S", 0.01)
    monkeypatch.setattr(cleaning, "_is_restored", lambda node, start: False)
    with pytest.raises(TimeoutError, match=r"not clean after 0.03 s; .*logs are being closed"):
        cluster.clean()


def test_a_cluster_with_the_bridge_is_refused() -> None:
    with pytest.raises(ValueError, match="with the ZooKeeper bridge cannot be cleaned"):
        Cluster(bridge=True).clean()
