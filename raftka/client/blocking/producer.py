"""Records to topics, acknowledged by all in-sync replicas unless told, each batch once however
often it has to be sent.

One request is under way at each leader, with one batch for each partition. A batch that was not
answered is sent again with the sequence number that it had, and brokers know it by that. What a
producer wrote before it died counts if its transaction is committed: `transaction.py`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from raftka.client.blocking.client import Client, Where, by_topic, check, is_retriable
from raftka.client.blocking.connection import Connection, Reply
from raftka.client.blocking.transaction import Identity, add_partitions
from raftka.wire.errors import Code, KafkaError, name_of_code
from raftka.wire.messages.produce import (
    PRODUCE,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
)
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.records import NewRecord, build_batch

BATCH_BYTES = 256 * 1024  # about; a quarter of the largest that brokers take unless told
WAITING_BYTES = 2 << 20  # of all partitions; then all of it is sent
ALL = -1  # acks: all in-sync replicas
RECORD_BYTES = 12  # what a record takes beside its key and value
TIMEOUT_MS = 30_000
BY_NAME = 12  # the last version of Produce with names of topics
ADDED_BEFORE = 11  # the last one whose transactions have only partitions that were added (KIP-890)
TOO_LARGE = {Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE}
SEQUENCES = 1 << 31


class Batch(NamedTuple):
    where: Where
    data: bytes
    records: int
    largest_bytes: int


# brokers do not number its batches: one that is sent twice may be there twice
NOBODY = Identity(-1, -1)
OnWritten = Callable[[Where, int, int], None]


class Producer:
    def __init__(
        self,
        client: Client,
        *,
        compression: int = 0,
        identity: Identity | None = None,
        max_batch_bytes: int = BATCH_BYTES,
        acks: int = ALL,
        on_written: OnWritten = lambda where, offset, records: None,
    ) -> None:
        """`on_written`: called with the partition, the offset of a batch (-1 with acks 0: not
        known) and how many records it has.
        """
        self.written = 0  # acknowledged records
        self._client, self._compression, self._identity = client, compression, identity
        self._max_batch_bytes = max_batch_bytes
        self._acks, self._on_written = acks, on_written
        self._waiting: dict[Where, list[NewRecord]] = {}
        self._sizes: dict[Where, int] = {}
        self._waiting_bytes = 0
        self._sequences: dict[Where, int] = {}
        self._added: set[Where] = set()  # to the transaction
        self._flying: list[Batch] = []
        self._replies: list[tuple[Connection, Reply[ProduceResponse], list[Batch]]] = []

    @property
    def partitions(self) -> frozenset[Where]:
        """The partitions that it has written to under its identity."""
        return frozenset(self._sequences)

    def add(self, where: Where, record: NewRecord) -> None:
        """Raises KafkaError and Unreachable, also for what was added before."""
        key, value, headers, _ = record
        size = (
            RECORD_BYTES
            + len(key or b"")
            + len(value or b"")
            + sum(len(name) + len(content or b"") + 4 for name, content in headers)
        )
        if where in self._sizes and self._sizes[where] + size > self._max_batch_bytes:
            self.send()
        self._waiting.setdefault(where, []).append(record)
        self._sizes[where] = self._sizes.get(where, 0) + size
        self._waiting_bytes += size
        if self._waiting_bytes > WAITING_BYTES:
            self.send()

    def flush(self) -> None:
        """Returns when everything is acknowledged."""
        self.send()
        self._land()

    def send(self) -> None:
        """Batches are made while the last ones are on their way."""
        batches = [self._batch(where, records) for where, records in self._waiting.items()]
        self._waiting, self._sizes, self._waiting_bytes = {}, {}, 0
        self._land()
        self._flying = batches
        if batches:
            self._join_transaction()
            self._start_all(batches)

    def _batch(self, where: Where, records: Sequence[NewRecord]) -> Batch:
        identity = self._known()
        sequence = -1
        if identity.producer_id >= 0:
            sequence = self._sequences.get(where, 0)
            self._sequences[where] = (sequence + len(records)) % SEQUENCES
        data = build_batch(
            records,
            compression=self._compression,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=sequence,
            transactional=identity.transactional_id is not None,
        )
        return Batch(
            where,
            bytes(data),
            len(records),
            max(len(record[0] or b"") + len(record[1] or b"") for record in records),
        )

    def _known(self) -> Identity:
        if self._identity is None:
            self._identity = new_identity(self._client)
        return self._identity

    def _join_transaction(self) -> None:
        """Add the partitions that are written to for the first time."""
        identity, new = self._known(), {batch.where for batch in self._flying} - self._added
        if identity.transactional_id is not None and new:
            add_partitions(self._client, identity, new)
            self._added |= new

    def _start_all(self, batches: Sequence[Batch]) -> object:
        """Send all that wait; return the error where not all could be sent."""
        why: object
        by_where = {batch.where: batch for batch in batches}
        version = BY_NAME if self._known().transactional_id is None else ADDED_BEFORE
        try:
            by_leader, why = self._client.by_leader(by_where)
        except OSError as error:
            return error
        for address, wheres in by_leader.items():
            own = [by_where[where] for where in wheres]
            try:
                connection = self._client.take(address)
            except OSError as error:
                why = error
                continue
            try:
                self._replies.append(
                    (connection, connection.send(PRODUCE, self._request(own), version), own)
                )
            except OSError as error:
                connection.close()
                why = error
        return why

    def _request(self, batches: Sequence[Batch]) -> ProduceRequest:
        topic = PRODUCE.request.topic_data
        topics = by_topic(
            (batch.where, topic.partition_data(index=batch.where[1], records=batch.data))
            for batch in batches
        )
        rows = [topic(name=name, partition_data=partitions) for name, partitions in topics.items()]
        return PRODUCE.request(
            transactional_id=self._known().transactional_id,
            acks=self._acks,
            timeout_ms=TIMEOUT_MS,
            topic_data=rows,
        )

    def _land(self) -> None:
        """Until all that flies is acknowledged."""
        if not self._flying:
            return
        patience = self._client.patience(f"writing to {'-'.join(map(str, self._flying[0].where))}")
        while True:
            why = self._answers()
            if not self._flying:
                return
            for where in {batch.where for batch in self._flying}:
                self._client.forget_leaders(where[0])
            patience.wait(why)
            self._start_all(self._flying)

    def _answers(self) -> object:
        """Take the answers; return the error where some batches are not acknowledged."""
        why: object = "no leader"
        replies, self._replies = self._replies, []
        for connection, reply, batches in replies:
            if self._acks == 0:
                self._client.give(connection)
                for batch in batches:
                    self._landed(batch, -1)
                continue
            try:
                answer = reply.wait()
            except OSError as error:
                connection.close()
                self._client.drop_idle(connection.address)
                why = error
                continue
            self._client.give(connection)
            by_where = {batch.where: batch for batch in batches}
            for topic in answer.responses:
                for each in topic.partition_responses:
                    why = self._answered(by_where[topic.name, each.index], each) or why
        return why

    def _answered(self, batch: Batch, answer: PartitionProduceResponse) -> str | None:
        code = answer.error_code
        if code in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER):
            self._landed(batch, answer.base_offset)
            return None
        where = f"{batch.where[0]}-{batch.where[1]}"
        if code in TOO_LARGE:
            raise KafkaError(
                Code(code),
                f"{where} takes no batch of {len(batch.data)} bytes with {batch.records} records, "
                f"the largest of {batch.largest_bytes}: "
                "raise the topic's max.message.bytes, or make smaller batches",
            )
        if code == Code.UNKNOWN_SERVER_ERROR or is_retriable(code):
            return f"{where}: {name_of_code(code)}"
        check(
            code,
            f"{where}, in answer to Produce"
            + (f" ({answer.error_message})" if answer.error_message else ""),
        )
        return None

    def _landed(self, batch: Batch, offset: int) -> None:
        self._flying.remove(batch)
        self.written += batch.records
        self._on_written(batch.where, offset, batch.records)


def new_identity(client: Client) -> Identity:
    """From any broker. Raises KafkaError and Unreachable."""
    answer = client.ask(
        INIT_PRODUCER_ID,
        INIT_PRODUCER_ID.request(transactional_id=None, transaction_timeout_ms=TIMEOUT_MS),
        passing=is_retriable,
    )
    check(answer.error_code, "in answer to InitProducerId: this user may not write idempotently")
    return Identity(answer.producer_id, answer.producer_epoch)


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition to which Kafka's own producers send this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """MurmurHash2 with Kafka's seed, 32 bits."""
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    mixed = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * factor & mask
        mixed = (mixed * factor & mask) ^ ((word ^ word >> 24) * factor & mask)
    if whole < len(data):
        mixed = (mixed ^ int.from_bytes(data[whole:], "little")) * factor & mask
    mixed = (mixed ^ mixed >> 13) * factor & mask
    return mixed ^ mixed >> 15
