"""A client of the checker's own, a connection for each request: it sees what libraries hide,
raftka's own client included.

It sends batches again until they are acknowledged, reads with the leader's epoch and what the
answer says of its partition, asks for ends, commits and asks for offsets as no member of a group.
"""

import random
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from raftka.chaos.history import (
    ASSIGN,
    COMMIT,
    FAIL,
    FETCH_OFFSET,
    INFO,
    LIST_OFFSETS,
    OK,
    POLL,
    PRODUCE,
    Told,
)
from raftka.chaos.live.clients.roles import AGAIN_S, PAYLOAD_BYTES, QUIET_S, Task
from raftka.chaos.live.recorder import key, payload, polled
from raftka.json_values import Json
from raftka.wire.errors import Code, ProtocolError
from raftka.wire.frame import decode_response_header, encode_request
from raftka.wire.messages import list_offsets
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.offsets import OFFSET_COMMIT, OFFSET_FETCH
from raftka.wire.messages.produce import PRODUCE as PRODUCE_API
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.records import build_batch, iterate, records_of
from raftka.wire.schema import Api, Req, Resp

T = TypeVar("T")
NAME = "raftka's own"
GIVE_UP_S = 60.0
REQUEST_S = 5.0
PRODUCE_TIMEOUT_MS = 3000
BATCH_RECORDS = (1, 5)
FETCH_BYTES = 262_144
PAUSE_S = (0.05, 0.3)
# later ones know topics by id
BY_NAME = {
    PRODUCE_API.key: 12,
    FETCH.key: 12,
    OFFSET_COMMIT.key: 9,
    OFFSET_FETCH.key: 7,
    FIND_COORDINATOR.key: 3,
}


class NoAnswer(Exception):
    """From anybody who should know."""


Address = tuple[str, int]


def call(
    address: Address,
    api: Api[Req, Resp],
    request: Req,
    version: int,
    context: ssl.SSLContext | None = None,
) -> Resp:
    """In that version, whatever the broker says that it knows. Raises OSError and ProtocolError."""
    with (
        socket.create_connection(address, REQUEST_S) as plain,
        context.wrap_socket(plain, server_hostname=address[0]) if context else plain as sock,
    ):
        sock.sendall(encode_request(api, version, 1, "raftka", request))
        frame = memoryview(_exactly(sock, int.from_bytes(_exactly(sock, 4))))
    return api.decode_response(version, frame, decode_response_header(frame, api, version)[1])[0]


