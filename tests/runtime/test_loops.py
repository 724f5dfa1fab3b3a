"""A node's turns and Trio's tasks share a thread: none keeps the other waiting, and each has the
way that its process allows.
"""

from time import monotonic

import pytest
import trio
import trio.lowlevel

from raftka.runtime.interfaces import LONG_PIECE_S
from raftka.runtime.real.runtime import open_runtime
from tests.runtime.echo import Echo, Sender


async def test_tasks_of_trio_go_on_beside_turns(alone: bool) -> None:
    """Sleeps, threads, sockets, and what a timer of the node wakes, while a connection keeps the
    node's epoll busy.
    """
    busy, woken = Sender(b"x" * 50_000_000), trio.Event()
    async with open_runtime(alone=alone) as runtime:
        listener = runtime.network.listen("127.0.0.1", 0, Echo)
        runtime.network.connect("127.0.0.1", listener.port, busy)
        with trio.fail_after(60):
            one, other = trio.socket.socketpair()
            runtime.clock.call_at(runtime.clock.now() + 0.01, woken.set)
            await woken.wait()
            await trio.sleep(0.01)
            assert await trio.to_thread.run_sync(lambda: trio.from_thread.run_sync(lambda: 7)) == 7
            await one.send(b"a")
            assert await other.recv(1) == b"a"
            with trio.move_on_after(0.01) as scope:
                await other.recv(1)
            assert scope.cancelled_caught
        one.close()
        other.close()


@pytest.mark.parametrize("alone", [False, True])
async def test_a_node_that_is_alone_needs_no_task_of_trio(alone: bool, on_linux: None) -> None:
    before = trio.lowlevel.current_statistics().tasks_living
    async with open_runtime(alone=alone):
        assert (trio.lowlevel.current_statistics().tasks_living == before) is alone
    assert (
        type(trio._core._run.GLOBAL_RUN_CONTEXT.runner.io_manager).__module__
        == "trio._core._io_epoll"
    )


async def test_another_trio_has_the_plain_way(
    monkeypatch: pytest.MonkeyPatch, on_linux: None
) -> None:
    monkeypatch.setattr("raftka.runtime.real.linux.loops.epoll", type("Other", (), {}))
    before = trio.lowlevel.current_statistics().tasks_living

    async with open_runtime(alone=True) as runtime:
        assert trio.lowlevel.current_statistics().tasks_living > before
        with trio.fail_after(60):
            done = trio.Event()
            runtime.clock.call_at(runtime.clock.now(), done.set)
            await done.wait()


async def test_a_node_that_stands_still_leaves_trio_going(alone: bool) -> None:
    ran = trio.Event()
    async with open_runtime(alone=alone) as runtime:
        runtime.pause()
        runtime.clock.call_at(runtime.clock.now(), ran.set)
        await trio.sleep(0.02)
        assert not ran.is_set()
        runtime.resume()
        with trio.fail_after(60):
            await ran.wait()


class Watch:
    def __init__(self) -> None:
        self.pieces: list[object] = []

    def turn(self, took_s: float) -> None: ...

    def long(self, took_s: float, piece: object) -> None:
        self.pieces.append(piece)


async def test_the_time_of_a_task_is_not_that_of_the_action_it_asks_for(alone: bool) -> None:
    watch, done = Watch(), trio.Event()
    async with open_runtime(alone=alone) as runtime:
        runtime.watch_turns(watch)
        until = monotonic() + 2 * LONG_PIECE_S
        while monotonic() < until:
            pass
        runtime.clock.at_turn_end(done.set)
        with trio.fail_after(60):
            await done.wait()
    assert watch.pieces == []
