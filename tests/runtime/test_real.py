"""The real door: bytes through sockets, files through threads, timers, and how a node ends."""

import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path

import pytest
import trio
import trio.lowlevel
import trio.testing

from raftka.runtime.interfaces import Buffer, Files, FileSpan, Transport
from raftka.runtime.real.choice import LINUX
from raftka.runtime.real.files import Pace
from raftka.runtime.real.flushes import Flush
from raftka.runtime.real.runtime import NodeFailed, open_runtime
from tests.runtime.echo import Echo, Late, Sender


@pytest.mark.parametrize("size", [1, 300_000, 5_000_000])
@pytest.mark.parametrize("large", [0, 2_000_000])
async def test_bytes_come_back_in_order(size: int, large: int, alone: bool) -> None:
    data = bytes(i * 7 & 255 for i in range(65521)) * (size // 65521 + 1)
    async with open_runtime(alone=alone) as runtime:
        listener = runtime.network.listen("127.0.0.1", 0, lambda: Echo(large))
        sender = Sender(data[:size])
        runtime.network.connect("127.0.0.1", listener.port, sender)
        with trio.fail_after(20):
            await sender.over.wait()

    assert sender.got == data[:size]
    assert sender.end == "got all"


async def test_a_client_that_has_closed_is_known_while_reading_is_held(alone: bool) -> None:
    held, sender = Late(b""), Sender(b"more than is read")
    async with open_runtime(alone=alone) as runtime:
        listener = runtime.network.listen("127.0.0.1", 0, lambda: held)
        runtime.network.connect("127.0.0.1", listener.port, sender)
        with trio.fail_after(20):
            while held.transport is None or sender.transport is None:
                await trio.lowlevel.checkpoint()
            assert not held.transport.left()
            sender.transport.close("said all")
            while not held.transport.left():
                await trio.lowlevel.checkpoint()
    assert not held.received


async def test_output_that_comes_while_earlier_output_waits_is_sent_after_it(alone: bool) -> None:
    """The client sends nothing that would wake the server's side again."""
    first, then = bytes(16_000_000), b"and this"  # more than the kernel takes
    client, server = Late(b""), Sender(first)
    client.wanted = len(first) + len(then)
    async with open_runtime(alone=alone) as runtime:

        def say_more() -> None:
            assert server.transport is not None
            server.out.append(then)
            server.transport.wake()
            runtime.clock.call_at(runtime.clock.now(), client.begin)

        def accept() -> Sender:
            runtime.clock.call_at(runtime.clock.now() + 0.05, say_more)
            return server

        listener = runtime.network.listen("127.0.0.1", 0, accept)
        runtime.network.connect("127.0.0.1", listener.port, client)
        with trio.fail_after(20):
            await client.over.wait()
    assert client.end == "got all"
    assert client.got.endswith(then)


async def test_a_refused_connection_is_reported_by_closed(alone: bool) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with open_runtime(alone=alone) as runtime:
            connection = Echo()
            runtime.network.connect("127.0.0.1", unused.getsockname()[1], connection)
            with trio.fail_after(10):
                await connection.over.wait()

    assert connection.end == "Connection refused"


async def test_file_spans_are_sent_between_buffers(tmp_path: Path, alone: bool) -> None:
    async with open_runtime(alone=alone) as runtime:
        file = runtime.files.open(f"{tmp_path}/log", create=True)
        file.append([b"x" * 100, b"y" * 100_000])

        class Server(Echo):
            def opened(self, transport: Transport) -> None:
                self.transport = transport
                self.out = [b"head", FileSpan(file, 99, 2), FileSpan(file, 100, 50_000), b"tail"]

        listener = runtime.network.listen("127.0.0.1", 0, Server)
        client = Sender(b"")
        client.wanted = 4 + 2 + 50_000 + 4
        runtime.network.connect("127.0.0.1", listener.port, client)
        with trio.fail_after(10):
            await client.over.wait()

    assert client.got == b"head" + b"xy" + b"y" * 50_000 + b"tail"


async def test_flush_answers_in_a_later_turn(tmp_path: Path, alone: bool) -> None:
    answers: list[OSError | None] = []
    async with open_runtime(alone=alone) as runtime:
        file = runtime.files.open(f"{tmp_path}/log", create=True)
        file.append([b"abc"])
        flushed = trio.Event()

        def done(error: OSError | None) -> None:
            answers.append(error)
            flushed.set()

        runtime.files.flush([file], done)
        file.close()  # the descriptor lives until the flush is done
        assert answers == []
        with trio.fail_after(10):
            await flushed.wait()

    assert answers == [None]


async def test_a_closed_file_can_not_be_flushed(tmp_path: Path, alone: bool) -> None:
    async with open_runtime(alone=alone) as runtime:
        file = runtime.files.open(str(tmp_path / "log"), create=True)
        file.close()

        with pytest.raises(ValueError, match="log is closed"):
            runtime.files.flush([file], lambda error: None)


async def test_a_flush_begins_when_what_there_is_to_send_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    begun: list[str] = []
    opened, both = trio.Event(), trio.Event()

    class Speaker(Echo):
        def opened(self, transport: Transport) -> None:
            super().opened(transport)
            opened.set()

        def receive(self, view: memoryview) -> None:
            """Its echo."""

        def take_output(self) -> Sequence[Buffer | FileSpan]:
            begun.append("sent")
            return super().take_output()

    def flush(asked: Sequence[Flush]) -> None:
        begun.append(f"{len(asked)} flushes")
        both.set()

    async with open_runtime(alone=alone) as runtime:
        file, speaker = runtime.files.open(str(tmp_path / "log"), create=True), Speaker()
        listener = runtime.network.listen("127.0.0.1", 0, Echo)
        runtime.network.connect("127.0.0.1", listener.port, speaker)
        with trio.fail_after(20):
            await opened.wait()
            begun.clear()
            with monkeypatch.context() as patch:
                patch.setattr(runtime.files.flusher, "flush", flush)

                def act() -> None:
                    for _ in range(2):
                        runtime.files.flush([file], lambda error: None)
                    assert speaker.transport is not None
                    speaker.out = [b"x"]
                    speaker.transport.wake()

                runtime.clock.at_turn_end(act)
                await both.wait()
        assert begun == ["sent", "2 flushes"]


async def test_timers_run_in_order_of_their_time_and_not_when_cancelled(alone: bool) -> None:
    ran: list[str] = []
    async with open_runtime(alone=alone) as runtime:
        over = trio.Event()
        now = runtime.clock.now()
        runtime.clock.call_at(now + 0.03, over.set)
        runtime.clock.call_at(now + 0.02, lambda: ran.append("second"))
        runtime.clock.call_at(now + 0.01, lambda: ran.append("first"))
        runtime.clock.call_at(now + 0.015, lambda: ran.append("never")).cancel()
        with trio.fail_after(10):
            await over.wait()

    assert ran == ["first", "second"]


async def test_cancelled_timers_are_forgotten_before_they_are_due(alone: bool) -> None:
    ran: list[int] = []
    async with open_runtime(alone=alone) as runtime:
        now, over = runtime.clock.now(), trio.Event()
        for at in (3, 1, 2):
            runtime.clock.call_at(now + at / 100, lambda at=at: ran.append(at))  # type: ignore[misc]
        for _ in range(10_000):
            runtime.clock.call_at(now + 1_000_000, over.set).cancel()
        runtime.clock.call_at(now + 0.04, over.set)

        assert len(runtime.clock._heap) < 3000
        await over.wait()

    assert ran == [1, 2, 3]


async def test_a_failed_core_part_ends_the_block(alone: bool) -> None:
    async def live() -> None:
        async with open_runtime(alone=alone) as runtime:
            runtime.clock.call_at(
                runtime.clock.now(), lambda: runtime.fail(OSError("disk is gone"))
            )
            await trio.sleep_forever()

    with pytest.raises(NodeFailed, match="disk is gone"):
        await live()


async def test_one_directory_serves_one_node(tmp_path: Path, kind: str) -> None:
    async with open_runtime() as one, open_runtime() as other:
        release = one.files.lock(f"{tmp_path}/.lock")
        with pytest.raises(BlockingIOError):
            other.files.lock(f"{tmp_path}/.lock")
        release()
        other.files.lock(f"{tmp_path}/.lock")()


async def test_a_stopped_node_lets_go_of_its_files_and_locks(tmp_path: Path, alone: bool) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    async with open_runtime(alone=alone) as runtime:
        runtime.files.lock(f"{tmp_path}/.lock")
        file = runtime.files.open(f"{tmp_path}/log", create=True)
        flushed = trio.Event()
        runtime.files.flush([file], lambda error: flushed.set())
        await flushed.wait()

    assert sorted(os.listdir("/proc/self/fd")) == before
    async with open_runtime(alone=alone) as runtime:
        runtime.files.lock(f"{tmp_path}/.lock")


async def test_connecting_to_who_does_not_answer_is_given_up_within_seconds(alone: bool) -> None:
    """By default the kernel asks for two minutes, with longer and longer waits."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        host, port = full.getsockname()
        # more than its queue takes: the kernel is silent from now on
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex((host, port))
        async with open_runtime(alone=alone) as runtime:
            connection = Echo()
            runtime.network.connect(host, port, connection)
            with trio.fail_after(6):
                await connection.over.wait()
        assert connection.end is not None
        assert "timed out" in connection.end
        for filler in fillers:
            filler.close()


def count(files: Files, path: str, upto: int) -> Iterator[int]:
    """Work for a process of its own."""
    file = files.open(path, create=True)
    for number in range(upto):
        file.append([b"%d" % number])
        yield number
    file.sync()


def fail(files: Files, how: str) -> Iterator[int]:
    yield 1
    if how == "OSError":
        files.open("/nowhere/at all")
    if how == "Killed":
        os.kill(os.getpid(), 9)
    raise ValueError(how)


def forever(files: Files) -> Iterator[int]:
    while True:
        yield os.getpid()


def silent(files: Files) -> Iterator[int]:
    """Work that would not notice by itself that nobody reads what it tells."""
    yield os.getpid()
    threading.Event().wait(60)


async def test_work_in_a_process_of_its_own(tmp_path: Path, alone: bool) -> None:
    values: list[int] = []
    over = trio.Event()
    async with open_runtime(alone=alone) as runtime:
        runtime.offload.run_in_process(
            count,
            (str(tmp_path / "f"), 1000),
            values.append,
            lambda error: over.set() if error is None else print(error),
        )
        with trio.fail_after(20):
            await over.wait()

    assert values == list(range(1000))
    assert (tmp_path / "f").read_bytes().endswith(b"998999")


@pytest.mark.parametrize(
    ("how", "kind"),
    [("OSError", "FileNotFoundError"), ("anything", "ApartError"), ("Killed", "ApartError")],
)
async def test_what_goes_wrong_there_is_reported_here(how: str, kind: str, alone: bool) -> None:
    told: list[object] = []
    over = trio.Event()

    def done(error: BaseException | None) -> None:
        told.append(error)
        over.set()

    async with open_runtime(alone=alone) as runtime:
        runtime.offload.run_in_process(fail, (how,), told.append, done)
        with trio.fail_after(20):
            await over.wait()

    assert told[0] == 1
    assert type(told[1]).__name__ == kind
    assert isinstance(told[1], OSError) or getattr(told[1], "kind", "") in {"ValueError", "Killed"}


@pytest.mark.parametrize("how", ["cancelled", "stopped"])
async def test_work_ends_early(how: str, alone: bool) -> None:
    pids: list[int] = []
    begun = trio.Event()

    def each(pid: int) -> None:
        pids.append(pid)
        begun.set()

    async with open_runtime(alone=alone) as runtime:
        cancel = runtime.offload.run_in_process(
            forever, (), each, lambda error: pytest.fail("it was cancelled")
        )
        with trio.fail_after(20):
            await begun.wait()
        if how == "cancelled":
            cancel()
            seen = len(pids)
            await trio.testing.wait_all_tasks_blocked()
            assert len(pids) == seen

    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


async def test_room_that_is_reserved_does_not_make_a_file_longer_and_is_given_back(
    tmp_path: Path, alone: bool
) -> None:
    async with open_runtime(alone=alone) as runtime:
        path = tmp_path / "log"
        file = runtime.files.open(str(path), create=True)
        file.append([b"abc"])

        file.reserve(1 << 20)
        if runtime.kind == LINUX:
            assert path.stat().st_blocks * 512 >= 1 << 20
        file.append([b"def"])
        assert (file.size(), path.read_bytes()) == (6, b"abcdef")

        file.truncate(6)
        assert path.stat().st_blocks * 512 < 1 << 20
        assert path.read_bytes() == b"abcdef"


async def test_two_processes_may_make_a_directory_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers of a host whose data is in one directory."""
    mkdir, raced = os.mkdir, list[str]()

    def other_was_first(path: str, mode: int) -> None:
        if path.endswith("data"):
            raced.append(path)
            mkdir(path, mode)
        mkdir(path, mode)

    async with open_runtime() as runtime:
        with monkeypatch.context() as patched:
            patched.setattr(os, "mkdir", other_was_first)
            runtime.files.make_directory(str(tmp_path / "data" / "10"))
        (tmp_path / "file").touch()
        with pytest.raises(OSError, match="file"):
            runtime.files.make_directory(str(tmp_path / "file"))
    assert (tmp_path / "data" / "10").is_dir()
    assert len(raced) == 1


async def test_a_discarded_file_is_closed_by_another_thread(tmp_path: Path, alone: bool) -> None:
    async with open_runtime(alone=alone) as runtime:
        file = runtime.files.open(str(tmp_path / "f"), create=True)
        file.append([b"12345"])
        fd = file.fd
        file.pin()  # a send is under way
        runtime.files.remove(str(tmp_path / "f"))
        for _ in range(2):  # as long as a name can be, twice the same
            runtime.files.make_directory(str(tmp_path / ("x" * 255) / "d"))
            runtime.files.remove(str(tmp_path / ("x" * 255)))
        runtime.files.discard(file)
        assert os.pread(fd, 5, 0) == b"12345"
        file.unpin()
        assert file.fd == -1
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)


