"""The two halves of the traffic of the demo and the long runs: an idempotent producer, and a reader
of all partitions. Both use raftka's own client, each in a thread.

Every record's number travels in a header, so what was lost or came twice can be told from any
content. Records of others in the same topic are passed by and counted. Knows no node.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from raftka.client.blocking.client import Client, Where
from raftka.client.blocking.connection import ClientError, addresses_of
from raftka.client.blocking.producer import Producer, partition_of
from raftka.client.blocking.reader import FetchedRecord
from raftka.client.blocking.reader import Reader as PartitionReader
from raftka.cluster.tally import Tally
from raftka.wire.errors import KafkaError
from raftka.wire.messages.list_offsets import LATEST

CLIENT_ID = "raftka-traffic"
IN_FLIGHT = 20_000  # records sent and not yet acknowledged
GIVE_UP_S = 60.0
LINGER_S = 0.005  # records of so long a time share their batches
POLL_S, POLL_RECORDS = 0.1, 5000
QUIET_S = 30.0  # so long may the end of a partition take to arrive


class ReaderFailed(Exception):
    """The records that came back are not known."""


class Sender:
    """Used by one thread; acknowledgements come on its own. When no broker answers for GIVE_UP_S,
    what is not acknowledged stays so, and further records go nowhere: the tally shows them.
    """

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int, tally: Tally) -> None:
        self._client = Client(addresses_of(bootstrap_servers), CLIENT_ID, GIVE_UP_S)
        self._producer = Producer(self._client, on_written=self._written)
        self._topic, self._partitions, self._tally = topic, partitions, tally
        self._slots = threading.Semaphore(IN_FLIGHT)
        self._changed = threading.Condition()
        self._given: deque[tuple[bytes, bytes, int]] = deque()  # key, value, number
        self._ending = False
        # key and number of what the producer has, in the order of each partition
        self._unwritten: dict[Where, deque[tuple[bytes, int]]] = {}
        self.failure: Exception | None = None
        self.on_acknowledged: Callable[[bytes, int], None] = lambda key, number: None
        self._thread = threading.Thread(target=self._run, name="sender", daemon=True)
        self._thread.start()

    def send(self, key: bytes, value: bytes) -> None:
        """Wait while IN_FLIGHT records are not acknowledged."""
        self._slots.acquire()
        with self._changed:
            number = self._tally.send(key, value)
            if self.failure is None:
                self._given.append((key, value, number))
                self._changed.notify()

    def finish(self) -> None:
        """Wait until every record is acknowledged or given up."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join()

    def close(self) -> None:
        """Give up what the producer does not have yet."""
        with self._changed:
            self._given.clear()
            self._ending = True
            self._changed.notify()

    def _run(self) -> None:
        try:
            while records := self._take_given():
                for key, value, number in records:
                    self._add(key, value, number)
                self._producer.flush()
        except (KafkaError, ClientError, OSError) as error:
            self.failure = error
            self._slots.release(2**31)  # `send` waits no more
        finally:
            self._client.close()

    def _take_given(self) -> list[tuple[bytes, bytes, int]]:
        """Wait for records; return an empty list at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._given or self._ending)
            if not self._ending:
                self._changed.wait_for(lambda: self._ending, LINGER_S)
            records = list(self._given)
            self._given.clear()
            return records

    def _add(self, key: bytes, value: bytes, number: int) -> None:
        where = (self._topic, partition_of(key, self._partitions))
        self._unwritten.setdefault(where, deque()).append((key, number))
        now_ms = time.time_ns() // 1_000_000
        self._producer.add(where, (key, value, self._tally.headers_of(number), now_ms))

    def _written(self, where: Where, _offset: int, records: int) -> None:
        for _ in range(records):
            key, number = self._unwritten[where].popleft()
            self._tally.acknowledge(key, number, where[1])
            self._slots.release()
            self.on_acknowledged(key, number)


class Reader(threading.Thread):
    """Reads all partitions from their start; `finish` lets it go to where they end then."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int, tally: Tally) -> None:
        super().__init__(name="reader", daemon=True)
        self._addresses = addresses_of(bootstrap_servers)
        self._wheres = [(topic, partition) for partition in range(partitions)]
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
        with Client(self._addresses, CLIENT_ID, GIVE_UP_S) as client:
            reader = PartitionReader(client, dict.fromkeys(self._wheres, 0))
            try:
                while not self._last.is_set() and not self._stopped.is_set():
                    self._take(reader.poll(POLL_S, POLL_RECORDS))
                self._read_to_the_end(client, reader)
            finally:
                reader.close()

    def _read_to_the_end(self, client: Client, reader: PartitionReader) -> None:
        if self._stopped.is_set():
            return
        ends = client.offsets(dict.fromkeys(self._wheres, LATEST))
        quiet_since = time.monotonic()
        while (
            any(reader.positions[where] < end for where, end in ends.items())
            and not self._stopped.is_set()
        ):
            if self._take(reader.poll(POLL_S, POLL_RECORDS)):
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since > QUIET_S:
                return  # what is missing is missing: the tally says so

    def _take(self, records: Sequence[FetchedRecord]) -> int:
        for record in records:
            self._tally.read_record(record.key, record.headers, record.value, record.partition)
        return len(records)
