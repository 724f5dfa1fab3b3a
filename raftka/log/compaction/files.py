"""Files that a compaction reads and writes: the batches of a segment file, and the segment file
that takes its place. Knows no keys and no rule.
"""

from collections.abc import Iterator

from raftka.checksum import crc32c
from raftka.log.segments.scan import SMALLEST_LENGTH, Header
from raftka.log.segments.segment import Segment
from raftka.log.segments.times import time_in
from raftka.runtime.interfaces import Buffer, File, Files
from raftka.wire.records import (
    ATTRIBUTES_POSITION,
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
)

LARGEST_READ_BYTES = 8 * 1024 * 1024
WRITE_BYTES = 1024 * 1024
# flushed as it grows: one flush of it all would hold up those of the data path
SYNC_BYTES = 2 * 1024 * 1024


class Damaged(Exception):
    """The log has bytes that are none of its batches; it is left as it is."""


class Batches:
    """The batches of one segment file, read in pieces: (data, position in it, header). Raises
    Damaged for bytes that are no batch.

    All batches must be in order between the offsets `begin` and `end`: the CRC does not cover that.
    """

    def __init__(
        self, files: Files, path: str, size: int, begin: int, end: int, read_bytes: int
    ) -> None:
        self._file = files.open(path)
        self.path = path
        self.size = size
        self._next, self._end = begin, end
        self._read_bytes = read_bytes

    def __iter__(self) -> Iterator[tuple[bytes, int, Header]]:
        position, wanted = 0, max(self._read_bytes, BATCH_HEADER_BYTES)
        unpack = BATCH_HEADER.unpack_from
        while position < self.size:
            asked = min(wanted, self.size - position)
            data = self._file.read(position, asked)
            view, room, at = memoryview(data), len(data), 0
            while room - at >= BATCH_HEADER_BYTES:
                header: Header = unpack(data, at)
                stop = at + header[1] + LOG_OVERHEAD_BYTES
                if (
                    header[1] < SMALLEST_LENGTH
                    or not self._next <= header[0] <= header[0] + header[6] < self._end
                ):
                    raise Damaged(f"no batch at byte {position + at} of {self.path}")
                if stop > room:
                    # the next read must have the whole batch, so that no half is read twice
                    wanted = max(wanted, stop - at, min(4 * (stop - at), LARGEST_READ_BYTES))
                    break
                if crc32c(view[at + ATTRIBUTES_POSITION : stop]) != header[4]:
                    raise Damaged(
                        f"the CRC of the batch at offset {header[0]} in {self.path} is wrong"
                    )
                yield data, at, header
                self._next = header[0] + header[6] + 1
                at = stop
            if (
                room < asked
                or (at == 0 and wanted <= asked)
                or (at == 0 and room == self.size - position)
            ):
                raise Damaged(f"no batch at byte {position} of {self.path}")
            position += at

    def modified_ms(self) -> int:
        return self._file.modified_ms()

    def close(self) -> None:
        self._file.close()


class Output:
    """The new segment. Nothing is written while it would be the same as the only segment that it
    replaces: then that one stays.
    """

    def __init__(self, segment: Segment, original: File | None) -> None:
        self.segment = segment
        self._original = original  # None: something is different
        self._data = b""
        # start and stop in `_data` of unchanged batches that lie side by side, to be written
        self._run = (0, 0)
        self._pieces: list[Buffer] = []
        self._waiting = self._unsynced = 0

    def copy(self, data: bytes, at: int, header: Header) -> None:
        size = header[1] + LOG_OVERHEAD_BYTES
        self._note(size, data, at, header)
        if self._original is not None:
            return
        if data is not self._data or at != self._run[1]:
            self._close_run()
            self._data, self._run = data, (at, at)
        self._run = (self._run[0], at + size)

    def add(self, batch: bytearray) -> None:
        self.differ()
        self._close_run()
        self._note(len(batch), memoryview(batch), 0, BATCH_HEADER.unpack_from(batch))
        self._put(batch)

    def differ(self) -> None:
        """Begin to write, because the segments differ from here on: copy the batches so far."""
        original, self._original = self._original, None
        position = 0
        while original is not None and position < self.segment.size:
            data = original.read(position, min(WRITE_BYTES, self.segment.size - position))
            self._put(data)
            position += len(data)

    def _note(self, size: int, data: bytes | memoryview, at: int, header: Header) -> None:
        self.segment.note(self.segment.size, size, header[0] + header[6], time_in(data, at, header))

    def _close_run(self) -> None:
        start, stop = self._run
        if start < stop:
            self._put(memoryview(self._data)[start:stop])
        self._run = (stop, stop)

    def _put(self, piece: Buffer) -> None:
        self._pieces.append(piece)
        self._waiting += len(piece)
        if self._waiting >= WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        self.segment.file.append(self._pieces)
        self._unsynced += self._waiting
        self._pieces, self._waiting = [], 0
        if self._unsynced >= SYNC_BYTES:
            self.segment.file.sync()
            self._unsynced = 0

    def finish(self, modified_ms: int) -> bool:
        """Write and flush the segment with its indexes. Return False if it would be the same as the
        original: nothing is written. `modified_ms`: of the last file that it was made of.

        Retention goes by that time where records have none.
        """
        if self._original is not None:
            return False
        self._close_run()
        self._write()
        self.segment.file.set_modified(modified_ms)
        for file in self.segment.seal():
            file.sync()
        return True
