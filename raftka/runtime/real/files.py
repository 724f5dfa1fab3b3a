"""Files of the real world. Writes and reads happen on the loop (the page cache answers in
microseconds); fdatasync and unlink have threads.
"""

import errno
import fcntl
import os
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import TypeVar

from raftka.runtime import reused
from raftka.runtime.interfaces import Buffer, File
from raftka.runtime.real.flushes import Flush, Flusher
from raftka.runtime.real.syncing import sync_all, sync_data, sync_path
from raftka.runtime.real.system import System, Volumes, chosen_system

IOV_MAX = 1024
NAME_BYTES = 255  # the longest name of a file
GONE = ".gone"  # the end of names that wait to be unlinked

F = TypeVar("F", bound="RealFile")


def lend(data: bytes) -> AbstractContextManager[str]:
    """As `Runtime.lend`."""
    return chosen_system().lend(data)


class RealFile:
    __slots__ = (
        "_close",
        "_open",
        "_size",
        "_system",
        "closing",
        "fd",
        "path",
        "pins",
        "volume",
        "was_lent",
    )

    def __init__(
        self,
        path: str,
        fd: int,
        open_files: dict["RealFile", None],
        volumes: Volumes,
        system: System,
    ) -> None:
        self.path = path
        self.fd = fd
        self._system = system
        status = os.fstat(fd)
        self.volume = volumes.of(status.st_dev, path)
        self._open = open_files
        open_files[self] = None
        self.pins = 0  # flushes and sends under way: the descriptor must not be reused under them
        self.closing = False
        self._close: Callable[[int], None] = os.close
        self._size = status.st_size
        # sendfile gave its pages to a socket, which keeps them until the client reads; or an
        # earlier process did
        self.was_lent = self._size > 0

    def append(self, buffers: Sequence[Buffer]) -> None:
        for start in range(0, len(buffers), IOV_MAX):
            part = buffers[start : start + IOV_MAX]
            wanted = sum(map(len, part))
            written = self._system.write_at(self.fd, part, self._size)
            self._size += written
            if written < wanted:
                self._append_rest(b"".join(part), written)

    def _append_rest(self, data: bytes, written: int) -> None:
        view = memoryview(data)
        while written < len(data):
            count = os.pwrite(self.fd, view[written:], self._size)
            if count == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
            self._size += count
            written += count

    def read(self, position: int, size: int) -> bytes:
        data = os.pread(self.fd, size, position)
        while len(data) < size:
            more = os.pread(self.fd, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def read_into(self, view: memoryview, position: int) -> None:
        """Fill the view. Raises OSError, also when the file ends before."""
        read_at = self._system.read_at
        count = read_at(self.fd, (view,), position)
        while count < len(view):
            more = read_at(self.fd, (view[count:],), position + count)
            if not more:
                raise OSError(errno.EIO, "file shorter than promised", self.path)
            count += more

    def write(self, position: int, data: Buffer) -> None:
        view = memoryview(data)
        while view:
            count = os.pwrite(self.fd, view, position)
            position += count
            view = view[count:]
        self._size = max(self._size, position)

    def truncate(self, size: int) -> None:
        os.ftruncate(self.fd, size)
        self._size = size

    def reserve(self, size: int) -> None:
        self._system.reserve(self.fd, size)

    def size(self) -> int:
        return self._size

    def modified_ms(self) -> int:
        return os.fstat(self.fd).st_mtime_ns // 1_000_000

    def set_modified(self, wall_ms: int) -> None:
        os.utime(self.fd, ns=(os.fstat(self.fd).st_atime_ns, wall_ms * 1_000_000))

    def sync(self) -> None:
        sync_data(self.fd)

    def close(self, way: Callable[[int], None] = os.close) -> None:
        self.closing = True
        self._close = way
        self.release()

    @property
    def is_shared(self) -> bool:
        return self.pins > 0 or self.was_lent

    @property
    def is_linked(self) -> bool:
        return os.fstat(self.fd).st_nlink > 1

    def pin(self) -> None:
        self.pins += 1

    def unpin(self) -> None:
        self.pins -= 1
        if self.closing:
            self.release()

    def release(self) -> None:
        if self.closing and self.pins == 0 and self.fd >= 0:
            fd, self.fd = self.fd, -1
            del self._open[self]
            self._close(fd)


class ReusedFile(RealFile):
    """One that is written over."""

    __slots__ = ("_old_size",)

    def __init__(
        self,
        path: str,
        fd: int,
        open_files: dict["RealFile", None],
        volumes: Volumes,
        system: System,
    ) -> None:
        super().__init__(path, fd, open_files, volumes, system)
        self._old_size, self._size, self.was_lent = self._size, 0, False

    def append(self, buffers: Sequence[Buffer]) -> None:
        end = self._size + sum(map(len, buffers))
        super().append([*buffers, reused.zeros_behind(end, self._old_size)])
        self._size = end

    def truncate(self, size: int) -> None:
        super().truncate(size)
        self._old_size = 0


class RealFiles:
    """`post(callable)` brings a thread's result back to the loop, from any thread. `at_last` puts
    flushes off until what there is to send has left: others flush the same records meanwhile, and
    all that a turn has made dirty is flushed at once.
    """

    def __init__(
        self,
        post: Callable[[Callable[[], None]], None],
        at_last: Callable[[Callable[[], None]], None] = lambda action: action(),
    ) -> None:
        self._system = system = chosen_system()
        self.flusher = Flusher(post, system.open_kernel())
        self.volumes = system.open_volumes()
        self._at_last = at_last
        self._asked: list[Flush] = []
        # names to unlink, descriptors to close
        self._removals: SimpleQueue[str | int | None] = SimpleQueue()
        self._remover: threading.Thread | None = None
        self._open: dict[RealFile, None] = {}
        self._locks: dict[int, None] = {}
        self._stopped = False
        self._removed = 0  # names that were made for what goes

    def open(self, path: str, *, create: bool = False, over: bool = False) -> RealFile:
        return self._open_as(ReusedFile if over else RealFile, path, create=create)

    def _open_as(self, kind: type[F], path: str, *, create: bool) -> F:
        return kind(
            path,
            os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o640),
            self._open,
            self.volumes,
            self._system,
        )

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list(self, path: str) -> Sequence[str]:
        return sorted(os.listdir(path))

    def make_directory(self, path: str, *, durable: bool = True) -> None:
        missing = []
        while path and not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for directory in reversed(missing):
            try:
                os.mkdir(directory, 0o750)
            except FileExistsError:
                # else another broker of this host has made it meanwhile
                if not os.path.isdir(directory):
                    raise
            if durable:
                self.sync_directory(os.path.dirname(directory) or ".")

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def space(self, path: str) -> tuple[int, int]:
        volume = os.statvfs(path)
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize

    def replace(self, path: str, data: Buffer) -> None:
        temporary = path + ".tmp"
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            sync_all(file.fileno())
        os.replace(temporary, path)
        self.sync_directory(os.path.dirname(path) or ".")

    def link(self, old: str, new: str) -> None:
        os.link(old, new)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def sync_directory(self, path: str) -> None:
        sync_path(path)

    def remove(self, path: str) -> None:
        # it is on its way already: by an earlier process, or by our thread, which may be faster
        # than a rename
        if path.endswith(GONE):
            self._remove_later(path)
            return
        self._removed += 1
        directory, name = os.path.split(path)
        rest = f".{os.getpid()}.{self._removed}{GONE}"
        doomed = os.path.join(directory, name[: NAME_BYTES - len(rest)] + rest)
        os.rename(path, doomed)
        self._remove_later(doomed)

    def discard(self, file: File) -> None:
        assert isinstance(file, RealFile)
        file.close(self._remove_later)

    def lock(self, path: str) -> Callable[[], None]:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise BlockingIOError(errno.EWOULDBLOCK, "in use by another process", path) from None
        self._locks[fd] = None

        def release() -> None:
            if fd in self._locks:
                del self._locks[fd]
                os.close(fd)

        return release

    def flush(self, files: Sequence[File | str], done: Callable[[OSError | None], None]) -> None:
        real: list[RealFile] = []
        paths: list[str] = []
        for file in files:
            if isinstance(file, RealFile):
                if file.fd < 0:
                    raise ValueError(f"{file.path} is closed")
                file.pins += 1
                real.append(file)
            elif isinstance(file, str):
                paths.append(file)

        def flushed(error: OSError | None) -> None:
            for file in real:
                file.pins -= 1
                if file.closing:
                    file.release()
            if not self._stopped:
                done(error)

        self._asked.append((real, paths, flushed))
        if len(self._asked) == 1:
            self._at_last(self._flush)

    def _flush(self) -> None:
        asked, self._asked = self._asked, []
        self.flusher.flush(asked)

    def stop(self) -> None:
        """Ends the threads; what was asked for before is done first. Then lets go of every file, as
        the end of a process would.
        """
        self._stopped = True
        self._flush()
        self.flusher.stop()
        self.volumes.close()
        if self._remover is not None:
            self._removals.put(None)
            self._remover.join()
            self._remover = None
        for file in tuple(self._open):
            file.pins = 0
            file.close()
        for fd in self._locks:
            os.close(fd)
        self._locks.clear()

    def _remove_later(self, doomed: str | int) -> None:
        if self._remover is None:
            self._remover = threading.Thread(
                target=self._remove_loop, name="raftka-remove", daemon=True
            )
            self._remover.start()
        self._removals.put(doomed)

    def _remove_loop(self) -> None:
        while (path := self._removals.get()) is not None:
            if isinstance(path, int):
                os.close(path)
            else:
                try:
                    os.unlink(path)
                except IsADirectoryError:
                    shutil.rmtree(path, ignore_errors=True)
                except OSError:
                    pass  # the name is gone already; a leftover is swept at the next start


class Pace:
    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._free_at = time.monotonic()

    def take(self, size: int) -> None:
        now = time.monotonic()
        self._free_at = max(self._free_at, now) + size / self._bytes_per_s
        if self._free_at > now:
            time.sleep(self._free_at - now)


class PacedFile(RealFile):
    """Waits before it reads or appends more than the pace allows."""

    __slots__ = ("pace",)
    pace: Pace

    def append(self, buffers: Sequence[Buffer]) -> None:
        self.pace.take(sum(map(len, buffers)))
        super().append(buffers)

    def read(self, position: int, size: int) -> bytes:
        data = super().read(position, size)
        self.pace.take(len(data))
        return data


class PacedFiles(RealFiles):
    def __init__(self, bytes_per_s: float) -> None:
        super().__init__(lambda action: None)
        self._pace = Pace(bytes_per_s)

    def open(self, path: str, *, create: bool = False, over: bool = False) -> RealFile:
        assert not over, "work in a process of its own makes new files"
        file = self._open_as(PacedFile, path, create=create)
        file.pace = self._pace
        return file
