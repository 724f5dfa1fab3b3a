"""How dirty files reach the disk: threads that fdatasync, and for many files at once the kernel's own (io_submit of 2.5, fdatasync since 4.18).

A hundred fdatasyncs from Python cost more processor time than all else that is done for their records, most of it for who holds the interpreter;
syncfs would be cheaper still, but waits for what strangers have left in the file system. `bench/` has the row that decided.
"""

import ctypes
import os
import platform
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from struct import Struct
from typing import Any, Protocol

THREADS = 2
MANY = 4  # from so many files on the kernel does it
AT_ONCE = 256
CALLS = {"x86_64": (206, 207, 209, 208), "aarch64": (0, 1, 2, 4), "riscv64": (0, 1, 2, 4)}  # io_setup, io_destroy, io_submit, io_getevents
CONTROL_BLOCK = Struct("<QIIHhIQQqQII")  # data, key, flags, operation, priority, descriptor, and what only reads and writes have
EVENT = Struct("<QQqq")  # data, control block, result, second result
FDATASYNC = 3

Done = Callable[[OSError | None], None]


class Open(Protocol):
    @property
    def fd(self) -> int: ...


class Flusher:
    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Sequence[Open], Sequence[str], Done] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def flush(self, files: Sequence[Open], paths: Sequence[str], done: Done) -> None:
        """`paths` are of files that are not open, or of directories. `done` is called in one of the threads, with the first error."""
        while len(self._threads) < THREADS:
            self._threads.append(threading.Thread(target=self._work, name=f"raftka-flush-{len(self._threads)}", daemon=True))
            self._threads[-1].start()
        self._jobs.put((files, paths, done))

    def stop(self) -> None:
        """What was asked for before is done first."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _work(self) -> None:
        kernel: Kernel | None = None
        while (job := self._jobs.get()) is not None:
            files, paths, done = job
            if len(files) >= MANY:
                kernel = kernel or Kernel()
                errors = kernel.flush([file.fd for file in files])
            else:
                errors = one_by_one([file.fd for file in files])
            for path in paths:
                try:
                    sync_path(path)
                except FileNotFoundError:
                    pass  # deleted meanwhile
                except OSError as error:
                    errors.append(error)
            done(errors[0] if errors else None)
        if kernel is not None:
            kernel.close()


def one_by_one(fds: Sequence[int]) -> list[OSError]:
    errors = []
    for fd in fds:
        try:
            os.fdatasync(fd)
        except OSError as error:
            errors.append(error)
    return errors


def sync_path(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class Kernel:
    """Of one thread. Where the kernel, or who guards it, will not have it, files are flushed one by one."""

    def __init__(self) -> None:
        self._calls = CALLS.get(platform.machine())
        self._call: Any = ctypes.CDLL(None, use_errno=True).syscall
        self._call.restype = ctypes.c_long
        self._context = ctypes.c_ulong(0)
        self._blocks = ctypes.create_string_buffer(CONTROL_BLOCK.size * AT_ONCE)
        first = ctypes.addressof(self._blocks)
        self._pointers = (ctypes.c_void_p * AT_ONCE)(*range(first, first + len(self._blocks) - 1, CONTROL_BLOCK.size))
        self._events = ctypes.create_string_buffer(EVENT.size * AT_ONCE)
        if self._calls is not None and self._call(self._calls[0], AT_ONCE, ctypes.byref(self._context)):
            self._calls = None

    def close(self) -> None:
        if self._calls is not None:
            self._call(self._calls[1], self._context)
            self._calls = None

    def flush(self, fds: Sequence[int]) -> list[OSError]:
        errors: list[OSError] = []
        for start in range(0, len(fds), AT_ONCE):
            some = fds[start : start + AT_ONCE]
            taken = self._submit(some)
            errors += self._wait(taken)
            errors += one_by_one(some[taken:])
        return errors

    def _submit(self, fds: Sequence[int]) -> int:
        """How many it took, from the first on."""
        if self._calls is None:
            return 0
        for place, fd in enumerate(fds):
            CONTROL_BLOCK.pack_into(self._blocks, place * CONTROL_BLOCK.size, place, 0, 0, FDATASYNC, 0, fd, 0, 0, 0, 0, 0, 0)
        return max(0, int(self._call(self._calls[2], self._context, ctypes.c_long(len(fds)), self._pointers)))

    def _wait(self, count: int) -> list[OSError]:
        errors = []
        while count:
            assert self._calls is not None
            wanted = ctypes.c_long(count)
            came = int(self._call(self._calls[3], self._context, wanted, wanted, self._events, None))
            for place in range(max(0, came)):
                result = EVENT.unpack_from(self._events, place * EVENT.size)[2]
                if result < 0:
                    errors.append(OSError(-result, os.strerror(-result)))
            count -= max(0, came)
            with suppress(InterruptedError):
                if came < 0:
                    raise OSError(ctypes.get_errno(), "io_getevents")
        return errors
