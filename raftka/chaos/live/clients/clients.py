"""Real clients behind one face: kafka-python, confluent-kafka, aiokafka. Each is used by one
thread, and knows neither history nor fault.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Protocol, TypeVar

from raftka.chaos.live.clients.bootstrap import Bootstrap

Theirs = Any  # an object of kafka-python, confluent-kafka or aiokafka, which have no types

T = TypeVar("T")
Told = Callable[[int | None, str], None]  # the record's offset, or the error
Record = tuple[int, int, bytes | None]  # partition, offset, value
Moved = Callable[[Iterable[int]], None]  # partitions that came or went

GIVE_UP_MS = 60_000
SESSION_MS = 6_000
CALL_S = 15.0
AT_ONCE = 500


class Sender(Protocol):
    def send(self, partition: int, value: bytes, told: Told) -> None:
        """`told` once, from any thread."""

    def serve(self) -> None:
        """Poll a client that works only when it is called."""

    def close(self, within_s: float) -> None: ...


class Reader(Protocol):
    def assign(self, start: Mapping[int, int]) -> None: ...
    def subscribe(self, moved: Moved) -> None: ...
    def poll(self) -> Sequence[Record]: ...
    def commit(self, offsets: Mapping[int, int]) -> None: ...
    def committed(self, partitions: Iterable[int]) -> Mapping[int, int]: ...
    def ends(self, partitions: Iterable[int]) -> Mapping[int, int]: ...
    def close(self) -> None: ...


class Library(Protocol):
    name: str

    def sender(self, bootstrap: Bootstrap, topic: str) -> Sender: ...
    def reader(
        self, bootstrap: Bootstrap, topic: str, group: str | None, *, new_protocol: bool = False
    ) -> Reader: ...


# kafka-python


class _KafkaPythonSender:
    def __init__(self, bootstrap: Bootstrap, topic: str) -> None:
        from kafka import KafkaProducer

        self._topic = topic
        self._producer = KafkaProducer(
            **bootstrap.kafka_python(),
            acks="all",
            enable_idempotence=True,
            linger_ms=5,
            delivery_timeout_ms=GIVE_UP_MS,
            reconnect_backoff_max_ms=500,
        )

    def send(self, partition: int, value: bytes, told: Told) -> None:
        future = self._producer.send(self._topic, value=value, partition=partition)
        future.add_callback(lambda metadata: told(metadata.offset, ""))
        future.add_errback(lambda error: told(None, repr(error)))

    def serve(self) -> None:
        pass  # it has a thread

    def close(self, within_s: float) -> None:
        self._producer.close(timeout=within_s)


class _KafkaPythonReader:
    def __init__(self, bootstrap: Bootstrap, topic: str, group: str | None) -> None:
        import kafka
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        self._kafka = kafka
        self._topic = topic
        grouped = {
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": 500,
            "partition_assignment_strategy": [RangePartitionAssignor],
        }
        self._consumer = kafka.KafkaConsumer(
            **bootstrap.kafka_python(),
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=200,
            max_poll_records=AT_ONCE,
            reconnect_backoff_max_ms=500,
            **(grouped if group else {}),
        )

    def _where(self, partitions: Iterable[int]) -> list[Theirs]:
        return [self._kafka.TopicPartition(self._topic, each) for each in partitions]

    def assign(self, start: Mapping[int, int]) -> None:
        self._consumer.assign(self._where(start))
        for where in self._where(start):
            self._consumer.seek(where, start[where.partition])

    def subscribe(self, moved: Moved) -> None:
        class Listener(self._kafka.ConsumerRebalanceListener):  # type: ignore[misc, name-defined]
            def on_partitions_revoked(self, revoked: Theirs) -> None:
                moved([each.partition for each in revoked])

            def on_partitions_assigned(self, assigned: Theirs) -> None:
                moved([each.partition for each in assigned])

        self._consumer.subscribe([self._topic], listener=Listener())

    def poll(self) -> Sequence[Record]:
        found = self._consumer.poll(timeout_ms=500)
        return [
            (where.partition, record.offset, record.value)
            for where, records in found.items()
            for record in records
        ]

    def commit(self, offsets: Mapping[int, int]) -> None:
        from kafka.structs import OffsetAndMetadata

        self._consumer.commit(
            {
                where: OffsetAndMetadata(offsets[where.partition], "", -1)
                for where in self._where(offsets)
            }
        )

    def committed(self, partitions: Iterable[int]) -> Mapping[int, int]:
        found = {
            where.partition: self._consumer.committed(where) for where in self._where(partitions)
        }
        return {
            partition: -1 if offset is None else int(offset) for partition, offset in found.items()
        }

    def ends(self, partitions: Iterable[int]) -> Mapping[int, int]:
        return {
            where.partition: offset
            for where, offset in self._consumer.end_offsets(self._where(partitions)).items()
        }

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class KafkaPython:
    name = "kafka-python"

    def sender(self, bootstrap: Bootstrap, topic: str) -> Sender:
        return _KafkaPythonSender(bootstrap, topic)

    def reader(
        self, bootstrap: Bootstrap, topic: str, group: str | None, *, new_protocol: bool = False
    ) -> Reader:
        return _KafkaPythonReader(bootstrap, topic, group)


# confluent-kafka


class _ConfluentSender:
    def __init__(self, bootstrap: Bootstrap, topic: str) -> None:
        import confluent_kafka

        self._topic = topic
        settings = {
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 5,
            "message.timeout.ms": GIVE_UP_MS,
            "reconnect.backoff.max.ms": 500,
            # with more its records come twice: librdkafka's issue 4953, in 2.16 too
            "max.in.flight.requests.per.connection": 1,
        }
        self._producer = confluent_kafka.Producer(
            {**bootstrap.librdkafka(), "log_level": 0, "error_cb": lambda error: None, **settings}
        )

    def send(self, partition: int, value: bytes, told: Told) -> None:
        def delivered(error: Theirs, message: Theirs) -> None:
            told(None, str(error)) if error is not None else told(message.offset(), "")

        self._producer.produce(self._topic, value=value, partition=partition, on_delivery=delivered)

    def serve(self) -> None:
        self._producer.poll(0)

    def close(self, within_s: float) -> None:
        self._producer.flush(within_s)


class _ConfluentReader:
    def __init__(
        self, bootstrap: Bootstrap, topic: str, group: str | None, *, new_protocol: bool
    ) -> None:
        import confluent_kafka

        self._confluent = confluent_kafka
        self._topic = topic
        settings = {
            **bootstrap.librdkafka(),
            "group.id": group or "nobody",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
            "error_cb": lambda error: None,
            "reconnect.backoff.max.ms": 500,
        }
        classic = {
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 500,
            "partition.assignment.strategy": "range",
        }
        self._told: Theirs = None  # of the commit that is under way: its partitions, or its error
        self._kept: list[Record] = []  # came while a commit was waited for
        kind = {"group.protocol": "consumer"} if new_protocol else classic
        self._consumer = confluent_kafka.Consumer(
            {**settings, **kind, "on_commit": self._on_commit}
        )

    def _where(self, partitions: Iterable[int]) -> list[Theirs]:
        return [self._confluent.TopicPartition(self._topic, each) for each in partitions]

    def assign(self, start: Mapping[int, int]) -> None:
        self._consumer.assign(
            [
                self._confluent.TopicPartition(self._topic, each, offset)
                for each, offset in start.items()
            ]
        )

    def subscribe(self, moved: Moved) -> None:
        def changed(_consumer: Theirs, partitions: Theirs) -> None:
            moved([each.partition for each in partitions])

        self._consumer.subscribe(
            [self._topic], on_assign=changed, on_revoke=changed, on_lost=changed
        )

    def poll(self) -> Sequence[Record]:
        kept, self._kept = self._kept, []
        return kept + self._take(0.0 if kept else 0.5)

    def _take(self, seconds: float) -> list[Record]:
        messages = self._consumer.consume(AT_ONCE, seconds)
        return [
            (each.partition(), each.offset(), each.value())
            for each in messages
            if each.error() is None
        ]

    def _on_commit(self, error: object, partitions: object) -> None:
        self._told = (error, partitions)

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Not by the call that waits: with the new protocol it stood still for minutes when the
        coordinator died meanwhile (librdkafka 2.16).
        """
        self._told = None
        self._consumer.commit(
            offsets=[
                self._confluent.TopicPartition(self._topic, each, offset)
                for each, offset in offsets.items()
            ]
        )
        end = time.monotonic() + CALL_S
        while self._told is None:
            if time.monotonic() > end:
                raise TimeoutError("nobody said that it is committed")
            self._kept += self._take(0.02)
        error, partitions = self._told
        for failed in (error, *(each.error for each in partitions or ())):
            if failed is not None:
                raise self._confluent.KafkaException(failed)

    def committed(self, partitions: Iterable[int]) -> Mapping[int, int]:
        found = self._consumer.committed(self._where(partitions), timeout=CALL_S)
        if failed := [each.error for each in found if each.error is not None]:
            raise self._confluent.KafkaException(failed[0])
        return {each.partition: max(-1, each.offset) for each in found}

    def ends(self, partitions: Iterable[int]) -> Mapping[int, int]:
        return {
            where.partition: self._consumer.get_watermark_offsets(where, timeout=CALL_S)[1]
            for where in self._where(partitions)
        }

    def close(self) -> None:
        self._consumer.close()


