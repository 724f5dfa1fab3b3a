"""Record batches of partitions up to given offsets, as they come: for searches and exports, which
read much and decode little.

At each leader the next request is sent before the batches of the last answer are handed out, so the
broker reads while the caller works. `reader.py` gives records instead, and has no end.
"""

import select
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from raftka.client.blocking.client import (
    PAUSE_S,
    Client,
    Patience,
    Where,
    check,
    is_retriable,
)
from raftka.client.blocking.connection import Connection, Reply
from raftka.client.blocking.reader import BY_NAME, fetch_request
from raftka.client.connection import Address
from raftka.wire.errors import Code, name_of_code
from raftka.wire.messages.fetch import FETCH, AbortedTransaction, FetchResponse, PartitionData
from raftka.wire.messages.list_offsets import EARLIEST
from raftka.wire.records import BATCH_HEADER_BYTES, BATCH_START, LOG_OVERHEAD_BYTES

# of one answer, and of a partition in it: an answer is worked on while the next one is received
ANSWER_BYTES, PARTITION_BYTES = 8 << 20, 4 << 20
LAST_OFFSET_DELTA = 23  # its position in a batch


class Fetched(NamedTuple):
    """Batches of one partition. Their bytes are valid until the next call of the reader."""

    where: Where
    offset: int  # the first one that counts: the first batch may begin before it
    records: memoryview
    aborted: Sequence[AbortedTransaction]


class _Asked(NamedTuple):
    connection: Connection
    reply: Reply[FetchResponse]
    offsets: dict[Where, int]


