"""Batches of a fetch answer that have rows, and the begin of each record in them. Knows no Arrow.

What is per batch is done here, one by one; what is per record is left to columns.py, for all
batches at once, but for the walk from record to record: only the size in front of each one tells
where the next begins.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from raftka.limits import DECOMPRESSED_BYTES
from raftka.pipeline.errors import CorruptBatch
from raftka.runtime.interfaces import Buffer
from raftka.wire.errors import ProtocolError
from raftka.wire.records import (
    BATCH_HEADER_BYTES,
    CONTROL,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    crc_matches,
    opened,
    read_header,
    records_of,
    signed,
)

# of records, decompressed, that become one Arrow batch: compressed ones may be a thousand times
# their size
PORTION_BYTES = 64 << 20

AbortedTransaction = tuple[int, int]  # producer id, first offset


@dataclass(slots=True)
class Portion:
    """Records of some batches in one buffer; `heads` are the places where their sizes stand."""

    data: bytes
    heads: list[int] = field(default_factory=list)
    headers: list[BatchHeader] = field(default_factory=list)


@dataclass(slots=True)
class Span:
    """A batch in the answer. `compressed`: its records are not where it is."""

    header: BatchHeader
    start: int
    stop: int

    @property
    def compressed(self) -> int:
        return self.header.compression

    @property
    def is_empty(self) -> bool:
        """Compaction may keep the header alone, for its sequence numbers; its compression says
        nothing then.
        """
        return not self.header.count and self.stop - self.start == BATCH_HEADER_BYTES


class Fetched:
    """The batches of one answer for one partition, from `start` to `stop` (offsets). Raises
    CorruptBatch, also from `portions`.
    """

    def __init__(
        self,
        records: Buffer,
        where: str,
        start: int,
        stop: int,
        aborted: Iterable[AbortedTransaction] | None = None,
        *,
        check_crcs: bool = True,
    ) -> None:
        self.data = bytes(records)  # indexing bytes is what the walk does most
        self.where = where
        self.next_offset = start
        self._view = memoryview(self.data)
        self._spans = list(self._walk(start, stop, check_crcs))
        if aborted is not None:
            self._spans = list(self._committed(aborted))
        self._spans = [
            span
            for span in self._spans
            if not span.header.attributes & CONTROL and not span.is_empty
        ]

    def portions(self) -> Iterator[Portion]:
        if not any(span.compressed for span in self._spans):
            if self._spans:
                yield self._in_place()
            return
        pieces: list[Buffer] = []
        portion, size = Portion(b""), 0
        for span in self._spans:
            body = self._opened(span)
            self._find_heads(
                portion,
                span.header,
                body if isinstance(body, bytes) else bytes(body),
                0,
                len(body),
                size,
            )
            pieces.append(body)
            size += len(body)
            if size >= PORTION_BYTES:
                portion.data = b"".join(pieces)
                yield portion
                portion, pieces, size = Portion(b""), [], 0
        if pieces:
            portion.data = b"".join(pieces)
            yield portion

    def corrupt(self, header: BatchHeader, why: object) -> CorruptBatch:
        return CorruptBatch(
            f"{self.where}: the batch of offsets {header.base_offset} to {header.last_offset} is "
            f"corrupt: {why}. Nothing was skipped. "
            "Look at it with `raftka log dump` on its leader; to give it up, start from offset "
            f"{header.last_offset + 1}"
        )

    def explain(self) -> CorruptBatch:
        """Find the batch whose records are corrupt: the fast way, which reads all batches at once,
        cannot name it.
        """
        for span in self._spans:
            try:
                for _ in records_of(self._view[span.start : span.stop]):
                    pass
            except ProtocolError as error:
                return self.corrupt(span.header, error)
        return CorruptBatch(
            f"{self.where}: records at offset {self._spans[0].header.base_offset} and behind can "
            "not be read"
        )

    def _walk(self, start: int, stop: int, check_crcs: bool) -> Iterator[Span]:
        """Those with offsets in question. The last one of an answer may be cut. Compaction leaves
        gaps, so the first one may begin behind the range: then the range has no record left, and
        `next_offset` is its end.
        """
        position, end = 0, len(self.data)
        while end - position >= BATCH_HEADER_BYTES:
            header = read_header(self._view, position)
            after = position + header.length + LOG_OVERHEAD_BYTES
            if header.magic != MAGIC or header.length < BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES:
                raise self.corrupt(
                    header,
                    f"version {header.magic}, length {header.length}; only batches of version 2 "
                    "(Kafka 0.11 and later) are read",
                )
            if after > end:
                return
            if header.last_offset_delta < 0 or header.count < 0:
                raise self.corrupt(
                    header, f"{header.count} records up to offset delta {header.last_offset_delta}"
                )
            if check_crcs and not crc_matches(self._view[position:after], header):
                raise self.corrupt(header, "its checksum is another one")
            if header.base_offset >= stop:
                self.next_offset = max(self.next_offset, stop)
                return
            if header.last_offset >= start:
                yield Span(header, position, after)
            self.next_offset = max(self.next_offset, header.last_offset + 1)
            position = after

    def _committed(self, aborted: Iterable[AbortedTransaction]) -> Iterator[Span]:
        """Leave out the records of aborted transactions: `aborted` has their begins, a marker in
        the log is their end.
        """
        to_come = sorted(aborted, key=lambda each: each[1], reverse=True)
        now: set[int] = set()
        for span in self._spans:
            header = span.header
            while to_come and to_come[-1][1] <= header.last_offset:
                now.add(to_come.pop()[0])
            if header.attributes & CONTROL:
                now.discard(header.producer_id)
            elif header.attributes & TRANSACTIONAL and header.producer_id in now:
                continue
            yield span

    def _in_place(self) -> Portion:
        portion = Portion(self.data)
        for span in self._spans:
            self._find_heads(
                portion, span.header, self.data, span.start + BATCH_HEADER_BYTES, span.stop, 0
            )
        return portion

    def _opened(self, span: Span) -> Buffer:
        try:
            return opened(self._view[span.start : span.stop], DECOMPRESSED_BYTES.value)
        except ProtocolError as error:
            raise self.corrupt(span.header, error) from error

    def _find_heads(
        self,
        portion: Portion,
        header: BatchHeader,
        data: bytes,
        position: int,
        stop: int,
        shift: int,
    ) -> None:
        try:
            if header.count > stop - position:
                raise ProtocolError(f"{header.count} records in {stop - position} bytes")
            end = find_heads(data, position, header.count, portion.heads, shift)
        except (IndexError, ProtocolError) as error:
            raise self.corrupt(
                header,
                error if isinstance(error, ProtocolError) else "a record ends behind its batch",
            ) from error
        if end != stop:
            raise self.corrupt(header, f"its records end at byte {end - stop:+} from its end")
        portion.headers.append(header)


def find_heads(data: bytes, position: int, count: int, heads: list[int], shift: int) -> int:
    """Append where each record begins, `shift` added; where the last one ends. The hot loop of
    reading: 60 ns a record.
    """
    append = heads.append
    for _ in range(count):
        append(position + shift)
        size = data[position]
        if size < 128:
            position += 1 + (size >> 1)
            continue
        more = data[position + 1]
        if more < 128:
            position += 2 + ((size & 127 | more << 7) >> 1)
            continue
        size, position = signed(data, position, 32)
        if size < 0:
            raise ProtocolError(f"a record of {size} bytes")
        position += size
    return position


def append_times(headers: Sequence[BatchHeader]) -> list[bool]:
    """Return for each batch whether the broker set its timestamps."""
    return [bool(header.attributes & LOG_APPEND_TIME) for header in headers]