class Confluent:
    name = "confluent-kafka"

    def sender(self, bootstrap: Bootstrap, topic: str) -> Sender:
        return _ConfluentSender(bootstrap, topic)

    def reader(
        self, bootstrap: Bootstrap, topic: str, group: str | None, *, new_protocol: bool = False
    ) -> Reader:
        return _ConfluentReader(bootstrap, topic, group, new_protocol=new_protocol)


# aiokafka: in a loop of its own


class Loop:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="aiokafka", daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[object, None, T], within_s: float = CALL_S) -> T:
        async def bounded() -> T:
            return await asyncio.wait_for(work, within_s)

        return asyncio.run_coroutine_threadsafe(bounded(), self.loop).result()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(CALL_S)


class _AiokafkaSender:
    def __init__(self, bootstrap: Bootstrap, topic: str) -> None:
        self._loop = Loop()
        self._topic = topic
        self._producer = self._loop.do(self._start(bootstrap))

    @staticmethod
    async def _start(bootstrap: Bootstrap) -> Theirs:
        import aiokafka

        producer = aiokafka.AIOKafkaProducer(
            **bootstrap.aiokafka(),
            acks="all",
            enable_idempotence=True,
            linger_ms=5,
            request_timeout_ms=GIVE_UP_MS,
        )
        await producer.start()
        return producer

    def send(self, partition: int, value: bytes, told: Told) -> None:
        """Returns when it stands in its line: what is sent later must not overtake it."""

        def done(future: Theirs) -> None:
            error = future.exception() if not future.cancelled() else asyncio.CancelledError()
            told(None, repr(error)) if error is not None else told(future.result().offset, "")

        async def begin() -> None:
            future = await self._producer.send(self._topic, value=value, partition=partition)
            future.add_done_callback(done)

        self._loop.do(begin(), GIVE_UP_MS / 1000)

    def serve(self) -> None:
        pass

    def close(self, within_s: float) -> None:
        try:
            self._loop.do(self._producer.stop(), max(within_s, 1.0))
        finally:
            self._loop.close()


