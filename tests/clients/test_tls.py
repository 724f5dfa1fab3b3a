"""Real clients over TLS at three secured nodes: known by a certificate, or by a login; whom the
nodes refuse; certificates that are replaced.
"""

import asyncio
import hashlib
import json
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer

from raftka.cluster.secured.keys import ClientFiles, ClusterSecurity
from raftka.testing import Cluster
from tests.clients.java import JavaTools
from tests.clients.secured import LOGINS, Secured, add_scram_user
from tests.clients.workload import parsed, run
from tests.kit.toolchains import Program

# In a process of its own: a producer that could not connect leaves sockets that nobody closes.
KAFKA_PYTHON = """
import json, sys
from kafka import KafkaProducer
from kafka.errors import KafkaError
try:
    KafkaProducer(**json.loads(sys.argv[1]), bootstrap_timeout_ms=3000)
except KafkaError as error:
    print("refused:", error)
"""
WAYS = ("certificate", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def by_certificate() -> Iterator[Cluster]:
    with Cluster(3, security=True) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def by_login() -> Iterator[Cluster]:
    with Cluster(3, security=True, properties=LOGINS) as cluster:
        add_scram_user(cluster)
        yield cluster


@pytest.fixture(params=WAYS)
def secured(request: pytest.FixtureRequest) -> Secured:
    cluster: Cluster = request.getfixturevalue(
        "by_certificate" if request.param == "certificate" else "by_login"
    )
    return Secured(cluster, cluster.client_files(), request.param)


def new_topic(secured: Secured) -> str:
    return secured.cluster.create_topic(partitions=1, replication_factor=3)


def values(secured: Secured, topic: str) -> list[bytes]:
    """As the leader's log has them."""
    return [record.value or b"" for record in secured.cluster.records(topic)]


def test_kafka_python(secured: Secured) -> None:
    topic = new_topic(secured)
    producer = KafkaProducer(**secured.python(), acks="all")
    producer.send(topic, b"value").get(30)
    producer.close()
    consumer = KafkaConsumer(
        topic, **secured.python(), auto_offset_reset="earliest", group_id=f"g-{secured.way}"
    )
    assert next(consumer).value == b"value"
    consumer.close()


def test_confluent_kafka(secured: Secured) -> None:
    topic, refused = new_topic(secured), []
    producer = confluent_kafka.Producer(secured.librdkafka())
    producer.produce(
        topic, b"v" * 100_000, callback=lambda error, _: refused.append(error) if error else None
    )
    assert (producer.flush(30), refused) == (0, [])
    consumer = confluent_kafka.Consumer(
        {**secured.librdkafka(), "group.id": f"c-{secured.way}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    record = consumer.poll(30)
    assert record is not None
    assert record.value() == b"v" * 100_000
    consumer.close()


def test_aiokafka(secured: Secured) -> None:
    topic = new_topic(secured)

    async def play() -> bytes | None:
        async with AIOKafkaProducer(**secured.aiokafka(), acks="all") as producer:
            await producer.send_and_wait(topic, b"value")
        async with AIOKafkaConsumer(
            topic, **secured.aiokafka(), auto_offset_reset="earliest"
        ) as consumer:
            value: bytes | None = (await consumer.getone()).value
            return value

    assert asyncio.run(play()) == b"value"


@pytest.mark.parametrize("way", ["certificate", "PLAIN"])
def test_kcat(kcat: Program, way: str, request: pytest.FixtureRequest) -> None:
    cluster: Cluster = request.getfixturevalue(
        "by_certificate" if way == "certificate" else "by_login"
    )
    secured = Secured(cluster, cluster.client_files(), way)
    topic = new_topic(secured)
    options = [
        part for name, value in secured.librdkafka().items() for part in ("-X", f"{name}={value}")
    ]
    run([*kcat.command, *options, "-P", "-t", topic, "-K:"], kcat.env, given="k:v\n")
    assert (
        run(
            [
                *kcat.command,
                *options,
                "-C",
                "-t",
                topic,
                "-o",
                "beginning",
                "-e",
                "-q",
                "-f",
                "%k:%s\n",
            ],
            kcat.env,
        )
        == "k:v\n"
    )


def test_kafkajs(kafkajs: Program, secured: Secured) -> None:
    topic = new_topic(secured)
    run(
        [*kafkajs.command, "produce", secured.cluster.bootstrap_servers, topic],
        secured.program(kafkajs),
        given="k:value\n",
    )
    assert values(secured, topic) == [b"value"]


def test_franz_go(franz_go: Program, secured: Secured) -> None:
    topic, env = new_topic(secured), secured.program(franz_go)
    run(
        [*franz_go.command, "produce", secured.cluster.bootstrap_servers, topic],
        env,
        given="k:value\n",
    )
    assert list(
        parsed(run([*franz_go.command, "consume", secured.cluster.bootstrap_servers, topic], env))
    ) == [(b"k", b"value")]


def properties_file(secured: Secured, folder: Path) -> str:
    file = folder / "client.properties"
    file.write_text(secured.properties())
    return str(file)


@pytest.mark.parametrize("secured", ["certificate", "SCRAM-SHA-512"], indirect=True)  # a JVM each
def test_java(java_tools: Program, secured: Secured, tmp_path: Path) -> None:
    topic, file = new_topic(secured), properties_file(secured, tmp_path)
    with JavaTools(java_tools, secured.cluster.bootstrap_servers) as tools:
        assert topic in tools.run(f"kafka-topics --list --command-config {file}")
        tools.run(
            f"kafka-console-producer --topic {topic} --command-config {file}", given="value\n"
        )
        read = tools.run(
            f"kafka-console-consumer --topic {topic} --from-beginning --max-messages 1 "
            f"--timeout-ms 30000 --command-config {file}"
        )
        assert "value" in read


def test_command_line(secured: Secured, tmp_path: Path) -> None:
    topic, file = new_topic(secured), properties_file(secured, tmp_path)
    command = [
        sys.executable,
        "-m",
        "raftka.cli",
        "topics",
        "list",
        "--bootstrap-server",
        secured.cluster.bootstrap_servers,
        "--command-config",
        file,
    ]
    listed = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
    )
    assert topic in listed.stdout, listed.stderr


# the nodes refuse


@pytest.mark.usefixtures("forgotten_sockets")
def test_certificate_of_another_authority_is_refused(
    by_certificate: Cluster, tmp_path: Path
) -> None:
    files = ClusterSecurity(tmp_path / "theirs").issue("admin")
    files.authority.write_bytes(by_certificate.client_files().authority.read_bytes())
    refused(Secured(by_certificate, files, "certificate"))


def refused(secured: Secured) -> None:
    """No client comes in, and each of them ends with an error."""
    python = subprocess.run(
        [sys.executable, "-c", KAFKA_PYTHON, json.dumps(secured.python())],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert python.stdout.startswith("refused: "), python.stderr

    async def start() -> None:
        producer = AIOKafkaProducer(**secured.aiokafka())
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(KafkaConnectionError):
        asyncio.run(start())
    with pytest.raises(confluent_kafka.KafkaException):
        AdminClient(secured.librdkafka()).list_topics(timeout=3)


@pytest.mark.usefixtures("forgotten_sockets")
def test_clients_do_not_talk_to_a_node_of_another_authority(
    by_certificate: Cluster, tmp_path: Path
) -> None:
    files = ClusterSecurity(tmp_path / "ours").issue("admin")
    refused(Secured(by_certificate, files, "certificate"))


def test_user_of_a_certificate_may_do_what_acls_allow(by_certificate: Cluster) -> None:
    topic = by_certificate.create_topic(partitions=1, replication_factor=3)
    bob = Secured(by_certificate, by_certificate.client_files("bob"), "certificate")
    producer = confluent_kafka.Producer(bob.librdkafka())
    codes: list[int] = []

    def send() -> int:
        producer.produce(
            topic,
            b"v",
            callback=lambda error, _: codes.append(0 if error is None else error.code()),
        )
        assert producer.flush(30) == 0
        return codes[-1]

    raftka(by_certificate, tmp_file(by_certificate), "create", topic)
    assert send() == 0
    raftka(by_certificate, tmp_file(by_certificate), "delete", topic)
    assert send() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED


def tmp_file(cluster: Cluster) -> str:
    (_, path), *_ = cluster.client_files().write(cluster.bootstrap_servers)
    return str(path)


def raftka(cluster: Cluster, file: str, verb: str, topic: str) -> None:
    words = ["acls", verb, "--topic", topic, "--principal", "User:bob", "--operation", "write"]
    at = ["--bootstrap-server", cluster.bootstrap_servers, "--command-config", file]
    subprocess.run(
        [sys.executable, "-m", "raftka.cli", *words, *at],
        check=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env=dict(os.environ),
    )


# certificates are replaced


def fingerprints(cluster: Cluster, files: ClientFiles) -> list[str]:
    """Of the certificates that the nodes show now."""
    found = []
    for address in cluster.bootstrap_servers.split(","):
        host, _, port = address.rpartition(":")
        text = ssl.get_server_certificate(
            (host, int(port)), ca_certs=str(files.authority), timeout=10
        )
        found.append(hashlib.sha256(text.encode()).hexdigest())
    return found


@pytest.mark.parametrize("restart", [True, False], ids=["restart", "while they run"])
def test_nodes_take_new_certificates_under_load(by_certificate: Cluster, restart: bool) -> None:
    topic = by_certificate.create_topic(partitions=1, replication_factor=3)
    secured = Secured(by_certificate, by_certificate.client_files(), "certificate")
    before = fingerprints(by_certificate, secured.files)
    producer = confluent_kafka.Producer(
        {**secured.librdkafka(), "linger.ms": 0, "enable.idempotence": True}
    )
    sent, failed = 0, []

    def send() -> None:
        nonlocal sent
        producer.produce(
            topic, b"%d" % sent, callback=lambda error, _: failed.append(error) if error else None
        )
        producer.flush(30)
        sent += 1

    for node_id in by_certificate.nodes:
        by_certificate.renew_certificate(node_id)
        if restart:
            by_certificate.restart(node_id)
        send()

    def taken() -> bool:
        send()
        return not set(before) & set(fingerprints(by_certificate, secured.files))

    by_certificate.wait_for(taken, 40)
    assert failed == []
    assert values(secured, topic) == [b"%d" % each for each in range(sent)]


def test_a_client_that_asks_for_new_keys_in_its_session_is_refused(by_certificate: Cluster) -> None:
    """TLS 1.2's renegotiation, as `openssl s_client` asks for it."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("there is no openssl")
    files, server = by_certificate.client_files(), by_certificate.bootstrap_servers.split(",")[0]
    own = ["-CAfile", str(files.authority), "-cert", str(files.certificate), "-key", str(files.key)]
    command = [program, "s_client", "-connect", server, "-tls1_2", *own]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        while "Verify return code: 0 (ok)" not in (line := client.stdout.readline()):
            assert line, "the session did not begin"
        client.stdin.write("R\n")
        client.stdin.flush()

        told = client.stdout.read()

    assert "RENEGOTIATING" in told
    assert "no renegotiation" in told
    assert client.returncode == 1
