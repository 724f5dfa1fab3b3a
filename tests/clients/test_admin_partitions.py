"""More partitions, elections, moving replicas, the quorum: through the admin clients of
kafka-python and confluent-kafka, as their users write it.
"""

from collections.abc import Iterator

import pytest
from confluent_kafka import ElectionType, KafkaException, Producer, TopicPartition
from confluent_kafka import KafkaError as ClientError
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, PartitionMetadata
from kafka import KafkaAdminClient
from kafka import TopicPartition as Partition
from kafka.errors import KafkaError

from raftka.cluster.processes import Processes
from tests.clients.workload import wait

WITHIN_S = 30
# librdkafka asks on a connection that has just broken, and then tries the dead broker alone until
# the time is up
ASK_AGAIN_S = 3


@pytest.fixture
def kafka_python(three_processes: Processes) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=three_processes.bootstrap_servers)
    try:
        yield admin
    finally:
        admin.close()


def test_confluent_kafka_adds_partitions_and_elects(three_processes: Processes) -> None:
    admin = AdminClient({"bootstrap.servers": three_processes.bootstrap_servers, "log_level": 0})
    for future in admin.create_topics([NewTopic("t", 1, replica_assignment=[[1, 2, 3]])]).values():
        future.result(WITHIN_S)
    for future in admin.create_partitions(
        [NewPartitions("t", 4, [[2, 3, 1], [3, 1, 2], [1, 3, 2]])]
    ).values():
        future.result(WITHIN_S)

    def partitions() -> dict[int, PartitionMetadata]:
        try:
            found: dict[int, PartitionMetadata] = (
                admin.list_topics("t", ASK_AGAIN_S).topics["t"].partitions
            )
        except KafkaException as error:
            if error.args[0].code() == ClientError._TIMED_OUT:
                return {}
            raise
        return found

    def leaders() -> list[int]:
        return [each.leader for _, each in sorted(partitions().items())]

    def in_sync() -> bool:
        return [len(each.isrs) for each in partitions().values()] == [3] * 4

    wait(lambda: leaders() == [1, 2, 3, 1])
    refused: list[object] = []
    producer = Producer({"bootstrap.servers": three_processes.bootstrap_servers, "log_level": 0})
    producer.produce("t", b"x", partition=3, on_delivery=lambda error, _: refused.append(error))
    assert producer.flush(WITHIN_S) == 0
    assert refused == [None]

    three_processes.kill(1)
    wait(lambda: set(leaders()) == {2, 3})
    three_processes.start(1)
    wait(in_sync)
    found = admin.elect_leaders(
        ElectionType.PREFERRED,
        [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 3)],
    ).result(WITHIN_S)
    assert {
        (p.topic, p.partition): error.name() if error is not None else None
        for p, error in found.items()
    } == {
        ("t", 0): None,
        ("t", 1): "ELECTION_NOT_NEEDED",
        ("t", 3): None,
    }
    wait(lambda: leaders() == [1, 2, 3, 1])


def test_kafka_python_moves_replicas_and_looks_at_the_quorum(
    kafka_python: KafkaAdminClient,
) -> None:
    kafka_python.create_topics({"t": {"num_partitions": 2, "replication_factor": 2, "configs": {}}})
    kafka_python.create_partitions({"t": 3})

    def replicas(index: int) -> tuple[list[int], set[int]]:
        found = next(
            p
            for p in kafka_python.describe_topics(["t"])[0]["partitions"]
            if p["partition_index"] == index
        )
        return list(found["replica_nodes"]), set(found["isr_nodes"])

    target = {0: [1, 2, 3], 1: [3]}
    answers = kafka_python.alter_partition_reassignments(
        {Partition("t", index): brokers for index, brokers in target.items()}
    )
    assert set(answers.values()) == {None}
    wait(
        lambda: all(replicas(index) == (brokers, set(brokers)) for index, brokers in target.items())
    )
    wait(lambda: kafka_python.list_partition_reassignments() == {})
    (refused,) = kafka_python.alter_partition_reassignments({Partition("t", 0): None}).values()
    assert issubclass(refused, KafkaError)
    assert refused.__name__ == "NoReassignmentInProgressError"

    quorum = kafka_python.describe_metadata_quorum()["topics"][0]["partitions"][0]
    assert {each["replica_id"] for each in quorum["current_voters"]} == {1, 2, 3}
    assert quorum["leader_id"] in {1, 2, 3}
    with pytest.raises(KafkaError, match="does not support this feature"):
        kafka_python.update_features({"bogus": 1})
    kafka_python.update_features({"metadata.version": 33})
    kafka_python.elect_leaders(0, {"t": [0, 1, 2]}, raise_errors=False)
