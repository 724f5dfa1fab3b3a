"""Simulated nodes with a bridge each, and ZooKeeper clients that say what they like, on virtual
time.
"""

from collections.abc import Mapping, Sequence
from struct import pack
from typing import Any, NamedTuple

from raftka.broker.node import Node
from raftka.client.connection import Wrap
from raftka.runtime.interfaces import Transport
from tests.broker.stage import AT_MOST_S, Stage
from tests.zookeeper_bridge.decisions import OPEN_TO_ALL, multi_results
from zookeeper_bridge.edge import Edge, open_edge
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.jute import ConnectResponse, Stat
from zookeeper_bridge.protocol.opcodes import BODIES, Op
from zookeeper_bridge.server.bridge import Bridge

PORT = 2181


class BridgeStage(Stage):
    def __init__(
        self,
        nodes: int = 1,
        seed: int = 1,
        *,
        wait: bool = True,
        without: Sequence[int] = (),
        plain: bool = True,
        **settings: str,
    ) -> None:
        """`plain`: with a port that has no TLS."""
        self.plain = plain
        self.edges: dict[int, Edge] = {}
        self.without = without  # nodes that do not have the package
        super().__init__(nodes, seed, wait=wait, files=None, **settings)

    def properties(self, node_id: int) -> dict[str, str]:
        own = {"zookeeper.bridge.port": str(PORT)} if self.plain else {}
        return {**own, "zookeeper.bridge.host": f"n{node_id}", **super().properties(node_id)}

    def start(
        self, node_id: int, properties: Mapping[str, str] | None = None, *, disk: str | None = None
    ) -> Node:
        node = super().start(node_id, properties, disk=disk)
        if node_id not in self.without:
            node.runtime.take(  # type: ignore[attr-defined]
                lambda _: self.edges.update({node_id: open_edge(node.services)}), None
            )
        return node

    def bridge(self, node_id: int = 1) -> Bridge:
        return self.edges[node_id].bridge

    def client(self, node_id: int = 1, timeout_ms: int = 4000, **given: Any) -> "ZkClient":
        client = ZkClient(self, node_id)
        client.connect(timeout_ms, **given)
        return client

    def restart(self, node_id: int) -> None:
        self.kill(node_id)
        self.start(node_id)

    def controller(self) -> int:
        self.wait(lambda: any(self._leads(node) for node in self.nodes.values()))
        return next(node.node_id for node in self.nodes.values() if self._leads(node))

    @staticmethod
    def _leads(node: Node) -> bool:
        return node.quorum.host is not None and node.quorum.host.active

    def pass_time(self, seconds: float) -> None:
        self.world.run(self.world.now + seconds)


class Reply(NamedTuple):
    xid: int
    zxid: int
    error: int
    body: bytes


class Event(NamedTuple):
    type: int
    path: str
    zxid: int


