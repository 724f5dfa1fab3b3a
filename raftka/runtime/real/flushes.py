"""Flush dirty files: by the kernel's own asynchronous fdatasync (io_submit of 2.5, fdatasync since 4.18), which reports by an eventfd; many files at
once by their file system (volumes.py); by threads where names are to be flushed, and where the kernel will not.

A thread that flushes costs more than the flush of a few files: it and the loop take the interpreter from each other a dozen times. `bench/` has the
rows that decided.
"""

import ctypes
import os
import platform
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from queue import SimpleQueue
from struct import Struct
from typing import Any, NamedTuple, Protocol, TypeVar

from raftka.runtime.real.volumes import MANY, Volume

THREADS = 2
AT_ONCE = 256
CALLS = {"x86_64": (206, 207, 209, 208), "aarch64": (0, 1, 2, 4), "riscv64": (0, 1, 2, 4)}  # io_setup, io_destroy, io_submit, io_getevents
T = TypeVar("T")
CONTROL_BLOCK = Struct("<QIIHhIQQqQII")  # data, key, flags, operation, priority, descriptor, what only reads and writes have; flags, eventfd
EVENT = Struct("<QQqq")  # data, control block, result, second result
FDATASYNC = 3
TELL = 1  # by the eventfd

Done = Callable[[OSError | None], None]
Post = Callable[[Callable[[], None]], None]


class Open(Protocol):
    @property
    def fd(self) -> int: ...
    @property
    def volume(self) -> Volume | None:
        """Its file system, where that is known."""


class Flush(NamedTuple):
    files: Sequence[Open]
    paths: Sequence[str]  # of files that are not open, or of directories
    done: Done


class Job:
    """Files and names that are flushed together; `done` gets the first error, in the loop."""

    __slots__ = ("_done", "_error", "_left")

    def __init__(self, parts: int, done: Done) -> None:
        self._left = parts
        self._error: OSError | None = None
        self._done = done

    def part_done(self, error: OSError | None) -> None:
        self._error = self._error or error
        self._left -= 1
        if not self._left:
            self._done(self._error)


class Flusher:
    """`post` brings what threads have to say to the loop; the loop calls `ready` for each write to `eventfd`, or for some together."""

    def __init__(self, post: Post) -> None:
        self.eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._kernel = Kernel(self.eventfd)
        self._post = post
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def flush(self, asked: Iterable[Flush]) -> None:
        """All at once."""
        wanted: list[tuple[int, Job]] = []
        for files, paths, done in asked:
            volume = files[0].volume if len(files) >= MANY else None
            if volume is not None and all(file.volume is volume for file in files) and volume.takes(len(files)):
                job = Job(2, done)
                self._by_volume(volume, [file.fd for file in files], job)
            else:
                job = Job(len(files) + 1, done)
                wanted += [(file.fd, job) for file in files]
            if paths or not files:
                self._in_thread(sync_paths, paths, job)
            else:
                job.part_done(None)
        for fd, job in self._kernel.submit(wanted):
            self._in_thread(fdatasync, fd, job)

    def ready(self, events: int) -> None:
        self._reap(wait=False)

    def stop(self) -> None:
        """Stop after all requested flushes are done."""
        while self._kernel.busy:
            self._reap(wait=True)
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        self._kernel.close()
        os.close(self.eventfd)

    def _reap(self, *, wait: bool) -> None:
        for fd, job in self._kernel.reap(wait=wait):
            self._in_thread(fdatasync, fd, job)

    def _by_volume(self, volume: Volume, fds: Sequence[int], job: Job) -> None:
        if volume.ask(fds, lambda error: self._post(lambda: job.part_done(error))):
            self._begin(volume.work)

    def _in_thread(self, sync: Callable[[T], OSError | None], what: T, job: Job) -> None:
        def work() -> None:
            error = sync(what)
            self._post(lambda: job.part_done(error))

        self._begin(work)

    def _begin(self, work: Callable[[], None]) -> None:
        while len(self._threads) < THREADS:
            self._threads.append(threading.Thread(target=self._run, name=f"raftka-flush-{len(self._threads)}", daemon=True))
            self._threads[-1].start()
        self._work.put(work)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()


def fdatasync(fd: int) -> OSError | None:
    try:
        os.fdatasync(fd)
    except OSError as error:
        return error
    return None


def sync_paths(paths: Sequence[str]) -> OSError | None:
    first: OSError | None = None
    for path in paths:
        try:
            sync_path(path)
        except FileNotFoundError:
            pass  # deleted meanwhile
        except OSError as error:
            first = first or error
    return first


def sync_path(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class Kernel:
    """Flushes that are under way in the kernel, and those that wait until it has room."""

    def __init__(self, eventfd: int) -> None:
        self._eventfd = eventfd
        self._calls = CALLS.get(platform.machine())
        self._call: Any = ctypes.CDLL(None, use_errno=True).syscall
        self._call.restype = ctypes.c_long
        self._context = ctypes.c_ulong(0)
        self._blocks = ctypes.create_string_buffer(CONTROL_BLOCK.size * AT_ONCE)
        first = ctypes.addressof(self._blocks)
        self._pointers = (ctypes.c_void_p * AT_ONCE)(*range(first, first + len(self._blocks) - 1, CONTROL_BLOCK.size))
        self._events = ctypes.create_string_buffer(EVENT.size * AT_ONCE)
        self._under_way: dict[int, Job] = {}
        self._waiting: deque[tuple[int, Job]] = deque()
        self._number = 0
        if self._calls is not None and self._call(self._calls[0], AT_ONCE, ctypes.byref(self._context)):
            self._calls = None

    @property
    def busy(self) -> bool:
        return bool(self._under_way)

    def close(self) -> None:
        if self._calls is not None:
            self._call(self._calls[1], self._context)
            self._calls = None

    def submit(self, wanted: Sequence[tuple[int, Job]]) -> Sequence[tuple[int, Job]]:
        """Those that it does not take: bad ones, and all where the kernel, or who guards it, will not have it."""
        if self._calls is None:
            return wanted
        self._waiting.extend(wanted)
        return self._submit_more()

    def reap(self, *, wait: bool) -> list[tuple[int, Job]]:
        """Tells the jobs of what is done, and takes more; what it does not take."""
        assert self._calls is not None
        came = int(self._call(self._calls[3], self._context, ctypes.c_long(1 if wait else 0), ctypes.c_long(AT_ONCE), self._events, None))
        results = [EVENT.unpack_from(self._events, place * EVENT.size) for place in range(max(0, came))]
        for number, _, result, _ in results:
            self._under_way.pop(number).part_done(OSError(-result, os.strerror(-result)) if result < 0 else None)
        return self._submit_more()

    def _submit_more(self) -> list[tuple[int, Job]]:
        assert self._calls is not None
        refused: list[tuple[int, Job]] = []
        while self._waiting and (room := AT_ONCE - len(self._under_way)):
            some = [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]
            for place, (fd, _) in enumerate(some):
                number = self._number + place
                CONTROL_BLOCK.pack_into(self._blocks, place * CONTROL_BLOCK.size, number, 0, 0, FDATASYNC, 0, fd, 0, 0, 0, 0, TELL, self._eventfd)
            taken = max(0, int(self._call(self._calls[2], self._context, ctypes.c_long(len(some)), self._pointers)))
            self._under_way.update(enumerate([job for _, job in some[:taken]], self._number))
            self._number += len(some)
            refused += some[taken : taken + 1]
            self._waiting.extendleft(reversed(some[taken + 1 :]))
        return refused
