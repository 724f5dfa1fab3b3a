"""The facilities beyond POSIX that the real runtime asks its operating system for, as a module:
linux/system.py or portable/system.py.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from raftka.runtime.interfaces import Buffer
from raftka.runtime.real.choice import LINUX, chosen
from raftka.runtime.real.flushes import Kernel, Volume


class Volumes(Protocol):
    """The file systems of open files."""

    def of(self, device: int, path: str) -> Volume | None:
        """Return that of the file at `path`, which was opened just now and is on `device`."""

    def close(self) -> None: ...


class System(Protocol):
    NAME: str

    def open_kernel(self) -> Kernel | None: ...

    def open_volumes(self) -> Volumes: ...

    def reserve(self, fd: int, size: int) -> None:
        """As `File.reserve`."""

    def write_at(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        """Return how many bytes were written. Raises OSError."""

    def read_at(self, fd: int, buffers: Sequence[memoryview], position: int) -> int:
        """Fill the buffers in order and return how many bytes were read. Raises OSError."""

    @property
    def send_file(self) -> Callable[[int, int, int, int], int] | None:
        """Copies bytes of a file to a socket without reading them: descriptors of socket and file,
        position and size in bytes; returns how many were sent.
        """

    def lend(self, data: bytes) -> AbstractContextManager[str]:
        """As `Runtime.lend`."""

    def end_with_parent(self, parent: int, held: int, number: int) -> None:
        """Send this process the signal `number` when its parent, which has the pid `parent`, ends.
        `held`: the reading end of a pipe that the parent keeps open, and never writes to.
        """


def chosen_system() -> System:
    """Raises ValueError, as `chosen`."""
    if chosen() == LINUX:
        from raftka.runtime.real.linux import system as of_linux

        return of_linux
    from raftka.runtime.real.portable import system as portable

    return portable
