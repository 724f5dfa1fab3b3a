"""Consumers of a group, each a real client behind the same few calls: what it reads, where it goes,
what it commits. Knows no broker.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Protocol

import aiokafka
import confluent_kafka
import kafka
from aiokafka.admin import AIOKafkaAdminClient

POLL_MS = 100
# kafka-python 3.0 forgets an assignment that comes when the poll that has joined is over
LONG_POLL_MS = 5000
REFRESH_MS = 200  # of the metadata: topics that come later are seen soon


class Where(NamedTuple):
    topic: str
    partition: int


class Reader(Protocol):
    def read(self) -> list[tuple[Where, int]]: ...
    def assigned(self) -> set[Where]: ...
    def pause(self, where: Where) -> None: ...
    def resume(self, where: Where) -> None: ...
    def seek(self, where: Where, offset: int) -> None: ...
    def commit(self, where: Where, offset: int, metadata: str) -> None: ...
    def committed(self, where: Where) -> tuple[int, str]: ...
    def first_since(self, where: Where, timestamp_ms: int) -> int | None: ...
    def close(self) -> None: ...


class KafkaPython:
    def __init__(self, bootstrap_servers: str, pattern: str, group: str) -> None:
        self.consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap_servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            metadata_max_age_ms=REFRESH_MS,
        )
        self.consumer.subscribe(pattern=pattern)

    def read(self) -> list[tuple[Where, int]]:
        polled = self.consumer.poll(timeout_ms=LONG_POLL_MS)
        return [
            (Where(each.topic, each.partition), each.offset)
            for records in polled.values()
            for each in records
        ]

    def assigned(self) -> set[Where]:
        return {Where(each.topic, each.partition) for each in self.consumer.assignment()}

    def pause(self, where: Where) -> None:
        self.consumer.pause(kafka.TopicPartition(*where))

    def resume(self, where: Where) -> None:
        self.consumer.resume(kafka.TopicPartition(*where))

    def seek(self, where: Where, offset: int) -> None:
        self.consumer.seek(kafka.TopicPartition(*where), offset)

    def commit(self, where: Where, offset: int, metadata: str) -> None:
        self.consumer.commit(
            {kafka.TopicPartition(*where): kafka.OffsetAndMetadata(offset, metadata, -1)}
        )

    def committed(self, where: Where) -> tuple[int, str]:
        found = self.consumer.committed(kafka.TopicPartition(*where), metadata=True)
        return found.offset, found.metadata

    def first_since(self, where: Where, timestamp_ms: int) -> int | None:
        (found,) = self.consumer.offsets_for_times(
            {kafka.TopicPartition(*where): timestamp_ms}
        ).values()
        return found.offset if found is not None else None

    def close(self) -> None:
        self.consumer.close(autocommit=False)


class ConfluentKafka:
    PROTOCOL = "classic"

    def __init__(self, bootstrap_servers: str, pattern: str, group: str) -> None:
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": group,
                "group.protocol": self.PROTOCOL,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": REFRESH_MS,
                "log_level": 0,
            }
        )
        self.consumer.subscribe([pattern])

    def read(self) -> list[tuple[Where, int]]:
        found = self.consumer.consume(500, POLL_MS / 1000)
        return [
            (Where(each.topic(), each.partition()), each.offset())
            for each in found
            if each.error() is None
        ]

    def assigned(self) -> set[Where]:
        return {Where(each.topic, each.partition) for each in self.consumer.assignment()}

    def pause(self, where: Where) -> None:
        self.consumer.pause([confluent_kafka.TopicPartition(*where)])

    def resume(self, where: Where) -> None:
        self.consumer.resume([confluent_kafka.TopicPartition(*where)])

    def seek(self, where: Where, offset: int) -> None:
        self.consumer.seek(confluent_kafka.TopicPartition(*where, offset))

    def commit(self, where: Where, offset: int, metadata: str) -> None:
        (done,) = self.consumer.commit(
            offsets=[confluent_kafka.TopicPartition(*where, offset, metadata)], asynchronous=False
        )
        assert done.error is None

    def committed(self, where: Where) -> tuple[int, str]:
        (found,) = self.consumer.committed([confluent_kafka.TopicPartition(*where)], 10)
        return found.offset, found.metadata

    def first_since(self, where: Where, timestamp_ms: int) -> int | None:
        (found,) = self.consumer.offsets_for_times(
            [confluent_kafka.TopicPartition(*where, timestamp_ms)], 10
        )
        return found.offset if found.offset >= 0 else None

    def close(self) -> None:
        self.consumer.close()


class NewProtocol(ConfluentKafka):
    """Its regular expressions are the broker's to resolve."""

    PROTOCOL = "consumer"


class Aiokafka:
    def __init__(self, bootstrap_servers: str, pattern: str, group: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.bootstrap_servers = bootstrap_servers
        self.group = group

        async def start() -> Any:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=bootstrap_servers,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                metadata_max_age_ms=REFRESH_MS,
            )
            consumer.subscribe(pattern=pattern)
            await consumer.start()
            return consumer

        self.consumer = self._run(start())

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(coroutine)

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        async def call() -> None:
            function(*arguments)

        self._run(call())

    def read(self) -> list[tuple[Where, int]]:
        polled = self._run(self.consumer.getmany(timeout_ms=POLL_MS))
        return [
            (Where(each.topic, each.partition), each.offset)
            for records in polled.values()
            for each in records
        ]

    def assigned(self) -> set[Where]:
        return {Where(each.topic, each.partition) for each in self.consumer.assignment()}

    def pause(self, where: Where) -> None:
        self._call(self.consumer.pause, aiokafka.TopicPartition(*where))

    def resume(self, where: Where) -> None:
        self._call(self.consumer.resume, aiokafka.TopicPartition(*where))

    def seek(self, where: Where, offset: int) -> None:
        self._call(self.consumer.seek, aiokafka.TopicPartition(*where), offset)

    def commit(self, where: Where, offset: int, metadata: str) -> None:
        self._run(self.consumer.commit({aiokafka.TopicPartition(*where): (offset, metadata)}))

    def committed(self, where: Where) -> tuple[int, str]:
        """Its consumer does not tell the metadata; its admin client does."""

        async def ask() -> Any:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
            await admin.start()
            try:
                return await admin.list_consumer_group_offsets(
                    self.group, partitions=[aiokafka.TopicPartition(*where)]
                )
            finally:
                await admin.close()

        (found,) = self._run(ask()).values()
        return found.offset, found.metadata

    def first_since(self, where: Where, timestamp_ms: int) -> int | None:
        (found,) = self._run(
            self.consumer.offsets_for_times({aiokafka.TopicPartition(*where): timestamp_ms})
        ).values()
        return found.offset if found is not None else None

    def close(self) -> None:
        try:
            self._run(self.consumer.stop())
        finally:
            self.loop.close()


KINDS: dict[str, Callable[[str, str, str], Reader]] = {
    "kafka-python": KafkaPython,
    "confluent-kafka": ConfluentKafka,
    "aiokafka": Aiokafka,
    "KIP-848": NewProtocol,
}
