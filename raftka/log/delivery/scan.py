"""Scans of a log for its held batches: for pending records, which a leader needs, and for ranges
that consumers do not see. In pieces, from the files, while the log goes on.

Each delivering batch says how far back the first pending record is. So the search for pending
records begins there, and not at the log's start.
"""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import pairwise
from typing import Protocol

from raftka.log.delivery.due import AT_ONCE, DELIVERING, HELD_OFFSET, deliver_at
from raftka.log.delivery.held import HeldBatches, Pending
from raftka.log.durability import Durability
from raftka.log.segments.scan import Header, headers
from raftka.log.segments.search import Steps
from raftka.log.segments.segment import Segment
from raftka.log.segments.segment_list import SegmentList
from raftka.log.segments.times import HELD
from raftka.wire.errors import ProtocolError
from raftka.wire.records import LOG_OVERHEAD_BYTES, Record, records_of

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
        self._first: int | None = None  # as the last delivering batch says

    def find_pending(self) -> Steps[None]:
        """Find the ranges at the log's end, and the pending records: the log may lead then."""
        yield from self._find_ranges(is_whole=False)
        yield from self._find_records()

    def find_ranges(self) -> Steps[None]:
        """Find the ranges of the whole log. A scan that looked for pending records goes on where
        it was.
        """
        yield from self._find_ranges(is_whole=True)

    def _find_ranges(self, *, is_whole: bool) -> Steps[None]:
        """Read the headers of one segment after the other, from the newest on."""
        log, held = self._log, self._held
        while held.known_from > 0 and (is_whole or not self._has_end):
            slot = log.segments.slot_of(held.known_from - 1)
            segment, end = log.segments[slot], held.known_from
            if end <= segment.base_offset or (slot == 0 and end <= log.start_offset):
                held.known_from = 0
                return
            older = HeldBatches(segment.base_offset if slot else 0)
            first, size = self._first, self._size_of(segment)
            for number, (_, header) in enumerate(headers(segment.file, 0, size)):
                base, attributes = header[0], header[5]
                if base >= end:
                    break
                if attributes & HELD:
                    older.note(base, base + header[6] + 1)
                elif attributes & DELIVERING and self._first is None:
                    first = base - header[11] if header[11] >= 0 else 0
                if number % BATCHES_OF_STEP == 0:
                    yield
                    self._check(segment)
            self._first = first
            held.prepend(older)
            yield
            self._check()

    @property
    def _has_end(self) -> bool:
        held = self._held
        return self._first is not None and held.known_from <= self._first and held.begins_seen

    def _find_records(self) -> Steps[None]:
        """Read held and delivering batches from the first pending record to the log's end, which
        moves meanwhile.
        """
        log, left = self._log, OrderedDict[int, int]()
        # of each pending record by its offset: its time, and the base offset of its batch
        found: dict[int, tuple[int, int]] = {}
        position = max(self._first or 0, log.start_offset)
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
            for number, (offset, (at_ms, _)) in enumerate(found.items()):
                pending.push(at_ms, offset)
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
        found: dict[int, tuple[int, int]],
        left: OrderedDict[int, int],
    ) -> Steps[None]:
        for number, record in enumerate(_records(segment, at, header)):
            if header[5] & HELD:
                found[record.offset] = _time_of(record), header[0]
                left[header[0]] = left.get(header[0], 0) + 1
            elif (held := found.pop(_held_offset(record), None)) is not None:
                left[held[1]] -= 1
                if not left[held[1]]:
                    del left[held[1]]
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
        following = dict(pairwise(self._log.segments))
        after = following.get(segment)
        return self._log.end_offset if after is None else after.base_offset

    def _check(self, segment: Segment | None = None) -> None:
        log = self._log
        if (
            log.held is not self._held
            or log.durability.truncations != self._truncations
            or (segment is not None and segment not in log.segments)
        ):
            raise Outdated


def _records(segment: Segment, position: int, header: Header) -> Iterator[Record]:
    """Yield the records of a batch in a file. One that cannot be read has none."""
    batch = memoryview(segment.file.read(position, header[1] + LOG_OVERHEAD_BYTES))
    try:
        yield from records_of(batch)
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
