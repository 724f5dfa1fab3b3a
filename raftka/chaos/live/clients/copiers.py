"""Clients with transactions behind one face: kafka-python, confluent-kafka, aiokafka. One thread
uses each, which knows neither history nor fault.

A Copier reads one topic from what its group has committed, writes another, and commits the offsets
with what it wrote.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from raftka.chaos.live.clients.bootstrap import Bootstrap
from raftka.chaos.live.clients.clients import CALL_S, GIVE_UP_MS, Loop, Record, Theirs

T = TypeVar("T")
AT_ONCE = 30  # records of a transaction, at most
TIMEOUT_MS = 20_000  # of a transaction
POLL_S = 0.5
WHOLE_S = GIVE_UP_MS / 1000  # that one call may take
LONGER_S = WHOLE_S + CALL_S  # librdkafka keeps time itself, but for some calls after a fatal error

Offsets = Mapping[int, int]  # by partition


class Copier(Protocol):
    def begin(self) -> Offsets:
        """Take the transactional id, which ends what another client of it has begun; then go to
        what the group has committed, and return that.
        """

    def poll(self) -> Sequence[Record]:
        """At most AT_ONCE."""

    def write(self, values: Sequence[tuple[int, bytes]], offsets: Offsets) -> None:
        """Begin a transaction, send the values to these partitions, and the offsets."""

    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def committed(self) -> Offsets:
        """0: nothing is."""

    def close(self) -> None: ...


class CommittedReader(Protocol):
    """Of what is committed, in all partitions of a topic, from the beginning."""

    def poll(self) -> Sequence[Record]: ...
    def at_end(self) -> bool:
        """Everything is read that was there when it was last asked."""

    def close(self) -> None: ...


# where to begin, source, target, name, partitions
Makes = Callable[[Bootstrap, str, str, str, int], Copier]


def _within(seconds: float, work: Callable[[], T]) -> T:
    """For a library whose calls may wait for ever: the thread that waits is left behind. Raises
    what `work` raises, TimeoutError.
    """
    told: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            told.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if not told:
        raise TimeoutError(f"no end after {seconds:g} s")
    return told[0]


# kafka-python


class KafkaPythonCopier:
    """kafka-python 3.0.12 now and then waits without limit for offsets that it has not sent: every
    call has one.
    """

    def __init__(
        self, bootstrap: Bootstrap, source: str, target: str, name: str, partitions: int
    ) -> None:
        import kafka

        self._kafka, self._target = kafka, target
        self._where = [kafka.TopicPartition(source, each) for each in range(partitions)]
        common = {**bootstrap.kafka_python(), "reconnect_backoff_max_ms": 500}
        group = {
            "group_id": name,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
        }
        self._consumer = kafka.KafkaConsumer(
            **common, **group, max_poll_records=AT_ONCE, fetch_max_wait_ms=200
        )
        self._consumer.assign(self._where)
        self._producer = kafka.KafkaProducer(
            **common,
            transactional_id=name,
            transaction_timeout_ms=TIMEOUT_MS,
            delivery_timeout_ms=GIVE_UP_MS,
        )

    def begin(self) -> Offsets:
        _within(WHOLE_S, self._producer.init_transactions)
        found = self.committed()
        for where in self._where:
            self._consumer.seek(where, found[where.partition])
        return found

    def poll(self) -> Sequence[Record]:
        found = self._consumer.poll(timeout_ms=int(POLL_S * 1000))
        return [
            (where.partition, record.offset, record.value)
            for where, records in found.items()
            for record in records
        ]

    def write(self, values: Sequence[tuple[int, bytes]], offsets: Offsets) -> None:
        def work() -> None:
            self._producer.begin_transaction()
            for partition, value in values:
                self._producer.send(self._target, value, partition=partition)
            ends = {
                where: self._kafka.OffsetAndMetadata(offsets[where.partition], "", -1)
                for where in self._where
                if where.partition in offsets
            }
            self._producer.send_offsets_to_transaction(ends, self._consumer.group_metadata())

        _within(WHOLE_S, work)

    def commit(self) -> None:
        _within(WHOLE_S, self._producer.commit_transaction)

    def abort(self) -> None:
        _within(WHOLE_S, self._producer.abort_transaction)

    def committed(self) -> Offsets:
        return _within(
            WHOLE_S,
            lambda: {
                where.partition: int(self._consumer.committed(where) or 0) for where in self._where
            },
        )

    def close(self) -> None:
        _within(CALL_S, lambda: self._producer.close(1.0))
        _within(CALL_S, lambda: self._consumer.close(autocommit=False))


class KafkaPythonCommitted:
    def __init__(self, bootstrap: Bootstrap, topic: str, partitions: int) -> None:
        import kafka

        self._where = [kafka.TopicPartition(topic, each) for each in range(partitions)]
        settings = {
            "isolation_level": "read_committed",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "fetch_max_wait_ms": 200,
        }
        self._consumer = kafka.KafkaConsumer(
            **bootstrap.kafka_python(), reconnect_backoff_max_ms=500, **settings
        )
        self._consumer.assign(self._where)
        self._consumer.seek_to_beginning()

    def poll(self) -> Sequence[Record]:
        found = self._consumer.poll(timeout_ms=int(POLL_S * 1000))
        return [
            (where.partition, record.offset, record.value)
            for where, records in found.items()
            for record in records
        ]

    def at_end(self) -> bool:
        return all(
            self._consumer.position(where) >= end
            for where, end in self._consumer.end_offsets(self._where).items()
        )

    def close(self) -> None:
        self._consumer.close(autocommit=False)


# confluent-kafka


class ConfluentCopier:
    def __init__(
        self, bootstrap: Bootstrap, source: str, target: str, name: str, partitions: int
    ) -> None:
        import confluent_kafka

        self._confluent, self._source, self._target, self._partitions = (
            confluent_kafka,
            source,
            target,
            range(partitions),
        )
        common = {
            **bootstrap.librdkafka(),
            "log_level": 0,
            "reconnect.backoff.max.ms": 500,
            "error_cb": lambda error: None,
        }
        group = {
            "group.id": name,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
        self._consumer = confluent_kafka.Consumer({**common, **group})
        self._producer = confluent_kafka.Producer(
            {**common, "transactional.id": name, "transaction.timeout.ms": TIMEOUT_MS}
        )

    def _at(self, offsets: Offsets) -> list[Theirs]:
        return [
            self._confluent.TopicPartition(self._source, partition, offset)
            for partition, offset in offsets.items()
        ]

    def begin(self) -> Offsets:
        _within(LONGER_S, lambda: self._producer.init_transactions(WHOLE_S))
        found = self.committed()
        self._consumer.assign(self._at(found))
        return found

    def poll(self) -> Sequence[Record]:
        return [
            (each.partition(), each.offset(), each.value())
            for each in self._consumer.consume(AT_ONCE, POLL_S)
            if each.error() is None
        ]

    def write(self, values: Sequence[tuple[int, bytes]], offsets: Offsets) -> None:
        def work() -> None:
            self._producer.begin_transaction()
            for partition, value in values:
                self._producer.produce(self._target, value, partition=partition)
            self._producer.send_offsets_to_transaction(
                self._at(offsets), self._consumer.consumer_group_metadata(), WHOLE_S
            )

        _within(LONGER_S, work)

    def commit(self) -> None:
        _within(LONGER_S, lambda: self._producer.commit_transaction(WHOLE_S))

    def abort(self) -> None:
        _within(LONGER_S, lambda: self._producer.abort_transaction(WHOLE_S))

    def committed(self) -> Offsets:
        found = self._consumer.committed(
            [self._confluent.TopicPartition(self._source, each) for each in self._partitions],
            CALL_S,
        )
        if failed := [each.error for each in found if each.error is not None]:
            raise self._confluent.KafkaException(failed[0])
        return {each.partition: max(0, each.offset) for each in found}

    def close(self) -> None:
        _within(CALL_S, self._consumer.close)
        _within(CALL_S, self._producer.purge)


class ConfluentCommitted:
    def __init__(self, bootstrap: Bootstrap, topic: str, partitions: int) -> None:
        import confluent_kafka

        self._partitions = partitions
        self._ended: set[int] = set()
        settings = {
            "group.id": "nobody",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
        common = {
            **bootstrap.librdkafka(),
            "log_level": 0,
            "reconnect.backoff.max.ms": 500,
            "error_cb": lambda error: None,
        }
        self._end_of_partition = confluent_kafka.KafkaError._PARTITION_EOF
        self._consumer = confluent_kafka.Consumer({**common, **settings})
        begin = confluent_kafka.OFFSET_BEGINNING
        self._consumer.assign(
            [confluent_kafka.TopicPartition(topic, each, begin) for each in range(partitions)]
        )

    def poll(self) -> Sequence[Record]:
        found = []
        for each in self._consumer.consume(500, POLL_S):
            error = each.error()
            if error is None:
                self._ended.discard(each.partition())
                found.append((each.partition(), each.offset(), each.value()))
            elif error.code() == self._end_of_partition:
                self._ended.add(each.partition())
        return found

    def at_end(self) -> bool:
        return len(self._ended) == self._partitions

    def close(self) -> None:
        self._consumer.close()


# aiokafka


class AiokafkaCopier:
    def __init__(
        self, bootstrap: Bootstrap, source: str, target: str, name: str, partitions: int
    ) -> None:
        from aiokafka import TopicPartition

        self._target, self._name = target, name
        self._where = [TopicPartition(source, each) for each in range(partitions)]
        self._loop = Loop()
        self._consumer, self._producer = self._loop.do(self._make(bootstrap, name))

    async def _make(self, bootstrap: Bootstrap, name: str) -> tuple[Theirs, Theirs]:
        import aiokafka

        group = {
            "group_id": name,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
        }
        consumer = aiokafka.AIOKafkaConsumer(**bootstrap.aiokafka(), fetch_max_wait_ms=200, **group)
        consumer.assign(self._where)
        await consumer.start()
        producer = aiokafka.AIOKafkaProducer(
            **bootstrap.aiokafka(), transactional_id=name, transaction_timeout_ms=TIMEOUT_MS
        )
        return consumer, producer

    def begin(self) -> Offsets:
        self._loop.do(self._producer.start(), WHOLE_S)
        found = self.committed()

        async def seek() -> None:
            for where in self._where:
                self._consumer.seek(where, found[where.partition])

        self._loop.do(seek())
        return found

    def poll(self) -> Sequence[Record]:
        found = self._loop.do(
            self._consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=AT_ONCE)
        )
        return [
            (where.partition, record.offset, record.value)
            for where, records in found.items()
            for record in records
        ]

    def write(self, values: Sequence[tuple[int, bytes]], offsets: Offsets) -> None:
        async def work() -> None:
            await self._producer.begin_transaction()
            sent = [
                await self._producer.send(self._target, value, partition=partition)
                for partition, value in values
            ]
            ends = {
                where: offsets[where.partition]
                for where in self._where
                if where.partition in offsets
            }
            await self._producer.send_offsets_to_transaction(ends, self._name)
            for each in sent:
                await each

        self._loop.do(work(), WHOLE_S)

    def commit(self) -> None:
        self._loop.do(self._producer.commit_transaction(), WHOLE_S)

    def abort(self) -> None:
        self._loop.do(self._producer.abort_transaction(), WHOLE_S)

    def committed(self) -> Offsets:
        async def work() -> Offsets:
            return {
                where.partition: await self._consumer.committed(where) or 0 for where in self._where
            }

        return self._loop.do(work(), WHOLE_S)

    def close(self) -> None:
        try:
            self._loop.do(self._consumer.stop())
            self._loop.do(self._producer.stop())
        finally:
            self._loop.close()


class AiokafkaCommitted:
    def __init__(self, bootstrap: Bootstrap, topic: str, partitions: int) -> None:
        from aiokafka import TopicPartition

        self._where = [TopicPartition(topic, each) for each in range(partitions)]
        self._loop = Loop()
        self._consumer = self._loop.do(self._make(bootstrap))

    async def _make(self, bootstrap: Bootstrap) -> Theirs:
        import aiokafka

        settings = {
            "isolation_level": "read_committed",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "fetch_max_wait_ms": 200,
        }
        consumer = aiokafka.AIOKafkaConsumer(**bootstrap.aiokafka(), **settings)
        consumer.assign(self._where)
        await consumer.start()
        return consumer

    def poll(self) -> Sequence[Record]:
        found = self._loop.do(self._consumer.getmany(timeout_ms=int(POLL_S * 1000)))
        return [
            (where.partition, record.offset, record.value)
            for where, records in found.items()
            for record in records
        ]

    def at_end(self) -> bool:
        async def work() -> bool:
            ends = await self._consumer.end_offsets(self._where)
            return all([await self._consumer.position(where) >= end for where, end in ends.items()])

        return self._loop.do(work())

    def close(self) -> None:
        try:
            self._loop.do(self._consumer.stop())
        finally:
            self._loop.close()


COPIERS: Mapping[str, tuple[Makes, Callable[[Bootstrap, str, int], CommittedReader]]] = {
    "kafka-python": (KafkaPythonCopier, KafkaPythonCommitted),
    "confluent-kafka": (ConfluentCopier, ConfluentCommitted),
    "aiokafka": (AiokafkaCopier, AiokafkaCommitted),
}
