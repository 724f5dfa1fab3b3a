"""A small Kafka client on the runtime door, for simulated clusters: finds leaders, produces
idempotently with acks=all, reads everything back.

As a client that knows KIP-320 it names the leader epoch it believes in, and never goes back to an
older one.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import trio

from raftka.chaos.simulated.clients.shapes import PLAIN, Shape
from raftka.client.connection import PLAIN as UNSECURED
from raftka.client.connection import ClientConnection, Secured, open_connection
from raftka.runtime.interfaces import Runtime
from raftka.wire.errors import Code
from raftka.wire.messages.fetch import FETCH, FetchRequest, FetchResponse, PartitionData
from raftka.wire.messages.list_offsets import LATEST, LIST_OFFSETS, ListOffsetsRequest
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.produce import PRODUCE, ProduceRequest
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.messages.share_fetch import ShareFetchResponse
from raftka.wire.messages.topics import CREATE_TOPICS
from raftka.wire.records import (
    LOG_APPEND_TIME,
    BatchHeader,
    Record,
    build_batch,
    iterate,
    records_of,
)
from raftka.wire.rows import ZERO_UUID
from raftka.wire.schema import AnyApi, Api, Req, Resp, Row

RETRY_S = 0.1
REQUEST_S = 3.0
PRODUCE_TIMEOUT_MS = 2000
FETCH_BYTES = 65536

TELLS_EPOCHS = 7  # the first version of Metadata that does
# how a connection says that it could not read an answer, or that it came out of turn
ANSWER_IS_WRONG = "the broker's answer"

Address = tuple[str, int]
PASSES = frozenset(
    {
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.LEADER_NOT_AVAILABLE,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_ID,
        Code.REQUEST_TIMED_OUT,
        Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.OFFSET_NOT_AVAILABLE,
        Code.KAFKA_STORAGE_ERROR,
        Code.FENCED_LEADER_EPOCH,
        Code.UNKNOWN_LEADER_EPOCH,
    }
)


CREATION_PASSES = frozenset(
    {Code.REQUEST_TIMED_OUT, Code.NOT_CONTROLLER, Code.INVALID_REPLICATION_FACTOR}
)


class NoAnswer(Exception):
    """The connection is gone, or time is up."""


class Leader(NamedTuple):
    address: Address
    epoch: int


class Client:
    def __init__(
        self,
        runtime: Runtime,
        bootstrap: Sequence[Address],
        shape: Shape = PLAIN,
        secured: Secured = UNSECURED,
    ) -> None:
        self.runtime = runtime
        self.bootstrap = list(bootstrap)
        self.shape = shape
        self._secured = secured
        self.wrong: list[str] = []  # answers that could not be read, or came out of turn
        self.producer_ids: list[int] = []  # that it was given
        # of topics that it has asked for, if its versions tell
        self.topic_ids: dict[str, bytes] = {}
        self._leaders: dict[tuple[str, int], Leader] = {}
        self._epochs: dict[tuple[str, int], int] = {}  # the latest that was heard of
        self._connections: dict[Address, ClientConnection] = {}
        self._turn = 0

    # asking

    async def ask(
        self,
        address: Address,
        api: Api[Req, Resp],
        row: Req,
        timeout_s: float = REQUEST_S,
        version: int | None = None,
    ) -> Resp:
        """One request. `version`: the highest that it may have. Raises NoAnswer."""
        (answer,) = await self.ask_all(address, api, [row], timeout_s, version)
        if answer is None:
            raise NoAnswer
        return answer

    async def ask_all(
        self,
        address: Address,
        api: Api[Req, Resp],
        rows: Sequence[Req],
        timeout_s: float = REQUEST_S,
        version: int | None = None,
    ) -> list[Resp | None]:
        """Many requests on one connection, in order, none waiting for another; None where no answer
        came.
        """
        return await self.ask_many(address, [(api, row) for row in rows], timeout_s, version)

    async def ask_many(
        self,
        address: Address,
        questions: Sequence[tuple[AnyApi, Row]],
        timeout_s: float = REQUEST_S,
        version: int | None = None,
    ) -> list[Any]:
        """The same of different APIs."""
        answered = trio.Event()
        answers: list[Any] = []

        def on_reply(reply: Row | None, error: str | None) -> None:
            answers.append(_kept(reply))
            if len(answers) == len(questions):
                answered.set()

        connection = self._connection(address)
        for api, row in questions:
            connection.request(
                api, row, on_reply, self.shape.version(api) if version is None else version
            )
        with trio.move_on_after(timeout_s):
            await answered.wait()
        if len(answers) < len(questions):
            self._drop(address)
        return answers + [None] * (len(questions) - len(answers))

    def _connection(self, address: Address) -> ClientConnection:
        connection = self._connections.get(address)
        if connection is None or connection.close_reason is not None:
            closed = partial(self._closed, address)
            connection = self._connections[address] = open_connection(
                self.runtime.network,
                address,
                self.shape.name,
                on_closed=closed,
                secured=self._secured,
            )
        return connection

    def _closed(self, address: Address, reason: str) -> None:
        if reason.startswith(ANSWER_IS_WRONG):
            self.wrong.append(f"{self.shape.name} at {address[0]}: {reason}")

    def _drop(self, address: Address, reason: str = "no answer came") -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close(reason)

    def hang_up(self, address: Address) -> None:
        """Close the connection to this address, if there is one."""
        self._drop(address, "the client hangs up")

    async def anybody(self, api: Api[Req, Resp], row: Req) -> Resp:
        """Ask one broker after the other until one answers."""
        while True:
            self._turn += 1
            try:
                return await self.ask(self.bootstrap[self._turn % len(self.bootstrap)], api, row)
            except NoAnswer:
                await trio.sleep(RETRY_S)

    # leaders

    async def leader(self, topic: str, partition: int) -> Leader:
        while (topic, partition) not in self._leaders:
            await self._refresh(topic)
            if (topic, partition) not in self._leaders:
                await trio.sleep(RETRY_S)
        return self._leaders[topic, partition]

    async def _refresh(self, topic: str) -> None:
        row = await self.anybody(
            METADATA,
            METADATA.request(
                topics=[METADATA.request.topics(name=topic)], allow_auto_topic_creation=False
            ),
        )
        brokers = {broker.node_id: (broker.host, broker.port) for broker in row.brokers}
        for found in row.topics:
            if found.topic_id != ZERO_UUID:
                self.topic_ids[topic] = bytes(found.topic_id)
            for partition in found.partitions:
                key = topic, partition.partition_index
                if partition.leader_id in brokers and partition.leader_epoch >= self._epochs.get(
                    key, -1
                ):
                    self._epochs[key] = partition.leader_epoch
                    self._leaders[key] = Leader(
                        brokers[partition.leader_id], partition.leader_epoch
                    )

    @property
    def knows_epochs(self) -> bool:
        """Return whether its version of Metadata has leader epochs; else it may go back to an
        earlier leader, which does not know that it is none.
        """
        version = self.shape.version(METADATA)
        return version is None or version >= TELLS_EPOCHS

    async def topic_id(self, topic: str) -> bytes:
        """Zeros: its versions of Metadata do not tell, and no request of its wants it."""
        if topic not in self.topic_ids:
            await self._refresh(topic)
        return self.topic_ids.get(topic, ZERO_UUID)

    async def lost_leader(self, topic: str, partition: int) -> None:
        """Look for another leader a little later: this one gave no answer, or an error."""
        self._leaders.pop((topic, partition), None)
        await trio.sleep(RETRY_S)

    async def lost_leaders(self, places: Iterable[tuple[str, int]]) -> None:
        """As `lost_leader`, of several partitions."""
        for place in places:
            self._leaders.pop(place, None)
        await trio.sleep(RETRY_S)

    async def ask_leader(
        self, topic: str, partition: int, api: Api[Req, Resp], row: Req, *also: Code
    ) -> Any:
        """The partition's answer: asked again, perhaps of another, as long as it is an error that
        passes. `also`: errors that are an answer too.
        """
        while True:
            leader = await self.leader(topic, partition)
            try:
                found = only_partition(api, await self.ask(leader.address, api, row))
            except NoAnswer:
                pass
            else:
                if found.error_code in (Code.NONE, *also):
                    return found
                assert Code(found.error_code) in PASSES, Code(found.error_code)
            await self.lost_leader(topic, partition)

    # what a test does

    async def create_topic(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        configs: dict[str, str] | None = None,
        replicas: Sequence[int] = (),
    ) -> None:
        """`replicas`: those of each partition, instead of a replication factor."""
        request = CREATE_TOPICS.request
        given = [
            request.topics.configs(name=key, value=value) for key, value in (configs or {}).items()
        ]
        topic = request.topics(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=given,
        )
        if replicas:
            topic.num_partitions = topic.replication_factor = -1
            topic.assignments = [
                request.topics.assignments(partition_index=each, broker_ids=replicas)
                for each in range(partitions)
            ]
        while True:
            row = await self.anybody(CREATE_TOPICS, request(topics=[topic], timeout_ms=3000))
            code = Code(row.topics[0].error_code)
            if code in (Code.NONE, Code.TOPIC_ALREADY_EXISTS):
                return
            assert code in CREATION_PASSES, code
            await trio.sleep(RETRY_S)

    async def producer_id(self) -> int:
        while True:
            row = await self.anybody(
                INIT_PRODUCER_ID, INIT_PRODUCER_ID.request(transaction_timeout_ms=60000)
            )
            if row.error_code == Code.NONE:
                self.producer_ids.append(int(row.producer_id))
                return int(row.producer_id)
            await trio.sleep(RETRY_S)

    async def produce(
        self, topic: str, partition: int, values: Sequence[bytes], producer_id: int, sequence: int
    ) -> int:
        """Returns the base offset once all in-sync replicas have it; tries for ever."""
        now = self.runtime.clock.wall_ms()
        batch = build_batch(
            [(None, value, (), now) for value in values],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        )
        answer = await self.ask_leader(
            topic, partition, PRODUCE, self.produce_row(topic, partition, batch)
        )
        return int(answer.base_offset)

    def produce_row(
        self, topic: str, partition: int, batch: bytearray, acks: int = -1
    ) -> ProduceRequest:
        return produce_row(topic, partition, batch, acks, self.topic_ids.get(topic, ZERO_UUID))

    async def end_offset(self, topic: str, partition: int) -> int:
        """The end of the committed records at the time of the call."""
        return int(
            (
                await self.ask_leader(topic, partition, LIST_OFFSETS, end_row(topic, partition))
            ).offset
        )

    async def read_all(self, topic: str, partition: int) -> list[bytes]:
        """Everything that is committed when this is called."""
        return [value for _, value in await self.read_with_offsets(topic, partition)]

    async def read_with_offsets(self, topic: str, partition: int) -> list[tuple[int, bytes]]:
        return [
            (record.offset, record.value or b"")
            for record in await self.read_records(topic, partition)
        ]

    async def read_records(self, topic: str, partition: int) -> list[Record]:
        """Everything that is committed when this is called. Markers count as records."""
        batches = await self.read_batches(topic, partition)
        return [record for _, records in batches for record in records]

    async def read_batches(
        self, topic: str, partition: int
    ) -> list[tuple[BatchHeader, list[Record]]]:
        """As `read_records`, each batch with its header."""
        found: list[tuple[BatchHeader, list[Record]]] = []
        offset, end = 0, await self.end_offset(topic, partition)
        while offset < end:
            answer = await self.ask_leader(
                topic, partition, FETCH, fetch_row(topic, partition, offset)
            )
            for header, batch in iterate(memoryview(answer.records or b"")):
                records = [each for each in records_of(batch) if each.offset >= offset]
                found.append((header, records))
                offset = header.last_offset + 1
        return found


def produce_row(
    topic: str, partition: int, batch: bytearray, acks: int = -1, topic_id: bytes = ZERO_UUID
) -> ProduceRequest:
    request = PRODUCE.request
    data = request.topic_data(
        name=topic,
        topic_id=topic_id,
        partition_data=[request.topic_data.partition_data(index=partition, records=batch)],
    )
    return request(acks=acks, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[data])


def fetch_row(
    topic: str, partition: int, offset: int, epoch: int = -1, last_epoch: int = -1
) -> FetchRequest:
    request = FETCH.request
    asked = request.topics.partitions(
        partition=partition,
        fetch_offset=offset,
        current_leader_epoch=epoch,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=FETCH_BYTES,
    )
    return request(
        max_wait_ms=500, min_bytes=1, topics=[request.topics(topic=topic, partitions=[asked])]
    )


def end_row(topic: str, partition: int, epoch: int = -1) -> ListOffsetsRequest:
    request = LIST_OFFSETS.request
    asked = request.topics.partitions(
        partition_index=partition, current_leader_epoch=epoch, timestamp=LATEST
    )
    return request(topics=[request.topics(name=topic, partitions=[asked])])


class Batch(NamedTuple):
    """One that was read."""

    next_offset: int
    epoch: int
    records: list[tuple[int, bytes]]  # offset, value
    times: list[int]  # ms, of each record


def batches_of(answer: PartitionData, offset: int) -> Iterator[Batch]:
    """The answer's, without what is before `offset`."""
    for header, batch in iterate(memoryview(answer.records or b"")):
        found = [record for record in records_of(batch) if record.offset >= offset]
        stamped = header.attributes & LOG_APPEND_TIME
        times = [header.max_timestamp if stamped else record.timestamp for record in found]
        yield Batch(
            header.last_offset + 1,
            header.leader_epoch,
            [(record.offset, record.value or b"") for record in found],
            times,
        )


def only_partition(api: AnyApi, answer: Any) -> Any:
    if api is PRODUCE:
        return answer.responses[0].partition_responses[0]
    if api is FETCH:
        return answer.responses[0].partitions[0]
    return answer.topics[0].partitions[0]


def _kept(reply: Row | None) -> Row | None:
    """The records of a Fetch or a ShareFetch are lent to us for this turn only."""
    if isinstance(reply, FetchResponse | ShareFetchResponse):
        for topic in reply.responses:
            for partition in topic.partitions:
                partition.records = bytes(partition.records or b"")
    return reply
