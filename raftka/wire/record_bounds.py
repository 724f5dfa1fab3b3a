"""Outlines of the records of a batch, read while it is decompressed. Only one piece of it is in
memory, however large the batch or a record may be.

`records_of` (records.py) makes the records themselves. Knows no log.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from raftka.limits import DECOMPRESSED_BYTES, HEADERS_OF_RECORD
from raftka.runtime.interfaces import Buffer
from raftka.wire.compression import pieces
from raftka.wire.errors import ProtocolError
from raftka.wire.records import (
    BATCH_HEADER_BYTES,
    LOG_APPEND_TIME,
    SIGN,
    Indexed,
    put_signed,
    read_header,
    signed,
    size_of_record,
    timestamp_of,
)

SIZE_BYTES = 5  # of a record's size, at most
Write = Callable[[Buffer], object]


class NotOpened(ProtocolError):
    """The codec cannot decompress the payload."""


class Outline(NamedTuple):
    offset: int
    timestamp: int  # ms
    key_bytes: int | None
    value_bytes: int | None


class _Opened:
    """The decompressed bytes by their position. Only the last piece is kept. Raises IndexError
    behind the end.
    """

    def __init__(self, parts: Iterator[Buffer]) -> None:
        self._parts = parts
        self._piece: Buffer = b""
        self._start = self.end = 0  # of the piece
        self._copy: Write | None = None
        self._copied = 0  # so far

    def __getitem__(self, position: int) -> int:
        while position >= self.end:
            self.advance()
        return self._piece[position - self._start]

    def advance(self) -> None:
        if self._copy is not None:
            self._copy_to(self.end)
        self._piece = b""
        try:
            self._piece = next(self._parts, b"")
        except ProtocolError as error:
            if error.limit is not None:
                raise
            raise NotOpened(str(error)) from error
        self._start, self.end = self.end, self.end + len(self._piece)
        if not self._piece:
            raise IndexError("behind the end")

    def part(self, start: int, stop: int) -> tuple["Buffer | _Opened", int]:
        """Return the buffer that has the bytes from `start` to `stop`, and the position of `start`
        in it.
        """
        while start >= self.end:
            self.advance()
        if stop <= self.end:
            return self._piece, start - self._start
        return self, start

    def copy(self, write: Write, start: int) -> None:
        """Pass all bytes from `start` on to `write`, until `copied` is called."""
        self._copy, self._copied = write, start

    def copied(self, stop: int) -> None:
        while self.end < stop:
            self.advance()
        self._copy_to(stop)
        self._copy = None

    def _copy_to(self, stop: int) -> None:
        if self._copy is not None and stop > self._copied:
            self._copy(memoryview(self._piece)[self._copied - self._start : stop - self._start])
            self._copied = stop

    def check_end(self, position: int) -> None:
        """Raise ProtocolError if the bytes do not end at `position`."""
        try:
            while self.end <= position:
                self.advance()
        except IndexError:
            if self.end == position:
                return
            raise
        raise ProtocolError("there are bytes behind the last record")


def outlines(
    batch: memoryview, write: Write | None = None, most_bytes: int | None = None
) -> Iterator[Outline]:
    """Yield the outlines. Raises ProtocolError for bytes that are no record and for a compressed
    record that has more than `most_bytes` when it is opened, NotOpened for a payload that its codec
    cannot decompress.

    `write` gets the same records as a leader stores them when it compresses them again: without
    attributes, numbered from 0 on, their times relative to that of the first one. Pieces of a
    record come before it is known to be sound.
    """
    header = read_header(batch)
    source = _Opened(pieces(header.compression, batch[BATCH_HEADER_BYTES : header.size_bytes]))
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    is_stamped = header.attributes & LOG_APPEND_TIME
    position = 0
    first: int | None = None
    try:
        for index in range(header.count):
            data, at = source.part(position, position + SIZE_BYTES)
            if (size := data[at]) < 128:
                size, behind = size >> 1 ^ -(size & 1), at + 1
            else:
                size, behind = size_of_record(data, at)
            position += behind - at
            stop = position + size
            if size < 1:
                raise ProtocolError(f"a record of {size} bytes")
            if header.compression and most_bytes is not None and size > most_bytes:
                raise ProtocolError(f"a compressed record of {size} bytes")
            if header.compression and size > DECOMPRESSED_BYTES.value:
                # IndexError if there are no more bytes: the record ends behind its batch
                source.part(source.end, source.end + 1)
                raise ProtocolError(
                    f"compressed records of more than {DECOMPRESSED_BYTES.value} bytes",
                    DECOMPRESSED_BYTES,
                )
            data, at = source.part(position, stop)
            delta, tail = _signed(data, at + 1)
            offset, tail = _signed(data, tail, 32)
            timestamp = base_timestamp + delta
            if is_stamped or not -SIGN <= timestamp < SIGN:
                timestamp = timestamp_of(header, delta)
            if write is not None:
                first = timestamp if first is None else first
                write(_new_head(timestamp - first, index, size - (tail - at)))
                source.copy(write, position + tail - at)
            key_bytes, value_bytes = _check_tail(data, tail, at + size)
            if write is not None:
                source.copied(stop)
            yield Outline(base_offset + offset, timestamp, key_bytes, value_bytes)
            position = stop
        source.check_end(position)
    except IndexError as error:
        raise ProtocolError("a record ends behind its batch") from error


def _signed(data: Indexed, position: int, bits: int = 64) -> tuple[int, int]:
    byte = data[position]
    return (byte >> 1 ^ -(byte & 1), position + 1) if byte < 128 else signed(data, position, bits)


def _new_head(delta: int, offset: int, tail_bytes: int) -> bytearray:
    head = bytearray(b"\0")  # attributes
    put_signed(head, delta)
    put_signed(head, offset)
    out = bytearray()
    put_signed(out, len(head) + tail_bytes)
    return out + head


def _check_tail(data: Indexed, position: int, stop: int) -> tuple[int | None, int | None]:
    """Check that key, value and headers end at `stop`; return the sizes of key and value."""
    key_bytes, position = _skip_sized(data, position, stop)
    value_bytes, position = _skip_sized(data, position, stop)
    count, position = _signed(data, position, 32)
    if count:
        if not 0 <= count <= min(stop - position, HEADERS_OF_RECORD.value):
            raise ProtocolError(f"a record with {count} headers", HEADERS_OF_RECORD)
        for _ in range(count):
            name_bytes, position = _skip_sized(data, position, stop)
            _, position = _skip_sized(data, position, stop)
            if name_bytes is None:
                raise ProtocolError("a record header without a name")
    if position != stop:
        raise ProtocolError(f"a record ends at byte {position} of {stop}")
    return key_bytes, value_bytes


def _skip_sized(data: Indexed, position: int, stop: int) -> tuple[int | None, int]:
    size, position = _signed(data, position, 32)
    if size < 0:
        return None, position
    if size > stop - position:
        raise ProtocolError(f"a field of {size} bytes with {stop - position} to come")
    return size, position + size
