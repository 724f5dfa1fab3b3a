"""A file that is written over, in both worlds: its new bytes, zeros behind them, and its old bytes
behind these.
"""

import os
import socket
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftka.runtime.interfaces import File, Files, FileSpan, pin, unpin
from raftka.runtime.real.files import RealFiles
from raftka.runtime.real.sending import READ_BYTES, Sender, Unsent
from raftka.runtime.reused import END_BYTES, PAGE_BYTES, zeros_behind
from raftka.runtime.simulated.world import World

OLD = b"o" * (5 * PAGE_BYTES)


@pytest.fixture(params=["real", "simulated"])
def files(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Files]:
    if request.param == "real":
        real = RealFiles(lambda action: None)
        monkeypatch.chdir(tmp_path)
        (tmp_path / "data").mkdir()
        yield real
        real.stop()
    else:
        with World(1) as world:
            simulated = world.node("a").files
            simulated.make_directory("data")
            yield simulated


def reopened(files: Files) -> File:
    file = files.open("data/log", create=True)
    file.append([OLD])
    file.close()
    return files.open("data/log", over=True)


@pytest.mark.parametrize(
    "size",
    [1, 700, PAGE_BYTES - END_BYTES, PAGE_BYTES - END_BYTES + 1, PAGE_BYTES, 3 * PAGE_BYTES + 5],
)
def test_zeros_go_on_to_the_end_of_a_page(files: Files, size: int) -> None:
    file = reopened(files)
    assert file.size() == 0

    file.append([b"n" * (size - 1), memoryview(b"n")])

    assert file.size() == size
    assert file.read(0, size) == b"n" * size
    found = files.read("data/log")
    zeros = len(found[size:]) - len(found[size:].lstrip(b"\0"))
    assert (size + zeros) % PAGE_BYTES == 0
    assert END_BYTES <= zeros < PAGE_BYTES + END_BYTES
    assert found == b"n" * size + bytes(zeros) + OLD[size + zeros :]


def test_each_append_goes_on_where_the_last_one_ended(files: Files) -> None:
    file = reopened(files)
    for _ in range(100):
        file.append([b"abc"])
    assert (file.size(), file.read(0, 300)) == (300, b"abc" * 100)

    file.append([b"x" * (len(OLD) - 310)])
    assert len(files.read("data/log")) == len(OLD), "zeros make no file longer"
    assert files.read("data/log")[-10:] == bytes(10)

    file.append([b"y" * 20])
    assert files.read("data/log") == b"abc" * 100 + b"x" * (len(OLD) - 310) + b"y" * 20
    file.append([b"z"])
    assert files.read("data/log")[-3:] == b"yyz"


def test_what_is_cut_grows_as_any_file(files: Files) -> None:
    file = reopened(files)
    file.append([b"new"])
    file.truncate(2)
    assert files.read("data/log") == b"ne"
    file.append([b"xt"])
    assert (files.read("data/log"), file.size()) == (b"next", 4)


def test_the_next_process_finds_the_old_bytes(files: Files) -> None:
    reopened(files).append([b"new"])
    assert files.open("data/log").size() == len(OLD)


def test_pages_that_a_socket_has_are_shared_until_the_process_ends_and_beyond(
    tmp_path: Path,
) -> None:
    files, sender = RealFiles(lambda action: None), Sender(os.sendfile)
    path = str(tmp_path / "log")
    here, there = socket.socketpair()
    with here, there:
        file = files.open(path, create=True)
        file.append([bytes(READ_BYTES + 1)])
        pin(small := [FileSpan(file, 0, 100)])
        sender.send_new(here, small, deque())
        assert not file.is_shared, "it was read and copied"

        unsent: Unsent = deque()
        here.setblocking(False)
        pin(large := [FileSpan(file, 0, READ_BYTES + 1)])
        sender.send_new(here, large, unsent)
        unpin(unsent)
        assert file.is_shared
    assert files.open(path).is_shared, "an earlier process may have sent it"
    assert not files.open(path, over=True).is_shared
    assert not files.open(str(tmp_path / "new"), create=True).is_shared
    files.stop()


def test_no_zeros_are_written_where_the_file_ends() -> None:
    assert len(zeros_behind(100, 100)) == len(zeros_behind(101, 100)) == 0
    assert len(zeros_behind(90, 100)) == 10
