"""The records of __transaction_state, as Kafka 4.3 writes and reads them, and the state of a
transactional id that one holds. Knows no rule.

Values are of version 1, the flexible one, whatever the feature `transaction.version` says: every
Kafka since 3.8 reads it. Kafka does not store the last epoch, so a new coordinator refuses the
producer whose answer to InitProducerId was lost; here it is a tagged field that others skip.

A record lists all partitions of its transaction, so n requests that add one partition each write n
* n / 2 of them: the format is Kafka's. What is encoded is kept by topic, and a record is those
pieces joined.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from struct import Struct as Layout
from struct import pack
from typing import NamedTuple

from raftka.coordinator.machine import Record
from raftka.coordinator.records import kind
from raftka.versions import TRANSACTION
from raftka.wire.decoder import Decoder, compile_decoder
from raftka.wire.errors import ProtocolError
from raftka.wire.notation import parse_row
from raftka.wire.rows import ZERO_UUID

TRANSACTION_KEY = 0
NO_PRODUCER_ID, NO_EPOCH, NO_TIME = -1, -1, -1
NO_TIMEOUT_MS = 2**31 - 1  # a transaction that is never timed out (KIP-939)


class State(IntEnum):
    """As they are written. Kafka's Dead (6) and PrepareEpochFence (7) never are."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def shown(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))


class TopicPartitions(NamedTuple):
    """Those of one topic in a transaction. `topic_id`: the topic that had the name when they were
    added; zero: not known. It is not stored.
    """

    topic_id: bytes
    indexes: frozenset[int]
    encoded: bytes


@dataclass(frozen=True, slots=True)
class Partitions:
    """Of a transaction, by topic; never changed in place."""

    topics: dict[str, TopicPartitions] = field(default_factory=dict)
    count: int = 0
    size_bytes: int = 0  # encoded

    def __contains__(self, partition: tuple[str, int]) -> bool:
        known = self.topics.get(partition[0])
        return known is not None and partition[1] in known.indexes


class Growing:
    """Partitions of a transaction, to which topics are added one after the other."""

    def __init__(self, partitions: Partitions) -> None:
        self._topics = partitions.topics.copy()
        self._count = partitions.count
        self._size_bytes = partitions.size_bytes

    def add(self, name: str, topic_id: bytes, indexes: set[int]) -> None:
        """A topic that was made again under its name takes the old one's place, whose partitions
        are gone.
        """
        known = self._topics.get(name)
        if known is not None:
            self._count -= len(known.indexes)
            self._size_bytes -= len(known.encoded)
            if topic_id in (known.topic_id, ZERO_UUID) or known.topic_id == ZERO_UUID:
                indexes = indexes | known.indexes
                topic_id = known.topic_id if topic_id == ZERO_UUID else topic_id
        now = self._topics[name] = TopicPartitions(
            topic_id, frozenset(indexes), _encoded(name, indexes)
        )
        self._count += len(now.indexes)
        self._size_bytes += len(now.encoded)

    def partitions(self) -> Partitions:
        return Partitions(self._topics, self._count, self._size_bytes)


NONE = Partitions()


@dataclass(frozen=True, slots=True)
class Transaction:
    """All that is known of a transactional id: its producer and its last transaction."""

    producer_id: int
    epoch: int
    timeout_ms: int
    state: State = State.EMPTY
    partitions: Partitions = NONE
    # when the first partition was added; stays when the transaction is over
    start_ms: int = NO_TIME
    update_ms: int = NO_TIME
    previous_producer_id: int = NO_PRODUCER_ID  # the one before, whose epochs ran out
    next_producer_id: int = NO_PRODUCER_ID  # takes over when the transaction is complete
    version: int = 0  # of the transaction: 2 if its end raises the epoch
    last_epoch: int = NO_EPOCH  # that the producer knows if the last answer was lost


# writing

_HEAD = Layout(">hqhib")  # version, producer id, epoch, time-out, state
_TIMES = Layout(">qq")
_KEY = Layout(">hh")
_TAG_ID, _TAG_SHORT = Layout(">BBq"), Layout(">BBh")
PREVIOUS_TAG, NEXT_TAG, VERSION_TAG, LAST_EPOCH_TAG = 0, 1, 2, 1000


