"""The same facilities as `System` names them, with POSIX alone."""

import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from raftka.runtime.interfaces import Buffer
from raftka.runtime.real.choice import PORTABLE

NAME = PORTABLE
send_file = None  # pieces of files are read and sent


class NoVolumes:
    """Each file is flushed by itself."""

    def of(self, device: int, path: str) -> None:
        return None

    def close(self) -> None: ...


open_volumes = NoVolumes


def open_kernel() -> None:
    """Threads flush."""
    return


def write_at(fd: int, buffers: Sequence[Buffer], position: int) -> int:
    # one thread at a time writes to a file: the loop's, or that of a process of its own
    if len(buffers) == 1:
        return os.pwrite(fd, buffers[0], position)
    os.lseek(fd, position, os.SEEK_SET)
    return os.writev(fd, buffers)


def read_at(fd: int, buffers: Sequence[memoryview], position: int) -> int:
    os.lseek(fd, position, os.SEEK_SET)
    return os.readv(fd, buffers)


def reserve(fd: int, size: int) -> None:
    """Nothing: POSIX can only reserve what makes the file longer."""


@contextmanager
def lend(data: bytes) -> Iterator[str]:
    """In a file that only this user can read, until the context ends."""
    with tempfile.TemporaryDirectory(prefix="raftka-lent-") as folder:  # of mode 0700
        path = os.path.join(folder, "lent")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        yield path


def end_with_parent(parent: int, held: int, number: int) -> None:
    def wait() -> None:
        while os.read(held, 1):
            pass
        os.kill(os.getpid(), number)

    threading.Thread(target=wait, name="raftka-parent", daemon=True).start()
