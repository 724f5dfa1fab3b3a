"""Seven clients against the rough sides of security: sessions that end, logins that are refused,
rights that are revoked, new certificates.

A client is a program here that produces or reads lines, so a case is written once for all of them.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from raftka.broker.network.access.authentication import SUCCESSES
from raftka.testing import Cluster
from tests.clients.conftest import or_skip
from tests.clients.secured import CLIENTS, PASSWORD, Clients, Secured, add_scram_user, with_tokens
from tests.clients.token_server import token_server
from tests.clients.workload import PATIENCE_S
from tests.kit.toolchains import Program, Toolchains
from tests.security.issuer import jwks, rsa_row

IMPATIENT_S = 3
NOT_ALLOWED = r"authorization.?failed|not authorized"
REFUSED = r"authenticat|certificate|credentials"  # in the words of most clients
REFUSED_IN_OTHER_WORDS = {  # of those that do not look at what comes after a wrong token
    "kafka-python": "Unable to bootstrap",
    "aiokafka": "Unable to bootstrap",
    "franz-go": "oauth response",
    "kafkajs": "Closed connection",
}
SESSION_MS = 2200
RENEWALS = 4  # of all connections of a producer and a consumer together
# log in again on the same connection (KIP-368); others connect again
RENEW = ("kafka-python", "confluent-kafka", "java", "franz-go", "kafkajs")
PAIRS = (  # of a consumer and a producer; kcat as a producer reads its input in blocks
    *[(client, client) for client in ("kafka-python", "aiokafka", "java", "franz-go")],
    ("kcat", "kafkajs"),
)
TAKE_TOKENS = tuple(client for client in CLIENTS if client != "kcat")  # Debian's knows no issuer


@pytest.fixture
def clients(tmp_path: Path, toolchains: Toolchains) -> Clients:
    programs = {
        "java": toolchains.java,
        "kcat": toolchains.kcat,
        "franz-go": toolchains.franz_go,
        "kafkajs": toolchains.kafkajs,
    }
    found: dict[str, Program] = {}

    def find(client: str) -> Program:
        return found.setdefault(client, or_skip(programs[client]))

    return Clients(tmp_path, find)


@pytest.fixture(scope="module")
def tokens() -> Iterator[str]:
    with token_server() as url:
        yield url


@pytest.fixture(scope="module")
def by_login(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    keys = tmp_path_factory.mktemp("issuer") / "keys.json"
    keys.write_bytes(jwks(rsa_row()))
    with Cluster(
        1,
        security=True,
        properties={**with_tokens(keys), "connections.max.reauth.ms": str(SESSION_MS)},
    ) as cluster:
        add_scram_user(cluster)
        yield cluster


@pytest.fixture(scope="module")
def by_certificate() -> Iterator[Cluster]:
    with Cluster(3, security=True) as cluster:
        yield cluster


def logins(cluster: Cluster) -> int:
    """Return the number of logins on all connections."""
    (node,) = cluster._serving()
    assert node.node is not None
    return node.node.metrics.counters.get(SUCCESSES, 0)


def renewals(cluster: Cluster) -> int:
    """Logins that were not the first of their connection; at least so many."""
    (node,) = cluster._serving()
    assert node.node is not None
    return logins(cluster) - node.node.metrics.connections_made


@pytest.fixture
def login_with(by_login: Cluster, tokens: str) -> Callable[..., Secured]:
    def secured(way: str, password: str = PASSWORD, token: str = "good") -> Secured:
        return Secured(
            by_login,
            by_login.client_files(),
            way,
            password,
            tokens + token if way == "OAUTHBEARER" else "",
        )

    return secured


@pytest.mark.parametrize(
    ("client", "way"),
    [
        ("kafka-python", "PLAIN"),
        ("confluent-kafka", "SCRAM-SHA-512"),
        ("aiokafka", "PLAIN"),
        *[
            (client, way)
            for client in ("java", "franz-go", "kafkajs")
            for way in ("SCRAM-SHA-512", "OAUTHBEARER")
        ],
    ],
)
def test_nothing_is_lost_when_sessions_end(
    by_login: Cluster, clients: Clients, login_with: Callable[..., Secured], client: str, way: str
) -> None:
    """kcat is not among them: it ends when the connection to its only node does."""
    secured, topic, sent = login_with(way), by_login.create_topic(), 1
    counted = renewals if client in RENEW else logins
    with (
        clients.start(client, "follow", secured, topic) as reader,
        clients.start(client, "produce", secured, topic) as writer,
    ):
        writer.write(0)
        reader.wait_for([0])
        before = counted(by_login)

        def renewed() -> bool:
            nonlocal sent
            assert reader.is_running(), reader.said()
            assert writer.is_running(), writer.said()
            writer.write(sent)
            sent += 1
            return counted(by_login) - before >= RENEWALS

        by_login.wait_for(renewed, PATIENCE_S)
        writer.finish()
        reader.wait_for(list(range(sent)))
    assert values(by_login, topic) == list(range(sent))


def values(cluster: Cluster, topic: str) -> list[int]:
    """Of the records in the leader's log."""
    return [int(record.value or b"") for record in cluster.records(topic)]


