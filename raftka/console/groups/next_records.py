"""The time of the first record that a group has not consumed, read from the log: exact lag in
seconds.

The leader is asked for the batch at the committed offset. A batch that does not fit in its share of
an answer is asked for alone. A record's time does not change, so it is kept by its place.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from raftka.client.blocking.client import Where, by_topic
from raftka.client.blocking.every_broker import Answers
from raftka.console.limits import (
    KEPT_TIMES,
    TIMES_BYTES,
    TIMES_OF_REQUEST,
    TIMES_ROUNDS,
)
from raftka.wire.errors import Code, ProtocolError, name_of_code
from raftka.wire.messages.fetch import FETCH, FetchRequest, FetchResponse
from raftka.wire.records import (
    BATCH_HEADER_BYTES,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    BatchHeader,
    crc_matches,
    iterate,
    read_header,
    records_of,
)

FETCH_BY_NAME = 12  # the last version of Fetch with names of topics
SHARE_BYTES = 16 * 1024  # of a partition in an answer: a batch of most producers
NO_SESSION = -1  # session_epoch of a question that begins no fetch session

# why a time is not known
LOG_STARTS_LATER = "the log starts later: records were deleted before the group read them"
NO_TIME = "the record has no time"
ONLY_MARKERS = "only markers of transactions are left"
TOO_LARGE = "its batch is large, and is read with a later look"
UNREADABLE = "the batch cannot be read"

Ask = Callable[[Mapping[int, FetchRequest]], Answers[FetchResponse]]


class NextRecord(NamedTuple):
    """The first record at or behind an offset. `time_ms`: None with a reason. `offset`: None where
    it is not known; the end where there is none, only markers of transactions.
    """

    time_ms: int | None
    offset: int | None = None
    why: str = ""

    @property
    def is_none(self) -> bool:
        return self.why == ONLY_MARKERS


class Found(NamedTuple):
    """A record's time, or the offset at which to look on: None where the batch must be asked for
    alone.
    """

    record: NextRecord | None
    look_at: int | None = None


class RecordTimes:
    """Times by partition and offset, for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Where, int], NextRecord] = OrderedDict()

    def read(
        self, offsets: Mapping[Where, int], led: Mapping[int, Iterable[Where]], ask: Ask
    ) -> tuple[dict[Where, NextRecord], dict[int, str]]:
        """Return the times of the records at these offsets, and the brokers that have not answered.

        `offsets`: each before the end of its partition. `led`: the partitions by their leaders.
        `ask`: sends a Fetch of version FETCH_BY_NAME to each of these brokers.
        """
        found = {where: self.find(where, offset) for where, offset in offsets.items()}
        known = {where: each for where, each in found.items() if each is not None}
        asking = {
            node_id: {where: offsets[where] for where in own if where not in known}
            for node_id, own in led.items()
        }
        search = _Search(asking, ask)
        search.run()
        for where, each in search.found.items():
            if each.time_ms is not None:
                self._keep(where, offsets[where], each)
        return known | search.found, search.missing

    def find(self, where: Where, offset: int) -> NextRecord | None:
        """Return the record that is kept for this place."""
        with self._lock:
            found = self._kept.get((where, offset))
            if found is not None:
                self._kept.move_to_end((where, offset))
            return found

    def _keep(self, where: Where, offset: int, record: NextRecord) -> None:
        with self._lock:
            self._kept[where, offset] = record
            if len(self._kept) > KEPT_TIMES.value:
                self._kept.popitem(last=False)


