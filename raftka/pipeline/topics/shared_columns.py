"""Columns of a partition that several flows read: the first one that needs them makes them, the
others find them in files of Arrow. Knows no broker.

A *part* is a file named by the offsets that it covers. A task that finds none at its offset makes
the next parts under the partition's lock; the others wait, and take each part as soon as it is
there. Records never change, so any task may make a part. Nothing depends on parts: where the disk
is full, or the maker takes too long, a flow makes its columns for itself. The oldest parts leave
first.
"""

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from raftka.pipeline.locks import locked

if TYPE_CHECKING:
    from collections.abc import Generator

    import pyarrow as pa

PARTS = 64  # of a partition: a flow that comes every few seconds may be minutes behind another one
WAIT_S = 10.0  # for another task that makes the part
POLL_S = 0.002
NAME = re.compile(r"(\d{19})-(\d{19})\.arrow")

# Returns the rows with these offsets, in their order; they have a column `offset`.
Make = Callable[[int, int], "Generator[pa.RecordBatch]"]


class Part(NamedTuple):
    """The rows with these offsets; the topic has no others between them any more."""

    start: int
    stop: int
    batches: "list[pa.RecordBatch]"


class SharedColumns:
    """The parts of one partition."""

    def __init__(
        self,
        folder: Path,
        limit: int,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """`limit`: bytes of all parts; the newest one stays in any case."""
        self._folder, self._limit, self._clock, self._pause = folder, limit, clock, pause

    def rows(self, start: int, stop: int, make: Make) -> "Iterator[pa.RecordBatch]":
        """Return rows with offsets from `start` to `stop`. Raise the errors of `make`."""
        while start < stop:
            part = self._find_part(start) or self._await_part(start, stop, make)
            if part is None:
                yield from make(start, stop)
                return
            for batch in part.batches:
                if (rows := between(batch, start, stop)).num_rows:
                    yield rows
            start = part.stop

    def _names(self) -> list[tuple[int, int, str]]:
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        return sorted(
            (int(match[1]), int(match[2]), name)
            for name in names
            if (match := NAME.fullmatch(name)) is not None
        )

    def _find_part(self, offset: int) -> Part | None:
        """Return the part with this offset; None also when it has just left, or cannot be read."""
        import pyarrow as pa

        for start, stop, name in reversed(self._names()):
            if start <= offset < stop:
                with (
                    suppress(OSError, pa.ArrowInvalid),
                    pa.memory_map(str(self._folder / name)) as file,
                ):
                    reader = pa.ipc.open_file(file)  # the rows keep the file's memory
                    return Part(
                        start,
                        stop,
                        [reader.get_batch(at) for at in range(reader.num_record_batches)],
                    )
        return None

    def _await_part(self, offset: int, stop: int, make: Make) -> Part | None:
        """Make the part with this offset, or wait for its maker. None: the disk has no place for
        it, or its maker takes too long.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return None
        try:
            deadline = self._clock() + WAIT_S
            while not locked(descriptor):
                if self._clock() > deadline:
                    return None
                self._pause(POLL_S)
                if (part := self._find_part(offset)) is not None:
                    return part
            return self._find_part(offset) or self._make_parts(offset, stop, make)
        finally:
            os.close(descriptor)

    def _make_parts(self, offset: int, stop: int, make: Make) -> Part | None:
        """Make parts up to the next one that is there, or up to half of the limit."""
        stop = min([stop, *(start for start, _, _ in self._names() if start > offset)])
        first: Part | None = None
        size, start = 0, offset
        with closing(make(offset, stop)) as found:
            while start < stop and size < max(self._limit // 2, 1):
                batch = next(found, None)
                end = stop if batch is None else batch.column("offset")[-1].as_py() + 1
                part = Part(start, end, [batch] if batch is not None else [])
                first = first or part
                if not self._put(part):
                    break
                size += batch.nbytes if batch is not None else 0
                start = end
        return first

    def _put(self, part: Part) -> bool:
        """Write the part, visible only when whole, and remove the oldest. False: a full disk."""
        import pyarrow as pa

        fresh = self._folder / "fresh"
        try:
            with pa.OSFile(str(fresh), "wb") as file, _writer(file, part) as writer:
                for batch in part.batches:
                    writer.write_batch(batch)
            fresh.rename(self._folder / f"{part.start:019}-{part.stop:019}.arrow")
            self._make_room()
        except OSError:
            return False
        return True

    def _make_room(self) -> None:
        with os.scandir(self._folder) as entries:
            found = [
                (entry.stat().st_mtime_ns, entry.name, entry.stat().st_size)
                for entry in entries
                if NAME.fullmatch(entry.name)
            ]
        found.sort()
        size = sum(each for _, _, each in found)
        for at, (_, name, each) in enumerate(found[:-1]):
            if len(found) - at <= PARTS and size <= self._limit:
                break
            os.unlink(self._folder / name)
            size -= each


@contextmanager
def _writer(file: object, part: Part) -> "Iterator[pa.ipc.RecordBatchFileWriter]":
    import pyarrow as pa

    with pa.ipc.new_file(file, part.batches[0].schema if part.batches else pa.schema([])) as writer:
        yield writer


def between(batch: "pa.RecordBatch", start: int, stop: int) -> "pa.RecordBatch":
    """Return the rows with these offsets. Offsets of the batch ascend."""
    import numpy as np

    offsets = batch.column("offset").to_numpy()
    first, last = (int(np.searchsorted(offsets, each)) for each in (start, stop))
    return batch if last - first == batch.num_rows else batch.slice(first, last - first)
