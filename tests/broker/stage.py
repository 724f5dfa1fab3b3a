"""Unmodified nodes in a simulated world, and connections to them that say what they like: bytes, or
requests of any version, on virtual time.
"""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from struct import pack
from types import TracebackType
from typing import IO, Any, Self

from raftka.broker.network.connection import ServerConnection
from raftka.broker.node import Node
from raftka.broker.replica.partition import Partition
from raftka.client.connection import Wrap
from raftka.metadata.configs.settings import NodeSettings
from raftka.runtime.interfaces import Runtime, Transport
from raftka.runtime.simulated.disk import Inode
from raftka.runtime.simulated.tasks import NodeStopped
from raftka.runtime.simulated.world import World
from raftka.wire.frame import decode_response_header, encode_request
from raftka.wire.messages.configs import INCREMENTAL_ALTER_CONFIGS
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.topics import CREATE_TOPICS, DELETE_TOPICS
from raftka.wire.schema import AnyApi, Api, Req, Resp

AT_MOST_S = 60.0
CLIENT_PORT, CONTROLLER_PORT = 9092, 9093
BY_NAME = {PRODUCE.key: 12, FETCH.key: 12}  # the last versions that name topics


class Wire:
    """One client's connection."""

    def __init__(
        self,
        world: World,
        runtime: Any,
        host: str,
        port: int = CLIENT_PORT,
        wrap: Wrap | None = None,
    ) -> None:
        self.world = world
        self.frames: list[bytes] = []
        self.close_reason: str | None = None
        self.correlation_id = 0
        self.client_id = "test"
        self._data = bytearray()
        self._output: list[bytes] = []
        self._transport: Transport | None = None
        runtime.network.connect(host, port, self if wrap is None else wrap(self, host))

    # what a test does

    def send(self, data: bytes) -> None:
        self._output.append(data)
        if self._transport is not None:
            self._transport.wake()

    def send_frame(self, body: bytes) -> None:
        self.send(pack(">i", len(body)) + body)

    def request(self, api: Api[Req, Resp], row: Req, version: int | None = None) -> int:
        """Returns the correlation id."""
        self.correlation_id += 1
        self.send(
            encode_request(api, _version(api, version), self.correlation_id, self.client_id, row)
        )
        return self.correlation_id

    def frame(self) -> bytes | None:
        """The next answer, None when the other side closes instead."""
        assert self.world.run(
            lambda: bool(self.frames) or self.close_reason is not None, at_most_s=AT_MOST_S
        ), "no answer"
        return self.frames.pop(0) if self.frames else None

    def answer(self, api: Api[Req, Resp], version: int | None = None) -> Resp:
        data = self.frame()
        assert data is not None, f"closed: {self.close_reason}"
        return decoded(api, _version(api, version), data)

    def ask(self, api: Api[Req, Resp], row: Req, version: int | None = None) -> Resp:
        self.request(api, row, version)
        return self.answer(api, version)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close("the test is done with it")

    def hold_reading(self, held: bool) -> None:
        assert self._transport is not None
        self._transport.hold_reading(held)

    # the network's side

    def opened(self, transport: Transport) -> None:
        self._transport = transport

    def room(self) -> memoryview | None:
        return None

    def receive(self, view: memoryview) -> None:
        if not view:
            self.close()
        self._data += view
        while len(self._data) >= 4 and len(self._data) >= (
            end := 4 + int.from_bytes(self._data[:4])
        ):
            self.frames.append(bytes(self._data[4:end]))
            del self._data[:end]

    def take_output(self) -> Sequence[bytes]:
        output, self._output = self._output, []
        return output

    def closed(self, reason: str) -> None:
        self.close_reason = reason
        self._transport = None


