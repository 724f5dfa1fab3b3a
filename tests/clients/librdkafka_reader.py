"""Read a topic with confluent-kafka."""

from collections.abc import Iterator

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.clients.workload import PARTITIONS, TOPIC


def read_all(bootstrap_servers: str) -> Iterator[tuple[bytes, bytes]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(TOPIC, p, OFFSET_BEGINNING) for p in range(PARTITIONS)])
        ended: set[int] = set()
        while len(ended) < PARTITIONS:
            for message in consumer.consume(500, timeout=1):
                error = message.error()
                if error is None:
                    yield message.key(), message.value()
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
    finally:
        consumer.close()
