"""Flush dirty files: by the kernel's own asynchronous fdatasync (io_submit of 2.5, fdatasync since
4.18), which reports by an eventfd; many files at once by their file system (volumes.py); by threads
where names are to be flushed, and where the kernel will not.

A thread that flushes costs more than the flush of a few files: it and the loop take the interpreter
from each other a dozen times. `bench/` has the rows that decided.
"""

import ctypes
import os
import platform
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from queue import SimpleQueue
from struct import Struct
from typing import Any, Protocol, TypeVar

from raftka.runtime.real.volumes import MANY, Volume

THREADS = 2
AT_ONCE = 256
# io_setup, io_destroy, io_submit, io_getevents
CALLS = {"x86_64": (206, 207, 209, 208), "aarch64": (0, 1, 2, 4), "riscv64": (0, 1, 2, 4)}
T = TypeVar("T")
# data, key, flags, operation, priority, descriptor, what only reads and writes have; flags, eventfd
CONTROL_BLOCK = Struct("<QIIHhIQQqQII")
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


# open files; paths of others, or of directories; what to call when all are flushed
Flush = tuple[Sequence[Open], Sequence[str], Done]


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
    """`post` brings what threads have to say to the loop; the loop calls `ready` for each write to
    `eventfd`, or for some together.
    """

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
            names = paths or not files
            volume = files[0].volume if len(files) >= MANY else None
            if (
                volume is not None
                and all(file.volume is volume for file in files)
                and volume.takes(len(files))
            ):
                job = Job(2 if names else 1, done)
                self._by_volume(volume, [file.fd for file in files], job)
            else:
                job = Job(len(files) + (1 if names else 0), done)
                wanted += [(file.fd, job) for file in files]
            if names:
                self._in_thread(sync_paths, paths, job)
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
            self._threads.append(
                threading.Thread(
                    target=self._run, name=f"raftka-flush-{len(self._threads)}", daemon=True
                )
            )
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
        # no system call has this number
        setup, destroy, submit, reap = CALLS.get(platform.machine(), (-1, -1, -1, -1))
        self._destroy = _system_call(destroy, ctypes.c_ulong)
        self._submit = _system_call(submit, ctypes.c_ulong, ctypes.c_long, ctypes.c_void_p)
        self._reap = _system_call(
            reap, ctypes.c_ulong, ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p
        )
        context = ctypes.c_ulong(0)
        self._blocks = ctypes.create_string_buffer(CONTROL_BLOCK.size * AT_ONCE)
        first = ctypes.addressof(self._blocks)
        self._pointers = (ctypes.c_void_p * AT_ONCE)(
            *range(first, first + len(self._blocks) - 1, CONTROL_BLOCK.size)
        )
        self._events = ctypes.create_string_buffer(EVENT.size * AT_ONCE)
        self._told = memoryview(self._events)
        self._under_way: dict[int, tuple[int, Job]] = {}
        self._waiting: deque[tuple[int, Job]] = deque()
        self._number = 0
        self._works = not _system_call(setup, ctypes.c_long, ctypes.c_void_p)(
            AT_ONCE, ctypes.byref(context)
        )
        self._context = context.value

    @property
    def busy(self) -> bool:
        return bool(self._under_way)

    def close(self) -> None:
        if self._works:
            self._works = False
            self._destroy(self._context)

    def submit(self, wanted: Sequence[tuple[int, Job]]) -> Sequence[tuple[int, Job]]:
        """Those that it does not take: bad ones, and all where the kernel, or who guards it, will
        not have it.
        """
        if not self._works:
            return wanted
        self._waiting.extend(wanted)
        return self._submit_more()

    def reap(self, *, wait: bool) -> Sequence[tuple[int, Job]]:
        """Tells the jobs of what is done, and takes more; what it does not take."""
        came = self._reap(self._context, 1 if wait else 0, AT_ONCE, self._events, None)
        if came > 0:
            events = EVENT.iter_unpack(self._told[: came * EVENT.size])
            # a job may stop the flusher
            for job, result in [
                (self._under_way.pop(number)[1], result) for number, _, result, _ in events
            ]:
                job.part_done(OSError(-result, os.strerror(-result)) if result < 0 else None)
        return self._submit_more() if self._waiting else ()

    def _submit_more(self) -> Sequence[tuple[int, Job]]:
        refused: list[tuple[int, Job]] = []
        waiting, under_way = self._waiting, self._under_way
        while waiting and (room := AT_ONCE - len(under_way)):
            first = self._number
            count = 0
            while waiting and count < room:
                under_way[first + count] = flush = waiting.popleft()
                CONTROL_BLOCK.pack_into(
                    self._blocks,
                    count * CONTROL_BLOCK.size,
                    first + count,
                    0,
                    0,
                    FDATASYNC,
                    0,
                    flush[0],
                    0,
                    0,
                    0,
                    0,
                    TELL,
                    self._eventfd,
                )
                count += 1
            self._number = first + count
            taken = self._submit(self._context, count, self._pointers)
            if taken < count:
                left = [
                    under_way.pop(number) for number in range(first + max(0, taken), first + count)
                ]
                refused.append(left[0])
                waiting.extendleft(reversed(left[1:]))
        return refused


def _system_call(number: int, *types: type) -> Any:
    """A function of its own for the call: ctypes converts its arguments without a call of Python
    for each. Returns -1 for an error.
    """
    function = ctypes.CDLL(None, use_errno=True)["syscall"]
    function.restype, function.argtypes = ctypes.c_long, (ctypes.c_long, *types)
    return partial(function, number)
