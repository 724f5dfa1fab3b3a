"""A cluster as a task or a driver asks it, over blocking sockets: who leads what, which offsets there are. Knows no records.

Connections stay open in the worker's process, for the tasks that come later: Spark uses a worker for many. What may pass is asked again until the
patience is over, counted from the last answer that was one.
"""

import os
import socket
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Generic, NamedTuple

from raftka.pipeline.errors import PipelineError, Unreachable
from raftka.pipeline.options import Address
from raftka.pipeline.planning import Topic
from raftka.pipeline.positions import Where
from raftka.wire.client import ClientConnection
from raftka.wire.errors import Code
from raftka.wire.messages.list_offsets import LIST_OFFSETS, ListOffsetsRequest
from raftka.wire.messages.metadata import METADATA, MetadataResponse
from raftka.wire.schema import ZERO_UUID, AnyApi, Api, Req, Resp

CONNECT_S = 5.0
ANSWER_S = 40.0  # a broker may hold an answer for 30 s, as Kafka's request.timeout.ms has it
BUFFER_BYTES = 64 * 1024
PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
UNKNOWN_S = 5.0  # so long a broker may be behind the one that has made a topic
PASSING = {Code.UNKNOWN_LEADER_EPOCH, Code.OFFSET_NOT_AVAILABLE, Code.NOT_LEADER_OR_FOLLOWER, Code.LEADER_NOT_AVAILABLE}


class Broken(OSError):
    """A connection that is no more, or an answer that did not come in time."""


class Leader(NamedTuple):
    node_id: int
    epoch: int


