"""Many files of a flush are brought to the disk by one call to their file system; what it cannot
promise, each file promises by itself.
"""

import errno
import os
import select
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from raftka.runtime.real.files import RealFile, RealFiles
from raftka.runtime.real.flushes import MANY
from raftka.runtime.real.linux import volumes
from raftka.runtime.real.linux.volumes import OTHERS_BYTES, Volume

pytestmark = pytest.mark.usefixtures("on_linux")  # syncfs is Linux' own


def broken() -> OSError:
    return OSError(errno.EIO, "the disk is broken")


class Disk:
    """Real files; what the kernel is asked for is noted, and can be made to fail or to wait."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.actions: SimpleQueue[object] = SimpleQueue()
        self.synced: list[int] = []  # descriptors, by fdatasync in a thread
        self.calls = 0
        self.fails = self.stopped = False
        self.gate = threading.Event()
        self.gate.set()
        self.entered: SimpleQueue[None] = SimpleQueue()
        self.dirty = 0
        monkeypatch.setattr(volumes, "KINDS", AnyKind())
        monkeypatch.setattr(volumes, "dirty_bytes", lambda: self.dirty)
        monkeypatch.setattr(volumes, "syncfs", self._syncfs)
        self.files = RealFiles(self.actions.put)
        self.opened = [
            self.files.open(str(folder / str(number)), create=True) for number in range(3 * MANY)
        ]
        self._real = os.fdatasync
        monkeypatch.setattr(os, "fdatasync", self._fdatasync)

    def _syncfs(self, fd: int) -> None:
        self.calls += 1
        self.entered.put(None)
        self.gate.wait()
        if self.fails:
            raise broken()

    def _fdatasync(self, fd: int) -> None:
        self.synced.append(fd)
        self._real(fd)

    def flush(self, files: list[RealFile]) -> list[OSError | None]:
        told: list[OSError | None] = []
        self.files.flush(files, told.append)
        return told

    def wait(self, *told: list[OSError | None]) -> None:
        flusher = self.files.flusher
        while not all(told):
            assert flusher.kernel is not None
            if select.select([flusher.kernel.eventfd], [], [], 0.01)[0]:
                flusher.ready(select.EPOLLIN)
            while not self.actions.empty():
                action = self.actions.get()
                assert callable(action)
                action()


class AnyKind(dict[int, str]):
    def __contains__(self, kind: object) -> bool:
        return True


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk(tmp_path, monkeypatch)
    yield disk
    disk.gate.set()
    if not disk.stopped:
        disk.files.stop()


def test_many_files_are_one_call_and_few_are_not(disk: Disk) -> None:
    few = disk.flush(disk.opened[: MANY - 1])
    disk.wait(few)
    assert disk.calls == 0

    many = disk.flush(disk.opened[:MANY])
    disk.wait(many)
    assert (few, many, disk.calls, disk.synced) == ([None], [None], 1, [])


def test_what_others_have_written_is_not_waited_for(disk: Disk) -> None:
    disk.dirty = OTHERS_BYTES + 1

    told = disk.flush(disk.opened)

    disk.wait(told)
    assert (told, disk.calls) == ([None], 0)


def test_after_an_error_each_file_is_flushed_by_itself_for_ever(disk: Disk) -> None:
    disk.fails = True
    told = disk.flush(disk.opened[:MANY])
    disk.wait(told)
    assert told == [None]  # its own files were fine
    assert sorted(disk.synced) == sorted(file.fd for file in disk.opened[:MANY])

    disk.fails = False
    again = disk.flush(disk.opened)
    disk.wait(again)
    assert disk.calls == 1


def test_a_flush_that_waits_behind_a_failed_one_does_not_believe_the_next_call(disk: Disk) -> None:
    """The kernel tells a failed write once: the call that fails may have been told of a file of the
    flush behind it.
    """
    disk.gate.clear()
    disk.fails = True
    first = disk.flush(disk.opened[:MANY])
    disk.entered.get()
    second = disk.flush(disk.opened[MANY : 2 * MANY])

    disk.gate.set()

    disk.wait(first, second)
    assert disk.calls == 1
    assert sorted(disk.synced) == sorted(file.fd for file in disk.opened[: 2 * MANY])


def test_a_flush_that_comes_during_a_call_waits_for_the_next_one(disk: Disk) -> None:
    """Its data may be newer than that call."""
    disk.gate.clear()
    first = disk.flush(disk.opened[:MANY])
    disk.entered.get()
    second, third = disk.flush(disk.opened[:MANY]), disk.flush(disk.opened[MANY : 2 * MANY])

    disk.gate.set()

    disk.wait(first, second, third)
    assert disk.calls == 2


def test_one_thread_at_a_time_works_for_a_file_system(tmp_path: Path) -> None:
    """Two calls at once could each be told of the other's error."""
    volume, told = Volume(str(tmp_path)), list[OSError | None]()
    try:
        assert [volume.ask([], told.append), volume.ask([], told.append)] == [True, False]
        volume.work()
        assert told == [None, None]
        assert volume.ask([], told.append)
    finally:
        volume.close()


def test_the_error_of_a_file_reaches_its_flush_alone(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = disk.opened[MANY].fd

    def fdatasync(fd: int) -> None:
        if fd == bad:
            raise broken()

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    disk.fails = True
    disk.gate.clear()
    fine = disk.flush(disk.opened[:MANY])
    disk.entered.get()
    told = disk.flush(disk.opened[MANY : 2 * MANY])
    disk.gate.set()

    disk.wait(fine, told)
    assert fine == [None]
    assert [error.errno for error in told if error is not None] == [errno.EIO]


def test_what_was_asked_for_is_done_before_the_end(disk: Disk) -> None:
    disk.gate.clear()
    disk.flush(disk.opened[:MANY])
    disk.entered.get()
    disk.flush(disk.opened[MANY : 2 * MANY])
    stopping = threading.Thread(target=disk.files.flusher.stop)
    stopping.start()

    disk.gate.set()

    stopping.join()
    disk.stopped = True
    assert disk.calls == 2


def test_only_kernels_and_file_systems_that_tell_of_errors_are_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volumes, "dirty_bytes", lambda: 0)
    monkeypatch.setattr(volumes, "KINDS", AnyKind())

    def takes() -> bool:
        volume = Volume(str(tmp_path))
        try:
            return volume.takes(MANY)
        finally:
            volume.close()

    assert takes()
    monkeypatch.setattr(volumes, "kernel", lambda: (5, 7))
    assert not takes()
    monkeypatch.setattr(volumes, "kernel", lambda: (6, 1))
    assert takes()
    monkeypatch.setattr(volumes, "KINDS", {})
    assert not takes()


def test_the_kernel_tells_its_number_the_file_system_its_kind_and_how_much_is_dirty(
    tmp_path: Path,
) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        assert volumes.kind_of(fd) > 0
    finally:
        os.close(fd)
    assert volumes.kind_of(fd) == 0
    assert volumes.kernel() >= (2, 6)
    assert volumes.dirty_bytes() >= 0
