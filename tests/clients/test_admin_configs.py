"""Settings and records through the admin clients of kafka-python and confluent-kafka, as their
users write it.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    OffsetSpec,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka.admin import AlterConfigOp, ConfigResourceType
from kafka.admin import ConfigResource as Resource
from kafka.structs import TopicPartition as Partition

from raftka.cluster.processes import Processes

WITHIN_S = 30


@pytest.fixture
def kafka_python(three_processes: Processes) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=three_processes.bootstrap_servers)
    try:
        yield admin
    finally:
        admin.close()


@pytest.fixture
def confluent(three_processes: Processes) -> AdminClient:
    return AdminClient({"bootstrap.servers": three_processes.bootstrap_servers, "log_level": 0})


def fill(bootstrap_servers: str, topic: str, records: int) -> None:
    refused: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    for i in range(records):
        producer.produce(
            topic,
            b"value",
            b"%d" % i,
            partition=0,
            on_delivery=lambda error, _: refused.append(error) if error else None,
        )
    assert producer.flush(WITHIN_S) == 0
    assert refused == []


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.usefixtures("forgotten_sockets")
def test_kafka_python(three_processes: Processes, kafka_python: KafkaAdminClient) -> None:
    admin = kafka_python
    admin.create_topics(
        {"t": {"num_partitions": 2, "replication_factor": 3}}, wait_for_metadata=True
    )

    def alter(kind: ConfigResourceType, name: str, **values: Any) -> str:
        answers = admin.alter_configs(
            [Resource(kind, name, {key.replace("_", "."): value for key, value in values.items()})]
        )
        return str(answers[kind.name.lower()][name])

    def modified(kind: ConfigResourceType, name: str) -> Any:
        found = admin.describe_configs([Resource(kind, name)], config_filter="dynamic")
        return {
            key: entry["value"]
            for key, entry in found[kind.name.lower()][name].items()
            if entry["config_source"].startswith("DYNAMIC")
            and key != "min.insync.replicas"  # of all brokers, from the beginning
        }

    assert (
        alter(
            ConfigResourceType.TOPIC,
            "t",
            retention_ms="77",
            cleanup_policy=(AlterConfigOp.APPEND, "compact"),
        )
        == "OK"
    )
    assert alter(ConfigResourceType.BROKER, "2", log_cleaner_threads="2") == "OK"
    assert alter(ConfigResourceType.GROUP, "g", consumer_session_timeout_ms="50000") == "OK"
    assert "Not a number of type LONG" in alter(ConfigResourceType.TOPIC, "t", retention_ms="soon")
    assert modified(ConfigResourceType.TOPIC, "t") == {
        "retention.ms": "77",
        "cleanup.policy": "delete,compact",
    }
    assert modified(ConfigResourceType.BROKER, "2") == {"log.cleaner.threads": "2"}
    assert admin.list_config_resources(["GROUP", "TOPIC"]) == {"group": ["g"], "topic": ["t"]}
    fill(three_processes.bootstrap_servers, "t", 10)
    deleted = admin.delete_records({Partition("t", 0): 4})
    assert deleted[Partition("t", 0)]["low_watermark"] == 4
    (topic,) = admin.describe_topic_partitions(["t"])["topics"]
    assert [partition["partition_index"] for partition in topic["partitions"]] == [0, 1]


def test_confluent_kafka(
    three_processes: Processes, kafka_python: KafkaAdminClient, confluent: AdminClient
) -> None:
    kafka_python.create_topics(
        {"t": {"num_partitions": 1, "replication_factor": 3}}, wait_for_metadata=True
    )

    def alter(kind: ResourceType, name: str, **values: str) -> Any:
        entries = [
            ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for key, value in values.items()
        ]
        (done,) = confluent.incremental_alter_configs(
            [ConfigResource(kind, name, incremental_configs=entries)]
        ).values()
        return done.exception(WITHIN_S)

    def described(kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
        (done,) = confluent.describe_configs([ConfigResource(kind, name)]).values()
        found: dict[str, ConfigEntry] = done.result(WITHIN_S)
        return found

    assert alter(ResourceType.TOPIC, "t", retention_ms="77") is None
    assert (
        alter(
            ResourceType.BROKER,
            "3",
            log_retention_ms="88",
            ssl_endpoint_identification_algorithm="",
        )
        is None
    )
    assert "Unknown topic config name: no.such" in str(alter(ResourceType.TOPIC, "t", no_such="1"))
    assert "Cannot update these configs dynamically: [log.dirs]" in str(
        alter(ResourceType.BROKER, "3", log_dirs="/x")
    )

    own = described(ResourceType.TOPIC, "t")["retention.ms"]
    assert (own.value, own.source) == ("77", ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
    of_broker = described(ResourceType.BROKER, "3")
    assert (of_broker["log.retention.ms"].value, of_broker["log.retention.ms"].source) == (
        "88",
        ConfigSource.DYNAMIC_BROKER_CONFIG.value,
    )
    assert of_broker["node.id"].is_read_only
    assert of_broker["ssl.key.password"].is_sensitive
    fill(three_processes.bootstrap_servers, "t", 10)
    (deleted,) = confluent.delete_records([TopicPartition("t", 0, 4)]).values()
    assert deleted.result(WITHIN_S).low_watermark == 4
    (earliest,) = confluent.list_offsets({TopicPartition("t", 0): OffsetSpec.earliest()}).values()
    assert earliest.result(WITHIN_S).offset == 4