class Connection:
    """One request at a time is waited for; one more may be on its way. It is its core's `Transport`, in which nothing happens by itself."""

    def __init__(self, address: Address, client_id: str, wait_s: float = ANSWER_S) -> None:
        """Raises OSError."""
        self.address = address
        self.peer = name_of(address)
        self._core = ClientConnection(client_id)
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._socket = socket.create_connection(address, min(CONNECT_S, wait_s))
        self._socket.settimeout(wait_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._core.opened(self)

    def wake(self) -> None:
        """Asked by the core; what it has to say leaves at the next `_flush`."""

    def close(self, reason: str = "not needed any more") -> None:
        self._socket.close()
        if self._core.close_reason is None:
            self._core.closed(reason)

    drop = close

    def hold_reading(self, held: bool) -> None:
        """Never asked by a client's side."""

    def left(self) -> bool:
        """Never asked by a client's side."""
        return False

    def version_of(self, api: AnyApi) -> int:
        """Raises OSError, and PipelineError when there is none."""
        while not self._core.ready:
            self._receive()
        version = self._core.version_of(api)
        if version is None:
            raise PipelineError(f"{self.peer} knows no version of {api.name} that we know: brokers from Kafka 0.11 on are read")
        return version

    def send(self, api: Api[Req, Resp], row: Req, version: int | None = None) -> "Reply[Resp]":
        reply: Reply[Resp] = Reply(self)
        self._core.request(api, row, reply.came, version)
        self._flush()
        return reply

    def wait(self, reply: "Reply[Resp]") -> Resp:
        """Its record bytes are valid until the next one is waited for. Raises OSError."""
        while not reply.is_there:
            self._receive()
        if reply.row is None:
            raise Broken(f"{self.peer}: {reply.why}")
        return reply.row

    def _flush(self) -> None:
        if output := self._core.take_output():
            self._socket.sendall(b"".join(output))

    def _receive(self) -> None:
        if self._core.close_reason is not None:
            raise Broken(f"{self.peer}: {self._core.close_reason}")
        self._flush()
        room = self._core.room()
        room = self._buffer if room is None else room
        size = self._socket.recv_into(room)
        self._core.receive(room[:size])
        self._flush()


class Reply(Generic[Resp]):
    def __init__(self, connection: Connection) -> None:
        self.row: Resp | None = None
        self.why: str | None = None
        self.is_there = False
        self._connection = connection

    def came(self, row: Resp | None, why: str | None) -> None:
        self.row, self.why, self.is_there = row, why, True

    def wait(self) -> Resp:
        return self._connection.wait(self)


class Patience:
    """Pauses between tries, longer ones as they fail, until it is over. Any success begins it anew."""

    def __init__(self, seconds: float, what: str) -> None:
        self._seconds, self._what = seconds, what
        self.begin()

    def begin(self) -> None:
        self._end = time.monotonic() + self._seconds
        self._pause = PAUSE_S

    def wait(self, why: object) -> None:
        """Raises Unreachable when it is over."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise Unreachable(
                f"{self._what}: nobody answered for {self._seconds:g} s; last: {why}. The checkpoint stays where it is: start the query again when "
                "the brokers are back, or give them more time with kafkaConsumer.pollTimeoutMs"
            )
        time.sleep(min(self._pause, left))
        self._pause = min(2 * self._pause, LONGEST_PAUSE_S)


class Brokers:
    """Of one cluster. Not for several threads at once."""

    def __init__(
        self, bootstrap: Sequence[Address], client_id: str, patience_s: float, *, read_committed: bool = False, wait_s: float = ANSWER_S
    ) -> None:
        """`wait_s`: for one answer."""
        self.bootstrap, self.patience_s = tuple(bootstrap), patience_s
        self._client_id, self._read_committed, self._wait_s = client_id, read_committed, wait_s
        self._idle: dict[Address, list[Connection]] = {}
        self._nodes: dict[int, Address] = {}
        self._leaders: dict[Where, Leader] = {}
        self._ids: dict[str, str] = {}
        self.missing: set[str] = set()  # topics that were asked for and not known

    # connections

    def take(self, address: Address) -> Connection:
        """Raises OSError."""
        idle = self._idle.get(address)
        return idle.pop() if idle else Connection(address, self._client_id, self._wait_s)

    def give(self, connection: Connection) -> None:
        """Nothing is under way on it."""
        self._idle.setdefault(connection.address, []).append(connection)

    def drop_idle(self, address: Address) -> None:
        """One of them was dead: others of its age may be."""
        for connection in self._idle.pop(address, []):
            connection.close()

    def close(self) -> None:
        for address in list(self._idle):
            self.drop_idle(address)

    def ask(self, address: Address, api: Api[Req, Resp], row: Req, version: int | None = None) -> Resp:
        """Once, but for a connection that was idle and has died meanwhile. Raises OSError."""
        fresh = not self._idle.get(address)
        connection = self.take(address)
        try:
            answer = connection.send(api, row, version).wait()
        except OSError:
            connection.close()
            if fresh:
                raise
            self.drop_idle(address)
            return self.ask(address, api, row, version)
        except BaseException:
            connection.close()
            raise
        self.give(connection)
        return answer

    def ask_any(self, api: Api[Req, Resp], row: Req, version: int | None = None) -> Resp:
        """Whoever answers first. Raises the last one's OSError."""
        failure: OSError = Broken("no broker is known")
        for address in dict.fromkeys([*self._nodes.values(), *self.bootstrap]):
            try:
                return self.ask(address, api, row, version)
            except OSError as error:
                failure = type(error)(f"{name_of(address)}: {error}") if not isinstance(error, Broken) else error
        raise failure

    # who leads what

    def refresh(self, names: Collection[str] | None) -> MetadataResponse:
        """Metadata of these topics, or of all. Raises OSError."""
        topics = None if names is None else [METADATA.request.topics(name=name) for name in sorted(names)]
        answer = self.ask_any(METADATA, METADATA.request(topics=topics, allow_auto_topic_creation=False))
        self._nodes = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        for topic in answer.topics:
            name = topic.name or ""
            (self.missing.add if topic.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION else self.missing.discard)(name)
            self._ids[name] = "" if topic.topic_id == ZERO_UUID else topic.topic_id.hex()
            for each in topic.partitions:
                self._leaders[name, each.partition_index] = Leader(each.leader_id, each.leader_epoch)
        return answer

    def leader(self, where: Where) -> tuple[Address, int] | None:
        """Its address and the leader epoch, as far as known; None: nobody leads it."""
        if where not in self._leaders:
            self.refresh([where[0]])
        leader = self._leaders.get(where, Leader(-1, -1))
        address = self._nodes.get(leader.node_id)
        return None if address is None else (address, leader.epoch)

    def topic_id(self, topic: str) -> str:
        return self._ids.get(topic, "")

    def forget(self, topic: str) -> None:
        """Who leads it: somebody said it is otherwise."""
        for where in [where for where in self._leaders if where[0] == topic]:
            del self._leaders[where]

    # what planning asks

    def names(self) -> Sequence[str]:
        return sorted(
            topic.name or "" for topic in self._refreshed(None, "the names of all topics").topics if not topic.is_internal and not topic.error_code
        )

    def topics(self, names: Collection[str]) -> Mapping[str, Topic]:
        if not names:
            return {}
        answer = self._refreshed(names, f"topics {', '.join(sorted(names))}")
        return {
            topic.name: Topic(self.topic_id(topic.name), tuple(sorted(each.partition_index for each in topic.partitions)))
            for topic in answer.topics
            if topic.name is not None and not topic.error_code
        }

    def _refreshed(self, names: Collection[str] | None, what: str) -> MetadataResponse:
        patience = Patience(self.patience_s, what)
        while True:
            try:
                answer = self.refresh(names)
            except OSError as error:
                patience.wait(error)
                continue
            if denied := [topic.name for topic in answer.topics if topic.error_code == Code.TOPIC_AUTHORIZATION_FAILED]:
                raise PipelineError(f"topic {denied[0]}: TOPIC_AUTHORIZATION_FAILED. The user of this connection needs DESCRIBE and READ on it")
            bad = [topic for topic in answer.topics if topic.error_code in (Code.LEADER_NOT_AVAILABLE, Code.UNKNOWN_SERVER_ERROR)]
            if not bad:
                return answer
            patience.wait(f"{bad[0].name}: {code_name(bad[0].error_code)}")

    def pause(self) -> None:
        time.sleep(UNKNOWN_S / 5)

    def offsets(self, asked: Mapping[Where, int]) -> dict[Where, int]:
        """ListOffsets at every leader, asked again where one has changed."""
        patience = Patience(self.patience_s, f"the offsets of {len(asked)} partitions, {'-'.join(map(str, min(asked)))} among them" if asked else "")
        found: dict[Where, int] = {}
        while left := {where: time_ms for where, time_ms in asked.items() if where not in found}:
            why = self._offsets_once(left, found)
            if found.keys() < asked.keys():
                for topic in {topic for topic, _ in asked.keys() - found.keys()}:
                    self.forget(topic)
                patience.wait(why)
        return found

    def _offsets_once(self, asked: Mapping[Where, int], found: dict[Where, int]) -> object:
        """Why not all were found."""
        why: object = None
        by_leader: dict[Address, list[Where]] = {}
        try:
            for where in asked:
                led = self.leader(where)
                if led is None:
                    why = f"{where[0]}-{where[1]} has no leader"
                else:
                    by_leader.setdefault(led[0], []).append(where)
        except OSError as error:
            return error
        for address, wheres in by_leader.items():
            try:
                answer = self.ask(address, LIST_OFFSETS, self._offsets_request({where: asked[where] for where in wheres}))
            except OSError as error:
                why = f"{name_of(address)}: {error}"
                continue
            for topic in answer.topics:
                for each in topic.partitions:
                    if each.error_code == 0:
                        found[topic.name, each.partition_index] = each.offset
                    else:
                        why = self._refused(topic.name, each)
        return why

    def _offsets_request(self, asked: Mapping[Where, int]) -> ListOffsetsRequest:
        topics: dict[str, list[Any]] = {}
        for (topic, partition), time_ms in asked.items():
            one = LIST_OFFSETS.request.topics.partitions(partition_index=partition, timestamp=time_ms)
            topics.setdefault(topic, []).append(one)
        rows = [LIST_OFFSETS.request.topics(name=name, partitions=partitions) for name, partitions in topics.items()]
        return LIST_OFFSETS.request(isolation_level=int(self._read_committed), topics=rows, timeout_ms=int(ANSWER_S * 500))

    def _refused(self, topic: str, each: Any) -> str:
        text = f"{topic}-{each.partition_index}: {code_name(each.error_code)}"
        if not Code(each.error_code).retriable:
            raise PipelineError(f"{text} in answer to ListOffsets")
        return text


def name_of(address: Address) -> str:
    return f"{address[0]}:{address[1]}"


def code_name(code: int) -> str:
    return Code(code).name if code in Code._value2member_map_ else f"error {code}"


_KEPT: dict[tuple[Any, ...], Brokers] = {}


def kept_brokers(bootstrap: Sequence[Address], client_id: str, patience_s: float, *, read_committed: bool = False) -> Brokers:
    """The ones of this process, with their connections: a process that was forked has its own."""
    key = (os.getpid(), tuple(bootstrap), client_id, patience_s, read_committed)
    if key not in _KEPT:
        _KEPT[key] = Brokers(bootstrap, client_id, patience_s, read_committed=read_committed)
    return _KEPT[key]
