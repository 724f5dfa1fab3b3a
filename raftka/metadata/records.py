"""Records of the metadata log: one class for each kind, and the encoding of a batch as the bytes of
one Raft entry.

A record has the result of a decision, not the request: replaying it needs no decision. Fields are
plain values that msgpack knows; nested ones are tuples. A kind keeps its number for ever; a new
field comes last, with a default, under a higher version (NUMBERS).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgpack

from raftka.versions import ELR_LEVEL, Features, NewerFormat, newest_level
from raftka.wire.errors import Code, KafkaError

Replicas = tuple[int, ...]
# msgpack begins with 256 KiB by itself, a mapping of its own where the heap is full: 20 us
# (runtime/real/allocator.py)
PACKED_BYTES = 4096


class UnknownRecord(NewerFormat):
    """A kind or version this node does not know: it is too old for the cluster's level of
    raftka.version and must stop, not guess.
    """


class LevelTooLow(KafkaError):
    """The record needs a higher level of raftka.version than the cluster has."""


class NoOp(NamedTuple):
    pass


class ClusterFormed(NamedTuple):
    """The first record of a cluster's life, written once."""

    cluster_id: str


class FeatureLevelSet(NamedTuple):
    name: str
    level: int  # 0: not finalized any more


class BrokerRegistered(NamedTuple):
    """The broker's epoch is the offset of this record, so a later registration fences every earlier
    one (KIP-631). It begins fenced.
    """

    broker_id: int
    incarnation_id: bytes  # 16 random bytes, new with every start of the process
    directory_id: bytes  # of meta.properties: changes only with the disk
    endpoints: tuple[tuple[str, str, int, str], ...]  # (listener, host, port, security protocol)
    rack: str | None = None
    more_directories: tuple[bytes, ...] = ()  # from version 1 on: ids of its other log directories
    # not there this time, but they may come back with all that lies in them
    missing_directories: tuple[bytes, ...] = ()
    features: Features = ()  # from version 2 on: what its release supports
    # from version 3 on: it flushes what it acknowledges, so that its records survive a crash
    flushes: bool = False


class BrokerFenced(NamedTuple):
    broker_id: int
    broker_epoch: int


class BrokerUnfenced(NamedTuple):
    broker_id: int
    broker_epoch: int


class BrokerShuttingDown(NamedTuple):
    """Controlled shutdown has begun: no new leadership, no return to an ISR."""

    broker_id: int
    broker_epoch: int


class BrokerUnregistered(NamedTuple):
    broker_id: int
    broker_epoch: int


class BrokerDirectoryFailed(NamedTuple):
    """The broker goes on without it: it is missing, as if it had not been there at the
    registration.
    """

    broker_id: int
    broker_epoch: int
    directory_id: bytes


class TopicCreated(NamedTuple):
    name: str
    topic_id: bytes  # 16 bytes
    # (replicas in order of preference, isr, leader or -1), the index is the partition
    partitions: tuple[tuple[Replicas, Replicas, int], ...]


class PartitionChanged(NamedTuple):
    """The partition as it is from now on; what is None stays."""

    topic_id: bytes
    partition: int
    leader: int  # -1: none
    leader_epoch: int  # moves with the leader, and when a replica goes for good
    isr: Replicas
    partition_epoch: int  # moves with every change
    replicas: Replicas | None = None
    adding: Replicas | None = None  # from version 1 on: a reassignment under way (KIP-455)
    removing: Replicas | None = None
    # from version 2 on: replicas in directories that their brokers cannot use
    offline: Replicas | None = None
    # from version 3 on: eligible leader replicas (KIP-966)
    elr: Replicas | None = None
    last_known_elr: Replicas | None = None


class TopicDeleted(NamedTuple):
    """Takes the topic's configs with it."""

    topic_id: bytes


class PartitionsAdded(NamedTuple):
    """Behind those that the topic has."""

    topic_id: bytes
    first: int  # index of the first new one: as many as there were
    partitions: tuple[tuple[Replicas, Replicas, int], ...]  # as in TopicCreated


class ReplicasMarked(NamedTuple):
    """Replicas in a directory that their broker cannot use, or can use again. A few bytes each: all
    of a directory go into the entry that says so.
    """

    broker_id: int
    offline: bool
    topics: tuple[tuple[bytes, tuple[int, ...]], ...]  # (topic id, partitions)


class ConfigSet(NamedTuple):
    resource_type: int  # Kafka's: 2 topic, 4 broker
    resource: str  # "" for the default of all brokers
    name: str
    value: str | None  # None: back to the default


class ProducerIdsAllocated(NamedTuple):
    broker_id: int
    broker_epoch: int
    next_producer_id: int  # the first id that is not allocated


class AclAdded(NamedTuple):
    resource_type: int  # this and all other numbers: Kafka's
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


class AclRemoved(NamedTuple):
    resource_type: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


class ScramCredentialSet(NamedTuple):
    """A user's credential of one mechanism; an earlier one is gone."""

    mechanism: int  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
    user: str
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class ScramCredentialRemoved(NamedTuple):
    mechanism: int
    user: str


class ClientQuotaSet(NamedTuple):
    entity: tuple[tuple[str, str | None], ...]  # (type, name; None: the default of that type)
    key: str
    value: float | None  # None: removed


class ClusterSecretSet(NamedTuple):
    """Random bytes that no client learns: brokers make up from them what users that do not exist
    would have.
    """

    secret: bytes