class BatchReader:
    """Not for several threads at once. It ends when each partition is read up to its stop."""

    def __init__(
        self,
        client: Client,
        positions: Mapping[Where, int],
        stops: Mapping[Where, int],
        *,
        committed: bool = False,
    ) -> None:
        """`committed`: no records of transactions that are open or aborted."""
        self.positions = {
            where: offset for where, offset in positions.items() if offset < stops[where]
        }  # of the next records, of partitions that are not at their stop
        self.lost = 0  # offsets that were deleted before they were read
        self._client, self._stops, self._committed = client, stops, committed
        self._asked: list[_Asked] = []
        self._patience: Patience = client.patience("reading")

    @property
    def is_over(self) -> bool:
        return not self.positions and not self._asked

    def poll(self, timeout_s: float) -> Iterator[Fetched]:
        """Yield what came of one answer; nothing after `timeout_s` without one. Raises KafkaError
        and Unreachable.
        """
        why: object = "no leader"
        try:
            why = self._ask() or why
        except OSError as error:
            self._lose(self.positions, error)
            return
        if not self._asked:
            if self.positions:
                self._lose(self.positions, why)
            return
        ready = select.select([each.connection for each in self._asked], (), (), timeout_s)[0]
        for asked in [each for each in self._asked if each.connection in ready]:
            yield from self._receive(asked)

    def close(self) -> None:
        for asked in self._asked:
            asked.connection.close()  # an answer is still to come on it
        self._asked.clear()

    def _ask(self) -> str:
        """Ask for all partitions that nothing is under way for; return why some are left out."""
        busy = {where for asked in self._asked for where in asked.offsets}
        idle = [where for where in self.positions if where not in busy]
        if not idle:
            return ""
        by_leader, why = self._client.by_leader(idle)
        for address, wheres in by_leader.items():
            self._send(self._client.take(address), wheres)
        return why

    def _send(self, connection: Connection, wheres: Sequence[Where]) -> None:
        """Raises OSError; the connection is closed then."""
        offsets = {where: self.positions[where] for where in wheres}
        try:
            request = fetch_request(offsets, self._committed, ANSWER_BYTES, PARTITION_BYTES)
            reply = connection.send(FETCH, request, BY_NAME)
        except BaseException:
            connection.close()
            raise
        self._asked.append(_Asked(connection, reply, offsets))

    def _receive(self, asked: _Asked) -> Iterator[Fetched]:
        connection = asked.connection
        try:
            connection.receive()
            if not asked.reply.is_there:
                return
            answer = asked.reply.wait()
        except OSError as error:
            self._asked.remove(asked)
            connection.close()
            self._client.drop_idle(connection.address)
            self._lose(asked.offsets, error)
            return
        except BaseException:
            self._asked.remove(asked)
            connection.close()
            raise
        self._asked.remove(asked)
        try:
            found = self._take(asked, answer)
        except BaseException:
            self._client.give(connection)
            raise
        self._go_on(connection, asked)
        yield from found

    def _go_on(self, connection: Connection, asked: _Asked) -> None:
        """Ask the same leader for the next batches: first for partitions that came last, so that
        each has its turn.
        """
        address: Address = connection.address
        wheres = [where for where in asked.offsets if where in self.positions]
        came = [where for where in wheres if self.positions[where] != asked.offsets[where]]
        wheres = [where for where in wheres if where not in came] + came
        try:
            led = self._client.by_leader(wheres)[0].get(address, []) if wheres else []
            if led:
                self._send(connection, led)
                return
        except OSError:
            return  # asked again by the next poll
        self._client.give(connection)

    def _take(self, asked: _Asked, answer: FetchResponse) -> list[Fetched]:
        if is_retriable(answer.error_code):
            self._lose(asked.offsets, name_of_code(answer.error_code))
            return []
        check(answer.error_code, "in answer to Fetch")
        found = []
        for topic in answer.responses:
            for each in topic.partitions:
                where = (topic.topic, each.partition_index)
                if where not in self.positions:
                    continue
                if each.error_code == Code.OFFSET_OUT_OF_RANGE:
                    self._skip_deleted(where)
                elif is_retriable(each.error_code):
                    self._lose([where], name_of_code(each.error_code))
                else:
                    check(each.error_code, f"{where[0]}-{where[1]}")
                    records = memoryview(each.records or b"")
                    after = next_offset(records, self.positions[where])
                    at_end = not records and self._is_at_end(where, each)
                    if not records and each.high_watermark < self._stops[where]:
                        # a new leader learns its high watermark from its followers
                        why = f"{where[0]}-{where[1]} is committed to {each.high_watermark} only"
                        self._lose([where], why)
                    elif records:
                        self._patience.begin()
                        found.append(
                            Fetched(
                                where,
                                self.positions[where],
                                records,
                                each.aborted_transactions or (),
                            )
                        )
                    self._move(where, self._stops[where] if at_end else after)
        return found

    def _is_at_end(self, where: Where, answer: PartitionData) -> bool:
        """Return whether nothing is to come before the stop: a reader of committed records waits
        for no open transaction.
        """
        is_whole = answer.high_watermark >= self._stops[where]
        return self._committed and is_whole and self.positions[where] >= answer.last_stable_offset

    def _move(self, where: Where, offset: int) -> None:
        if offset >= self._stops[where]:
            del self.positions[where]
        else:
            self.positions[where] = offset

    def _skip_deleted(self, where: Where) -> None:
        """Retention was quicker: go on with the first record that is there. A leader that does not
        have the position yet, or not any more, is asked again.
        """
        first = self._client.offsets({where: EARLIEST})[where]
        if first > self.positions[where]:
            self.lost += min(first, self._stops[where]) - self.positions[where]
            self._move(where, first)
        else:
            self._lose([where], f"{where[0]}-{where[1]} has no offset {self.positions[where]}")

    def _lose(self, wheres: Mapping[Where, int] | Sequence[Where], why: object) -> None:
        """Look for the leaders anew, after a pause. Raises Unreachable when none was found for
        long.
        """
        for topic in {topic for topic, _ in wheres}:
            self._client.forget_leaders(topic)
        if self._asked and not self._patience.over:
            time.sleep(PAUSE_S)
        else:
            self._patience.wait(why)


def next_offset(records: memoryview, offset: int) -> int:
    """Return the offset behind the last whole batch; `offset` where there is none."""
    position = 0
    last = -1
    while len(records) - position >= BATCH_HEADER_BYTES:
        size = BATCH_START.unpack_from(records, position)[1] + LOG_OVERHEAD_BYTES
        if size < BATCH_HEADER_BYTES or position + size > len(records):
            break
        last, position = position, position + size
    if last < 0:
        return offset
    base = int.from_bytes(records[last : last + 8])
    delta = int.from_bytes(records[last + LAST_OFFSET_DELTA : last + LAST_OFFSET_DELTA + 4])
    return max(offset, base + delta + 1)
