"""Consume, transform, produce, exactly once: a program that copies every record of a topic to
another in transactions, some of which it aborts.

`python -m tests.clients.transformer LIBRARY BOOTSTRAP_SERVERS RECORDS`. It may be killed and
started again at any moment; it ends when the offsets of all records are committed. After an error
that ends a transaction it begins anew, as an application would.

Now and then when a leader has died, kafka-python 3.0.12 waits without limit for an offset commit
that it has not sent: its sender sleeps. So the program ends with BEGINS_ANEW when nothing has
happened for SILENT_S.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping
from random import Random
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka

SOURCE, TARGET, GROUP, TRANSACTIONAL_ID = "source", "target", "transformers", "transformer"
PARTITIONS = 3
AT_ONCE = 200  # records of a transaction, at most
ABORTED = 0.2  # of the transactions
TIMEOUT_MS = 20_000
SESSION_MS = 6_000
POLL_S = 1.0
SILENT_S = 30
BEGINS_ANEW = 3  # exit code


class Transformer(Protocol):
    def poll(self) -> list[tuple[int, int, bytes, bytes]]:
        """Partition, offset, key, value of some records; none when there are no more for now."""

    def transact(
        self, rows: list[tuple[int, int, bytes, bytes]], offsets: Mapping[int, int], *, commit: bool
    ) -> None:
        """One transaction; an aborted one reads its records again. Raises one of FAILURES."""

    def committed(self) -> int:
        """The sum of the group's offsets."""

    def close(self) -> None: ...


class Confluent:
    def __init__(self, servers: str) -> None:
        common = {"bootstrap.servers": servers, "log_level": 0}
        group = {
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": SESSION_MS,
        }
        self.consumer = confluent_kafka.Consumer(
            {**common, **group, "isolation.level": "read_committed"}
        )
        self.consumer.subscribe([SOURCE])
        self.producer = confluent_kafka.Producer(
            {**common, "transactional.id": TRANSACTIONAL_ID, "transaction.timeout.ms": TIMEOUT_MS}
        )
        self.producer.init_transactions(30)

    def poll(self) -> list[tuple[int, int, bytes, bytes]]:
        found = [each for each in self.consumer.consume(AT_ONCE, POLL_S) if each.error() is None]
        return [(each.partition(), each.offset(), each.key(), each.value()) for each in found]

    def transact(
        self, rows: list[tuple[int, int, bytes, bytes]], offsets: Mapping[int, int], *, commit: bool
    ) -> None:
        self.producer.begin_transaction()
        for partition, _, key, value in rows:
            self.producer.produce(TARGET, value, key, partition)
        ends = [
            confluent_kafka.TopicPartition(SOURCE, partition, offset)
            for partition, offset in offsets.items()
        ]
        self.producer.send_offsets_to_transaction(ends, self.consumer.consumer_group_metadata(), 30)
        if commit:
            self.producer.commit_transaction(30)
            return
        self.producer.abort_transaction(30)
        for partition, offset in first_of(rows).items():
            self.consumer.seek(confluent_kafka.TopicPartition(SOURCE, partition, offset))

    def committed(self) -> int:
        partitions = [
            confluent_kafka.TopicPartition(SOURCE, partition) for partition in range(PARTITIONS)
        ]
        return sum(max(0, each.offset) for each in self.consumer.committed(partitions, 10))

    def close(self) -> None:
        self.consumer.close()


