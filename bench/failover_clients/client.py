"""Clients in Python for bench/failover.py: a line for each acknowledged record, record read, or
commit. Everything is at its default, but that acks=all. Arguments: client, mode, bootstrap servers,
topic, group.
"""

import asyncio
import sys
import time
from typing import Any

PAUSE_S = 0.01


def tell(*_: Any) -> None:
    sys.stdout.write(".\n")
    sys.stdout.flush()


def librdkafka(mode: str, servers: str, topic: str, group: str) -> None:
    from confluent_kafka import OFFSET_END, Consumer, KafkaException, Producer, TopicPartition

    if mode == "produce":
        producer = Producer({"bootstrap.servers": servers})
        while True:
            producer.produce(
                topic,
                b"x",
                partition=0,
                on_delivery=lambda error, _: tell() if error is None else None,
            )
            producer.poll(PAUSE_S)
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False}
    )
    if mode == "consume":
        consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
        while True:
            if (message := consumer.poll(1.0)) is not None and message.error() is None:
                tell()
    consumer.subscribe([topic])
    offset = 0
    while True:
        consumer.poll(PAUSE_S)
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        except KafkaException:
            continue
        tell()
        offset += 1


def kafka_python(mode: str, servers: str, topic: str, group: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata

    given, partition = {"bootstrap_servers": servers}, TopicPartition(topic, 0)
    if mode == "produce":
        producer = KafkaProducer(**given, acks="all")
        while True:
            producer.send(topic, b"x", partition=0).add_callback(tell)
            time.sleep(PAUSE_S)
    if mode == "consume":
        consumer = KafkaConsumer(**given)
        consumer.assign([partition])
        consumer.seek_to_end(partition)
        for _ in consumer:
            tell()
    consumer = KafkaConsumer(topic, **given, group_id=group, enable_auto_commit=False)
    offset = 0
    while True:
        consumer.poll(timeout_ms=PAUSE_S * 1000)
        try:
            consumer.commit({partition: OffsetAndMetadata(offset, "", -1)})
        except KafkaError:
            continue
        tell()
        offset += 1


async def _aiokafka(mode: str, servers: str, topic: str, group: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
    from aiokafka.errors import KafkaError

    partition = TopicPartition(topic, 0)
    if mode == "produce":
        producer = AIOKafkaProducer(bootstrap_servers=servers, acks="all")
        await producer.start()
        while True:
            (await producer.send(topic, b"x", partition=0)).add_done_callback(
                lambda done: tell() if done.exception() is None else None
            )
            await asyncio.sleep(PAUSE_S)
    if mode == "consume":
        consumer = AIOKafkaConsumer(bootstrap_servers=servers)
        await consumer.start()
        consumer.assign([partition])
        await consumer.seek_to_end(partition)
        async for _ in consumer:
            tell()
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=servers, group_id=group, enable_auto_commit=False
    )
    await consumer.start()
    offset = 0
    while True:
        await consumer.getmany(timeout_ms=int(PAUSE_S * 1000))
        try:
            await consumer.commit({partition: offset})
        except KafkaError:
            continue
        tell()
        offset += 1


def aiokafka(*arguments: str) -> None:
    asyncio.run(_aiokafka(*arguments))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
