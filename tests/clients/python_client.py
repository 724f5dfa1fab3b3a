"""Clients of Python as programs for the tests: produce lines key:value, or print records as such
lines for ever. It knows no test.

`python -m tests.clients.python_client LIBRARY produce|follow BROKERS TOPIC`; CLIENT_OPTIONS has the
client's own options as JSON, CLIENT_PATIENCE_S the time after which it gives up.
"""

import asyncio
import json
import logging
import os
import ssl
import sys
from typing import Any
from urllib.request import urlopen

LIBRARY, VERB, BROKERS, TOPIC = sys.argv[1:]
OPTIONS: dict[str, Any] = json.loads(os.environ["CLIENT_OPTIONS"])
GROUP = f"g-{TOPIC}"
PATIENCE_S = int(os.environ["CLIENT_PATIENCE_S"])


def split(line: bytes) -> tuple[bytes, bytes]:
    key, _, value = line.strip().partition(b":")
    return key, value


def show(key: bytes, value: bytes) -> None:
    print(f"{key.decode()}:{value.decode()}", flush=True)


def token_of(url: str) -> str:
    with urlopen(url, b"", timeout=10) as answer:
        token: str = json.load(answer)["access_token"]
        return token


def kafka_python() -> None:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def __init__(self, url: str) -> None:
            super().__init__()
            self.url = url

        def token(self) -> str:
            return token_of(self.url)

    options = {**OPTIONS, "bootstrap_servers": BROKERS.split(",")}
    if "tokens" in options:
        options["sasl_oauth_token_provider"] = Provider(options.pop("tokens"))
    if VERB == "produce":
        logging.basicConfig()
        patience = {"max_block_ms": PATIENCE_S * 1000, "bootstrap_timeout_ms": PATIENCE_S * 1000}
        producer = KafkaProducer(
            **options, **patience, acks="all", linger_ms=0, enable_idempotence=True
        )
        for key, value in map(split, sys.stdin.buffer):
            producer.send(TOPIC, value, key).get(PATIENCE_S)
        producer.close()
    else:
        for record in KafkaConsumer(TOPIC, **options, group_id=GROUP, auto_offset_reset="earliest"):
            show(record.key, record.value)


def confluent_kafka() -> None:
    from confluent_kafka import Consumer, KafkaException, Producer

    options, refused = {**OPTIONS, "bootstrap.servers": BROKERS}, []
    if VERB == "produce":
        # until a record is acknowledged a refused login is the end, and no reason to try for five
        # minutes
        known = False

        def heard(error: Any) -> None:
            if not known and error.code() in (
                error._AUTHENTICATION,
                error._SSL,
                error._ALL_BROKERS_DOWN,
            ):
                refused.append(error)

        producer = Producer(
            {**options, "linger.ms": 0, "enable.idempotence": True, "error_cb": heard}
        )
        for key, value in map(split, sys.stdin.buffer):
            producer.produce(
                TOPIC,
                value,
                key,
                callback=lambda error, _: refused.append(error) if error else None,
            )
            while producer.flush(1) and not refused:
                pass
            if refused:
                raise KafkaException(refused[0])
            known = True
    else:
        consumer = Consumer({**options, "group.id": GROUP, "auto.offset.reset": "earliest"})
        consumer.subscribe([TOPIC])
        while True:
            record = consumer.poll(1)
            if record is None:
                continue
            if record.error():
                raise KafkaException(record.error())
            show(record.key(), record.value())


async def aiokafka() -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.abc import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def __init__(self, url: str) -> None:
            self.url = url

        async def token(self) -> str:
            return await asyncio.to_thread(token_of, self.url)

    options = {**OPTIONS, "bootstrap_servers": BROKERS}
    authority = options.pop("ssl_cafile", None)
    context = ssl.create_default_context(cafile=authority) if authority else None
    if context is not None and "ssl_certfile" in options:
        context.load_cert_chain(options.pop("ssl_certfile"), options.pop("ssl_keyfile"))
    if "tokens" in options:
        options["sasl_oauth_token_provider"] = Provider(options.pop("tokens"))
    if VERB == "produce":
        given = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(given), sys.stdin
        )
        async with AIOKafkaProducer(
            **options, ssl_context=context, enable_idempotence=True
        ) as producer:
            async for line in given:
                key, value = split(line)
                await producer.send_and_wait(TOPIC, value, key)
    else:
        async with AIOKafkaConsumer(
            TOPIC, **options, ssl_context=context, group_id=GROUP, auto_offset_reset="earliest"
        ) as consumer:
            async for record in consumer:
                show(record.key, record.value)


if __name__ == "__main__":
    if LIBRARY == "kafka-python":
        kafka_python()
    elif LIBRARY == "confluent-kafka":
        confluent_kafka()
    else:
        asyncio.run(aiokafka())
