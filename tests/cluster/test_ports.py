"""Held ports: ours to listen on, nobody else's to be given, refusing while no node listens."""

import socket
from contextlib import ExitStack, suppress
from errno import EADDRINUSE
from os import strerror
from pathlib import Path

import pytest

from raftka.cluster import ports
from raftka.cluster.plan import PlanError
from raftka.cluster.ports import HeldPorts, check_free
from raftka.cluster.start import _plan


def listening(port: int) -> socket.socket:
    with ExitStack() as stack:
        sock = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))  # what refuses here closes the socket
        sock.listen()
        stack.pop_all()
    return sock


def test_a_node_listens_on_a_held_port_again_and_again() -> None:
    with HeldPorts(2) as held:
        [(port, _)] = held.pairs()
        for _ in range(2):
            with listening(port), socket.create_connection(("127.0.0.1", port), 1):
                pass


def test_a_held_port_without_a_node_refuses() -> None:
    with HeldPorts(1) as held, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", held.numbers[0]), 1)


def test_no_other_process_gets_a_held_port() -> None:
    with HeldPorts(1) as held, socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind(("127.0.0.1", held.numbers[0]))


def test_wanted_ones_are_taken_together_or_not_at_all() -> None:
    with HeldPorts(2) as first:
        wanted = first.numbers
    with HeldPorts(2, wanted) as held:
        assert held.numbers == wanted
        with listening(wanted[1]), HeldPorts(2, wanted) as others:
            assert not set(others.numbers) & set(wanted)


@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_row_of_ports_is_held_with_the_others(length: int) -> None:
    with HeldPorts(1) as held:
        first = held.add_row(length)
        for port in range(first, first + length):
            with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
                stranger.bind(("127.0.0.1", port))
        assert held.numbers[0] not in range(first, first + length)


@pytest.mark.parametrize(
    ("above", "whose"),
    [
        (1, "host 1"),
        (2, "host 2"),
        (3, "host 2"),
        (101, "the controller of host 2"),
        (201, "scrapes of host 2"),
    ],
)
def test_a_taken_port_of_a_host_is_told(
    above: int, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bound(number: int) -> socket.socket:
        if number == 20500:
            raise OSError(EADDRINUSE, strerror(EADDRINUSE))
        return socket.socket()

    monkeypatch.setattr(ports, "_bound", bound)

    with pytest.raises(PlanError, match=f"for {whose}: Address already in use"):
        check_free(2, 20500 - above, None, metrics=True, brokers=2)


def test_the_ports_behind_a_picked_one_need_not_be_free(tmp_path: Path) -> None:
    """Three bridges with ports that were picked: what stands behind the first of them is somebody
    else's.
    """
    with HeldPorts(9) as held, HeldPorts(1) as first, HeldPorts(2) as others:
        bridges = HeldPorts(0)
        bridges.numbers = [first.numbers[0], *others.numbers]
        with ExitStack() as stack:
            with suppress(OSError):  # then somebody has it already
                stack.enter_context(listening(first.numbers[0] + 1))
            plans = _plan(3, tmp_path, 0, held, {}, 0, bridges)
        assert [plan.bridge_port for plan in plans] == bridges.numbers
