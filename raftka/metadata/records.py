"""Records of the metadata log: one class a kind of record, and how a batch of them becomes the bytes of one Raft entry.

A record says what became so, never what was asked for: replaying needs no decision. Fields are plain values that msgpack knows; nested ones are
tuples. A kind keeps its number for ever; a new field comes last, with a default, under a higher VERSION. Knows no image and no Raft.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, ClassVar

import msgpack

Replicas = tuple[int, ...]


class UnknownRecord(Exception):
    """A kind or version this node does not know: it is too old for the cluster's metadata.version and must stop, not guess."""


@dataclass(frozen=True, slots=True)
class NoOp:
    KIND: ClassVar[int] = 0
    VERSION: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class ClusterFormed:
    """The first record of a cluster's life, written once."""

    KIND: ClassVar[int] = 1
    VERSION: ClassVar[int] = 0
    cluster_id: str


@dataclass(frozen=True, slots=True)
class FeatureLevelSet:
    KIND: ClassVar[int] = 2
    VERSION: ClassVar[int] = 0
    name: str
    level: int  # 0: not finalized any more


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    """The broker's epoch is the offset of this record, so a later registration fences every earlier one (KIP-631). It begins fenced."""

    KIND: ClassVar[int] = 10
    VERSION: ClassVar[int] = 1
    broker_id: int
    incarnation_id: bytes  # 16 random bytes, new with every start of the process
    directory_id: bytes  # of meta.properties: changes only with the disk
    endpoints: tuple[tuple[str, str, int, str], ...]  # (listener, host, port, security protocol)
    rack: str | None = None
    more_directories: tuple[bytes, ...] = ()  # from version 1 on: ids of its other log directories
    missing_directories: tuple[bytes, ...] = ()  # not there this time, but they may come back with all that lies in them


@dataclass(frozen=True, slots=True)
class BrokerFenced:
    KIND: ClassVar[int] = 11
    VERSION: ClassVar[int] = 0
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class BrokerUnfenced:
    KIND: ClassVar[int] = 12
    VERSION: ClassVar[int] = 0
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class BrokerShuttingDown:
    """Controlled shutdown has begun: no new leadership, no return to an ISR."""

    KIND: ClassVar[int] = 13
    VERSION: ClassVar[int] = 0
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class BrokerUnregistered:
    KIND: ClassVar[int] = 14
    VERSION: ClassVar[int] = 0
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class BrokerDirectoryFailed:
    """The broker goes on without it: it is missing, as if it had not been there at the registration."""

    KIND: ClassVar[int] = 15
    VERSION: ClassVar[int] = 0
    broker_id: int
    broker_epoch: int
    directory_id: bytes


@dataclass(frozen=True, slots=True)
class TopicCreated:
    KIND: ClassVar[int] = 20
    VERSION: ClassVar[int] = 0
    name: str
    topic_id: bytes  # 16 bytes
    partitions: tuple[tuple[Replicas, Replicas, int], ...]  # (replicas in order of preference, isr, leader or -1), the index is the partition


@dataclass(frozen=True, slots=True)
class PartitionChanged:
    """The partition as it is from now on; what is None stays."""

    KIND: ClassVar[int] = 21
    VERSION: ClassVar[int] = 2
    topic_id: bytes
    partition: int
    leader: int  # -1: none
    leader_epoch: int  # moves with the leader, and when a replica goes for good
    isr: Replicas
    partition_epoch: int  # moves with every change
    replicas: Replicas | None = None
    adding: Replicas | None = None  # from version 1 on: a reassignment under way (KIP-455)
    removing: Replicas | None = None
    offline: Replicas | None = None  # from version 2 on: replicas in directories that their brokers cannot use


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """Takes the topic's configs with it."""

    KIND: ClassVar[int] = 22
    VERSION: ClassVar[int] = 0
    topic_id: bytes


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """Behind those that the topic has."""

    KIND: ClassVar[int] = 23
    VERSION: ClassVar[int] = 0
    topic_id: bytes
    first: int  # index of the first new one: as many as there were
    partitions: tuple[tuple[Replicas, Replicas, int], ...]  # as in TopicCreated


@dataclass(frozen=True, slots=True)
class ReplicasMarked:
    """Replicas in a directory that their broker cannot use, or can use again. A few bytes each: all of a directory go into the entry that says so."""

    KIND: ClassVar[int] = 24
    VERSION: ClassVar[int] = 0
    broker_id: int
    offline: bool
    topics: tuple[tuple[bytes, tuple[int, ...]], ...]  # (topic id, partitions)


