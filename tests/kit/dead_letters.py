"""Dead letters as programs write them: the headers of each convention, for one origin."""

import struct
import time
from collections.abc import Sequence

from raftka.client.blocking.client import Client
from raftka.client.blocking.producer import NOBODY, Producer

Headers = tuple[tuple[str, bytes | None], ...]

OWN: Headers = (("trace", b"7"), ("x-tenant", None))  # of the record before it failed
# of the first letter: older ones would fall to the retention of a node that runs for a while
BEGIN_MS = round(time.time() * 1000) - 3_600_000
ERROR, MESSAGE, STACK = "java.lang.IllegalStateException", "no price for item 4711", "at a.B(1)"


def connect(topic: str = "orders", partition: int = 1, offset: int = 42, **of: str) -> Headers:
    """By Kafka Connect with errors.deadletterqueue.context.headers.enable. `of`: error, message."""
    texts = {
        "topic": topic,
        "partition": str(partition),
        "offset": str(offset),
        "connector.name": "sink",
        "task.id": "0",
        "stage": "VALUE_CONVERTER",
        "class.name": "org.apache.kafka.connect.json.JsonConverter",
        "exception.class.name": of.get("error", ERROR),
        "exception.message": of.get("message", MESSAGE),
        "exception.stacktrace": STACK,
    }
    return tuple((f"__connect.errors.{name}", text.encode()) for name, text in texts.items())


def spring(topic: str = "orders", partition: int = 1, offset: int = 42) -> Headers:
    """By Spring Kafka's DeadLetterPublishingRecoverer: numbers are binary."""
    outer = "org.springframework.kafka.listener.ListenerExecutionFailedException"
    return (
        ("kafka_dlt-exception-fqcn", outer.encode()),
        ("kafka_dlt-exception-cause-fqcn", ERROR.encode()),
        ("kafka_dlt-exception-message", MESSAGE.encode()),
        ("kafka_dlt-exception-stacktrace", STACK.encode()),
        ("kafka_dlt-original-topic", topic.encode()),
        ("kafka_dlt-original-partition", struct.pack(">i", partition)),
        ("kafka_dlt-original-offset", struct.pack(">q", offset)),
        ("kafka_dlt-original-timestamp", struct.pack(">q", 1_700_000_000_000)),
        ("kafka_dlt-original-timestamp-type", b"CreateTime"),
        ("kafka_dlt-original-consumer-group", b"billing"),
    )


def share_group(topic: str = "orders", partition: int = 1, offset: int = 42) -> Headers:
    """By a broker, of a share group (KIP-1191)."""
    texts = {
        "topic": topic,
        "partition": str(partition),
        "offset": str(offset),
        "group": "billing",
        "delivery.count": "5",
        "message": "Offset rejected by client.",
    }
    return tuple((f"__dlq.errors.{name}", text.encode()) for name, text in texts.items())


def streams(topic: str = "orders", partition: int = 1, offset: int = 42) -> Headers:
    """By Kafka Streams (KIP-1034)."""
    texts = {
        "exception": f"{ERROR}: {MESSAGE}",
        "stacktrace": STACK,
        "message": MESSAGE,
        "topic": topic,
        "partition": str(partition),
        "offset": str(offset),
    }
    return tuple((f"__streams.errors.{name}", text.encode()) for name, text in texts.items())


def pipeline(topic: str = "orders", partition: int = 1, offset: int = 42) -> Headers:
    """By a flow of the pipeline: these headers and no others."""
    texts = {
        "topic": topic,
        "partition": str(partition),
        "offset": str(offset),
        "timestamp": "1700000000000",
        "error": MESSAGE,
    }
    return tuple((name, text.encode()) for name, text in texts.items())


def validation(topic: str = "orders", partition: int = 1) -> Headers:
    """By a broker that checks schemas."""
    texts = {
        "topic": topic,
        "partition": str(partition),
        "timestamp": "1700000000000",
        "reason": MESSAGE,
    }
    return tuple((f"raftka.dead.letter.{name}", text.encode()) for name, text in texts.items())


def write_letters(
    client: Client,
    topic: str,
    letters: Sequence[tuple[bytes | None, bytes | None, Headers]],
    partition: int = 0,
    *,
    begin_ms: int = BEGIN_MS,
) -> None:
    """Write key, value and headers of each; their timestamps are a second apart."""
    producer = Producer(client, identity=NOBODY)
    for number, (key, value, headers) in enumerate(letters):
        producer.add((topic, partition), (key, value, headers, begin_ms + 1_000 * number))
    producer.flush()
