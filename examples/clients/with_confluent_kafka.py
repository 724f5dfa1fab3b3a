"""Produce and consume with confluent-kafka: `with_confluent_kafka.py [BOOTSTRAP_SERVERS]`."""

import sys

from confluent_kafka import Consumer, KafkaException, Producer

TOPIC = "hello-confluent-kafka"


def main(bootstrap_servers: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})
    for number in range(3):
        producer.produce(TOPIC, key="key", value=f"value-{number}")
    producer.flush(10)

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "hello",
            "group.protocol": "consumer",  # the new protocol of groups, KIP-848
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([TOPIC])
    read = 0
    while read < 3:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        print(message.key().decode(), message.value().decode())
        read += 1
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:] or ["localhost:9092"])
