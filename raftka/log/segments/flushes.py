"""Which offsets are on disk: files that wait for a flush, flushes under way, and what they may
claim when they come back. Knows no records.

Flushes may come back in any order. One counts when all that began before it have come back too: a
file may be dirty in an earlier one only.
"""

from collections import deque

from raftka.runtime.interfaces import File


class _Flush:
    __slots__ = ("asked", "came_back", "claims", "files")

    def __init__(self, offset: int, files: list[File]) -> None:
        self.asked = offset
        self.files = files
        self.claims = offset  # less when a truncation came between
        self.came_back = False


class Flushes:
    __slots__ = ("_under_way", "dirty", "flushed_offset")

    def __init__(self, flushed_offset: int) -> None:
        self.flushed_offset = flushed_offset
        self.dirty: list[File] = []  # written since the last begin
        self._under_way: deque[_Flush] = deque()

    def begin(self, written_offset: int) -> list[File]:
        dirty, self.dirty = self.dirty, []
        self._under_way.append(_Flush(written_offset, dirty))
        return dirty.copy()

    @property
    def unflushed(self) -> list[File]:
        """Files that were written and are not known to be on disk: dirty, or with a flush under
        way.
        """
        return list(
            dict.fromkeys(
                [*[file for flush in self._under_way for file in flush.files], *self.dirty]
            )
        )

    def claim(self, offset: int) -> None:
        """Answers do not wait for the disk any more: everything below `offset` counts. What a flush
        under way has is still to be flushed.
        """
        self.flushed_offset = max(self.flushed_offset, offset)
        self.dirty = self.unflushed

    def came_back(self, offset: int) -> None:
        under_way = self._under_way
        for flush in under_way:
            if flush.asked == offset and not flush.came_back:
                flush.came_back = True
                break
        while under_way and under_way[0].came_back:
            self.flushed_offset = max(self.flushed_offset, under_way.popleft().claims)

    def truncated(self, offset: int) -> None:
        """What is appended from `offset` on is not what a flush under way has seen."""
        self.flushed_offset = min(self.flushed_offset, offset)
        for flush in self._under_way:
            flush.claims = min(flush.claims, offset)

    def restarted(self, offset: int) -> None:
        """An empty log at `offset`: nothing that was under way says anything about it."""
        for flush in self._under_way:
            flush.claims = -1
        self.flushed_offset = offset
        self.dirty = []

    def remove(self, file: File) -> None:
        for files in (self.dirty, *[flush.files for flush in self._under_way]):
            if file in files:
                files.remove(file)
