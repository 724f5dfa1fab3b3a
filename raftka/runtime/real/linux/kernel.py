"""fdatasync of many files by the kernel itself, without a thread: io_submit of Linux 2.5, with
fdatasync since 4.18. An eventfd reports those that are done.
"""

import ctypes
import os
import platform
from collections import deque
from collections.abc import Sequence
from functools import partial
from struct import Struct
from typing import Any

from raftka.runtime.real.flushes import Job

AT_ONCE = 256
# io_setup, io_destroy, io_submit, io_getevents
CALLS = {"x86_64": (206, 207, 209, 208), "aarch64": (0, 1, 2, 4), "riscv64": (0, 1, 2, 4)}
# data, key, flags, operation, priority, descriptor, what only reads and writes have; flags, eventfd
CONTROL_BLOCK = Struct("<QIIHhIQQqQII")
EVENT = Struct("<QQqq")  # data, control block, result, second result
FDATASYNC = 3
TELL = 1  # by the eventfd


class Kernel:
    """Flushes that are under way in the kernel, and those that wait until it has room."""

    def __init__(self) -> None:
        self.eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
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
        # a filter of system calls may forbid it
        self.works = not _system_call(setup, ctypes.c_long, ctypes.c_void_p)(
            AT_ONCE, ctypes.byref(context)
        )
        self._context = context.value

    @property
    def busy(self) -> bool:
        return bool(self._under_way)

    def close(self) -> None:
        if self.works:
            self.works = False
            self._destroy(self._context)
        os.close(self.eventfd)

    def submit(self, wanted: Sequence[tuple[int, Job]]) -> Sequence[tuple[int, Job]]:
        """Those that it does not take: bad ones, and all where the kernel, or who guards it, will
        not have it.
        """
        if not self.works:
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
                    self.eventfd,
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
