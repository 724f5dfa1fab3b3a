"""The proxy between nodes alone: what it lets through, holds back and refuses."""

import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from raftka.chaos.live.proxy import HOST, Proxy, Route
from raftka.cluster.ports import HeldPorts

SOON_S = 10.0
HELD_S = 0.3  # so long silence is a cut


class Echo:
    """Answers each line with itself, and counts who came."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.open: list[socket.socket] = []
        self._listener = socket.create_server((HOST, port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.open.append(sock)
            threading.Thread(target=self._echo, args=(sock,), daemon=True).start()

    @staticmethod
    def _echo(sock: socket.socket) -> None:
        with sock:
            try:
                while data := sock.recv(65536):
                    sock.sendall(data)
            except OSError:
                pass

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self.open:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def dial(port: int) -> socket.socket:
    """The proxy listens as soon as it has seen that the node does."""
    end = time.monotonic() + SOON_S
    while True:
        try:
            return socket.create_connection((HOST, port), SOON_S)
        except ConnectionRefusedError:
            assert time.monotonic() < end, "it never listened"


def says(sock: socket.socket, data: bytes) -> None:
    sock.sendall(data)
    hears(sock, data)


def hears(sock: socket.socket, data: bytes) -> None:
    sock.settimeout(SOON_S)
    came = b""
    while len(came) < len(data):
        part = sock.recv(65536)
        assert part, "it was closed"
        came += part
    assert came == data


def silent(sock: socket.socket) -> bool:
    sock.settimeout(HELD_S)
    try:
        return not sock.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return True


@pytest.fixture
def ports() -> Iterator[list[int]]:
    with HeldPorts(4) as held:
        yield held.numbers


def named(node_id: int) -> bytes:
    """The head of a follower's request."""
    client_id = b"broker-%d-fetcher" % node_id
    return (
        b"\0\0\0\x40"
        + b"\0\x01\0\x0c"
        + b"\0\0\0\x01"
        + len(client_id).to_bytes(2, "big")
        + client_id
    )


def test_the_proxy_passes_bytes_on(ports: list[int]) -> None:
    echo = Echo(ports[1])
    with Proxy([Route(ports[0], ports[1], target=2, source=1)]) as proxy, dial(ports[0]) as sock:
        says(sock, b"x" * 300_000)
        assert proxy.passed() == {(1, 2): 300_000, (2, 1): 300_000}
        assert not proxy.held()
    echo.stop()


@pytest.mark.parametrize("direction", [(1, 2), (2, 1)])
def test_bytes_held_by_a_one_way_cut_arrive_after_healing(
    ports: list[int], direction: tuple[int, int]
) -> None:
    echo = Echo(ports[1])
    with Proxy([Route(ports[0], ports[1], target=2, source=1)]) as proxy, dial(ports[0]) as sock:
        says(sock, b"before")
        proxy.cut(direction)
        sock.sendall(b"held")

        assert silent(sock)
        assert proxy.held() == {direction: 4}
        there = proxy.passed().get((1, 2), 0)
        assert there == (6 if direction == (1, 2) else 10)  # what the other way brings went through

        proxy.heal()
        hears(sock, b"held")
        says(sock, b"after")
    echo.stop()


def test_the_end_of_a_connection_does_not_pass_a_cut(ports: list[int]) -> None:
    echo = Echo(ports[1])
    with Proxy([Route(ports[0], ports[1], target=2, source=1)]) as proxy, dial(ports[0]) as sock:
        says(sock, b"before")
        proxy.cut((1, 2), (2, 1))
        echo.stop()

        assert silent(sock)

        proxy.heal()
        sock.settimeout(SOON_S)
        assert sock.recv(1) == b""


def test_a_slow_direction_comes_late_and_in_order(ports: list[int]) -> None:
    echo = Echo(ports[1])
    with Proxy([Route(ports[0], ports[1], target=2, source=1)]) as proxy, dial(ports[0]) as sock:
        proxy.slow(HELD_S, (1, 2))
        began = time.monotonic()
        for number in range(10):
            sock.sendall(b"%d" % number)
        hears(sock, b"0123456789")

        assert time.monotonic() - began >= HELD_S  # a lower bound holds on any machine
        assert proxy.held() == {(1, 2): 10}
    echo.stop()


def test_a_node_that_does_not_listen_is_refused_and_comes_back(ports: list[int]) -> None:
    echo = Echo(ports[1])
    with Proxy([Route(ports[0], ports[1], target=2, source=1)]), dial(ports[0]) as sock:
        says(sock, b"before")
        echo.stop()
        sock.settimeout(SOON_S)
        assert sock.recv(1) == b""  # whoever hears of its end is refused from then on
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, ports[0]), SOON_S)

        echo = Echo(ports[1])
        with dial(ports[0]) as again:
            says(again, b"after")
    echo.stop()


def test_a_node_is_known_by_its_process_where_tls_hides_its_name(ports: list[int]) -> None:
    echo = Echo(ports[1])
    with (
        Proxy([Route(ports[0], ports[1], target=1)], lambda: {3: 0, 2: os.getpid()}) as proxy,
        dial(ports[0]) as sock,
    ):
        says(sock, b"hidden")
        proxy.cut((2, 1))
        sock.sendall(b"held")

        assert silent(sock)
        assert proxy.held() == {(2, 1): 4}
    echo.stop()


def test_a_follower_is_known_by_its_client_id(ports: list[int]) -> None:
    echo = Echo(ports[1])
    with (
        Proxy([Route(ports[0], ports[1], target=1)]) as proxy,
        dial(ports[0]) as second,
        dial(ports[0]) as third,
    ):
        says(second, named(2))
        says(third, named(3))
        proxy.cut((2, 1))
        second.sendall(b"held")
        says(third, b"through")

        assert silent(second)
    echo.stop()
