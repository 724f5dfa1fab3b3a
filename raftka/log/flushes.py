"""Flushes of one log's files: which files wait for a flush, which flushes are under way, and which
offsets are on disk. Knows no records.

Flushes may come back in any order. A flush counts when all that began before it have come back
too: a file may be dirty in an earlier one only.
"""

from collections import deque

from raftka.runtime.interfaces import File


class _Flush:
    __slots__ = ("came_back", "claims", "files", "offset")

    def __init__(self, offset: int, files: list[File]) -> None:
        self.offset = offset
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
        """Return the files of a flush that begins now."""
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
        """Count everything below `offset`: answers do not wait for the disk any more. The files of
        flushes under way are still to be flushed.
        """
        self.flushed_offset = max(self.flushed_offset, offset)
        self.dirty = self.unflushed

    def end(self, offset: int) -> None:
        """End the flush that began at the written offset `offset`: it has succeeded."""
        under_way = self._under_way
        for flush in under_way:
            if flush.offset == offset and not flush.came_back:
                flush.came_back = True
                break
        while under_way and under_way[0].came_back:
            self.flushed_offset = max(self.flushed_offset, under_way.popleft().claims)

    def on_truncated(self, offset: int) -> None:
        """Let flushes under way claim nothing beyond `offset`: they have not seen what is appended
        from there on.
        """
        self.flushed_offset = min(self.flushed_offset, offset)
        for flush in self._under_way:
            flush.claims = min(flush.claims, offset)

    def restart(self, offset: int) -> None:
        """Begin an empty log at `offset`: no flush under way says anything about it."""
        for flush in self._under_way:
            flush.claims = -1
        self.flushed_offset = offset
        self.dirty = []

    def remove(self, file: File) -> None:
        for files in (self.dirty, *[flush.files for flush in self._under_way]):
            if file in files:
                files.remove(file)
