"""Turns of a real network: what has come is handed out, then the actions of the turn's end run,
then output leaves; with each runtime.
"""

import socket
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import trio

from raftka.runtime.interfaces import Buffer, FileSpan, Transport
from raftka.runtime.real.base import RealRuntime
from raftka.runtime.real.runtime import open_runtime
from tests.runtime.echo import Echo, Late

CONNECTIONS = 20


class Noted(Echo):
    """An echo whose steps are noted for all connections together."""

    def __init__(self, runtime: RealRuntime, steps: list[str]) -> None:
        super().__init__()
        self._runtime, self._steps = runtime, steps

    def receive(self, view: memoryview) -> None:
        assert self.transport is not None
        if not view:
            self.transport.close("said all")
            return
        self._steps.append("received")
        self.out.append(bytes(view))
        self._runtime.clock.at_turn_end(self._end)
        self.transport.wake()

    def _end(self) -> None:
        self._steps.append("ended")

    def take_output(self) -> Sequence[Buffer | FileSpan]:
        out = super().take_output()
        if out:
            self._steps.append("sent")
        return out


async def test_bytes_that_come_together_are_one_turn(alone: bool) -> None:
    steps: list[str] = []
    async with open_runtime(alone=alone) as runtime:
        listener = runtime.network.listen("127.0.0.1", 0, lambda: Noted(runtime, steps))
        with ExitStack() as stack:
            clients = [
                stack.enter_context(socket.create_connection(("127.0.0.1", listener.port)))
                for _ in range(CONNECTIONS)
            ]
            with trio.fail_after(20):
                for turn in range(3):  # in the first one they are accepted
                    steps.clear()
                    for client in clients:
                        client.sendall(b"%d" % turn)
                    while steps.count("sent") < CONNECTIONS:
                        await trio.lowlevel.checkpoint()
            assert [client.recv(16) for client in clients] == [b"012"] * CONNECTIONS

    each = ["received", "ended", "sent"]
    assert steps == [step for step in each for _ in range(CONNECTIONS)]


async def test_what_a_turn_has_received_stays_as_it_is_until_the_turn_ends(alone: bool) -> None:
    kept: list[memoryview] = []
    seen: list[bytes] = []
    over = trio.Event()

    class Keeper(Echo):
        def receive(self, view: memoryview) -> None:
            if view:
                kept.append(view)
                runtime.clock.at_turn_end(self._look)

        def _look(self) -> None:
            seen.append(bytes(kept.pop(0)))
            if len(seen) == CONNECTIONS:
                over.set()

    async with open_runtime(alone=alone) as runtime:
        listener = runtime.network.listen("127.0.0.1", 0, Keeper)
        with ExitStack() as stack:
            for number in range(CONNECTIONS):
                client = socket.create_connection(("127.0.0.1", listener.port))
                stack.enter_context(client).sendall(b"%d" % number * 1000)
            with trio.fail_after(20):
                await over.wait()
    assert sorted(seen) == sorted(b"%d" % number * 1000 for number in range(CONNECTIONS))


async def test_bytes_that_wait_while_reading_is_held_come_in_order_afterwards(alone: bool) -> None:
    """Also those that were read to see whether the client has closed."""
    first, then = bytes(range(256)) * 20, b"and this" * 100_000
    held = Late(b"")
    held.wanted = len(first) + len(then)

    def accept() -> Late:
        return held

    async with open_runtime(alone=alone) as runtime:
        listener = runtime.network.listen("127.0.0.1", 0, accept)
        with socket.create_connection(("127.0.0.1", listener.port)) as client:
            with trio.fail_after(20):
                while held.transport is None:
                    await trio.lowlevel.checkpoint()
                client.sendall(first)
                assert not held.transport.left()
                assert not held.transport.left()
                assert held.got == b""
                held.begin()
                await trio.to_thread.run_sync(client.sendall, then)
                while len(held.got) < held.wanted:
                    await trio.lowlevel.checkpoint()
    assert held.got == first + then


async def test_an_end_that_was_seen_while_reading_was_held_comes_after_the_bytes(
    alone: bool,
) -> None:
    ended = trio.Event()

    class Told(Late):
        def receive(self, view: memoryview) -> None:
            if not view:
                ended.set()
            self.got += view

    held = Told(b"")
    async with open_runtime(alone=alone) as runtime:
        listener = runtime.network.listen("127.0.0.1", 0, lambda: held)
        with trio.fail_after(20):
            with socket.create_connection(("127.0.0.1", listener.port)) as client:
                while held.transport is None:
                    await trio.lowlevel.checkpoint()
                client.sendall(b"last words")
            while not held.transport.left():
                await trio.lowlevel.checkpoint()
            assert held.got == b""
            held.begin()
            await ended.wait()
    assert held.got == b"last words"


async def test_connections_that_are_refused_in_the_turn_of_their_coming_harm_nothing(
    alone: bool,
) -> None:
    class Refused(Echo):
        def opened(self, transport: Transport) -> None:
            super().opened(transport)
            transport.drop("refused")

    ended: list[Refused] = []

    def accept() -> Refused:
        ended.append(Refused())
        return ended[-1]

    async with open_runtime(alone=alone) as runtime:
        port = runtime.network.listen("127.0.0.1", 0, accept).port
        for _ in range(CONNECTIONS):
            with socket.create_connection(("127.0.0.1", port)) as client:
                assert await trio.to_thread.run_sync(client.recv, 16) == b""
    assert [each.end for each in ended] == ["refused"] * CONNECTIONS


async def test_a_piece_of_a_file_stays_readable_until_a_slow_client_has_it(
    alone: bool, tmp_path: Path
) -> None:
    content = bytes(i * 7 & 255 for i in range(65521)) * 200
    async with open_runtime(alone=alone) as runtime:
        file = runtime.files.open(f"{tmp_path}/log", create=True)
        file.append([content])

        class Server(Echo):
            def opened(self, transport: Transport) -> None:
                self.transport = transport
                self.out = [FileSpan(file, 0, len(content))]

        listener = runtime.network.listen("127.0.0.1", 0, Server)
        with socket.create_connection(("127.0.0.1", listener.port)) as client:
            with trio.fail_after(20):
                while not file.pins:
                    await trio.lowlevel.checkpoint()
                runtime.files.remove(f"{tmp_path}/log")
                runtime.files.discard(file)
                assert file.fd >= 0
                got = b""
                while len(got) < len(content):
                    got += await trio.to_thread.run_sync(client.recv, 1 << 20)
                while file.fd >= 0:
                    await trio.lowlevel.checkpoint()
    assert got == content