class _Search:
    """Questions in rounds: first for many partitions at once, then for those with large batches."""

    def __init__(self, asking: Mapping[int, Mapping[Where, int]], ask: Ask) -> None:
        self.found: dict[Where, NextRecord] = {}
        self.missing: dict[int, str] = {}
        self._ask = ask
        # by broker: offsets to look at, and those whose batch is asked for alone
        self._many = {node_id: dict(own) for node_id, own in asking.items() if own}
        self._alone: dict[int, dict[Where, int]] = {}
        self._left_bytes = TIMES_BYTES.value

    def run(self) -> None:
        for _ in range(TIMES_ROUNDS.value):
            rows = self._next_round()
            if not rows or self._left_bytes <= 0:
                break
            answers = self._ask({node_id: _question(own) for node_id, own in rows.items()})
            self.missing |= answers.missing
            for node_id in answers.missing:
                self._many.pop(node_id, None)
                self._alone.pop(node_id, None)
            for node_id, answer in answers.of.items():
                self._take(node_id, rows[node_id], answer)
        for waiting in (self._many, self._alone):
            for own in waiting.values():
                self.found |= dict.fromkeys(own, NextRecord(None, why=TOO_LARGE))

    def _next_round(self) -> dict[int, dict[Where, int]]:
        """Take the offsets of the next question to each broker out of what waits."""
        rows = {}
        for node_id in {*self._many, *self._alone}:
            if own := self._many.get(node_id):
                rows[node_id] = {
                    where: own.pop(where) for where in list(own)[: TIMES_OF_REQUEST.value]
                }
            elif alone := self._alone.get(node_id):
                where = next(iter(alone))
                rows[node_id] = {where: alone.pop(where)}
        return rows

    def _take(self, node_id: int, asked: Mapping[Where, int], answer: FetchResponse) -> None:
        for topic in answer.responses:
            for each in topic.partitions:
                where = (topic.topic, each.partition_index)
                if where not in asked:
                    continue
                if each.error_code:
                    self.found[where] = NextRecord(None, why=_reason(each.error_code))
                    continue
                records = memoryview(each.records or b"")
                self._left_bytes -= len(records)
                found = find_first(records, asked[where])
                if found.record is not None:
                    self.found[where] = found.record
                elif (found.look_at or asked[where]) >= each.high_watermark:
                    self.found[where] = NextRecord(None, each.high_watermark, ONLY_MARKERS)
                elif found.look_at is None and len(asked) == 1:
                    # asked for alone, and still not whole
                    self.found[where] = NextRecord(None, why=TOO_LARGE)
                elif found.look_at is None:
                    self._alone.setdefault(node_id, {})[where] = asked[where]
                else:
                    self._many.setdefault(node_id, {})[where] = found.look_at


def _reason(code: int) -> str:
    return LOG_STARTS_LATER if code == Code.OFFSET_OUT_OF_RANGE else name_of_code(code)


def find_first(records: memoryview, offset: int) -> Found:
    """Find the time of the first record at or behind `offset` in an answer, whose last batch may be
    cut. Markers of transactions are no records.
    """
    look_at, position = None, 0
    try:
        for header, batch in iterate(records):
            position += header.size_bytes
            if header.last_offset < offset:
                continue
            look_at = header.last_offset + 1
            if header.attributes & CONTROL:
                continue
            if not crc_matches(batch, header):
                return Found(NextRecord(None, why=UNREADABLE))
            for record in records_of(batch):
                if record.offset >= offset:
                    return Found(_at(record.timestamp, record.offset))
        if len(records) - position >= BATCH_HEADER_BYTES:
            header = read_header(records, position)
            if (time_ms := _time_of_header(header, offset)) is not None:
                return Found(_at(time_ms, max(offset, header.base_offset)))
    except ProtocolError:
        return Found(NextRecord(None, why=UNREADABLE))
    return Found(None, look_at)


def _at(time_ms: int, offset: int) -> NextRecord:
    return NextRecord(time_ms, offset) if time_ms >= 0 else NextRecord(None, offset, NO_TIME)


def _time_of_header(header: BatchHeader, offset: int) -> int | None:
    """Return the time of the record at `offset` where the header of its batch has it: the first
    record's, or one time of all.
    """
    if header.attributes & CONTROL or header.last_offset < offset:
        return None
    if header.attributes & LOG_APPEND_TIME:
        return header.max_timestamp
    if header.attributes & DELETE_HORIZON:
        return None
    if header.base_offset >= offset or header.base_timestamp == header.max_timestamp:
        return header.base_timestamp
    return None


def _question(offsets: Mapping[Where, int]) -> FetchRequest:
    rows = FETCH.request.topics
    topics = by_topic(
        (
            where,
            rows.partitions(
                partition=where[1], fetch_offset=offset, partition_max_bytes=SHARE_BYTES
            ),
        )
        for where, offset in offsets.items()
    )
    return FETCH.request(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=TIMES_BYTES.value,
        session_epoch=NO_SESSION,
        topics=[rows(topic=name, partitions=partitions) for name, partitions in topics.items()],
    )
