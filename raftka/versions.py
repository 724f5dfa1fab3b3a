"""The promise of versions in one place: levels of the cluster, and every format that raftka writes
to a disk. docs/versions.md has the same tables.

A release reads all that earlier releases wrote. It writes a newer version of a format only when the
cluster's level of `raftka.version` allows it, so until that level is raised an earlier release can
take the data back. Data of a newer level is refused in one sentence and not touched.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

METADATA_VERSION = "metadata.version"  # which Kafka release's behaviour the cluster has
RAFTKA_VERSION = "raftka.version"  # which formats nodes may write
GROUP_VERSION = "group.version"  # 1: consumer groups of the new protocol (KIP-848)
STREAMS_VERSION = "streams.version"  # 1: streams groups (KIP-1071)
# 2: clients leave it to brokers to add partitions, and each end raises the epoch (KIP-890)
TRANSACTION_VERSION = "transaction.version"
# 1: share groups (KIP-932); 2: their topics of dead letters (KIP-1191)
SHARE_VERSION = "share.version"
# 1: replicas outside the ISR that have all committed records may lead (KIP-966)
ELR_VERSION = "eligible.leader.replicas.version"
KRAFT_VERSION = "kraft.version"  # 1: the voters stand in the metadata log (KIP-853)
# lowest and highest level that a node supports, by feature, as they go over the wire
Features = tuple[tuple[str, int, int], ...]


class NewerFormat(Exception):
    """Data of a release after this one: the node must not start, and must not touch them."""


class Level(NamedTuple):
    """A level of `raftka.version`."""

    number: int
    release: str  # the first that knows it
    metadata_version: int  # the highest that this release knows; 33 is Kafka 4.4's
    adds: str
    writes: str  # formats that are written in a new version from this level on


LEVELS = (
    Level(1, "0.1.0", 33, "all of the first release", "all formats, for the first time"),
    Level(
        2,
        "0.1.0",
        33,
        "eligible leader replicas",
        "records of partitions and registrations, the metadata snapshot",
    ),
    Level(3, "0.1.0", 33, "delayed delivery", "held and delivering batches of delayed topics"),
)
ELR_LEVEL = 2  # of raftka.version: records before it have no eligible leader replicas
DELIVERY_LEVEL = 3  # of raftka.version: releases before it would show held batches to readers
LOWEST_METADATA_VERSION = 7  # as Kafka 4.4 has it
NETWORKS_IN_ACLS = 32  # the metadata.version from which the host of an ACL may be a network
# Tests replace entries to play a later release; code reads them each time.
SUPPORTED = {
    METADATA_VERSION: (LOWEST_METADATA_VERSION, LEVELS[-1].metadata_version),
    RAFTKA_VERSION: (LEVELS[0].number, LEVELS[-1].number),
    GROUP_VERSION: (0, 1),
    STREAMS_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
    SHARE_VERSION: (0, 2),
    ELR_VERSION: (0, 1),
    KRAFT_VERSION: (0, 1),
}
# A cluster is formed by the voters of controller.quorum.voters: kraft.version 0.
FORMED_WITH = {name: high for name, (_, high) in SUPPORTED.items() if name != KRAFT_VERSION}


def newest_level() -> int:
    """Return the highest level of `raftka.version` that this release knows."""
    return SUPPORTED[RAFTKA_VERSION][1]


def level_of(features: Mapping[str, int]) -> int:
    """Return the level at which a cluster with these finalized features writes. A cluster that is
    not formed yet, or is older than the feature, has the first one.
    """
    return features.get(RAFTKA_VERSION, LEVELS[0].number)


def own_features() -> Features:
    """Return what this node tells the controller when it registers or greets."""
    return tuple([(name, low, high) for name, (low, high) in SUPPORTED.items()])


def check_features(features: Mapping[str, int], where: str) -> None:
    """Raise NewerFormat for a finalized level that this release does not know. `where`: the data
    that have it.
    """
    for name, level in features.items():
        _, high = SUPPORTED.get(name, (0, 0))
        if level > high:
            raise NewerFormat(f"{where} has {name} {level}, and this release knows it up to {high}")


@dataclass(frozen=True, slots=True)
class Format:
    """A format on disk. Versions are numbers that its bytes carry."""

    name: str
    place: str  # files or topic
    field: str  # where the version stands
    # (version, level of `raftka.version` from which it is written), the oldest first
    versions: tuple[tuple[int, int], ...]
    checked_by: str  # file:function that refuses a newer version
    reads_too: int = -1  # a newer version that is read, and written at no level of it

    @property
    def newest(self) -> int:
        """The newest version that this release reads."""
        return max(self.versions[-1][0], self.reads_too)

    def at(self, level: int) -> int:
        """Return the version that is written at this level."""
        return max(version for version, since in self.versions if since <= level)

    def check(self, version: int, where: str) -> None:
        """Raise NewerFormat for a version that is newer than this release."""
        if version > self.newest:
            raise NewerFormat(
                f"{where} has version {version} of {self.name}, and this release reads up to "
                f"version {self.newest}"
            )


_QUORUM = "raftka/metadata/quorum"
BACKUP_MANIFEST = Format(
    "manifests of backups",
    "`manifests/*.json` of a place for backups",
    "`version` of the first line",
    ((1, 1),),
    "raftka/backup/manifest.py:decode_manifest",
)
METADATA_JOURNAL = Format(
    "the metadata journal",
    "`__raftka_metadata/journal`",
    "byte 3 of a record, a digit",
    ((1, 1),),
    f"{_QUORUM}/journal_format.py:decode_journal",
)
JOURNAL_ITEMS = Format(
    "the items of the metadata journal",
    "`__raftka_metadata/journal`",
    "kind of an item",
    ((8, 1),),
    f"{_QUORUM}/release_check.py:check_readable",
)
SNAPSHOT_FILE = Format(
    "the file of the metadata snapshot",
    "`__raftka_metadata/snapshot`",
    "byte 3, a digit",
    ((1, 1),),
    f"{_QUORUM}/journal_format.py:decode_snapshot_head",
    reads_too=2,  # with the voters before the state, at kraft.version 1 alone
)
METADATA_SNAPSHOT = Format(
    "the metadata snapshot",
    "`__raftka_metadata/snapshot`",
    "first value",
    ((5, 1), (6, 2)),
    "raftka/metadata/image.py:check_snapshot",
)
METADATA_RECORDS = Format(
    "the records of the metadata",
    "entries of journal and snapshot",
    "second value of each record",
    ((0, 1),),
    "raftka/metadata/records.py:decode_batch",
)
STARTS = Format(
    "the counter of starts",
    "`__raftka_metadata/starts`",
    "first line",
    ((0, 1),),
    "raftka/log/checkpoints.py:decode_lines",
)
META_PROPERTIES = Format(
    "meta.properties",
    "`meta.properties` of each log directory",
    "`version`",
    ((1, 1),),
    "raftka/log/directory.py:check_readable",
)
CHECKPOINTS = Format(
    "checkpoints",
    "`*-checkpoint`",
    "first line",
    ((0, 1),),
    "raftka/log/checkpoints.py:decode_lines",
)
CLEAN_SHUTDOWN = Format(
    "the mark of a clean shutdown",
    "`.kafka_cleanshutdown`",
    "`version`",
    ((0, 1),),
    "raftka/log/checkpoints.py:check_clean_shutdown",
)
PARTITION_METADATA = Format(
    "partition.metadata",
    "`partition.metadata`",
    "`version`",
    ((0, 1),),
    "raftka/log/checkpoints.py:decode_partition_metadata",
)
PRODUCER_SNAPSHOT = Format(
    "producer snapshots",
    "`*.snapshot` of a partition",
    "bytes 0 and 1",
    ((1, 1),),
    "raftka/log/producers/state.py:ProducerState.from_snapshot",
)
TRANSACTION_INDEX = Format(
    "transaction indexes",
    "`*.txnindex`",
    "bytes 0 and 1 of an entry",
    ((0, 1),),
    "raftka/log/segments/transaction_index.py:TransactionIndex",
)
COMMITTED_OFFSET = Format(
    "committed offsets",
    "`__consumer_offsets`",
    "bytes 0 and 1 of a value",
    ((4, 1),),
    "raftka/coordinator/records.py:read_offset_value",
)
CLASSIC_GROUP = Format(
    "classic groups",
    "`__consumer_offsets`",
    "bytes 0 and 1 of a value",
    ((3, 1),),
    "raftka/coordinator/records.py:read_group_value",
    reads_too=4,  # Kafka's first flexible one
)
CONSUMER_GROUP = Format(
    "consumer groups",
    "`__consumer_offsets`",
    "bytes 0 and 1 of a value",
    ((0, 1),),
    "raftka/coordinator/consumer/records.py:read_value",
)
SHARE_GROUP = Format(
    "share groups",
    "`__consumer_offsets`",
    "bytes 0 and 1 of a value",
    ((0, 1),),
    "raftka/coordinator/share/records.py:read_value",
)
STREAMS_GROUP = Format(
    "streams groups",
    "`__consumer_offsets`",
    "bytes 0 and 1 of a value",
    ((0, 1),),
    "raftka/coordinator/streams/records.py:read_value",
)
TRANSACTION = Format(
    "transactional ids",
    "`__transaction_state`",
    "bytes 0 and 1 of a value",
    ((1, 1),),
    "raftka/coordinator/transactions/records.py:read_value",
)
SHARE_STATE = Format(
    "states of share partitions",
    "`__share_group_state`",
    "bytes 0 and 1 of a value",
    ((0, 1),),
    "raftka/coordinator/share_state/records.py:read_snapshot",
)
ZNODES = Format(
    "the bridge's znodes and sessions",
    "entries of the metadata",
    "byte 0 of a value",
    ((0, 1),),
    "compat/zookeeper_bridge/tree/store.py:check_format",
)
SCHEMAS = Format(
    "the registry's schemas",
    "`_schemas`",
    "`magic` of a key",
    ((1, 1),),
    "raftka/registry/records.py:read_key",
)
SINK_DECISIONS = Format(
    "decisions of Spark's sinks",
    "`__raftka_spark_commits`",
    "`version` of a value; none is 0",
    ((0, 1),),
    "raftka/pipeline/topics/decisions.py:last_decision",
)
SQL_STATEMENTS = Format(
    "statements of SQL on streams",
    "`__raftka_sql`",
    "`version` of a value",
    ((0, 1),),
    "raftka/sql/catalog.py:decode",
)
FORMATS = (
    METADATA_JOURNAL,
    JOURNAL_ITEMS,
    METADATA_RECORDS,
    SNAPSHOT_FILE,
    METADATA_SNAPSHOT,
    STARTS,
    META_PROPERTIES,
    CHECKPOINTS,
    CLEAN_SHUTDOWN,
    PARTITION_METADATA,
    PRODUCER_SNAPSHOT,
    TRANSACTION_INDEX,
    COMMITTED_OFFSET,
    CLASSIC_GROUP,
    CONSUMER_GROUP,
    SHARE_GROUP,
    STREAMS_GROUP,
    TRANSACTION,
    SHARE_STATE,
    ZNODES,
    SCHEMAS,
    SINK_DECISIONS,
    SQL_STATEMENTS,
    BACKUP_MANIFEST,
)
