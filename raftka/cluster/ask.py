"""One request to one broker over a blocking socket, above all: who leads what. For views and probes, where a client would be too much."""

import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

from raftka.wire.frame import decode_response_header, encode_request
from raftka.wire.messages.cluster import DESCRIBE_CLUSTER
from raftka.wire.messages.metadata import METADATA, MetadataResponse
from raftka.wire.schema import Api, Req, Resp

TIMEOUT_SECONDS = 2.0
PAUSE_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class PartitionView:
    topic: str
    partition: int
    leader: int  # -1: none
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClusterView:
    brokers: dict[int, tuple[str, int]]  # those that are not fenced, and for a moment those that died
    controller: int
    partitions: tuple[PartitionView, ...]

    def of(self, topic: str) -> list[PartitionView]:
        return sorted((p for p in self.partitions if p.topic == topic), key=lambda p: p.partition)

    def leader_address(self, topic: str, partition: int) -> tuple[str, int]:
        return self.brokers[self.of(topic)[partition].leader]


def ask(address: tuple[str, int], topics: Sequence[str] | None = None, timeout: float = TIMEOUT_SECONDS) -> ClusterView:
    """Metadata of these topics, or of all. Raises OSError when the broker does not answer in time (seconds)."""
    wanted = None if topics is None else [METADATA.request.topics(name=name) for name in topics]
    return _view(call(address, METADATA, METADATA.request(topics=wanted, allow_auto_topic_creation=False), timeout=timeout))


def call(address: tuple[str, int], api: Api[Req, Resp], request: Req, *, timeout: float = TIMEOUT_SECONDS, version: int | None = None) -> Resp:
    """One request on a connection of its own, in the newest version unless told. Raises OSError when no answer comes in time (seconds)."""
    version = api.max_version if version is None else version
    with socket.create_connection(address, timeout) as sock:
        sock.sendall(encode_request(api, version, 1, "raftka", request))
        frame = memoryview(_exactly(sock, int.from_bytes(_exactly(sock, 4))))
    return api.decode_response(version, frame, decode_response_header(frame, api, version)[1])[0]


def ask_any(addresses: Sequence[tuple[str, int]], topics: Sequence[str] | None = None, timeout: float = TIMEOUT_SECONDS) -> ClusterView:
    """From the first that answers. Raises the last one's OSError."""
    failure = OSError("no broker to ask")
    for address in addresses:
        try:
            return ask(address, topics, timeout)
        except OSError as error:
            failure = error
    raise failure


def wait_for_brokers(addresses: Sequence[tuple[str, int]], count: int, deadline: float) -> bool:
    """Until each of them lists so many brokers as alive; False when that was not so at `deadline` (of time.monotonic)."""
    for address in addresses:
        while _brokers_listed_by(address) < count:
            if time.monotonic() > deadline:
                return False
            time.sleep(PAUSE_SECONDS)
    return True


def _brokers_listed_by(address: tuple[str, int]) -> int:
    try:
        return len(call(address, DESCRIBE_CLUSTER, DESCRIBE_CLUSTER.request(), version=0).brokers)
    except OSError:
        return 0


def _exactly(sock: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = sock.recv(min(size - len(parts), 65536))
        if not part:
            raise ConnectionResetError("the broker closed the connection")
        parts += part
    return bytes(parts)


def _view(row: MetadataResponse) -> ClusterView:
    partitions = tuple(
        PartitionView(topic.name or "", p.partition_index, p.leader_id, p.leader_epoch, tuple(p.replica_nodes), tuple(p.isr_nodes))
        for topic in row.topics
        for p in topic.partitions
    )
    return ClusterView({broker.node_id: (broker.host, broker.port) for broker in row.brokers}, row.controller_id, partitions)
