"""KafkaContainer without Docker: what testcontainers' own tests and users do with it works, and the
rest is refused by name.
"""

import socket

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from raftka.testing.containers import REFUSED, TAKEN, KafkaContainer, NeedsDocker, kafka_config


def round_trip(server: str) -> None:
    """Send a record to a topic that is made by it, and count it."""
    with KafkaProducer(bootstrap_servers=[server]) as producer:
        producer.send("first-topic", b"hello").get(10)
    with KafkaConsumer(bootstrap_servers=[server]) as consumer:
        where = TopicPartition("first-topic", 0)
        consumer.assign([where])
        assert consumer.end_offsets([where]) == {where: 1}


@pytest.mark.parametrize(
    "container",
    [
        KafkaContainer(),
        KafkaContainer("confluentinc/cp-kafka:7.6.0").with_kraft(),
        KafkaContainer(port=9888),
        KafkaContainer(name="kafka", platform="linux/amd64").with_name("k").maybe_emulate_amd64(),
    ],
    ids=["plain", "kraft", "port", "names"],
)
def test_a_container_serves_while_it_is_open(container: KafkaContainer) -> None:
    assert container.status == "not_started"
    with container as kafka:
        server = kafka.get_bootstrap_server()
        assert server == f"{kafka.get_container_host_ip()}:{kafka.get_exposed_port(kafka.port)}"
        assert kafka.status == "running"
        round_trip(server)
        assert b'"event": "started"' in kafka.get_logs()[0]
        assert [record.value for record in kafka.cluster.records("first-topic")] == [b"hello"]
    host, _, port = server.rpartition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


def test_start_and_stop_as_many_fixtures_do_it() -> None:
    container = KafkaContainer().with_env("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "true")
    assert container.start(timeout=60) is container
    with pytest.raises(RuntimeError, match="runs already"):
        container.start()
    container.stop()
    container.stop()
    with pytest.raises(RuntimeError, match="is not started"):
        container.get_bootstrap_server()
    with container:
        round_trip(container.get_bootstrap_server())


def test_variables_are_settings() -> None:
    container = KafkaContainer(env={"KAFKA_NUM_PARTITIONS": "3", "TZ": "UTC"})
    container.with_envs(KAFKA_HEAP_OPTS="-Xmx1G", KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE="0")
    container.with_env("KAFKA_LOG_RETENTION_MS", "1000")
    assert container.env["KAFKA_HEAP_OPTS"] == "-Xmx1G"
    with container.with_cluster_id("4L6g3nShT-eMCtK--X86sw") as kafka:
        with KafkaAdminClient(bootstrap_servers=kafka.get_bootstrap_server()) as admin:
            assert admin.describe_cluster()["cluster_id"] == "4L6g3nShT-eMCtK--X86sw"
        topic = kafka.cluster.create_topic(partitions=-1)
        assert kafka.cluster.records(topic, partition=2) == []

    with pytest.raises(ValueError, match=r"there is no setting log\.retention\.huors"):
        KafkaContainer().with_env("KAFKA_LOG_RETENTION_HUORS", "1")
    with pytest.raises(ValueError, match=r"KAFKA_ADVERTISED_LISTENERS: advertised\.listeners foll"):
        KafkaContainer().with_env("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://kafka:9092")


def test_a_port_of_this_machine_can_be_chosen() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        if port + 100 > 65535:
            pytest.skip("the free port is too high for the controller's, which is 100 above it")
    with KafkaContainer().with_bind_ports(9093, port) as kafka:
        assert kafka.get_bootstrap_server() == f"127.0.0.1:{port}"
        assert kafka.get_exposed_port(9093) == port
    with (
        KafkaContainer(ports=[9093]).with_exposed_ports("9093/tcp") as kafka,
        pytest.raises(ValueError, match="nothing listens on port 8081: the broker has 9093"),
    ):
        kafka.get_exposed_port(8081)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_needs_docker_is_refused_by_its_name(name: str) -> None:
    container = KafkaContainer()
    with pytest.raises(NeedsDocker, match=f"^KafkaContainer of raftka has no '{name}': "):
        getattr(container, name)
    with pytest.raises(NeedsDocker, match=f"'{name}'"):
        container.with_kwargs(**{name: object()})


def test_other_arguments() -> None:
    KafkaContainer().with_kwargs(**dict.fromkeys(TAKEN), network=None)
    with pytest.raises(TypeError, match="no argument 'imgae'"):
        KafkaContainer(imgae="kafka")
    with pytest.raises(ValueError, match="security_protocol='SSL': secured brokers are"):
        KafkaContainer(security_protocol="SSL")
    with pytest.raises(AttributeError, match="no attribute 'get_bootstrap_serve'"):
        KafkaContainer().get_bootstrap_serve()
    kafka_config.limit_broker_to_first_host = False