class DelegationTokenAdded(NamedTuple):
    token_id: str
    owner: str  # this and the others are principals
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    hmac: bytes
    # (mechanism, salt, stored key, server key, iterations)
    credentials: tuple[tuple[int, bytes, bytes, bytes, int], ...]


class DelegationTokenRenewed(NamedTuple):
    token_id: str
    expires_ms: int


class DelegationTokenRemoved(NamedTuple):
    token_id: str


class ExtensionPut(NamedTuple):
    package: str
    key: bytes
    value: bytes


class ExtensionDelete(NamedTuple):
    package: str
    key: bytes


class ExtensionChanged(NamedTuple):
    """Many puts and deletes (value None), in order: what a package with many clients writes at
    once.
    """

    package: str
    changes: Sequence[tuple[bytes, bytes | None]]


Record = (
    NoOp
    | ClusterFormed
    | FeatureLevelSet
    | BrokerRegistered
    | BrokerFenced
    | BrokerUnfenced
    | BrokerShuttingDown
    | BrokerUnregistered
    | BrokerDirectoryFailed
    | TopicCreated
    | PartitionChanged
    | TopicDeleted
    | PartitionsAdded
    | ReplicasMarked
    | ConfigSet
    | ProducerIdsAllocated
    | AclAdded
    | AclRemoved
    | ScramCredentialSet
    | ScramCredentialRemoved
    | ClientQuotaSet
    | ClusterSecretSet
    | DelegationTokenAdded
    | DelegationTokenRenewed
    | DelegationTokenRemoved
    | ExtensionPut
    | ExtensionDelete
    | ExtensionChanged
)

NUMBERS: dict[type[Record], tuple[int, int]] = {  # of a kind for ever, and of its newest version
    NoOp: (0, 0),
    ClusterFormed: (1, 0),
    FeatureLevelSet: (2, 0),
    BrokerRegistered: (10, 3),
    BrokerFenced: (11, 0),
    BrokerUnfenced: (12, 0),
    BrokerShuttingDown: (13, 0),
    BrokerUnregistered: (14, 0),
    BrokerDirectoryFailed: (15, 0),
    TopicCreated: (20, 0),
    PartitionChanged: (21, 3),
    TopicDeleted: (22, 0),
    PartitionsAdded: (23, 0),
    ReplicasMarked: (24, 0),
    ConfigSet: (30, 0),
    ProducerIdsAllocated: (31, 0),
    ExtensionPut: (40, 0),
    ExtensionDelete: (41, 0),
    ExtensionChanged: (42, 0),
    AclAdded: (50, 0),
    AclRemoved: (51, 0),
    ScramCredentialSet: (52, 0),
    ScramCredentialRemoved: (53, 0),
    ClusterSecretSet: (54, 0),
    DelegationTokenAdded: (55, 0),
    DelegationTokenRenewed: (56, 0),
    DelegationTokenRemoved: (57, 0),
    ClientQuotaSet: (60, 0),
}


class Later(NamedTuple):
    """A version of a kind that a release after the first one has added."""

    version: int  # 0: the kind is new
    level: int  # of raftka.version, from which it is written
    fields_before: int  # how many fields the version before it has


# By kind, the oldest first. What is not here is written from level 1 on.
LATER: dict[type[Record], tuple[Later, ...]] = {
    BrokerRegistered: (Later(3, ELR_LEVEL, 8),),
    PartitionChanged: (Later(3, ELR_LEVEL, 10),),
}
KINDS: dict[int, tuple[Callable[..., Record], int]] = {
    number: (kind, version) for kind, (number, version) in NUMBERS.items()
}


def encode_batch(records: Sequence[Record], decided_at: int, level: int | None = None) -> bytes:
    """One Raft entry. `decided_at` is the index at which the controller meant it to stand; anywhere
    else it is void.

    `level`: of raftka.version, as the cluster has it; None: the newest. Raises LevelTooLow for a
    record that nodes of that level cannot read.
    """
    rows: list[tuple[int, int, Sequence[object]]] = (
        [(*NUMBERS[type(record)], record) for record in records]
        if level is None or level >= newest_level()
        else [_row_at(record, level) for record in records]
    )
    data: bytes = msgpack.packb((decided_at, rows), buf_size=PACKED_BYTES)
    return data


def _row_at(record: Record, level: int) -> tuple[int, int, Sequence[object]]:
    """The newest version of the record that nodes of this level read; what is left out of it has
    its default.
    """
    kind = type(record)
    number, newest = NUMBERS[kind]
    first = next((each for each in LATER.get(kind, ()) if each.level > level), None)
    if first is None:
        return number, newest, record
    kept = record[: first.fields_before]
    if first.version == 0 or kind(*kept) != record:
        raise LevelTooLow(
            Code.UNSUPPORTED_VERSION,
            f"this needs raftka.version {first.level}, and the cluster has {level}: when all nodes "
            "run a release that knows it, `raftka features upgrade` raises it",
        )
    return number, first.version - 1, kept


def decode_batch(data: bytes) -> tuple[int, list[Record]]:
    """(decided_at, records). Raises UnknownRecord for what a newer version of raftka has
    written.
    """
    decided_at, rows = msgpack.unpackb(data, use_list=False)
    return decided_at, [_decode(*row) for row in rows]


def _decode(kind: int, version: int, values: tuple[object, ...]) -> Record:
    made, newest = KINDS.get(kind, (NoOp, -1))
    if version > newest:
        raise UnknownRecord(
            f"the metadata has version {version} of record {kind}, and this release reads "
            + (f"up to version {newest}" if newest >= 0 else "no such record")
        )
    return made(*values)
