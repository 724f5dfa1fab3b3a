"""A real client's two halves for the demo and the long runs: an idempotent producer and a consumer
by partition, both kafka-python.

Every record's number travels in a header, so what was lost or came twice can be told from any
content. Records of others in the same topic are passed by and counted. Knows no node.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaTimeoutError

from raftka.cluster.tally import Tally

if TYPE_CHECKING:
    from kafka.consumer.fetcher import ConsumerRecord
    from kafka.producer.future import RecordMetadata

IN_FLIGHT = 20_000  # records sent and not yet acknowledged: the client itself has no bound
GIVE_UP_MS = 60_000
QUIET_SECONDS = 30.0  # so long may the end of a partition take to arrive

logging.getLogger("kafka").setLevel(logging.CRITICAL)  # a broken connection is what this is about


class ReaderFailed(Exception):
    """The records that came back are not known."""


class Sender:
    """Used by one thread; acknowledgements come on the client's own."""

    def __init__(self, bootstrap_servers: str, topic: str, tally: Tally) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap_servers,
            acks="all",
            enable_idempotence=True,
            linger_ms=5,
            batch_size=65536,
            delivery_timeout_ms=GIVE_UP_MS,
            reconnect_backoff_max_ms=500,
        )
        self._topic = topic
        self._tally = tally
        self._slots = threading.Semaphore(IN_FLIGHT)
        self.on_acknowledged: Callable[[bytes, int], None] = lambda key, number: None

    def send(self, key: bytes, value: bytes) -> None:
        self._slots.acquire()
        number = self._tally.send(key, value)
        future = self._producer.send(
            self._topic, key=key, value=value, headers=self._tally.headers_of(number)
        )
        future.add_callback(partial(self._acknowledged, key, number))
        future.add_errback(lambda error: self._slots.release())

    def finish(self) -> None:
        """Until every record is acknowledged or given up."""
        with suppress(KafkaTimeoutError):
            self._producer.flush(timeout=GIVE_UP_MS / 1000)

    def close(self) -> None:
        with suppress(KafkaTimeoutError):
            self._producer.close(timeout=0)

    def _acknowledged(self, key: bytes, number: int, metadata: "RecordMetadata") -> None:
        self._tally.acknowledge(key, number, metadata.partition)
        self._slots.release()
        self.on_acknowledged(key, number)


class Reader(threading.Thread):
    """Reads all partitions from their start; `finish` lets it go to where they end then."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int, tally: Tally) -> None:
        super().__init__(name="reader", daemon=True)
        self._bootstrap_servers = bootstrap_servers
        self._where = [TopicPartition(topic, p) for p in range(partitions)]
        self._tally = tally
        self._last = threading.Event()
        self._stopped = threading.Event()
        self.failure: BaseException | None = None
        self.on_failure: Callable[[BaseException], None] = lambda error: None

    def run(self) -> None:
        try:
            self._read()
        # `finish` raises it; who waits for something else is told at once
        except BaseException as error:
            self.failure = error
            self.on_failure(error)

    def finish(self) -> None:
        """Raises ReaderFailed."""
        self._last.set()
        self.join()
        if self.failure is not None:
            raise ReaderFailed(
                f"the reader failed: {type(self.failure).__name__} {self.failure}"
            ) from self.failure

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def _read(self) -> None:
        consumer = KafkaConsumer(
            bootstrap_servers=self._bootstrap_servers,
            group_id=None,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
            max_poll_records=5000,
            reconnect_backoff_max_ms=500,
        )
        try:
            consumer.assign(self._where)
            while not self._last.is_set() and not self._stopped.is_set():
                self._take(consumer.poll(timeout_ms=100))
            self._read_to_the_end(consumer)
        finally:
            consumer.close()

    def _read_to_the_end(self, consumer: "KafkaConsumer") -> None:
        if self._stopped.is_set():
            return
        ends, quiet_since = consumer.end_offsets(self._where), time.monotonic()
        while (
            any(consumer.position(where) < end for where, end in ends.items())
            and not self._stopped.is_set()
        ):
            if self._take(consumer.poll(timeout_ms=100)):
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since > QUIET_SECONDS:
                return  # what is missing is missing: the tally says so

    def _take(self, polled: "dict[TopicPartition, list[ConsumerRecord]]") -> int:
        for where, records in polled.items():
            for record in records:
                self._tally.read_record(record.key, record.headers, record.value, where.partition)
        return len(polled)