def transaction_key(transactional_id: str) -> bytes:
    name = transactional_id.encode()
    return _KEY.pack(TRANSACTION_KEY, len(name)) + name


def transaction_record(transactional_id: str, transaction: Transaction) -> Record:
    return Record(transaction_key(transactional_id), _value(transaction))


def tombstone(transactional_id: str) -> Record:
    return Record(transaction_key(transactional_id), None)


def _value(transaction: Transaction) -> bytes:
    its = transaction
    topics = its.partitions.topics
    listed = _varint(len(topics) + 1) if its.state is not State.EMPTY else b"\0"  # null
    tags = []
    if its.previous_producer_id != NO_PRODUCER_ID:
        tags.append(_TAG_ID.pack(PREVIOUS_TAG, 8, its.previous_producer_id))
    if its.next_producer_id != NO_PRODUCER_ID:
        tags.append(_TAG_ID.pack(NEXT_TAG, 8, its.next_producer_id))
    if its.version:
        tags.append(_TAG_SHORT.pack(VERSION_TAG, 2, its.version))
    if its.last_epoch != NO_EPOCH:
        tags.append(_varint(LAST_EPOCH_TAG) + pack(">Bh", 2, its.last_epoch))
    return b"".join(
        (
            _HEAD.pack(1, its.producer_id, its.epoch, its.timeout_ms, its.state),
            listed,
            *[topic.encoded for topic in topics.values()],
            _TIMES.pack(its.update_ms, its.start_ms),
            bytes((len(tags),)),
            *tags,
        )
    )


def _encoded(name: str, indexes: set[int]) -> bytes:
    text = name.encode()
    count = len(indexes)
    packed = pack(f">{count}i", *sorted(indexes))
    return _varint(len(text) + 1) + text + _varint(count + 1) + packed + b"\0"


_SHORT_VARINTS = [bytes((value,)) for value in range(128)]


def _varint(value: int) -> bytes:
    if value < 128:
        return _SHORT_VARINTS[value]
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


# reading


def read_key(key: bytes) -> str:
    """Raises ValueError."""
    if len(key) < 4 or 4 + (key[2] << 8 | key[3]) != len(key):
        raise ValueError(f"the key of a transactional id is cut: {key[:40]!r}")
    return key[4:].decode()


def read_value(value: bytes) -> Transaction:
    """Raises ValueError, NewerFormat."""
    version = kind(value)
    TRANSACTION.check(version, TRANSACTION.place)
    try:
        row, _ = _decoder(version)(memoryview(value), 2)
    except ProtocolError as error:
        raise ValueError(f"the value of a transactional id cannot be read: {error}") from error
    growing = Growing(NONE)
    for topic in row.transaction_partitions or ():
        growing.add(topic.topic, ZERO_UUID, set(topic.partition_ids))
    return Transaction(
        row.producer_id,
        row.producer_epoch,
        row.transaction_timeout_ms,
        State(row.transaction_status),
        growing.partitions(),
        row.transaction_start_timestamp_ms,
        row.transaction_last_update_timestamp_ms,
        row.previous_producer_id,
        row.next_producer_id,
        row.client_transaction_version,
        row.last_epoch,
    )


_VALUE = parse_row(
    "TransactionLogValue",
    """
    producer_id                 int64
    producer_epoch              int16
    transaction_timeout_ms      int32
    transaction_status          int8
    transaction_partitions PartitionsSchema[]?
        topic                   string
        partition_ids           int32[]
    transaction_last_update_timestamp_ms int64
    transaction_start_timestamp_ms int64
    previous_producer_id        int64=-1    1+ @0
    next_producer_id            int64=-1    1+ @1
    client_transaction_version  int16       1+ @2
    next_producer_epoch         int16=-1    1+ @3
    last_epoch                  int16=-1    1+ @1000
    """,
)


@cache
def _decoder(version: int) -> Decoder:
    return compile_decoder(_VALUE.struct, version, flexible=version >= 1, bounded=False)
