"""Clients that few other tests meet: numbers sent, read by a member of a group, copied in
transactions, and all of it over TLS with a login. And two libraries of stream applications.
"""

import subprocess
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from raftka.cluster.processes import Processes, running
from raftka.testing import Cluster
from tests.clients.secured import LOGINS, PASSWORD, USER, add_scram_user
from tests.clients.workload import run
from tests.kit.toolchains import Program

COUNT = 60
PARTITIONS = 3
PATIENCE_S = 40


class Abilities(NamedTuple):
    mechanism: str
    protocols: tuple[str, ...] = ("classic",)
    has_transactions: bool = True


CLIENTS = {
    "krafka": Abilities("SCRAM-SHA-512", ("classic", "consumer")),
    "sarama": Abilities("PLAIN"),
    "kafka_go": Abilities("PLAIN", has_transactions=False),
    "platformatic_roundtrip": Abilities("SCRAM-SHA-512", ("classic", "consumer")),
}
MEMBERS = [(name, each) for name, abilities in CLIENTS.items() for each in abilities.protocols]
COPIERS = [name for name, abilities in CLIENTS.items() if abilities.has_transactions]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Processes]:
    with running(nodes=3) as processes:
        yield processes


@pytest.fixture(scope="module")
def secured_cluster() -> Iterator[Cluster]:
    with Cluster(1, security=True, properties=LOGINS) as cluster:
        add_scram_user(cluster)
        yield cluster


def create(bootstrap_servers: str, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for future in admin.create_topics([NewTopic(each, PARTITIONS) for each in topics]).values():
        future.result(30)


def use(
    client: Program, bootstrap_servers: str, *words: str, login: Mapping[str, str] | None = None
) -> list[str]:
    """Run `VERB SERVERS TOPIC COUNT ...`; return the lines that are printed."""
    verb, *others = words
    command = [*client.command, verb, bootstrap_servers, *others]
    return run(command, {**client.env, **(login or {})}).splitlines()


def committed(bootstrap_servers: str, topic: str) -> list[str]:
    """Return the values of the topic that read_committed shows, as many as were sent."""
    options = {"group.id": "reader", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, **options})
    consumer.subscribe([topic])
    found: list[str] = []
    while len(found) < COUNT:
        messages = consumer.consume(COUNT, PATIENCE_S)
        assert messages, f"{len(found)} of {COUNT} values"
        found += [each.value().decode() for each in messages if each.error() is None]
    consumer.close()
    return found


NUMBERS = [str(at) for at in range(COUNT)]


@pytest.mark.parametrize(("name", "protocol"), MEMBERS)
def test_a_member_of_a_group_reads_what_was_sent(
    name: str, protocol: str, cluster: Processes, request: pytest.FixtureRequest
) -> None:
    client: Program = request.getfixturevalue(name)
    servers, topic = cluster.bootstrap_servers, f"{name}-{protocol}"
    create(servers, topic)
    use(client, servers, "send", topic, str(COUNT))

    assert sorted(use(client, servers, "group", topic, str(COUNT), protocol)) == sorted(NUMBERS)


def test_a_client_without_groups_reads_what_it_sent(rskafka: Program, cluster: Processes) -> None:
    servers = cluster.bootstrap_servers
    create(servers, "rskafka")
    use(rskafka, servers, "send", "rskafka", str(COUNT))

    assert sorted(use(rskafka, servers, "read", "rskafka", str(COUNT))) == sorted(NUMBERS)


@pytest.mark.parametrize("name", COPIERS)
def test_transactions_copy_each_number_once(
    name: str, cluster: Processes, request: pytest.FixtureRequest
) -> None:
    client: Program = request.getfixturevalue(name)
    servers, source, target = cluster.bootstrap_servers, f"{name}-from", f"{name}-to"
    create(servers, source, target)
    use(client, servers, "send", source, str(COUNT))
    use(client, servers, "copy", source, str(COUNT), target)

    assert sorted(committed(servers, target)) == sorted(NUMBERS)


@pytest.mark.parametrize("name", ["quix_copy", "faust_copy"])
def test_a_stream_application_copies_each_number_once(
    name: str, cluster: Processes, request: pytest.FixtureRequest
) -> None:
    application: Program = request.getfixturevalue(name)
    servers, source, target = cluster.bootstrap_servers, f"{name}-from", f"{name}-to"
    create(servers, source, target)
    producer = Producer({"bootstrap.servers": servers})
    for number in NUMBERS:
        producer.produce(source, number.encode())
    assert producer.flush(PATIENCE_S) == 0
    process = subprocess.Popen(
        [*application.command, servers, source, target],
        env=application.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert sorted(committed(servers, target)) == sorted(NUMBERS)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("name", CLIENTS)
def test_a_login_over_tls(
    name: str, secured_cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    client: Program = request.getfixturevalue(name)
    login = {
        "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "KAFKA_SASL_MECHANISM": CLIENTS[name].mechanism,
        "KAFKA_SASL_USERNAME": USER,
        "KAFKA_SASL_PASSWORD": PASSWORD,
        "KAFKA_SSL_CA_LOCATION": str(secured_cluster.client_files().authority),
    }
    servers = secured_cluster.bootstrap_servers
    secured_cluster.create_topic(name, partitions=PARTITIONS)
    use(client, servers, "send", name, str(COUNT), login=login)

    read = use(client, servers, "group", name, str(COUNT), "classic", login=login)
    assert sorted(read) == sorted(NUMBERS)