def _exactly(sock: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = sock.recv(min(size - len(parts), 65536))
        if not part:
            raise ConnectionResetError("the broker closed the connection")
        parts += part
    return bytes(parts)


class Wire:
    """A client's view of leaders; it never goes back to an older epoch."""

    def __init__(self, task: Task, seed: int) -> None:
        self.task = task
        self.random = random.Random(seed)
        self._servers = [
            (host, int(port))
            for host, _, port in (
                each.rpartition(":") for each in task.bootstrap.servers.split(",")
            )
        ]
        self._context = task.bootstrap.context()
        self._leaders: dict[int, tuple[Address, int]] = {}
        self._epochs: dict[int, int] = {}

    def ask(self, address: Address, api: Api[Req, Resp], row: Req) -> Resp:
        """Raises NoAnswer."""
        try:
            return call(address, api, row, BY_NAME.get(api.key, api.max_version), self._context)
        except (OSError, ProtocolError) as error:
            raise NoAnswer(repr(error)) from error

    def anybody(self, api: Api[Req, Resp], row: Req) -> Resp:
        return self.ask(self.random.choice(self._servers), api, row)

    def leader(self, partition: int) -> tuple[Address, int]:
        if partition not in self._leaders:
            self._refresh()
        if partition not in self._leaders:
            raise NoAnswer("nobody leads")
        return self._leaders[partition]

    def lost(self, partition: int) -> None:
        self._leaders.pop(partition, None)
        self.task.over.wait(self.random.uniform(0.02, 0.2))

    def _refresh(self) -> None:
        request = METADATA.request
        view = self.anybody(
            METADATA,
            request(topics=[request.topics(name=self.task.topic)], allow_auto_topic_creation=False),
        )
        brokers = {each.node_id: (each.host, each.port) for each in view.brokers}
        for each in (each for topic in view.topics for each in topic.partitions):
            if each.leader_id in brokers and each.leader_epoch >= self._epochs.get(
                each.partition_index, -1
            ):
                self._epochs[each.partition_index] = each.leader_epoch
                self._leaders[each.partition_index] = (brokers[each.leader_id], each.leader_epoch)

    def producer_id(self) -> int:
        row = self.anybody(
            INIT_PRODUCER_ID, INIT_PRODUCER_ID.request(transaction_timeout_ms=60_000)
        )
        if row.error_code:
            raise NoAnswer(Code(row.error_code).name)
        return int(row.producer_id)

    def fetch(
        self, partition: int, offset: int
    ) -> tuple[list[tuple[int, int, bytes | None]], int, Told]:
        """Records, where to go on, what was told. Raises NoAnswer."""
        address, epoch = self.leader(partition)
        request = FETCH.request
        asked = request.topics.partitions(
            partition=partition,
            fetch_offset=offset,
            current_leader_epoch=epoch,
            partition_max_bytes=FETCH_BYTES,
        )
        row = self.ask(
            address,
            FETCH,
            request(
                max_wait_ms=200,
                min_bytes=1,
                topics=[request.topics(topic=self.task.topic, partitions=[asked])],
            ),
        )
        found = row.responses[0].partitions[0]
        if found.error_code:
            raise NoAnswer(Code(found.error_code).name)
        records, goes_on = [], offset
        for header, batch in iterate(memoryview(found.records or b"")):
            records += [
                (partition, record.offset, _bytes(record.value))
                for record in records_of(batch)
                if record.offset >= offset
            ]
            goes_on = header.last_offset + 1
        return (
            records,
            goes_on,
            Told(epoch, found.log_start_offset, found.last_stable_offset, found.high_watermark),
        )

    def end(self, partition: int) -> tuple[int, Told]:
        address, epoch = self.leader(partition)
        request = list_offsets.LIST_OFFSETS.request
        asked = request.topics.partitions(
            partition_index=partition, current_leader_epoch=epoch, timestamp=list_offsets.LATEST
        )
        row = self.ask(
            address,
            list_offsets.LIST_OFFSETS,
            request(topics=[request.topics(name=self.task.topic, partitions=[asked])]),
        )
        found = row.topics[0].partitions[0]
        if found.error_code:
            raise NoAnswer(Code(found.error_code).name)
        return found.offset, Told(epoch, 0, found.offset, found.offset)

    def again(self, work: Callable[[], T], at_most_s: float, partition: int | None = None) -> T:
        """Raises the last NoAnswer when time is up."""
        end = time.monotonic() + at_most_s
        while True:
            try:
                return work()
            except NoAnswer:
                if time.monotonic() > end:
                    raise
                if partition is not None:
                    self.lost(partition)
                time.sleep(self.random.uniform(0.02, 0.2))


class WireProducing:
    """One batch at a time, on one partition after the other."""

    def __init__(self, task: Task, seed: int) -> None:
        self.task = task
        self.wire = Wire(task, seed)
        self._random = random.Random(seed)

    def run(self) -> None:
        while not self.task.over.is_set():
            try:
                self._produce(self.wire.producer_id())
            except NoAnswer:
                self.task.over.wait(AGAIN_S)

    def _produce(self, producer_id: int) -> None:
        """Until something was not acknowledged. Raises NoAnswer then."""
        sequences = dict.fromkeys(range(self.task.partitions), 0)
        process = self.task.recorder.process()
        name = f"own-{process}"
        while not self.task.over.is_set():
            partition = self._random.randrange(self.task.partitions)
            count = self._random.randint(*BATCH_RECORDS)
            values = [next(self.task.recorder.values) for _ in range(count)]
            where = key(self.task.topic, partition)
            self.task.recorder.invoke(
                process,
                PRODUCE,
                sends=[[where, value, None] for value in values],
                producer=name,
                epoch=0,
            )
            try:
                base = self._send(partition, values, producer_id, sequences[partition])
            except NoAnswer as error:
                self.task.recorder.end(process, INFO, error=str(error)[:200])
                raise
            self.task.recorder.end(
                process, OK, sends=[[where, value, base + i] for i, value in enumerate(values)]
            )
            sequences[partition] += count
            self.task.over.wait(count / self.task.per_s)

    def _send(self, partition: int, values: Sequence[int], producer_id: int, sequence: int) -> int:
        now = time.time_ns() // 1_000_000
        records = [
            (None, payload(value, self._random.randint(*PAYLOAD_BYTES)), (), now)
            for value in values
        ]
        batch = build_batch(
            records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence
        )
        request = PRODUCE_API.request
        data = request.topic_data(
            name=self.task.topic,
            partition_data=[request.topic_data.partition_data(index=partition, records=batch)],
        )

        def attempt() -> int:
            address, _ = self.wire.leader(partition)
            row = self.wire.ask(
                address,
                PRODUCE_API,
                request(acks=-1, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[data]),
            )
            answer = row.responses[0].partition_responses[0]
            if answer.error_code:
                raise NoAnswer(Code(answer.error_code).name)
            return int(answer.base_offset)

        return self.wire.again(attempt, GIVE_UP_S, partition)


class WireReading:
    """Reads with the epoch that it believes in, and now and then asks where a partition ends."""

    def __init__(self, task: Task, seed: int) -> None:
        self.task = task
        self.wire = Wire(task, seed)
        self._next = dict.fromkeys(range(task.partitions), 0)

    def run(self) -> None:
        process = self.task.recorder.process()
        self.task.recorder.at_once(process, ASSIGN, keys=self.task.keys)
        while not self.task.over.is_set():
            for partition in self._next:
                self._turn(process, partition)
            self.task.over.wait(self.wire.random.uniform(*PAUSE_S))

    def _turn(self, process: int, partition: int) -> None:
        recorder, where = self.task.recorder, key(self.task.topic, partition)
        asks_end = self.wire.random.random() < 0.1
        recorder.invoke(process, LIST_OFFSETS if asks_end else POLL)
        try:
            if asks_end:
                told = self.wire.end(partition)[1]
                recorder.end(process, OK, told={where: told})
                return
            records, goes_on, told = self.wire.fetch(partition, self._next[partition])
        except NoAnswer as error:
            recorder.end(process, FAIL, error=str(error)[:200])
            self.wire.lost(partition)
            return
        recorder.end(process, OK, polled=polled(self.task.topic, records), told={where: told})
        self._next[partition] = goes_on


class WireCommitting:
    """A group without members: commits numbers that rise, and asks for them."""

    def __init__(self, task: Task, seed: int, group: str = "own") -> None:
        self.task = task
        self.wire = Wire(task, seed)
        self.group = group
        self._coordinator: Address | None = None

    def run(self) -> None:
        offset = 0
        process = self.task.recorder.process()
        while not self.task.over.is_set():
            offset += 1
            partition = self.wire.random.randrange(self.task.partitions)
            where = key(self.task.topic, partition)
            self.task.recorder.invoke(process, COMMIT, group=self.group, offsets={where: offset})
            process = self._end(
                process,
                lambda partition=partition, offset=offset: self._commit(partition, offset),  # type: ignore[misc]
            )
            self.task.recorder.invoke(process, FETCH_OFFSET, group=self.group)
            process = self._end(
                process,
                lambda partition=partition, where=where: {  # type: ignore[misc]
                    "offsets": {where: self.committed(partition)}
                },
            )
            self.task.over.wait(self.wire.random.uniform(*PAUSE_S))

    def _end(self, process: int, work: Callable[[], Mapping[str, Json]]) -> int:
        try:
            body = work()
        except NoAnswer as error:
            self.lost()
            self.task.recorder.end(process, INFO, error=str(error)[:200])
            self.task.over.wait(AGAIN_S)
            return self.task.recorder.process()
        self.task.recorder.end(process, OK, **body)
        return process

    def lost(self) -> None:
        self._coordinator = None

    def _ask(self, api: Api[Req, Resp], row: Req) -> Resp:
        if self._coordinator is None:
            found = self.wire.anybody(
                FIND_COORDINATOR, FIND_COORDINATOR.request(key=self.group, key_type=0)
            )
            if found.error_code:
                raise NoAnswer(Code(found.error_code).name)
            self._coordinator = (found.host, found.port)
        return self.wire.ask(self._coordinator, api, row)

    def _commit(self, partition: int, offset: int) -> Mapping[str, Json]:
        request = OFFSET_COMMIT.request
        asked = request.topics.partitions(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        row = self._ask(
            OFFSET_COMMIT,
            request(
                group_id=self.group,
                member_id="",
                topics=[request.topics(name=self.task.topic, partitions=[asked])],
            ),
        )
        if code := row.topics[0].partitions[0].error_code:
            raise NoAnswer(Code(code).name)
        return {}

    def committed(self, partition: int) -> int:
        """Raises NoAnswer."""
        request = OFFSET_FETCH.request
        topic = request.topics(name=self.task.topic, partition_indexes=[partition])
        row = self._ask(
            OFFSET_FETCH, request(group_id=self.group, topics=[topic], require_stable=True)
        )
        if row.error_code:
            raise NoAnswer(Code(row.error_code).name)
        found = row.topics[0].partitions[0]
        if found.error_code:
            raise NoAnswer(Code(found.error_code).name)
        return int(found.committed_offset)


def read_everything(task: Task, seed: int) -> str:
    """As `roles.read_everything`."""
    wire, process = Wire(task, seed), task.recorder.process()
    task.recorder.at_once(process, ASSIGN, keys=task.keys)
    try:
        for partition in range(task.partitions):
            end = wire.again(lambda partition=partition: wire.end(partition)[0], QUIET_S, partition)  # type: ignore[misc]
            reached = 0
            while reached < end:
                records, reached, _ = wire.again(
                    lambda p=partition, at=reached: wire.fetch(p, at),  # type: ignore[misc]
                    QUIET_S,
                    partition,
                )
                if records:
                    task.recorder.at_once(process, POLL, polled=polled(task.topic, records))
    except NoAnswer as error:
        return f"{NAME}: {error}"
    return ""


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
