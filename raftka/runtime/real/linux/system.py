"""Facilities of Linux beyond POSIX, as `System` names them."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

from raftka.runtime.real.choice import LINUX
from raftka.runtime.real.linux.kernel import Kernel
from raftka.runtime.real.linux.volumes import Volumes

NAME = LINUX
KEEP_SIZE = 1
PR_SET_PDEATHSIG = 1

write_at, read_at, send_file = os.pwritev, os.preadv, os.sendfile
open_kernel, open_volumes = Kernel, Volumes

_libc = ctypes.CDLL(None)
# os.posix_fallocate makes the file longer, and a log's end is its file's
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def reserve(fd: int, size: int) -> None:
    # an error is no one's: who writes there will be told
    _libc.fallocate(fd, KEEP_SIZE, 0, size)


@contextmanager
def lend(data: bytes) -> Iterator[str]:
    descriptor = os.memfd_create("lent", os.MFD_CLOEXEC)
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def end_with_parent(parent: int, held: int, number: int) -> None:
    _libc.prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it was quicker
        os.kill(os.getpid(), number)
