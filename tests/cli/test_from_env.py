"""`--from-env` with the environments of real projects' compose files: each starts, and a client
finds it where the file says. `raftka config from-env` and `raftka broker health` beside it.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from tests.kit.checkout import FROM_CHECKOUT
from tests.kit.composes import Running, services_of, started

COMPOSES = Path(__file__).parent / "composes"
REFUSED = ("zookeeper",)
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "alice-secret",
}
# for a client of the machine: the port of the file, and more properties
CLIENTS: Mapping[str, tuple[int, dict[str, str]]] = {
    "bitnami_external": (9094, {}),
    "inside_outside": (9094, {}),
    "logins": (9092, LOGIN),
}


def run(*arguments: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "raftka.cli", *arguments],
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )


def address(running: Running, port: int) -> str:
    return f"127.0.0.1:{running.ports[port]}"


def check_record(client: Mapping[str, str], topic: str = "from-env") -> None:
    """A record that a client sends comes back to another one, in a group."""
    producer = Producer({**client, "acks": "all"})
    failures: list[object] = []
    producer.produce(topic, b"value", on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(30) == 0
    assert failures == [None]
    consumer = Consumer({**client, "group.id": "g", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(30)
        assert message is not None
        assert (message.error(), message.value()) == (None, b"value")
    finally:
        consumer.close()


@pytest.mark.parametrize(
    "name", sorted(each.stem for each in COMPOSES.glob("*.yaml") if each.stem not in REFUSED)
)
def test_a_compose_file_starts(name: str, tmp_path: Path) -> None:
    with started(services_of(COMPOSES / f"{name}.yaml"), tmp_path) as running:
        assert [each.process.poll() for each in running] == [None] * len(running), running[0].text
        port, more = CLIENTS.get(name, (9092, {}))
        brokers = [each for each in running if port in each.ports]
        client = {
            "bootstrap.servers": ",".join(address(each, port) for each in brokers),
            "log_level": "0",
            **more,
        }
        admin = AdminClient(client)
        if "false" in brokers[0].environment.get("KAFKA_AUTO_CREATE_TOPICS_ENABLE", ""):
            from confluent_kafka.admin import NewTopic

            for future in admin.create_topics([NewTopic("from-env", 1, 1)]).values():
                future.result(30)
        check_record(client)
        found = admin.list_topics(timeout=30)
        assert {f"{each.host}:{each.port}" for each in found.brokers.values()} == {
            address(each, port) for each in brokers
        }
        given = running[0].environment
        cluster_id = given.get("CLUSTER_ID") or given.get("KAFKA_KRAFT_CLUSTER_ID")
        assert cluster_id in (None, found.cluster_id)
        for each in running:
            check = run("broker", "health", "--from-env", str(each.below), env=each.environment)
            assert (check.returncode, check.stdout) == (0, "ok\n"), check.stderr
        for each in running:
            each.process.send_signal(signal.SIGTERM)
        assert [each.process.wait(20) for each in running] == [0] * len(running)
        assert [path.name for path in tmp_path.rglob("*.pid")] == []


def test_topics_of_the_environment_are_there_when_the_node_is_ready(tmp_path: Path) -> None:
    with started(services_of(COMPOSES / "inside_outside.yaml"), tmp_path) as (running,):
        admin = AdminClient({"bootstrap.servers": address(running, 9094)})
        topics = admin.list_topics(timeout=30).topics

        assert {name: len(topic.partitions) for name, topic in topics.items()} == {
            "orders": 3,
            "prices": 1,
        }
        assert all(p.leader == 1 for topic in topics.values() for p in topic.partitions.values())


def test_what_is_passed_over_is_told(tmp_path: Path) -> None:
    with started(services_of(COMPOSES / "confluent_local.yaml"), tmp_path) as (running,):
        for name in ("KAFKA_HEAP_OPTS", "KAFKA_JMX_PORT", "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE"):
            assert f"raftka: {name} is passed over: " in running.text


def test_zookeeper_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with started(services_of(COMPOSES / "zookeeper.yaml"), tmp_path) as (running,):
        assert running.process.poll() == 1
        assert (
            "raftka: the environment: KAFKA_CFG_ZOOKEEPER_CONNECT: there is no ZooKeeper: take out "
            "the variable and ZooKeeper's container." in running.text
        )
        assert "Traceback" not in running.text


@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is an address of Linux alone")
def test_a_client_is_told_the_address_at_which_it_reached_the_node(tmp_path: Path) -> None:
    with started(services_of(COMPOSES / "bitnami_single.yaml"), tmp_path) as (running,):
        for host in ("127.0.0.1", "127.0.0.2"):
            client = {"bootstrap.servers": f"{host}:{running.ports[9092]}", "log_level": "0"}
            (broker,) = AdminClient(client).list_topics(timeout=30).brokers.values()
            assert (broker.host, broker.port) == (host, running.ports[9092])
            check_record(client, topic=f"by-{host}")


# raftka config from-env

ENVIRONMENT = {
    **{name: value for name, value in FROM_CHECKOUT.items() if not name.startswith("KAFKA_")},
    "KAFKA_NUM_PARTITIONS": "7",
    "KAFKA_SSL_KEY_PASSWORD": "secret",
    "KAFKA_HEAP_OPTS": "-Xmx1G",
}


def test_config_from_env_prints_a_file_that_starts_the_same_node(tmp_path: Path) -> None:
    file = tmp_path / "below.properties"
    file.write_text("log.dirs=/data\nnum.partitions=3\n")

    printed = run("config", "from-env", str(file), env=ENVIRONMENT)

    assert printed.returncode == 0, printed.stderr
    lines = printed.stdout.splitlines()
    assert {"num.partitions=7", "log.dirs=/data", "ssl.key.password=(hidden)"} <= set(lines)
    assert printed.stderr == "raftka: KAFKA_HEAP_OPTS is passed over: there is no JVM\n"
    shown = run("config", "from-env", str(file), "--show-secrets", env=ENVIRONMENT)
    assert "ssl.key.password=secret" in shown.stdout.splitlines()
    again = tmp_path / "again.properties"
    again.write_text(shown.stdout)
    assert run("config", "show", str(again), env=ENVIRONMENT).returncode == 0


def test_config_from_env_as_json() -> None:
    printed = run("config", "from-env", "-o", "json", env=ENVIRONMENT)

    rows = {row["setting"]: row["value"] for row in map(json.loads, printed.stdout.splitlines())}
    assert (rows["num.partitions"], rows["ssl.key.password"]) == ("7", "(hidden)")


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("KAFKA_LOG_RETENTON_MS", "1", "did you mean log.retention.ms (KAFKA_LOG_RETENTION_MS)?"),
        ("KAFKA_SSL_KEY_PASSWORD_FILE", "/dev/zero", "cannot be read: it has more than 4194304"),
        ("KAFKA_LOG_RETENTION_MS", "soon", "Invalid value soon for configuration log.retention.ms"),
    ],
)
def test_config_from_env_refuses_what_the_node_would_refuse(
    variable: str, value: str, told: str
) -> None:
    refused = run("config", "from-env", env={**ENVIRONMENT, variable: value})

    assert refused.returncode == 1
    assert told in refused.stderr


# raftka broker health


def test_health_of_a_node_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "below.properties"
    file.write_text("metrics.port=1\n")

    asked = run("broker", "health", "--from-env", str(file), env=ENVIRONMENT)
    assert asked.returncode == 1
    assert asked.stderr == ("raftka: no answer from 127.0.0.1:1: [Errno 111] Connection refused\n")

    file.write_text("")
    asked = run("broker", "health", "--from-env", str(file), env=ENVIRONMENT)
    assert "has no fixed metrics.port" in asked.stderr
    assert run("broker", "health", env=ENVIRONMENT).returncode == 2
