"""Scans of a log for its held batches: for pending records, which a leader needs, and for ranges
that consumers do not see. In pieces, from the files, while the log goes on.

Each delivering batch says how far back the first pending record is. So the search for pending
records begins there, and not at the log's start.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Protocol

from raftka.log.delivery.due import AT_ONCE, DELIVERING, HELD_OFFSET, deliver_at, placed_records
from raftka.log.delivery.held import DueRecord, HeldBatches, Pending
from raftka.log.durability import Durability
from raftka.log.segments.scan import Header, headers
from raftka.log.segments.search import Steps
from raftka.log.segments.segment import Segment
from raftka.log.segments.segment_list import SegmentList
from raftka.log.segments.times import HELD
from raftka.wire.errors import ProtocolError
from raftka.wire.records import BATCH_HEADER_BYTES, LOG_OVERHEAD_BYTES, Record, opened, read_header

BATCHES_OF_STEP = 16  # some 20 us for their headers
RECORDS_OF_STEP = 32  # some 100 us
FARTHEST = (1 << 31) - 1  # what a delivering batch can say


class ScannedLog(Protocol):
    """The log that is read."""

    durability: Durability
    end_offset: int
    held: HeldBatches | None
    segments: SegmentList
    start_offset: int

    def write_staged(self) -> None: ...


class Outdated(Exception):
    """The log was cut, or what was being read is gone: begin anew."""


def distance_to(first: int, end_offset: int) -> int:
    """Return what a delivering batch at `end_offset` says of the first pending record; -1: it is
    too far back to say.
    """
    distance = end_offset - first
    return distance if distance <= FARTHEST else -1


class HeldScan:
    """One scan of a log. Raises OSError, Outdated."""

    def __init__(self, log: ScannedLog) -> None:
        assert log.held is not None
        self._log, self._held = log, log.held
        self._truncations = log.durability.truncations

    def find_pending(self) -> Steps[None]:
        """Find the pending records, and the ranges that lie behind the first of them: the log may
        lead then.
        """
        first = yield from self._find_first()
        while self._held.known_from > first or not self._held.begins_seen:
            yield from self._find_ranges()
        yield from self._find_records(first)

    def find_ranges(self) -> Steps[None]:
        """Find the ranges of the whole log."""
        while self._held.known_from > 0:
            yield from self._find_ranges()

    def _find_first(self) -> Steps[int]:
        """Return an offset at or before the first pending record: the last delivering batch has
        it.
        """
        for segment in reversed(list(self._log.segments)):
            first = -1
            for number, (_, header) in enumerate(
                headers(segment.file, 0, self._size_of(segment)), start=1
            ):
                if header[5] & DELIVERING:
                    first = header[0] - header[11] if header[11] >= 0 else 0
                if number % BATCHES_OF_STEP == 0:
                    yield
                    self._check(segment)
            if first >= 0:
                return first
            yield
            self._check()
        return 0

    def _find_ranges(self) -> Steps[None]:
        """Read the headers of the newest segment that is not known."""
        log, held = self._log, self._held
        slot, end = log.segments.slot_of(held.known_from - 1), held.known_from
        if slot < 0 or end <= log.start_offset:
            held.known_from = 0
            return
        segment = log.segments[slot]
        older = HeldBatches(segment.base_offset if slot else 0)
        for number, (_, header) in enumerate(
            headers(segment.file, 0, self._size_of(segment)), start=1
        ):
            if header[0] >= end:
                break
            if header[5] & HELD:
                older.note(header[0], header[0] + header[6] + 1)
            if number % BATCHES_OF_STEP == 0:
                yield
                self._check(segment)
        held.prepend(older)
        yield
        self._check()

    def _find_records(self, first: int) -> Steps[None]:
        """Read held and delivering batches from the first pending record to the log's end, which
        moves meanwhile.
        """
        log, left = self._log, OrderedDict[int, int]()
        found: dict[int, DueRecord] = {}  # by offset
        position = max(first, log.start_offset)
        while position < log.end_offset:
            segment, start = self._locate(position)
            position = self._end_of(segment)
            for at, header in headers(segment.file, start, self._size_of(segment)):
                position = header[0] + header[6] + 1
                if header[5] & (HELD | DELIVERING):
                    yield from self._note_records(segment, at, header, found, left)
                    yield
                    self._check(segment)
                elif position % BATCHES_OF_STEP == 0:
                    yield
                    self._check(segment)
            yield
            self._check()
        pending = self._held.pending = Pending(left)  # batches that come from now on are added
        try:
            for number, record in enumerate(found.values()):
                pending.push(record)
                if number % RECORDS_OF_STEP == 0:
                    yield
                    self._check()
        except BaseException:
            if self._held.pending is pending:
                self._held.pending = None
            raise

    def _note_records(
        self,
        segment: Segment,
        at: int,
        header: Header,
        found: dict[int, DueRecord],
        left: OrderedDict[int, int],
    ) -> Steps[None]:
        for number, (place, record) in enumerate(_records(segment, at, header)):
            if header[5] & HELD:
                due = DueRecord(_time_of(record), record.offset, header[0], place)
                found[record.offset] = due
                left[header[0]] = left.get(header[0], 0) + 1
            elif (held := found.pop(_held_offset(record), None)) is not None:
                left[held.base] -= 1
                if not left[held.base]:
                    del left[held.base]
            if number % RECORDS_OF_STEP == RECORDS_OF_STEP - 1:
                yield

    def _locate(self, offset: int) -> tuple[Segment, int]:
        """Return where the first batch that reaches `offset` begins; the segment's end when none
        there does.
        """
        segments = self._log.segments
        segment = segments[max(0, segments.slot_of(offset))]
        size = self._size_of(segment)
        place = segment.locate(offset, size)
        return segment, size if place is None else place[0]

    def _size_of(self, segment: Segment) -> int:
        self._log.write_staged()
        return self._log.segments.written_size_of(segment)

    def _end_of(self, segment: Segment) -> int:
        """Return the offset behind a segment without a batch from the position on."""
        segments = self._log.segments
        after = segments.slot_of(segment.base_offset) + 1
        return segments[after].base_offset if after < len(segments) else self._log.end_offset

    def _has(self, segment: Segment) -> bool:
        segments = self._log.segments
        slot = segments.slot_of(segment.base_offset)
        return slot >= 0 and segments[slot] is segment

    def _check(self, segment: Segment | None = None) -> None:
        log = self._log
        if (
            log.held is not self._held
            or log.durability.truncations != self._truncations
            or (segment is not None and not self._has(segment))
        ):
            raise Outdated


def _records(segment: Segment, position: int, header: Header) -> Iterator[tuple[int, Record]]:
    """Yield the records of a batch in a file, and the place of each in the batch, if that is not
    compressed. One that cannot be read has no more of them.
    """
    batch = memoryview(segment.file.read(position, header[1] + LOG_OVERHEAD_BYTES))
    place = BATCH_HEADER_BYTES
    try:
        for record, piece in placed_records(opened(batch), read_header(batch)):
            yield place, record
            place += len(piece)
    except ProtocolError:
        return


def _time_of(record: Record) -> int:
    try:
        return deliver_at(record.headers) or AT_ONCE
    except ValueError:  # no leader has held such a record for a client
        return AT_ONCE


def _held_offset(record: Record) -> int:
    """Return the offset that a delivered record names; -1: none."""
    name, content = record.headers[-1] if record.headers else ("", None)
    return int(content) if name == HELD_OFFSET and content and content.isdigit() else -1
