"""Real clients log in with Kerberos tickets of a real KDC, at nodes that log in at each other so
too.
"""

import asyncio
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import TopicAuthorizationFailedError

from raftka.testing import Cluster
from tests.clients.java import JavaTools
from tests.clients.kdc import HOST, REALM, Kdc
from tests.clients.sasl import raftka
from tests.clients.workload import run
from tests.kit.toolchains import Program

SESSION_S = 3
NODE = f"kafka/{HOST}"
MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"


@pytest.fixture(scope="module")
def keytab_of(kdc: Kdc) -> dict[str, Path]:
    return {name: kdc.add(name) for name in (NODE, f"other/{HOST}", "app-alice", "bob")}


@pytest.fixture(scope="module")
def cluster(keytab_of: dict[str, Path]) -> Iterator[Cluster]:
    with Cluster(3, properties=secured(keytab_of)) as cluster:
        yield cluster


def secured(keytab_of: dict[str, Path]) -> dict[str, str]:
    """`app-alice` is alice, who may do everything, as the nodes may."""
    return {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal.to.local.rules": "RULE:[1:$1](app-.*)s/app-//,DEFAULT",
        "listener.name.plaintext.gssapi.sasl.jaas.config": jaas(keytab_of, NODE),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:kafka;User:alice;User:ANONYMOUS",
    }


def jaas(keytab_of: dict[str, Path], name: str) -> str:
    return f'{MODULE} keyTab="{keytab_of[name]}" principal="{name}@{REALM}";'


def python(cluster: Cluster) -> dict[str, str]:
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
    }


def properties(keytab_of: dict[str, Path], name: str = "app-alice") -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": jaas(keytab_of, name),
    }


def test_kafka_python_logs_in(kdc: Kdc, cluster: Cluster, keytab_of: dict[str, Path]) -> None:
    topic = cluster.create_topic(partitions=1, replication_factor=3)
    with kdc.as_client(keytab_of["app-alice"]):
        producer = KafkaProducer(**python(cluster), acks="all")
        producer.send(topic, b"value").get(30)
        producer.close()
        consumer = KafkaConsumer(
            topic, **python(cluster), auto_offset_reset="earliest", group_id="g"
        )
        assert next(consumer).value == b"value"
        consumer.close()


def test_kafka_python_and_brokers_go_on_when_their_sessions_end(
    kdc: Kdc, keytab_of: dict[str, Path]
) -> None:
    settings = secured(keytab_of) | {"connections.max.reauth.ms": str(SESSION_S * 1000)}
    with Cluster(3, properties=settings) as cluster, kdc.as_client(keytab_of["app-alice"]):
        topic = cluster.create_topic(partitions=1, replication_factor=3)
        producer = KafkaProducer(**python(cluster), acks="all")
        until, written = time.monotonic() + 2.5 * SESSION_S, 0
        while time.monotonic() < until:
            producer.send(topic, b"%d" % written).get(30)
            written += 1
        producer.close()
        assert [record.value for record in cluster.records(topic, 0)] == [
            b"%d" % number for number in range(written)
        ]


def test_aiokafka_logs_in(kdc: Kdc, cluster: Cluster, keytab_of: dict[str, Path]) -> None:
    topic = cluster.create_topic(partitions=1, replication_factor=3)

    async def play() -> bytes | None:
        async with AIOKafkaProducer(**python(cluster), acks="all") as producer:
            await producer.send_and_wait(topic, b"value")
        async with AIOKafkaConsumer(
            topic, **python(cluster), auto_offset_reset="earliest"
        ) as consumer:
            value: bytes | None = (await consumer.getone()).value
            return value

    with kdc.as_client(keytab_of["app-alice"]):
        assert asyncio.run(play()) == b"value"


def test_user_is_the_one_of_the_ticket(
    kdc: Kdc, cluster: Cluster, keytab_of: dict[str, Path]
) -> None:
    topic = cluster.create_topic(partitions=1, replication_factor=3)
    with kdc.as_client(keytab_of["bob"]):
        producer = KafkaProducer(**python(cluster), acks="all")
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send(topic, b"value").get(30)
        producer.close()


def test_command_line_logs_in_with_a_keytab_at_its_own_service_alone(
    cluster: Cluster, keytab_of: dict[str, Path], tmp_path: Path
) -> None:
    topic = cluster.create_topic(partitions=1, replication_factor=3)
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties(keytab_of).items()))
    listed = raftka(cluster, "topics", "list", "--command-config", str(file))
    assert topic in listed.stdout, listed.stderr
    refused = raftka(
        cluster,
        "topics",
        "list",
        "--command-config",
        str(file),
        "-X",
        "sasl.kerberos.service.name=other",
    )
    assert refused.returncode != 0
    assert "invalid credentials with SASL mechanism GSSAPI" in refused.stderr


def test_java_logs_in(
    kdc: Kdc, cluster: Cluster, keytab_of: dict[str, Path], java_tools: Program, tmp_path: Path
) -> None:
    topic = cluster.create_topic(partitions=1, replication_factor=3)
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties(keytab_of).items()))
    java = replace(
        java_tools,
        env={**os.environ, "JDK_JAVA_OPTIONS": f"-Djava.security.krb5.conf={kdc.config}"},
    )
    with JavaTools(java, cluster.bootstrap_servers) as tools:
        tools.run(
            f"kafka-console-producer --topic {topic} --command-config {file}", given="value\n"
        )
        read = (
            f"kafka-console-consumer --topic {topic} --from-beginning --max-messages 1 "
            f"--timeout-ms 30000 --command-config {file}"
        )
        assert "value" in tools.run(read).splitlines()


def test_kcat_logs_in(cluster: Cluster, keytab_of: dict[str, Path], kcat: Program) -> None:
    """librdkafka has Cyrus SASL and `kinit` do it, so there must be both."""
    if shutil.which("kinit") is None or not any(Path("/usr/lib").glob("**/sasl2/libgssapiv2.so")):
        pytest.skip(
            "there is no kinit, or no Cyrus SASL with GSSAPI (on Debian: apt install krb5-user "
            "libsasl2-modules-gssapi-mit)"
        )
    topic = cluster.create_topic(partitions=1, replication_factor=3)
    settings = {
        name: value for name, value in properties(keytab_of).items() if name != "sasl.jaas.config"
    }
    settings |= {
        "sasl.kerberos.principal": f"app-alice@{REALM}",
        "sasl.kerberos.keytab": str(keytab_of["app-alice"]),
    }
    options = [part for name, value in settings.items() for part in ("-X", f"{name}={value}")]
    env = {
        **kcat.env,
        **{name: value for name, value in os.environ.items() if name.startswith("KRB5")},
    }
    env["KRB5CCNAME"] = f"FILE:{keytab_of['app-alice'].parent}/kcat"
    to = [*kcat.command, "-b", cluster.bootstrap_servers, *options, "-t", topic]
    run([*to, "-P"], env, given="value\n")
    assert run([*to, "-C", "-o", "beginning", "-e", "-q"], env) == "value\n"