class KafkaPython:
    def __init__(self, servers: str) -> None:
        self.consumer = kafka.KafkaConsumer(
            SOURCE,
            bootstrap_servers=servers,
            group_id=GROUP,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            session_timeout_ms=SESSION_MS,
        )
        self.producer = kafka.KafkaProducer(
            bootstrap_servers=servers,
            transactional_id=TRANSACTIONAL_ID,
            transaction_timeout_ms=TIMEOUT_MS,
        )
        self.producer.init_transactions()

    def poll(self) -> list[tuple[int, int, bytes, bytes]]:
        polled = self.consumer.poll(timeout_ms=int(POLL_S * 1000), max_records=AT_ONCE)
        return [
            (each.partition, each.offset, each.key, each.value)
            for rows in polled.values()
            for each in rows
        ]

    def transact(
        self, rows: list[tuple[int, int, bytes, bytes]], offsets: Mapping[int, int], *, commit: bool
    ) -> None:
        self.producer.begin_transaction()
        for partition, _, key, value in rows:
            self.producer.send(TARGET, value, key, partition=partition)
        ends = {
            kafka.TopicPartition(SOURCE, partition): kafka.OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        self.producer.send_offsets_to_transaction(ends, self.consumer.group_metadata())
        if commit:
            self.producer.commit_transaction()
            return
        self.producer.abort_transaction()
        for partition, offset in first_of(rows).items():
            self.consumer.seek(kafka.TopicPartition(SOURCE, partition), offset)

    def committed(self) -> int:
        return sum(
            self.consumer.committed(kafka.TopicPartition(SOURCE, partition)) or 0
            for partition in range(PARTITIONS)
        )

    def close(self) -> None:
        self.producer.close(5)
        self.consumer.close()


class Aiokafka:
    def __init__(self, servers: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(self._start(servers))

    async def _start(self, servers: str) -> None:
        self.consumer = aiokafka.AIOKafkaConsumer(
            SOURCE,
            bootstrap_servers=servers,
            group_id=GROUP,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            session_timeout_ms=SESSION_MS,
        )
        self.producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=servers,
            transactional_id=TRANSACTIONAL_ID,
            transaction_timeout_ms=TIMEOUT_MS,
        )
        await self.consumer.start()
        await self.producer.start()

    def poll(self) -> list[tuple[int, int, bytes, bytes]]:
        polled = self.loop.run_until_complete(
            self.consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=AT_ONCE)
        )
        return [
            (each.partition, each.offset, each.key, each.value)
            for rows in polled.values()
            for each in rows
        ]

    def transact(
        self, rows: list[tuple[int, int, bytes, bytes]], offsets: Mapping[int, int], *, commit: bool
    ) -> None:
        self.loop.run_until_complete(self._transact(rows, offsets, commit))

    async def _transact(
        self, rows: list[tuple[int, int, bytes, bytes]], offsets: Mapping[int, int], commit: bool
    ) -> None:
        await self.producer.begin_transaction()
        sent = [
            await self.producer.send(TARGET, value, key, partition)
            for partition, _, key, value in rows
        ]
        ends = {
            aiokafka.TopicPartition(SOURCE, partition): offset
            for partition, offset in offsets.items()
        }
        await self.producer.send_offsets_to_transaction(ends, GROUP)
        await asyncio.gather(*sent)
        if commit:
            await self.producer.commit_transaction()
            return
        await self.producer.abort_transaction()
        for partition, offset in first_of(rows).items():
            self.consumer.seek(aiokafka.TopicPartition(SOURCE, partition), offset)

    def committed(self) -> int:
        return self.loop.run_until_complete(self._committed())

    async def _committed(self) -> int:
        return sum(
            [
                await self.consumer.committed(aiokafka.TopicPartition(SOURCE, partition)) or 0
                for partition in range(PARTITIONS)
            ]
        )

    def close(self) -> None:
        self.loop.run_until_complete(self.producer.stop())
        self.loop.run_until_complete(self.consumer.stop())
        self.loop.close()


LIBRARIES: dict[str, type[Any]] = {
    "confluent-kafka": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}
FAILURES = (
    confluent_kafka.KafkaException,
    kafka.errors.KafkaError,
    aiokafka.errors.KafkaError,
    AssertionError,
    RuntimeError,
)


def first_of(rows: list[tuple[int, int, bytes, bytes]]) -> dict[int, int]:
    first: dict[int, int] = {}
    for partition, offset, _, _ in rows:
        first[partition] = min(offset, first.get(partition, offset))
    return first


def run(library: str, servers: str, records: int) -> None:
    random = Random()
    signal.signal(signal.SIGALRM, lambda *_: os._exit(BEGINS_ANEW))
    while True:
        signal.alarm(2 * SILENT_S)
        transformer = None
        try:
            transformer = LIBRARIES[library](servers)
            print("ready", flush=True)
            if transform(transformer, random, records):
                return
        except FAILURES as error:
            print(f"begins anew after {error!r}", file=sys.stderr, flush=True)
            time.sleep(0.2)  # of an application that does not hurry
        finally:
            if transformer is not None:
                try:
                    transformer.close()
                except FAILURES as error:
                    print(f"closing: {error!r}", file=sys.stderr, flush=True)


def transform(transformer: Transformer, random: Random, records: int) -> bool:
    """Return whether all is done."""
    while True:
        signal.alarm(SILENT_S)
        rows = transformer.poll()
        if not rows:
            if transformer.committed() >= records:
                return True
            continue
        offsets = {
            partition: offset + 1
            for partition, offset, _, _ in sorted(rows, key=lambda row: row[:2])
        }
        transformer.transact(rows, offsets, commit=random.random() >= ABORTED)
        print("transaction", flush=True)


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], int(sys.argv[3]))
