"""Records of partitions as they come, from the brokers that lead them. Knows no group."""

import select
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from raftka.client.blocking.client import PAUSE_S, Client, Where, by_topic, check, is_retriable
from raftka.client.blocking.connection import Connection, Reply
from raftka.wire.errors import Code, KafkaError, ProtocolError
from raftka.wire.messages.fetch import FETCH, AbortedTransaction, FetchRequest, FetchResponse
from raftka.wire.messages.list_offsets import EARLIEST
from raftka.wire.records import (
    CONTROL,
    TRANSACTIONAL,
    BatchHeader,
    RecordHeaders,
    crc_matches,
    iterate,
    records_of,
)

BY_NAME = 12  # the last version of Fetch with names of topics
WAIT_MS = 500
ANSWER_BYTES, PARTITION_BYTES = 50 << 20, 1 << 20  # as Kafka's consumers have them


class FetchedRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int  # ms
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders


class _Asked(NamedTuple):
    connection: Connection
    reply: Reply[FetchResponse]
    offsets: dict[Where, int]


class Reader:
    """One request is under way at each leader. A leader that is lost is looked for without end:
    brokers may be away for hours.
    """

    def __init__(
        self,
        client: Client,
        positions: Mapping[Where, int],
        *,
        reset: int = EARLIEST,
        committed: bool = False,
    ) -> None:
        """`reset`: EARLIEST or LATEST, where a position is not in the log any more. `committed`:
        without records of transactions not committed.
        """
        self.positions = dict(positions)  # of the records that come next
        self.lost = 0  # offsets that were deleted before they were read
        self.starts: dict[Where, int] = {}  # of the logs, as the last answers had them
        self._client, self._reset, self._committed = client, reset, committed
        self._next = dict(positions)  # to be fetched
        self._asked: list[_Asked] = []
        # with the position behind it
        self._found: deque[tuple[Where, int, FetchedRecord | None]] = deque()

    def poll(self, timeout_s: float, max_records: int) -> list[FetchedRecord]:
        """Wait for records for at most `timeout_s`; an empty list when none came. Raises KafkaError
        for an error that does not pass.
        """
        if not self._found:
            self._fetch(timeout_s)
        records: list[FetchedRecord] = []
        while self._found and len(records) < max_records:
            where, self.positions[where], record = self._found.popleft()
            if record is not None:
                records.append(record)
        return records

    def leave(self, where: Where) -> None:
        """Read no more of a partition. What has come of it is dropped."""
        self.positions.pop(where, None)
        self._next.pop(where, None)
        self._found = deque(each for each in self._found if each[0] != where)

    def close(self) -> None:
        for asked in self._asked:
            asked.connection.close()  # an answer is still to come on it
        self._asked.clear()

    def _fetch(self, timeout_s: float) -> None:
        try:
            self._ask()
        except OSError:
            self._lost(self._next)
        waiting = [each.connection for each in self._asked]
        if not waiting:
            time.sleep(min(PAUSE_S, timeout_s))
            return
        ready = select.select(waiting, (), (), timeout_s)[0]
        for asked in [each for each in self._asked if each.connection in ready]:
            self._receive(asked)

    def _receive(self, asked: _Asked) -> None:
        connection = asked.connection
        try:
            connection.receive()
            if not asked.reply.is_there:
                return
            self._take(asked, asked.reply.wait())
        except OSError:
            connection.close()
            self._client.drop_idle(connection.address)
            self._lost(asked.offsets)
        except BaseException:
            connection.close()
            raise
        else:
            self._client.give(connection)
        self._asked.remove(asked)

    def _ask(self) -> None:
        """Raises OSError when a broker is not there."""
        busy = {where for asked in self._asked for where in asked.offsets}
        by_leader, _ = self._client.by_leader([where for where in self._next if where not in busy])
        for address, wheres in by_leader.items():
            offsets = {where: self._next[where] for where in wheres}
            connection = self._client.take(address)
            try:
                self._asked.append(
                    _Asked(
                        connection,
                        connection.send(FETCH, fetch_request(offsets, self._committed), BY_NAME),
                        offsets,
                    )
                )
            except BaseException:
                connection.close()
                raise

    def _lost(self, wheres: Mapping[Where, int]) -> None:
        for topic, _ in wheres:
            self._client.forget_leaders(topic)
        time.sleep(PAUSE_S)

    def _take(self, asked: _Asked, answer: FetchResponse) -> None:
        if is_retriable(answer.error_code):
            self._lost(asked.offsets)
            return
        check(
            answer.error_code,
            ", ".join(f"{topic}-{partition}" for topic, partition in asked.offsets),
        )
        for topic in answer.responses:
            for each in topic.partitions:
                where = (topic.topic, each.partition_index)
                if where not in self._next:
                    continue  # it was left while the answer was under way
                if each.error_code == Code.OFFSET_OUT_OF_RANGE:
                    first = self._client.offsets({where: self._reset})[where]
                    self.lost += max(0, first - self.positions[where])
                    self._next[where] = self.positions[where] = first
                elif is_retriable(each.error_code):
                    self._lost({where: 0})
                else:
                    check(each.error_code, f"{where[0]}-{where[1]}")
                    self.starts[where] = each.log_start_offset
                    aborted = each.aborted_transactions or ()
                    for after, record in _records(
                        where, asked.offsets[where], each.records, aborted
                    ):
                        self._next[where] = after
                        self._found.append((where, after, record))


