"""confluent-kafka's share consumer as a program for the tests: brokers, topic, group and further
settings as JSON. It knows no test.

It reads commands, and answers each with a line: `poll MS` with `ok` and the records, as
partition:offset:deliveries:value; `ack PARTITION:OFFSET TYPE` and `commit` with `ok`, or `error`
and the reason. It ends when there are no commands left.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any

from confluent_kafka import AcknowledgeType, KafkaException, ShareConsumer


def main(brokers: str, topic: str, group: str, settings: str) -> None:
    config = {"bootstrap.servers": brokers, "group.id": group, "log_level": 0}
    consumer = ShareConsumer(config | json.loads(settings))
    consumer.subscribe([topic])
    polled: dict[str, Any] = {}
    for line in sys.stdin:
        try:
            said = "ok" + answer(consumer, polled, line.split())
        except KafkaException as refused:
            said = f"error {refused.args[0].name()}"
        print(said, flush=True)
    consumer.close()


def answer(consumer: Any, polled: dict[str, Any], command: Sequence[str]) -> str:
    """Carry out a command; return the rest of its answer. Raises KafkaException."""
    records = ""
    if command[0] == "poll":
        for each in consumer.poll(int(command[1]) / 1000):
            if each.error() is not None:
                raise KafkaException(each.error())
            place = f"{each.partition()}:{each.offset()}"
            polled[place] = each
            records += f" {place}:{each.delivery_count()}:{each.value().decode()}"
    elif command[0] == "ack":
        consumer.acknowledge(polled[command[1]], AcknowledgeType[command[2]])
    else:
        for refused in consumer.commit_sync(10.0).values():
            if refused is not None:
                raise refused
    return records


if __name__ == "__main__":
    main(*sys.argv[1:])
