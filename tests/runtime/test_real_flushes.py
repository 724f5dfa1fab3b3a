"""Flushes of dirty files: by the kernel, by threads where it will not, and the callers that hear of
an error.
"""

import errno
import os
import select
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from raftka.runtime.real import flushes as real_flushes
from raftka.runtime.real.flushes import Flusher
from raftka.runtime.real.linux import kernel as linux_kernel
from raftka.runtime.real.linux.kernel import Kernel


class File(NamedTuple):
    fd: int
    volume: None = None


class Flushed:
    """A Flusher without a loop: its threads tell at once, `wait` is for the kernel."""

    def __init__(self, *, by_kernel: bool = True) -> None:
        self.told: list[OSError | None] = []
        self.kernel = Kernel() if by_kernel else None
        self.flusher = Flusher(lambda action: action(), self.kernel)

    @property
    def eventfd(self) -> int:
        assert self.kernel is not None
        return self.kernel.eventfd

    def flush(self, *fds: int, paths: Sequence[str] = ()) -> None:
        self.flusher.flush([([File(fd) for fd in fds], paths, self.told.append)])

    def wait(self) -> list[OSError | None]:
        self.flusher.stop()
        return self.told


def opened(folder: Path, count: int) -> Iterator[list[int]]:
    fds = [os.open(folder / f"{i}", os.O_RDWR | os.O_CREAT) for i in range(count)]
    for fd in fds:
        os.write(fd, b"x")
    yield fds
    for fd in fds:
        os.close(fd)


@pytest.fixture
def fds(tmp_path: Path) -> Iterator[list[int]]:
    yield from opened(tmp_path, 600)  # more than the kernel is asked at once


def test_files_are_flushed_by_the_kernel_and_no_thread_is_needed(
    fds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real_flushes, "sync_data", None)
    flushed = Flushed()
    for some in (fds[:1], fds[:3], fds, fds[5:]):
        flushed.flush(*some)

    while not flushed.told:  # the eventfd may first tell of one file of a flush that goes on
        assert select.select([flushed.eventfd], [], [], 20)[0] != []
        flushed.flusher.ready(select.EPOLLIN)
    assert flushed.flusher._threads == []
    assert flushed.wait() == [None] * 4


def test_who_is_reported_may_flush_again(fds: list[int]) -> None:
    flushed = Flushed()
    left = iter(range(10))

    def again(error: OSError | None) -> None:
        flushed.told.append(error)
        if next(left, None) is not None:
            flushed.flusher.flush([([File(fd) for fd in fds[:300]], [], again)])

    again(None)

    assert flushed.wait() == [None] * 11


def test_who_is_reported_may_stop_the_flusher(fds: list[int]) -> None:
    flushed = Flushed()
    told: list[OSError | None] = []

    def stop(error: OSError | None) -> None:
        told.append(error)
        if len(told) == 1:
            flushed.flusher.stop()

    flushed.flusher.flush([([File(fd)], [], stop) for fd in fds[:3]])
    ended = 0
    while ended < 3:  # so that one look finds them all
        assert select.select([flushed.eventfd], [], [], 20)[0] != []
        ended += os.eventfd_read(flushed.eventfd)
    flushed.flusher.ready(select.EPOLLIN)

    assert told == [None] * 3


def test_each_flush_hears_of_its_own_errors(fds: list[int]) -> None:
    reader, writer = os.pipe()
    flushed = Flushed()
    flushed.flush(fds[0], reader, fds[1])
    flushed.flush(*fds[:300], 9999)
    flushed.flush(*fds)
    flushed.wait()
    os.close(reader)
    os.close(writer)

    assert {error and error.errno for error in flushed.told} == {None, errno.EBADF, errno.EINVAL}


def test_an_error_that_the_disk_reports_is_reported(
    fds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    event = linux_kernel.EVENT
    failed = SimpleNamespace(
        size=event.size,
        iter_unpack=lambda events: [
            (*each[:2], -errno.EIO, 0) for each in event.iter_unpack(events)
        ],
    )
    monkeypatch.setattr(linux_kernel, "EVENT", failed)
    flushed = Flushed()
    flushed.flush(fds[0])

    assert [error.errno for error in flushed.wait() if error is not None] == [errno.EIO]


@pytest.mark.parametrize("by_kernel", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_where_the_kernel_will_not_threads_do_it(
    tmp_path: Path, count: int, by_kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No kernel is asked on the portable runtime, and some refuse."""
    monkeypatch.setattr(linux_kernel, "CALLS", {})
    asked: list[int] = []
    monkeypatch.setattr(os, "fdatasync", asked.append)
    flushed = Flushed(by_kernel=by_kernel)
    flushed.flush(*range(count), paths=[str(tmp_path), str(tmp_path / "gone")])

    assert flushed.wait() == [None]
    assert sorted(asked) == list(range(count))


def test_names_that_cannot_be_flushed_are_reported_with_the_files(
    fds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def sync(path: str) -> None:
        raise PermissionError(errno.EACCES, path)

    monkeypatch.setattr(real_flushes, "sync_path", sync)
    flushed = Flushed()
    flushed.flush(*fds, paths=["/"])

    assert [error.errno for error in flushed.wait() if error is not None] == [errno.EACCES]