class ZkClient:
    """`events` are in `log` with the replies, in the order in which they came."""

    def __init__(
        self, stage: BridgeStage, node_id: int = 1, port: int = PORT, wrap: Wrap | None = None
    ) -> None:
        self.stage = stage
        self.log: list[Reply | Event] = []
        self.closed_because: str | None = None
        self.session: ConnectResponse | None = None
        self.last_zxid = 0
        self.xid = 0
        self.data = bytearray()
        self.raw = False  # what comes is no packets
        self._output: list[bytes] = []
        self._transport: Transport | None = None
        host = f"n{node_id}"
        stage.runtime.network.connect(host, port, self if wrap is None else wrap(self, host))

    # what a test does

    def send(self, data: bytes) -> None:
        self._output.append(data)
        if self._transport is not None:
            self._transport.wake()

    def connect(
        self,
        timeout_ms: int = 4000,
        session_id: int = 0,
        password: bytes = bytes(16),
        last_zxid: int = 0,
        *,
        old: bool = False,
        read_only: bool = False,
    ) -> None:
        body = pack(">iqiqi16s", 0, last_zxid, timeout_ms, session_id, 16, password) + (
            b"" if old else b"\1" if read_only else b"\0"
        )
        self.send(pack(">i", len(body)) + body)
        self.stage.wait(
            lambda: self.session is not None or self.closed_because is not None, AT_MOST_S
        )

    def request(self, opcode: int, body: bytes = b"", xid: int | None = None) -> int:
        self.xid += 1
        xid = self.xid if xid is None else xid
        self.send(pack(">iii", 8 + len(body), xid, opcode) + body)
        return xid

    def answer(self, xid: int) -> Reply | None:
        """None: the server has closed instead."""
        self.stage.wait(
            lambda: self.closed_because is not None or any(each.xid == xid for each in self.replies)
        )
        return next((each for each in self.replies if each.xid == xid), None)

    def ask(self, opcode: int, *fields: Any, body: bytes | None = None) -> Reply | None:
        return self.answer(
            self.request(opcode, BODIES[Op(opcode)].encode(fields) if body is None else body)
        )

    @property
    def replies(self) -> list[Reply]:
        return [each for each in self.log if isinstance(each, Reply)]

    @property
    def events(self) -> list[Event]:
        return [each for each in self.log if isinstance(each, Event)]

    def must(self, opcode: int, *fields: Any, body: bytes | None = None) -> bytes:
        reply = self.ask(opcode, *fields, body=body)
        assert reply is not None, f"closed: {self.closed_because}"
        assert reply.error == 0, Err(reply.error)
        return reply.body

    def error(self, opcode: int, *fields: Any, body: bytes | None = None) -> Err:
        reply = self.ask(opcode, *fields, body=body)
        assert reply is not None, f"closed: {self.closed_because}"
        assert not reply.error or not reply.body
        return Err(reply.error)

    def create(self, path: str, data: bytes | None = b"", flags: int = 0) -> str:
        return str(jute.STRING.decode(self.must(Op.CREATE, path, data, OPEN_TO_ALL, flags)))

    def get(self, path: str, *, watch: bool = False) -> tuple[bytes | None, Stat]:
        found: tuple[bytes | None, Stat] = jute.DATA_STAT.decode(
            self.must(Op.GET_DATA, path, watch)
        )
        return found

    def set(self, path: str, data: bytes | None, version: int = -1) -> Stat:
        return Stat(*jute.STAT.decode(self.must(Op.SET_DATA, path, data, version)))

    def children(self, path: str, *, watch: bool = False) -> list[str]:
        return sorted(jute.STRINGS.decode(self.must(Op.GET_CHILDREN, path, watch)))

    def exists(self, path: str, *, watch: bool = False) -> bool:
        return self.error(Op.EXISTS, path, watch) is Err.OK

    def delete(self, path: str, version: int = -1) -> None:
        self.must(Op.DELETE, path, version)

    def multi(self, *operations: tuple[Op, tuple[Any, ...]]) -> list[Any]:
        return multi_results(
            self.must(
                Op.MULTI,
                body=jute.encode_multi(
                    [(op, BODIES[op].encode(fields)) for op, fields in operations]
                ),
            )
        )

    def ping(self) -> None:
        self.request(Op.PING, xid=-2)

    def wait_event(self, count: int = 1) -> list[Event]:
        self.stage.wait(lambda: len(self.events) >= count)
        return self.events

    def wait_closed(self) -> str:
        self.stage.wait(lambda: self.closed_because is not None)
        return self.closed_because or ""

    def drop(self) -> None:
        if self._transport is not None:
            self._transport.close("the test is done with it")

    def again(self, node_id: int = 1, **given: Any) -> "ZkClient":
        """The same session on another connection."""
        assert self.session is not None
        client = ZkClient(self.stage, node_id)
        session_id, timeout_ms = self.session.session_id, self.session.timeout_ms
        password = self.session.password
        client.connect(
            **{
                "timeout_ms": timeout_ms,
                "session_id": session_id,
                "password": password,
                "last_zxid": self.last_zxid,
                **given,
            }
        )
        return client

    def hold_reading(self, held: bool) -> None:
        assert self._transport is not None
        self._transport.hold_reading(held)

    # the network's side

    def opened(self, transport: Transport) -> None:
        self._transport = transport

    def room(self) -> memoryview | None:
        return None

    def receive(self, view: memoryview) -> None:
        if not view and self._transport is not None:
            self._transport.close("closed by the server")
        self.data += view
        while (
            not self.raw
            and len(self.data) >= 4
            and len(self.data) >= (end := 4 + int.from_bytes(self.data[:4]))
        ):
            self._packet(bytes(self.data[4:end]))
            del self.data[:end]

    def _packet(self, packet: bytes) -> None:
        if self.session is None:
            self.session = jute.decode_connected(packet)
            return
        xid, zxid, error = jute.REPLY_HEADER.unpack_from(packet)
        body = packet[jute.REPLY_HEADER.size :]
        if xid == -1:
            kind, state, path = jute.EVENT.decode(body)
            assert state == 3
            self.log.append(Event(kind, path, zxid))
        else:
            self.last_zxid = max(self.last_zxid, zxid)
            self.log.append(Reply(xid, zxid, error, body))

    def take_output(self) -> list[bytes]:
        output, self._output = self._output, []
        return output

    def closed(self, reason: str) -> None:
        self.closed_because = reason
        self._transport = None
