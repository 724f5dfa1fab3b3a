"""The states of one ZooKeeper client's connection, without a socket and without a bridge."""

from struct import pack
from types import SimpleNamespace
from typing import Any

from tests.kit.transitions import changes_of, recorded
from zookeeper_bridge.machine.wire import Result
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.jute import ConnectRequest, decode_connect
from zookeeper_bridge.protocol.opcodes import Op
from zookeeper_bridge.server.connection import (
    ATTACHING,
    CONNECTION_STATES,
    ClientConnection,
    ConnectionState,
)
from zookeeper_bridge.server.login import LoginRules

CONNECT = pack(">iqiqi16s", 0, 0, 4000, 0, 16, bytes(16))
REQUEST = decode_connect(CONNECT)


class Line:
    """The transport and the bridge of one connection."""

    peer = "127.0.0.1:1"

    def __init__(self) -> None:
        self.clock = SimpleNamespace(now=lambda: 0.0)
        self.logins = LoginRules()
        self.packets_received = self.packets_sent = 0
        self.submitted: list[int] = []
        bridge: Any = self
        self.connection = ClientConnection(bridge, 1)
        transport: Any = self
        self.connection.opened(transport)

    def answer_word(self, word: bytes) -> str | None:
        return "imok" if word == b"ruok" else None

    def connecting(self, connection: ClientConnection, asked: ConnectRequest) -> None: ...

    def heard(self, connection: ClientConnection) -> None: ...

    def gone(self, connection: ClientConnection) -> None: ...

    def submit(self, connection: ClientConnection, opcode: int, body: bytes) -> None:
        self.submitted.append(opcode)

    def wake(self) -> None: ...

    def close(self, reason: str) -> None: ...

    def send(self, *packets: bytes) -> None:
        for packet in packets:
            self.connection.receive(memoryview(pack(">i", len(packet)) + packet))

    def attach(self) -> None:
        self.send(CONNECT)
        self.connection.attach(Result(Err.OK, b"", 7, 4000, bytes(16)), REQUEST)


def test_every_transition_of_a_connection_happens() -> None:
    with recorded(ClientConnection, "state") as changes:
        Line().connection.receive(memoryview(b"ruok"))

        between = Line()
        between.connection.receive(memoryview(pack(">i", len(CONNECT))))
        between.connection.closed("the client went away")

        refused = Line()
        refused.send(CONNECT)
        refused.connection.attach(Result(Err.SESSION_EXPIRED), REQUEST)

        left = Line()
        left.attach()
        left.connection.receive(memoryview(b""))
        left.connection.abandon("the controller was lost")

        lost = Line()
        lost.attach()
        lost.connection.abandon("the controller was lost")
        lost.connection.closed("the controller was lost")

    assert changes == changes_of(CONNECTION_STATES)
    assert set(CONNECTION_STATES) == set(ConnectionState)


def test_a_write_before_the_session_is_known_waits_for_it() -> None:
    line = Line()
    line.send(CONNECT, pack(">ii", 1, Op.CREATE))
    assert line.connection.state is ATTACHING
    assert line.submitted == []

    line.connection.attach(Result(Err.OK, b"", 7, 4000, bytes(16)), REQUEST)

    assert line.submitted == [Op.CREATE]
