"""Free ports that stay ours: bound for as long as the cluster lives, but never listened on. Knows
no broker.

A node binds the same port beside us (both with SO_REUSEADDR, which is allowed while at most one of
them listens), and between its death and its return nobody else is given the port.
"""

import socket
from collections.abc import Sequence
from types import TracebackType

from raftka.cluster.plan import (
    HOST,
    PlanError,
    bridge_ports_from,
    console_port_from,
    metrics_ports_from,
    ports_from,
)

ATTEMPTS = 100  # to find free ports in a row


def check_free(
    nodes: int,
    base_port: int,
    bridge_port: int | None,
    *,
    metrics: bool,
    option: str = "--base-port",
    brokers: int = 0,
    console: bool = False,
) -> None:
    """The ports that a user has asked for; 0 and None ask for none. Raises PlanError, which names
    the option of the command line.

    `brokers`: of each host, when the nodes are hosts. `console`: there will be one.
    """
    kind = "host" if brokers else "node"
    asked: list[tuple[str, int, str]] = []
    if base_port:
        scraped = metrics_ports_from(base_port, nodes) if metrics else []
        for i, (broker, controller) in enumerate(ports_from(base_port, nodes, max(1, brokers)), 1):
            asked += [(option, broker + each, f"{kind} {i}") for each in range(max(1, brokers))]
            asked += [(option, controller, f"the controller of {kind} {i}")]
        asked += [(option, port, f"scrapes of {kind} {i}") for i, port in enumerate(scraped, 1)]
        if console:
            asked.append((option, console_port_from(base_port), "the console"))
    if bridge_port:
        asked += [
            ("--bridge-port", port, f"the bridge of {kind} {i}")
            for i, port in enumerate(bridge_ports_from(bridge_port, nodes), 1)
        ]
    for given_by, port, whose in asked:
        try:
            _bound(port).close()
        except OSError as error:
            text = (
                f"{HOST}:{port}, for {whose}: {error.strerror}; stop the process that listens "
                f"there, or give another {given_by}"
            )
            raise PlanError(text) from None


class HeldPorts:
    def __init__(self, count: int, wanted: Sequence[int] = ()) -> None:
        """`wanted`: these if all of them are free, else any."""
        self._sockets: list[socket.socket] = []
        if not (wanted and self._bind(wanted)) and not self._bind([0] * count):
            raise OSError(f"there are no {count} free ports")
        self.numbers: list[int] = [sock.getsockname()[1] for sock in self._sockets]

    def _bind(self, numbers: Sequence[int]) -> bool:
        try:
            for number in numbers:
                self._sockets.append(_bound(number))
        except OSError:
            self.release()
            return False
        return True

    def pairs(self) -> list[tuple[int, int]]:
        """(broker, controller) for each node."""
        return list(zip(self.numbers[::2], self.numbers[1::2], strict=True))

    def triples(self) -> tuple[list[tuple[int, int]], list[int]]:
        """The same, and a third port for each node."""
        return list(zip(self.numbers[::3], self.numbers[1::3], strict=True)), self.numbers[2::3]

    def add_row(self, length: int) -> int:
        """Hold so many more ports in a row, and return the first. Raises OSError."""
        for _ in range(ATTEMPTS):
            row = HeldPorts(1)
            if row._bind([row.numbers[0] + each for each in range(1, length)]):
                self._sockets += row._sockets
                return row.numbers[0]
            row.release()
        raise OSError(f"there are no {length} free ports in a row")

    def release(self) -> None:
        while self._sockets:
            self._sockets.pop().close()

    def __enter__(self) -> "HeldPorts":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def _bound(number: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((HOST, number))
    except OSError:
        sock.close()
        raise
    return sock
