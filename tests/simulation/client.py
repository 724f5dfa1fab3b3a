"""A small Kafka client on the runtime door, for simulated clusters: finds leaders, produces idempotently with acks=all, reads everything back."""

from collections.abc import Sequence
from typing import Any

import trio

from raftka.runtime.door import Runtime
from raftka.wire.client import ClientConnection
from raftka.wire.errors import Code
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.list_offsets import LATEST, LIST_OFFSETS
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.messages.topics import CREATE_TOPICS
from raftka.wire.records import build_batch, iterate, records_of
from raftka.wire.schema import Api, Row

RETRY_S = 0.1
REQUEST_S = 3.0

BY_NAME = {PRODUCE.key: 12, FETCH.key: 12}  # later versions know topics by id only

Address = tuple[str, int]


class NoAnswer(Exception):
    """The connection is gone, or time is up."""


class Client:
    def __init__(self, runtime: Runtime, bootstrap: Sequence[Address]) -> None:
        self.runtime = runtime
        self.bootstrap = list(bootstrap)
        self.leaders: dict[tuple[str, int], Address] = {}
        self._connections: dict[Address, ClientConnection] = {}
        self._turn = 0

    async def ask(self, address: Address, api: Api, row: Row, timeout_s: float = REQUEST_S) -> Any:
        """One request. Raises NoAnswer."""
        answered = trio.Event()
        outcome: list[Any] = []

        def on_reply(reply: Row | None, error: str | None) -> None:
            outcome.extend((reply, error))
            if api is FETCH and reply is not None:  # its records are lent to us for this turn only
                for topic in reply.responses:
                    for partition in topic.partitions:
                        partition.records = bytes(partition.records or b"")
            answered.set()

        self._connection(address).request(api, row, on_reply, BY_NAME.get(api.key))
        with trio.move_on_after(timeout_s):
            await answered.wait()
        if not outcome:
            self._drop(address)
            raise NoAnswer("time is up")
        if outcome[0] is None:
            raise NoAnswer(outcome[1])
        return outcome[0]

    def _connection(self, address: Address) -> ClientConnection:
        connection = self._connections.get(address)
        if connection is None or connection.close_reason is not None:
            connection = self._connections[address] = ClientConnection("simulated")
            self.runtime.network.connect(*address, connection)
        return connection

    def _drop(self, address: Address) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close("no answer came")

    async def anybody(self, api: Api, row: Row) -> Any:
        """Ask one broker after the other until one answers."""
        while True:
            self._turn += 1
            try:
                return await self.ask(self.bootstrap[self._turn % len(self.bootstrap)], api, row)
            except NoAnswer:
                await trio.sleep(RETRY_S)

    async def refresh(self, topic: str) -> None:
        row = await self.anybody(METADATA, METADATA.request(topics=[METADATA.request.topics(name=topic)], allow_auto_topic_creation=False))
        brokers = {broker.node_id: (broker.host, broker.port) for broker in row.brokers}
        for found in row.topics:
            for partition in found.partitions:
                if partition.leader_id in brokers:
                    self.leaders[topic, partition.partition_index] = brokers[partition.leader_id]

    async def _leader(self, topic: str, partition: int) -> Address:
        while (topic, partition) not in self.leaders:
            await self.refresh(topic)
            if (topic, partition) not in self.leaders:
                await trio.sleep(RETRY_S)
        return self.leaders[topic, partition]

    async def ask_leader(self, topic: str, partition: int, api: Api, row: Row) -> Row:
        """The partition's answer: asked again, perhaps of another, as long as it is an error that passes."""
        while True:
            try:
                answer = await self.ask(await self._leader(topic, partition), api, row)
            except NoAnswer:
                pass
            else:
                found = _only_partition(api, answer)
                if found.error_code == Code.NONE:
                    return found
                assert Code(found.error_code) in PASSES, Code(found.error_code)
            self.leaders.pop((topic, partition), None)
            await trio.sleep(RETRY_S)

    # what a test does

    async def create_topic(self, name: str, partitions: int, replication_factor: int, configs: dict[str, str] | None = None) -> None:
        request = CREATE_TOPICS.request
        given = [request.topics.configs(name=key, value=value) for key, value in (configs or {}).items()]
        topic = request.topics(name=name, num_partitions=partitions, replication_factor=replication_factor, configs=given)
        while True:
            row = await self.anybody(CREATE_TOPICS, request(topics=[topic], timeout_ms=3000))
            if row.topics[0].error_code in (Code.NONE, Code.TOPIC_ALREADY_EXISTS):
                return
            await trio.sleep(RETRY_S)

    async def producer_id(self) -> int:
        while True:
            row = await self.anybody(INIT_PRODUCER_ID, INIT_PRODUCER_ID.request(transaction_timeout_ms=60000))
            if row.error_code == Code.NONE:
                return int(row.producer_id)
            await trio.sleep(RETRY_S)

    async def produce(self, topic: str, partition: int, values: Sequence[bytes], producer_id: int, sequence: int) -> int:
        """Returns the base offset once all in-sync replicas have it; tries for ever."""
        now = self.runtime.clock.wall_ms()
        batch = build_batch([(None, value, (), now) for value in values], producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        request = PRODUCE.request
        data = request.topic_data(name=topic, partition_data=[request.topic_data.partition_data(index=partition, records=batch)])
        row = request(acks=-1, timeout_ms=2000, topic_data=[data])
        answer = await self.ask_leader(topic, partition, PRODUCE, row)
        return int(answer.base_offset)

    async def read_all(self, topic: str, partition: int) -> list[bytes]:
        """Everything that is committed when this is called."""
        request = LIST_OFFSETS.request
        wanted = request(topics=[request.topics(name=topic, partitions=[request.topics.partitions(partition_index=partition, timestamp=LATEST)])])
        end = (await self.ask_leader(topic, partition, LIST_OFFSETS, wanted)).offset
        values: list[bytes] = []
        offset = 0
        while offset < end:
            ask = FETCH.request
            asked = ask.topics.partitions(partition=partition, fetch_offset=offset, partition_max_bytes=65536)
            row = ask(max_wait_ms=500, min_bytes=1, topics=[ask.topics(topic=topic, partitions=[asked])])
            answer = await self.ask_leader(topic, partition, FETCH, row)
            for header, batch in iterate(memoryview(answer.records)):
                values += [record.value or b"" for record in records_of(batch) if record.offset >= offset]
                offset = header.last_offset + 1
        return values


PASSES = frozenset(
    {
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.LEADER_NOT_AVAILABLE,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.REQUEST_TIMED_OUT,
        Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.OFFSET_NOT_AVAILABLE,
        Code.KAFKA_STORAGE_ERROR,
        Code.FENCED_LEADER_EPOCH,
        Code.UNKNOWN_LEADER_EPOCH,
    }
)


def _only_partition(api: Api, answer: Row) -> Row:
    if api is PRODUCE:
        return answer.responses[0].partition_responses[0]  # type: ignore[no-any-return]
    if api is FETCH:
        return answer.responses[0].partitions[0]  # type: ignore[no-any-return]
    return answer.topics[0].partitions[0]  # type: ignore[no-any-return]