class Stage:
    """A cluster that is ready: node i on machine `n<i>`, all of them voters. Settings are written
    with `_` for `.`.
    """

    def __init__(
        self,
        nodes: int = 1,
        seed: int = 1,
        *,
        wait: bool = True,
        files: Mapping[str, str] | None = None,
        **settings: str,
    ) -> None:
        """`files`: on every node's disk before it starts, by path."""
        self.world = World(seed)
        self.files = files or {}
        self.size = nodes
        self.settings = settings
        self.nodes: dict[int, Node] = {}
        self.refused: dict[int, Exception] = {}  # what kept a node from starting
        self.logs: dict[int, io.StringIO] = {}
        self.runtime = self.world.node("client")
        for node_id in range(1, nodes + 1):
            self.start(node_id)
        if wait:
            self.wait(lambda: all(node.ready.is_set() for node in self.nodes.values()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.world.close()

    def properties(self, node_id: int) -> dict[str, str]:
        return {
            "node.id": str(node_id),
            "process.roles": "broker,controller",
            "listeners": (
                f"PLAINTEXT://n{node_id}:{CLIENT_PORT},CONTROLLER://n{node_id}:{CONTROLLER_PORT}"
            ),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(
                f"{i}@n{i}:{CONTROLLER_PORT}" for i in range(1, self.size + 1)
            ),
            "log.dirs": "/data",
            "min.insync.replicas": "2" if self.size > 2 else "1",
            "default.replication.factor": str(min(3, self.size)),
            "offsets.topic.replication.factor": str(min(3, self.size)),
            "transaction.state.log.replication.factor": str(min(3, self.size)),
            "transaction.state.log.min.isr": "2" if self.size > 2 else "1",
            "share.coordinator.state.topic.replication.factor": str(min(3, self.size)),
            "share.coordinator.state.topic.min.isr": "2" if self.size > 2 else "1",
            **{name.replace("_", "."): value for name, value in self.settings.items()},
        }

    def start(
        self, node_id: int, properties: Mapping[str, str] | None = None, *, disk: str | None = None
    ) -> Node:
        """`properties` take the place of what is planned. `disk`: on that machine's."""
        runtime = self.world.node(f"n{node_id}", disk)
        for path, text in self.files.items():
            self.put(path, text, node_id)
        given = self.properties(node_id) | dict(properties or {})
        node = self.make(
            runtime,
            NodeSettings.from_properties(given),
            self.logs.setdefault(node_id, io.StringIO()),
        )
        self.nodes[node_id] = node
        runtime.take(lambda _: self._start(node_id, node), None)
        return node

    def make(self, runtime: Runtime, settings: NodeSettings, log: IO[str]) -> Node:
        return Node(runtime, settings, log)

    def _start(self, node_id: int, node: Node) -> None:
        try:
            node.start()
        except NodeStopped:
            raise
        except Exception as error:  # the command line ends with it
            self.refused[node_id] = error
            self.kill(node_id)
            raise NodeStopped from error

    def put(self, path: str, text: str, node_id: int = 1) -> None:
        """Write a file on a node's disk, in place of the one before."""
        directory, name = self.world.disk(f"n{node_id}").parent(path)
        directory.change({name: Inode(text.encode())})

    def kill(self, node_id: int, *, power_loss: bool = False) -> None:
        self.world.kill(f"n{node_id}", power_loss=power_loss)
        self.nodes.pop(node_id)

    def events(self, name: str, node_id: int = 1) -> list[dict[str, Any]]:
        """The lines of that event in a node's log."""
        lines = [json.loads(line) for line in self.logs[node_id].getvalue().splitlines()]
        return [line for line in lines if line["event"] == name]

    def counted(self, name: str, node_id: int = 1) -> int:
        """A counter of a node."""
        return self.nodes[node_id].metrics.counters.get(name, 0)

    def wire(self, node_id: int = 1) -> Wire:
        return Wire(self.world, self.runtime, f"n{node_id}")

    def wait(self, condition: Callable[[], bool], at_most_s: float = AT_MOST_S) -> None:
        assert self.world.run(condition, at_most_s=at_most_s), "it did not come to that"

    def server_side(self, node_id: int = 1) -> ServerConnection:
        """The connection that was accepted last."""
        return list(self.nodes[node_id].dispatcher.connections)[-1]

    # requests that many tests make

    def create(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        *,
        opened: bool = True,
    ) -> bytes:
        """The new topic's id; all nodes know it and, if they can, have opened their replicas. Names
        of settings with `_` for `.`.
        """
        request = CREATE_TOPICS.request
        given = [
            request.topics.configs(name=key.replace("_", "."), value=value)
            for key, value in (configs or {}).items()
        ]
        topic = request.topics(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=given,
        )
        (created,) = self.wire().ask(CREATE_TOPICS, request(topics=[topic])).topics
        assert created.error_code == 0, created
        self.wait(
            lambda: all(
                self._opened(node, name) if opened else node.image.topic_named(name)
                for node in self.nodes.values()
            )
        )
        return bytes(created.topic_id)

    @staticmethod
    def _opened(node: Node, name: str) -> bool:
        topic = node.image.topic_named(name)
        return topic is not None and all(
            node.node_id not in partition.replicas
            or not node.settings.is_broker
            or (name, index) in node.replicas.partitions
            for index, partition in enumerate(topic.partitions)
        )

    def set(self, kind: int, name: str, *, node_id: int = 1, **configs: str | None) -> None:
        """Settings of a resource, with `_` for `.`; None: back to the default. All nodes know
        it.
        """
        request = INCREMENTAL_ALTER_CONFIGS.request
        row = request.resources.configs
        given = [
            row(name=key.replace("_", "."), config_operation=int(value is None), value=value)
            for key, value in configs.items()
        ]
        resource = request.resources(resource_type=kind, resource_name=name, configs=given)
        (answer,) = (
            self.wire(node_id)
            .ask(INCREMENTAL_ALTER_CONFIGS, request(resources=[resource]))
            .responses
        )
        assert answer.error_code == 0, answer
        newest = max(node.image.offset for node in self.nodes.values())
        self.wait(lambda: all(node.image.offset >= newest for node in self.nodes.values()))

    def delete(self, name: str, node_id: int = 1) -> None:
        request = DELETE_TOPICS.request
        self.wire(node_id).ask(
            DELETE_TOPICS, request(topics=[request.topics(name=name)], timeout_ms=5000)
        )

    def leader(self, topic: str, partition: int = 0) -> int:
        """As the node has it that knows most."""
        newest = max(self.nodes.values(), key=lambda node: node.image.offset)
        known = newest.image.topic_named(topic)
        assert known is not None
        return known.partitions[partition].leader

    def partition(self, topic: str, partition: int = 0, node_id: int | None = None) -> Partition:
        """The replica on that node, on its leader by default."""
        return self.nodes[node_id or self.leader(topic, partition)].replicas.partitions[
            topic, partition
        ]


def _version(api: AnyApi, version: int | None) -> int:
    return BY_NAME.get(api.key, api.max_version) if version is None else version


def decoded(api: Api[Req, Resp], version: int, data: bytes) -> Resp:
    """The whole frame must be the answer."""
    view = memoryview(data)
    row, end = api.decode_response(version, view, decode_response_header(view, api, version)[1])
    assert end == len(data)
    return row
