"""confluent-kafka as a program, for versions that cannot be imported beside today's. It knows no
test, and imports no raftka.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Producer,
    TopicPartition,
    libversion,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

UNDER_WAY = 1_000
WITHIN_S = 30


def produce(servers: str, topic: str) -> None:
    def delivered(error: Any, _message: Any) -> None:
        if error is not None:
            raise KafkaException(error)

    producer = Producer(
        {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 2, "log_level": 0}
    )
    for line in sys.stdin.buffer:
        key, _, value = line.rstrip(b"\n").partition(b":")
        while len(producer) >= UNDER_WAY:
            producer.poll(1)
        producer.produce(topic, key=key, value=value, on_delivery=delivered)
        producer.poll(0)
    producer.flush()


def consume(servers: str, topic: str) -> None:
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "unused", "enable.auto.commit": False}
    )
    where = [
        TopicPartition(topic, p, OFFSET_BEGINNING)
        for p in consumer.list_topics(topic, WITHIN_S).topics[topic].partitions
    ]
    consumer.assign(where)
    left = sum(consumer.get_watermark_offsets(each, WITHIN_S)[1] for each in where)
    while left:
        for message in consumer.consume(500, timeout=1):
            if message.error() is not None:
                raise KafkaException(message.error())
            sys.stdout.buffer.write(b"%s:%s\n" % (message.key(), message.value()))
            left -= 1
    consumer.close()


def administer(servers: str, topic: str) -> None:
    """Prints what came of it as JSON."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    _done(
        admin.create_topics(
            [
                NewTopic(
                    topic, num_partitions=1, replication_factor=2, config={"retention.ms": "7777"}
                )
            ]
        )
    )
    _done(admin.create_partitions([NewPartitions(topic, 3)]))
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    resource.set_config("cleanup.policy", "compact")
    _done(admin.alter_configs([resource]))

    def configs() -> dict[str, str]:
        (described,) = _done(
            admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)])
        )
        return {name: described[name].value for name in ("cleanup.policy", "retention.ms")}

    found = {
        "configs": _until(configs, lambda seen: seen["cleanup.policy"] != "delete"),
        "librdkafka": libversion()[0],
    }
    listed = _until(
        lambda: admin.list_topics(timeout=WITHIN_S),
        lambda seen: len(seen.topics[topic].partitions) == 3,
    )
    found["brokers"] = sorted(listed.brokers)
    _done(admin.delete_topics([topic]))
    _until(lambda: admin.list_topics(timeout=WITHIN_S), lambda seen: topic not in seen.topics)
    print(json.dumps(found))


def _done(futures: dict[Any, Any]) -> list[Any]:
    return [future.result(WITHIN_S) for future in futures.values()]


def _until(ask: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
    """Wait until a change that one broker took is seen through another."""
    while not holds(found := ask()):
        time.sleep(0.02)
    return found


if __name__ == "__main__":
    {"produce": produce, "consume": consume, "administer": administer}[sys.argv[1]](*sys.argv[2:])
