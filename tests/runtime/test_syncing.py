"""The call that brings bytes to the disk: on macOS, fsync alone leaves them in the disk's cache."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from raftka.runtime.real import syncing
from raftka.runtime.real.files import RealFiles

FULL_SYNC = 51  # macOS' F_FULLFSYNC


class Kernel:
    """Notes the calls, and answers F_FULLFSYNC with an error if there is one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.error: int | None = None
        monkeypatch.setattr(syncing, "FULL_SYNC", FULL_SYNC)
        monkeypatch.setattr(fcntl, "fcntl", self._fcntl)
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, lambda fd, name=name: self.asked.append(name))

    def _fcntl(self, fd: int, command: int, *_: object) -> int:
        assert command == FULL_SYNC
        self.asked.append("F_FULLFSYNC")
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error))
        return 0


@pytest.fixture
def macos(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(monkeypatch)


def test_a_file_and_the_names_in_a_directory_are_flushed_by_f_fullfsync(
    macos: Kernel, tmp_path: Path
) -> None:
    files = RealFiles(lambda action: action())
    file = files.open(str(tmp_path / "log"), create=True)
    told: list[OSError | None] = []
    try:
        file.sync()
        files.sync_directory(str(tmp_path))
        files.replace(str(tmp_path / "checkpoint"), b"1")
        assert macos.asked == ["F_FULLFSYNC"] * 4
    finally:
        files.stop()
    assert told == []


@pytest.mark.parametrize("error", [errno.ENOTSUP, errno.EINVAL, errno.ENOTTY])
def test_a_file_system_without_it_is_flushed_by_fsync(
    macos: Kernel, tmp_path: Path, error: int
) -> None:
    macos.error = error
    syncing.sync_path(str(tmp_path))
    assert macos.asked == ["F_FULLFSYNC", "fsync"]


def test_an_error_of_the_disk_is_reported(macos: Kernel, tmp_path: Path) -> None:
    macos.error = errno.EIO
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        syncing.sync_path(str(tmp_path))
    assert macos.asked == ["F_FULLFSYNC"]


def test_a_flush_off_the_loop_uses_it(
    macos: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAFTKA_RUNTIME", "portable")
    files = RealFiles(lambda action: action())
    file = files.open(str(tmp_path / "log"), create=True)
    told: list[OSError | None] = []
    files.flush([file, str(tmp_path)], told.append)
    files.flusher.stop()
    assert (macos.asked, told) == (["F_FULLFSYNC"] * 2, [None])
    files.stop()


def test_where_there_is_no_fdatasync_fsync_flushes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.setattr(os, "fsync", asked.append)
    syncing.sync_data(7)
    assert asked == [7]