def test_a_pace_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = 100.0, []

    def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    monkeypatch.setattr("time.monotonic", lambda: now)
    monkeypatch.setattr("time.sleep", sleep)
    pace = Pace(1000)
    for size in 100, 300:
        pace.take(size)
    now += 5
    pace.take(50)

    assert slept == pytest.approx([0.1, 0.3, 0.05])
    fast = Pace(inf)
    fast.take(1 << 40)
    assert len(slept) == 3


DIES = """
import sys, trio
from raftka.runtime.real.runtime import open_runtime
from tests.runtime.test_real import silent

async def main():
    async with open_runtime(alone=True) as runtime:
        runtime.offload.run_in_process(silent, (), lambda pid: print(pid, flush=True), print)
        await trio.sleep_forever()

trio.run(main)
"""


def test_the_process_dies_with_its_node(kind: str) -> None:
    """Else it would write into a directory that belongs to the next one."""
    with subprocess.Popen(
        [sys.executable, "-c", DIES],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as node:
        assert node.stdout is not None
        worker = os.pidfd_open(int(node.stdout.readline()))
        node.kill()
        ended, _, _ = select.select([worker], [], [], 20)
        os.close(worker)

    assert ended


async def test_a_name_that_waits_to_be_unlinked_may_be_removed_once_more(tmp_path: Path) -> None:
    """A start sweeps what an earlier process has left, and lists what its own thread is about to
    unlink.
    """
    left = tmp_path / "log.1.1.gone"
    left.touch()
    async with open_runtime() as runtime:
        runtime.files.remove(str(left))
        runtime.files.remove(str(tmp_path / "log.1.2.gone"))
    assert os.listdir(tmp_path) == []
