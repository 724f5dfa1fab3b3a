"""Files of segments that retention has deleted, kept for the next segments of the same log to be
written over them. Knows no offsets.

Their blocks and often their pages are there: a flush has only the records to write, and no size of
a file; the kernel clears and frees no memory. As many are kept as the last round of retention has
deleted, because the log will need as many until the next one.

This is safe because the batches in them have lower offsets than any that the log will ever have:
retention deletes from the start. (After a truncation that need not be so: the log drops the files.)
Behind the last batch come zeros. So recovery takes no old batch for one of the new segment.
"""

from collections import deque

from raftka.runtime.interfaces import File, Files

SUFFIX = ".deleted"  # recovery sweeps files with such names


class Budget:
    """Bytes that all logs of a broker may keep for this."""

    __slots__ = ("limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int = 1 << 62) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0


class _Kept:
    __slots__ = ("file", "free_since", "is_durable", "is_read", "path", "size")

    def __init__(self, file: File, path: str, size: int) -> None:
        self.file, self.path, self.size = file, path, size
        # the new name is on disk; before that a loss of power could bring the deleted segment back,
        # with other records in it
        self.is_durable = False
        self.is_read = True  # answers of this turn may still read the deleted records
        self.free_since = 0.0  # when that ended, seconds


class RecycledSegments:
    """The files of one log, the oldest first."""

    __slots__ = ("_files", "_kept", "_last_round", "_this_round", "budget")

    def __init__(self, files: Files) -> None:
        self._files = files
        self._kept: deque[_Kept] = deque()
        # segments that these rounds of retention have deleted
        self._this_round = self._last_round = 0
        self.budget = Budget()

    def begin_round(self, unused_since: float, budget: Budget | None = None) -> None:
        """A round of retention begins: remove files that are free since before that time (seconds),
        and what is beyond the budget.
        """
        self._last_round, self._this_round = self._this_round, 0
        if budget is not None and not self._kept:
            self.budget = budget
        for kept in list(self._kept):
            if (
                not kept.is_read and kept.free_since < unused_since
            ) or self.budget.used_bytes > self.budget.limit_bytes:
                self._remove(kept)

    def wants(self, file: File) -> bool:
        """Return whether to keep the file of a segment that this round deletes. A file that a
        client may still be reading, or that a backup has, is not kept.
        """
        self._this_round += 1
        has_room = self.budget.used_bytes + file.size() <= self.budget.limit_bytes
        return (
            has_room
            and not file.is_shared
            and not file.is_linked
            and len(self._kept) < max(self._this_round, self._last_round)
        )

    @property
    def needs_flush(self) -> bool:
        """Return whether the directory must be flushed before some file can be taken."""
        return any(not kept.is_durable for kept in self._kept)

    def keep(self, file: File, path: str) -> None:
        """Keep the file, which is at `path`, under another name. Raises OSError."""
        self._files.rename(path, path + SUFFIX)
        kept = _Kept(file, path + SUFFIX, file.size())
        self._kept.append(kept)
        self.budget.used_bytes += kept.size

    def has(self, file: File) -> bool:
        return any(kept.file is file for kept in self._kept)

    def directory_flushed(self) -> None:
        """The new names of all files are on disk."""
        for kept in self._kept:
            kept.is_durable = True

    def release(self, file: File, now: float) -> bool:
        """No answer reads the deleted records any more. Return whether the file is kept; if not,
        the caller must close it. `now`: in seconds.
        """
        for kept in self._kept:
            if kept.file is file:
                kept.is_read, kept.free_since = False, now
                return True
        return False

    def take(self, path: str) -> bool:
        """Return whether a file that is to be written over is at `path` now. Raises OSError."""
        for kept in list(self._kept):
            if kept.is_read or not kept.is_durable:
                continue
            if kept.file.is_shared:
                self._remove(kept)
                continue
            self._files.rename(kept.path, path)
            self._files.discard(kept.file)
            self._forget(kept)
            return True
        return False

    def drop(self) -> None:
        """Remove all files."""
        for kept in list(self._kept):
            self._remove(kept)

    def _remove(self, kept: _Kept) -> None:
        self._forget(kept)
        try:
            self._files.remove(kept.path)
        except OSError:
            pass  # the directory is gone, or the next start sweeps it
        if not kept.is_read:
            self._files.discard(kept.file)

    def _forget(self, kept: _Kept) -> None:
        self._kept.remove(kept)
        self.budget.used_bytes -= kept.size
