"""Topics that groups of kafka-python's consumers read."""

from kafka import KafkaAdminClient, KafkaProducer

from raftka.cluster.processes import Processes
from tests.clients.members import FAILURES, Member
from tests.clients.workload import wait

PARTITIONS, RECORDS = 6, 50


def fill(cluster: Processes, topic: str, partitions: int = PARTITIONS) -> str:
    """Create the topic and fill each partition. Return the topic."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    try:
        admin.create_topics(
            {topic: {"num_partitions": partitions, "replication_factor": 3}}, wait_for_metadata=True
        )
    finally:
        admin.close()
    produce(cluster, topic, partitions)
    return topic


def produce(cluster: Processes, topic: str, partitions: int = PARTITIONS) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=5)
    try:
        for i in range(RECORDS):
            for partition in range(partitions):
                producer.send(topic, b"%d" % i, partition=partition)
        producer.flush(timeout=60)
    finally:
        producer.close(timeout=30)


def read_up_to(members: list[Member], offset: int, partitions: int = PARTITIONS) -> None:
    def there() -> bool:
        return all(
            any(member.read[p] and member.read[p][-1] == offset - 1 for member in members)
            for p in range(partitions)
        )

    wait(there)


def committed(member: Member) -> dict[int, int]:
    """Return the committed offsets. Ask again during a rebalance and without a coordinator."""
    found: dict[int, int] = {}

    def done() -> bool:
        try:
            found.update(member.commit())
        except FAILURES:
            return False
        return True

    wait(done)
    return found