@dataclass(frozen=True, slots=True)
class ConfigSet:
    KIND: ClassVar[int] = 30
    VERSION: ClassVar[int] = 0
    resource_type: int  # Kafka's: 2 topic, 4 broker
    resource: str  # "" for the default of all brokers
    name: str
    value: str | None  # None: back to the default


@dataclass(frozen=True, slots=True)
class ProducerIdsAllocated:
    KIND: ClassVar[int] = 31
    VERSION: ClassVar[int] = 0
    broker_id: int
    broker_epoch: int
    next_producer_id: int  # the first that nobody has


@dataclass(frozen=True, slots=True)
class AclAdded:
    KIND: ClassVar[int] = 50
    VERSION: ClassVar[int] = 0
    resource_type: int  # this and all other numbers: Kafka's
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


@dataclass(frozen=True, slots=True)
class AclRemoved:
    KIND: ClassVar[int] = 51
    VERSION: ClassVar[int] = 0
    resource_type: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


@dataclass(frozen=True, slots=True)
class ScramCredentialSet:
    """A user's credential of one mechanism; an earlier one is gone."""

    KIND: ClassVar[int] = 52
    VERSION: ClassVar[int] = 0
    mechanism: int  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
    user: str
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramCredentialRemoved:
    KIND: ClassVar[int] = 53
    VERSION: ClassVar[int] = 0
    mechanism: int
    user: str


@dataclass(frozen=True, slots=True)
class ClientQuotaSet:
    KIND: ClassVar[int] = 60
    VERSION: ClassVar[int] = 0
    entity: tuple[tuple[str, str | None], ...]  # (type, name; None: the default of that type)
    key: str
    value: float | None  # None: removed


@dataclass(frozen=True, slots=True)
class ClusterSecretSet:
    """Random bytes that no client learns: brokers make up from them what users that do not exist would have."""

    KIND: ClassVar[int] = 54
    VERSION: ClassVar[int] = 0
    secret: bytes


@dataclass(frozen=True, slots=True)
class DelegationTokenAdded:
    KIND: ClassVar[int] = 55
    VERSION: ClassVar[int] = 0
    token_id: str
    owner: str  # this and the others are principals
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    hmac: bytes
    credentials: tuple[tuple[int, bytes, bytes, bytes, int], ...]  # (mechanism, salt, stored key, server key, iterations)


@dataclass(frozen=True, slots=True)
class DelegationTokenRenewed:
    KIND: ClassVar[int] = 56
    VERSION: ClassVar[int] = 0
    token_id: str
    expires_ms: int


@dataclass(frozen=True, slots=True)
class DelegationTokenRemoved:
    KIND: ClassVar[int] = 57
    VERSION: ClassVar[int] = 0
    token_id: str


@dataclass(frozen=True, slots=True)
class ExtensionPut:
    KIND: ClassVar[int] = 40
    VERSION: ClassVar[int] = 0
    package: str
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class ExtensionDelete:
    KIND: ClassVar[int] = 41
    VERSION: ClassVar[int] = 0
    package: str
    key: bytes


@dataclass(frozen=True, slots=True)
class ExtensionChanged:
    """Many puts and deletes (value None), in order: what a package with many clients writes at once."""

    KIND: ClassVar[int] = 42
    VERSION: ClassVar[int] = 0
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

KINDS: dict[int, type[Any]] = {kind.KIND: kind for kind in Record.__args__}


def _field_getter(kind: type) -> Callable[[Record], tuple[object, ...]]:
    names = [field.name for field in fields(kind)]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda record: tuple(getattr(record, name) for name in names)


_FIELDS_OF = {kind: _field_getter(kind) for kind in KINDS.values()}


def encode_batch(records: Sequence[Record], decided_at: int) -> bytes:
    """One Raft entry. `decided_at` is the index at which the controller meant it to stand; anywhere else it is void."""
    rows = [(record.KIND, record.VERSION, _FIELDS_OF[type(record)](record)) for record in records]
    data: bytes = msgpack.packb((decided_at, rows))
    return data


def decode_batch(data: bytes) -> tuple[int, list[Record]]:
    """(decided_at, records). Raises UnknownRecord for what a newer version of raftka has written."""
    decided_at, rows = msgpack.unpackb(data, use_list=False)
    return decided_at, [_decode(*row) for row in rows]


def _decode(kind: int, version: int, values: tuple[object, ...]) -> Record:
    known = KINDS.get(kind)
    if known is None or version > known.VERSION:
        raise UnknownRecord(f"record kind {kind} version {version} is newer than this node")
    record: Record = known(*values)
    return record
