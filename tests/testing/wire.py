"""Requests of the tests of faults: one request to one node, and frames on a plain socket."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

from raftka.client.blocking.client import check
from raftka.testing import Cluster
from raftka.wire.frame import encode_request
from raftka.wire.messages.fetch import FETCH, FetchRequest
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.groups import LIST_GROUPS
from raftka.wire.messages.produce import PRODUCE, ProduceRequest
from raftka.wire.records import build_batch
from raftka.wire.schema import AnyApi, Api, Req, Resp, Row

BATCH = bytes(build_batch([(None, b"x", [], 1)]))


def address(cluster: Cluster, node: int = 1) -> tuple[str, int]:
    host, _, port = cluster.bootstrap_servers.split(",")[node - 1].rpartition(":")
    return host, int(port)


class Wire:
    """A connection to one node."""

    def __init__(self, sock: socket.socket, stream: BinaryIO, client_id: str) -> None:
        self._sock = sock
        self._stream = stream
        self._client_id = client_id
        self._numbers = 0

    def send(self, api: AnyApi, version: int, *requests: Row) -> None:
        """Send them in one piece."""
        frames = b""
        for request in requests:
            self._numbers += 1
            frames += encode_request(api, version, self._numbers, self._client_id, request)
        self._sock.sendall(frames)

    def read(self, api: Api[Req, Resp], version: int) -> Resp:
        """Raises EOFError when the connection ends."""
        size = self._stream.read(4)
        if len(size) < 4:
            raise EOFError
        frame = self._stream.read(int.from_bytes(size))
        skipped = 5 if version in api.flexible and api.key != 18 else 4
        return api.decode_response(version, memoryview(frame), skipped)[0]

    def ask(self, api: Api[Req, Resp], version: int, request: Req) -> Resp:
        self.send(api, version, request)
        return self.read(api, version)

    def read_raw(self, size: int) -> bytes:
        return self._stream.read(size)


@contextmanager
def connect(cluster: Cluster, node: int = 1, client_id: str = "t") -> Iterator[Wire]:
    with (
        socket.create_connection(address(cluster, node), timeout=10) as sock,
        sock.makefile("rb") as stream,
    ):
        yield Wire(sock, stream, client_id)


def coordinator(cluster: Cluster, group: str) -> int:
    """Return the node that coordinates the group, when it does."""

    def found() -> int:
        with connect(cluster) as wire:
            row = wire.ask(FIND_COORDINATOR, 3, FIND_COORDINATOR.request(key=group))
        check(row.error_code)
        with connect(cluster, row.node_id) as wire:
            check(wire.ask(LIST_GROUPS, 0, LIST_GROUPS.request()).error_code)
        return row.node_id

    return cluster.wait_for(found)


def produce(
    topics: dict[str, Sequence[int]], acks: int = -1, topic_ids: dict[str, bytes] | None = None
) -> ProduceRequest:
    rows = PRODUCE.request.topic_data
    return PRODUCE.request(
        acks=acks,
        timeout_ms=5000,
        topic_data=[
            rows(
                name=name,
                topic_id=(topic_ids or {}).get(name, bytes(16)),
                partition_data=[
                    rows.partition_data(index=index, records=BATCH) for index in indexes
                ],
            )
            for name, indexes in topics.items()
        ],
    )


def fetch(
    topic: str, partitions: Sequence[int], *, session: tuple[int, int] = (0, -1), wait_ms: int = 0
) -> FetchRequest:
    """`session`: id and epoch."""
    rows = FETCH.request.topics
    return FETCH.request(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1_000_000,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            rows(
                topic=topic,
                partitions=[
                    rows.partitions(partition=each, fetch_offset=0, partition_max_bytes=100_000)
                    for each in partitions
                ],
            )
        ]
        if partitions
        else [],
    )
