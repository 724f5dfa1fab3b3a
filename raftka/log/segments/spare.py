"""The file of a segment that retention has deleted, kept for the next segment of the same log to be written over it. Knows no offsets.

Its blocks and often its pages are there: a flush has only the records to write, and no size of a file; the kernel clears and frees no memory.

What makes it safe: the batches in it have lower offsets than any that the log will ever have, because retention deletes from the start (after a
truncation that need not be so: the log drops the file). Behind the last batch come zeros. So recovery takes no old batch for one of the new segment.
"""

from raftka.runtime.interfaces import File, Files

SUFFIX = ".deleted"  # recovery sweeps files with such names


class Spare:
    """At most one file."""

    __slots__ = ("_file", "_files", "_free_since", "_is_durable", "_is_read", "_path")

    def __init__(self, files: Files) -> None:
        self._files = files
        self._file: File | None = None
        self._path = ""
        self._is_durable = False  # its name is: else a loss of power could bring the deleted segment back, with other records in it
        self._is_read = False  # answers under way may still read the deleted records
        self._free_since = 0.0  # when that ended, seconds

    @property
    def is_wanted(self) -> bool:
        return self._file is None

    @property
    def needs_flush(self) -> bool:
        """There is a file, and its directory must be flushed before the file can be taken."""
        return self._file is not None and not self._is_durable

    def keep(self, file: File, path: str) -> None:
        """Keep the file, which is at `path`, under another name. Raises OSError."""
        self._files.rename(path, path + SUFFIX)
        self._file, self._path, self._is_durable, self._is_read = file, path + SUFFIX, False, True

    def directory_flushed(self) -> None:
        """The new name of the file, if there is one, is on disk."""
        self._is_durable = True

    def release(self, file: File, now: float) -> bool:
        """No answer reads the deleted records any more. Return whether the file is kept; if not, the caller must close it. `now`: in seconds."""
        if file is not self._file:
            return False
        self._is_read, self._free_since = False, now
        return True

    def take(self, path: str) -> bool:
        """Return whether a file that is to be written over is at `path` now. Raises OSError."""
        file = self._file
        if file is None or self._is_read or not self._is_durable:
            return False
        if file.is_shared:
            self.drop()
            return False
        self._files.rename(self._path, path)
        self._files.discard(file)
        self._file = None
        return True

    def drop(self) -> None:
        """Remove the file, if there is one."""
        file, self._file = self._file, None
        if file is None:
            return
        try:
            self._files.remove(self._path)
        except OSError:
            pass  # the directory is gone, or the next start sweeps it
        if not self._is_read:
            self._files.discard(file)

    def expire(self, before: float) -> None:
        """Remove the file if it has been free since before that time (seconds)."""
        if not self._is_read and self._free_since < before:
            self.drop()