class _AiokafkaReader:
    def __init__(self, bootstrap: Bootstrap, topic: str, group: str | None) -> None:
        self._loop = Loop()
        self._topic = topic
        self._consumer = self._loop.do(self._start(bootstrap, group))

    @staticmethod
    async def _start(bootstrap: Bootstrap, group: str | None) -> Theirs:
        import aiokafka
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor

        consumer = aiokafka.AIOKafkaConsumer(
            **bootstrap.aiokafka(),
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=200,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            partition_assignment_strategy=(RangePartitionAssignor,),
        )
        await consumer.start()
        return consumer

    def _where(self, partitions: Iterable[int]) -> list[Theirs]:
        from aiokafka import TopicPartition

        return [TopicPartition(self._topic, each) for each in partitions]

    def assign(self, start: Mapping[int, int]) -> None:
        async def work() -> None:
            self._consumer.assign(self._where(start))
            for where in self._where(start):
                self._consumer.seek(where, start[where.partition])

        self._loop.do(work())

    def subscribe(self, moved: Moved) -> None:
        from aiokafka import ConsumerRebalanceListener

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_revoked(self, revoked: Theirs) -> None:
                moved([each.partition for each in revoked])

            def on_partitions_assigned(self, assigned: Theirs) -> None:
                moved([each.partition for each in assigned])

        async def work() -> None:
            self._consumer.subscribe([self._topic], listener=Listener())

        self._loop.do(work())

    def poll(self) -> Sequence[Record]:
        found = self._loop.do(self._consumer.getmany(timeout_ms=500, max_records=AT_ONCE))
        return [
            (where.partition, record.offset, record.value)
            for where, records in found.items()
            for record in records
        ]

    def commit(self, offsets: Mapping[int, int]) -> None:
        self._loop.do(
            self._consumer.commit(
                {where: offsets[where.partition] for where in self._where(offsets)}
            )
        )

    def committed(self, partitions: Iterable[int]) -> Mapping[int, int]:
        found = {
            where.partition: self._loop.do(self._consumer.committed(where))
            for where in self._where(partitions)
        }
        return {
            partition: -1 if offset is None else int(offset) for partition, offset in found.items()
        }

    def ends(self, partitions: Iterable[int]) -> Mapping[int, int]:
        return {
            where.partition: offset
            for where, offset in self._loop.do(
                self._consumer.end_offsets(self._where(partitions))
            ).items()
        }

    def close(self) -> None:
        try:
            self._loop.do(self._consumer.stop())
        finally:
            self._loop.close()


class Aiokafka:
    name = "aiokafka"

    def sender(self, bootstrap: Bootstrap, topic: str) -> Sender:
        return _AiokafkaSender(bootstrap, topic)

    def reader(
        self, bootstrap: Bootstrap, topic: str, group: str | None, *, new_protocol: bool = False
    ) -> Reader:
        return _AiokafkaReader(bootstrap, topic, group)


MODULES = {"kafka-python": "kafka", "confluent-kafka": "confluent_kafka", "aiokafka": "aiokafka"}
LIBRARIES: Mapping[str, Callable[[], Library]] = {
    "kafka-python": KafkaPython,
    "confluent-kafka": Confluent,
    "aiokafka": Aiokafka,
}


def missing() -> list[str]:
    return [name for name, module in MODULES.items() if find_spec(module) is None]


def quiet() -> None:
    """A broken connection is what this is about."""
    for name in ("kafka", "aiokafka", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
