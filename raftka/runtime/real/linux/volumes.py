"""Flush many dirty files of a file system with one call (syncfs): 150 small files take a third of
the time, and no work of the kernel for each.

syncfs writes what other processes have left in memory as well, so it is only used while there is
little of that. The kernel tells a descriptor of each failed write of its file system once,
whichever file that was for. So one descriptor is asked, by one call at a time, and after an error
never again: from then on each file is flushed by itself, and tells of its own errors.
"""

import ctypes
import os
from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Final

from raftka.runtime.real.flushes import MANY, sync_files

# of dirty memory in the whole machine: beyond it, syncfs could wait for writes of others
OTHERS_BYTES = 16 * 1024 * 1024
FIRST_KERNEL = (5, 8)  # before, syncfs did not tell of failed writes
# whose syncfs tells of every failed write of every file
KINDS = {0xEF53: "ext4", 0x58465342: "xfs"}

Report = Callable[[OSError | None], None]

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fstatfs.argtypes = (ctypes.c_int, ctypes.c_void_p)


def syncfs(fd: int) -> None:
    """Raises OSError."""
    if _libc.syncfs(fd):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def dirty_bytes() -> int:
    """Return what the machine has in memory for its disks, of all processes."""
    with open("/proc/meminfo", "rb") as file:
        fields = dict(line.split(b":", 1) for line in file)
    return sum(int(fields[name].split()[0]) for name in (b"Dirty", b"Writeback")) * 1024


def kind_of(fd: int) -> int:
    """Return the number of the file system's kind (`man 2 fstatfs`); 0 when it is not known."""
    found = ctypes.create_string_buffer(256)
    return 0 if _libc.fstatfs(fd, found) else ctypes.c_long.from_buffer(found).value


def kernel() -> tuple[int, ...]:
    return tuple(
        int(part) for part in os.uname().release.split("-")[0].split(".")[:2] if part.isdigit()
    )


class Volume:
    """One file system. Open it before the first write of a file that it is to flush: errors before
    that are not told.
    """

    def __init__(self, directory: str) -> None:
        self._fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._trusted = kernel() >= FIRST_KERNEL and kind_of(self._fd) in KINDS
        self._lock: Final = Lock()
        self._waiting: deque[tuple[Sequence[int], Report]] = deque()
        self._busy = False
        self.calls = 0  # of syncfs

    def takes(self, files: int) -> bool:
        """Return whether so many files are flushed by one call now."""
        return files >= MANY and self._trusted and dirty_bytes() <= OTHERS_BYTES

    def ask(self, fds: Sequence[int], report: Report) -> bool:
        """Return whether the caller has to run `work` in a thread, which calls `report` there."""
        with self._lock:
            self._waiting.append((fds, report))
            idle, self._busy = not self._busy, True
        return idle

    def work(self) -> None:
        """Until nothing waits."""
        while True:
            with self._lock:
                asked, self._waiting = self._waiting, deque()
                self._busy = bool(asked)
            if not asked:
                return
            if self._sync():
                for _, report in asked:
                    report(None)
            else:
                for fds, report in asked:
                    report(sync_files(fds))

    def _sync(self) -> bool:
        if not self._trusted:
            return False
        self.calls += 1
        try:
            syncfs(self._fd)
        except OSError:
            self._trusted = False
        return self._trusted

    def close(self) -> None:
        os.close(self._fd)


class Volumes:
    """The file systems of open files."""

    def __init__(self) -> None:
        self._by_device: dict[int, Volume | None] = {}

    def of(self, device: int, path: str) -> Volume | None:
        """`device`: of the file at `path`, which was opened just now."""
        if device not in self._by_device:
            try:
                self._by_device[device] = Volume(os.path.dirname(path) or ".")
            except OSError:  # its files are flushed each by itself
                self._by_device[device] = None
        return self._by_device[device]

    def close(self) -> None:
        for volume in self._by_device.values():
            if volume is not None:
                volume.close()
        self._by_device.clear()