def _records(
    where: Where,
    offset: int,
    records: memoryview | bytes | None,
    aborted: Sequence[AbortedTransaction],
) -> Iterator[tuple[int, FetchedRecord | None]]:
    """From `offset` on, each with the offset behind it; None where a batch ends with what is no
    record. Raises KafkaError for bytes that are no batch, and for records that cannot be read.
    """
    for header, batch, has_records in batches_of(where, memoryview(records or b""), aborted):
        if has_records:
            try:
                for record in records_of(batch):
                    if record.offset >= offset:
                        yield record.offset + 1, FetchedRecord(where[0], where[1], *record)
            except ProtocolError as error:
                text = (
                    f"{where[0]}-{where[1]}, in the batch at offset {header.base_offset}: {error}"
                )
                raise KafkaError(Code.CORRUPT_MESSAGE, text) from error
        yield header.last_offset + 1, None


def batches_of(
    where: Where, records: memoryview, aborted: Sequence[AbortedTransaction]
) -> Iterator[tuple[BatchHeader, memoryview, bool]]:
    """The batches of an answer, their CRC checked, and whether a consumer sees their records: not
    those of control batches and of aborted transactions. Raises KafkaError for what is no batch.
    """
    begins = deque(sorted((each.first_offset, each.producer_id) for each in aborted))
    aborting: set[int] = set()  # producers whose transaction here was aborted
    for header, batch in iterate(records):
        if not crc_matches(batch, header):
            raise KafkaError(
                Code.CORRUPT_MESSAGE, f"{where[0]}-{where[1]} at offset {header.base_offset}"
            )
        while begins and begins[0][0] <= header.last_offset:
            aborting.add(begins.popleft()[1])
        if header.attributes & CONTROL:
            aborting.discard(header.producer_id)  # its transaction ends
            yield header, batch, False
        else:
            is_aborted = header.attributes & TRANSACTIONAL and header.producer_id in aborting
            yield header, batch, not is_aborted


def fetch_request(
    offsets: Mapping[Where, int],
    committed: bool,
    max_bytes: int = ANSWER_BYTES,
    partition_bytes: int = PARTITION_BYTES,
) -> FetchRequest:
    """Ask for records from these offsets on. The answer has its partitions in this order."""
    topic = FETCH.request.topics
    asked = by_topic(
        (
            where,
            topic.partitions(
                partition=where[1], fetch_offset=offset, partition_max_bytes=partition_bytes
            ),
        )
        for where, offset in offsets.items()
    )
    topics = [topic(topic=name, partitions=partitions) for name, partitions in asked.items()]
    return FETCH.request(
        isolation_level=int(committed),
        max_wait_ms=WAIT_MS,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=topics,
    )
