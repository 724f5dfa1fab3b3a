"""The bytes that a connection receives in a turn: small frames many at a time, large frames one
after the other until it is enough.
"""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from raftka.runtime.interfaces import Transport
from raftka.runtime.memory import POISON_BYTE
from raftka.runtime.real.linux.network import LinuxNetwork, LinuxTransport
from raftka.runtime.real.network import LARGE_BYTES, READ_BYTES
from raftka.runtime.real.turn import Turn


class Reader:
    """Has room for `large` bytes at a time (0: none of its own), and holds reading after `most` of
    them.
    """

    def __init__(self, large: int, most: int = 1000) -> None:
        self.large = large
        self.most = most
        self.received: list[int] = []
        self.transport: Transport | None = None

    def opened(self, transport: Transport) -> None: ...

    def room(self) -> memoryview | None:
        return memoryview(bytearray(self.large)) if self.large else None

    def receive(self, view: memoryview) -> None:
        self.received.append(len(view))
        if len(self.received) == self.most:
            assert self.transport is not None
            self.transport.hold_reading(True)

    def take_output(self) -> tuple[()]:
        return ()

    def closed(self, reason: str) -> None: ...


@pytest.fixture
def network() -> Iterator[LinuxNetwork]:
    network = LinuxNetwork(Turn(), lambda *_: None)
    yield network
    network.stop(reset=False)


class Waiting(socket.socket):
    """A socket in which so many bytes wait, however many the kernel would hold."""

    waiting = 0

    def recv_into(self, buffer: memoryview, *_: int) -> int:  # type: ignore[override]
        if not self.waiting:
            raise BlockingIOError
        count = min(len(buffer), self.waiting)
        self.waiting -= count
        return count


def connected(network: LinuxNetwork, reader: Reader, waiting: int) -> socket.socket:
    """The other end."""
    ours, theirs = socket.socketpair()
    sock = Waiting(fileno=ours.detach())
    sock.waiting = waiting
    theirs.send(b"ready")
    reader.transport = LinuxTransport(network, sock, reader, "peer", connecting=False)
    return theirs


def received_in_a_turn(network: LinuxNetwork, reader: Reader, waiting: int) -> list[int]:
    with connected(network, reader, waiting):
        network.turn()
    return reader.received


def test_large_frames_that_wait_are_received_in_one_turn(network: LinuxNetwork) -> None:
    assert received_in_a_turn(network, Reader(70_000), 3 * 70_000) == [70_000] * 3


def test_a_large_frame_that_is_not_whole_ends_it(network: LinuxNetwork) -> None:
    assert received_in_a_turn(network, Reader(70_000), 2 * 70_000 + 1) == [70_000, 70_000, 1]


def test_nobody_waits_for_more_than_enough_of_them(network: LinuxNetwork) -> None:
    assert received_in_a_turn(network, Reader(100_000), 2 * LARGE_BYTES) == [100_000] * -(
        -LARGE_BYTES // 100_000
    )


def test_reading_that_is_held_ends_it(network: LinuxNetwork) -> None:
    assert received_in_a_turn(network, Reader(70_000, most=2), 3 * 70_000) == [70_000] * 2


def test_rooms_for_less_are_filled_once_a_turn(network: LinuxNetwork) -> None:
    assert received_in_a_turn(network, Reader(1000), 3000) == [1000]


def test_the_arena_is_read_into_once_a_turn(network: LinuxNetwork) -> None:
    assert received_in_a_turn(network, Reader(0), 3 * READ_BYTES) == [READ_BYTES]


def test_memory_is_given_back_before_many_connections_have_taken_too_much(
    network: LinuxNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn of 256 connections could take 256 times as much as one of them."""
    monkeypatch.setattr("raftka.runtime.real.linux.network.LENT_BYTES", 100_000)
    readers = [Reader(70_000) for _ in range(6)]
    at_ends: list[int] = []
    end_turn = network.end_turn

    def end() -> None:
        at_ends.append(sum(sum(each.received) for each in readers))
        end_turn()

    monkeypatch.setattr(network, "end_turn", end)
    with ExitStack() as stack:
        for reader in readers:
            stack.enter_context(connected(network, reader, 70_000))
        network.turn()
    assert at_ends == [140_000, 280_000, 420_000]
    assert network.lent_bytes == 0


class Keeper(Reader):
    """Keeps views of what it receives, which it must not."""

    def __init__(self) -> None:
        super().__init__(0)
        self.kept: list[memoryview] = []
        self.seen: list[bytes] = []

    def receive(self, view: memoryview) -> None:
        self.kept.append(view)
        self.seen.append(bytes(view))


@pytest.mark.parametrize("poisons", [False, True])
def test_a_debug_run_overwrites_what_a_turn_has_received(poisons: bool) -> None:
    network, keeper = LinuxNetwork(Turn(), lambda *_: None, poisons=poisons), Keeper()
    lent = bytearray(b"lent to a frame")
    ours, theirs = socket.socketpair()
    try:
        theirs.setblocking(False)
        LinuxTransport(network, theirs, keeper, "peer", connecting=False)
        ours.sendall(b"come")
        if poisons:
            network.poisoned.append(lent)

        assert network.turn(1.0)

        assert keeper.seen == [b"come"]
        assert bytes(keeper.kept[0]) == (POISON_BYTE * 4 if poisons else b"come")
        assert bytes(lent) == (POISON_BYTE * len(lent) if poisons else b"lent to a frame")
    finally:
        network.stop(reset=False)
        ours.close()
