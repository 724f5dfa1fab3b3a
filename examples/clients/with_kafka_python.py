"""Produce and consume with kafka-python: `with_kafka_python.py [BOOTSTRAP_SERVERS]`."""

import sys

from kafka import KafkaConsumer, KafkaProducer

TOPIC = "hello-kafka-python"


def main(bootstrap_servers: str) -> None:
    with KafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        for number in range(3):
            producer.send(TOPIC, key=b"key", value=b"value-%d" % number).get(10)

    with KafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap_servers,
        group_id="hello",
        auto_offset_reset="earliest",
    ) as consumer:
        for _, record in zip(range(3), consumer, strict=False):
            print(record.key.decode(), record.value.decode())


if __name__ == "__main__":
    main(*sys.argv[1:] or ["localhost:9092"])