@pytest.mark.parametrize("client", CLIENTS)
def test_wrong_passwords_and_tokens_are_refused(
    clients: Clients, login_with: Callable[..., Secured], client: str
) -> None:
    tokens = [
        login_with("OAUTHBEARER", token=token)
        for token in ("expired", "foreign")
        if client in TAKE_TOKENS
    ]
    refuse(
        clients,
        client,
        login_with("PLAIN", password="wrong"),
        login_with("SCRAM-SHA-512", password="wrong"),
        *tokens,
    )


@pytest.mark.parametrize("client", CLIENTS)
def test_expired_certificate_is_refused(
    by_certificate: Cluster, clients: Clients, client: str
) -> None:
    refuse(
        clients,
        client,
        Secured(by_certificate, by_certificate.client_files("late", days=-1), "certificate"),
    )


def refuse(clients: Clients, client: str, *wrong: Secured) -> None:
    """The client ends each time, and tells why; nothing was written."""
    topic = wrong[0].cluster.create_topic()
    with ExitStack() as stack:
        for writer in [
            stack.enter_context(clients.start(client, "produce", secured, topic, IMPATIENT_S))
            for secured in wrong
        ]:
            writer.write(0)
            writer.end_input()
            said = writer.wait_for_failure()
            assert (
                re.search(REFUSED, said, re.IGNORECASE)
                or REFUSED_IN_OTHER_WORDS.get(client, "nothing") in said
            ), said
    assert wrong[0].cluster.records(topic) == []


@pytest.mark.parametrize(("consumer", "producer"), PAIRS)
def test_revoked_acl_ends_a_producer_and_a_consumer(
    by_certificate: Cluster, clients: Clients, consumer: str, producer: str
) -> None:
    topic, sent = by_certificate.create_topic(), 1
    bob = Secured(by_certificate, by_certificate.client_files("bob"), "certificate")
    acls(by_certificate, "create", topic)
    with (
        clients.start(consumer, "follow", bob, topic) as reader,
        clients.start(producer, "produce", bob, topic) as writer,
    ):
        writer.write(0)
        reader.wait_for([0])
        acls(by_certificate, "delete", topic)

        def shut_out() -> bool:
            nonlocal sent
            writer.write(sent)
            sent += 1
            return not (reader.is_running() or writer.is_running())

        by_certificate.wait_for(shut_out, PATIENCE_S)
        for ended in (reader, writer):
            assert re.search(NOT_ALLOWED, ended.wait_for_failure(), re.IGNORECASE)
    before = values(by_certificate, topic)
    assert before == list(range(len(before)))


def acls(cluster: Cluster, verb: str, topic: str) -> None:
    """Allow bob to write to the topic and to read it in any group, or no more."""
    admin = AdminClient(Secured(cluster, cluster.client_files(), "certificate").librdkafka())
    rights = [
        (ResourceType.TOPIC, topic, AclOperation.WRITE),
        (ResourceType.TOPIC, topic, AclOperation.READ),
        (ResourceType.GROUP, "*", AclOperation.READ),
    ]
    kind = AclBinding if verb == "create" else AclBindingFilter
    rows = [
        kind(
            of,
            name,
            ResourcePatternType.LITERAL,
            "User:bob",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for of, name, operation in rights
    ]
    for future in (
        admin.create_acls(rows) if verb == "create" else admin.delete_acls(rows)
    ).values():
        future.result(30)


@pytest.mark.parametrize(("consumer", "producer"), PAIRS)
def test_restarted_nodes_with_new_certificates_are_known_again(
    by_certificate: Cluster, clients: Clients, consumer: str, producer: str
) -> None:
    topic = by_certificate.create_topic(replication_factor=3)
    secured = Secured(by_certificate, by_certificate.client_files(), "certificate")
    with (
        clients.start(consumer, "follow", secured, topic) as reader,
        clients.start(producer, "produce", secured, topic) as writer,
    ):
        writer.write(0)
        reader.wait_for([0])
        for sent, node_id in enumerate(by_certificate.nodes, 1):
            by_certificate.renew_certificate(node_id)
            by_certificate.restart(node_id)
            writer.write(sent)
            reader.wait_for(list(range(sent + 1)))
        writer.finish()
    assert values(by_certificate, topic) == list(range(len(by_certificate.nodes) + 1))
