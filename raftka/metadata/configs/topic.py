"""The settings of a topic, as Kafka 4.4 has them: name, type, default, valid values, the broker's
name for the default. Knows no broker.
"""

import re

from raftka.log.config import LARGEST_RECORD_BYTES, STRATEGIES
from raftka.metadata.configs.values import (
    Check,
    Setting,
    Type,
    at_least,
    between,
    either,
    one_of,
    some_of,
)

INT, LONG, DOUBLE, BOOLEAN, STRING = Type.INT, Type.LONG, Type.DOUBLE, Type.BOOLEAN, Type.STRING
LIST = Type.LIST
MIB = 1024 * 1024
DAY_MS = 86_400_000
FOREVER = (1 << 63) - 1
# Confluent's classes; their last names alone will do
STRATEGY_PACKAGE = "io.confluent.kafka.serializers.subject."
DEAD_LETTER_TOPIC = "raftka.schema.validation.dead.letter.topic"


# Taken and shown, but nothing here acts on them yet; a test compares this with the source.
_UNUSED = """
remote.copy.lag.bytes remote.copy.lag.ms
local.retention.bytes local.retention.ms remote.log.copy.disable remote.log.delete.on.disable
remote.storage.enable
"""
UNUSED = frozenset(_UNUSED.split())


def _throttled(value: tuple[str, ...]) -> str | None:
    if value == ("*",) or all(re.fullmatch(r"\d+:\d+", each) for each in value):
        return None
    return (
        "Must be the literal '*' or a list of replicas in the form: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


def _off(reason: str) -> Check:
    return lambda value: reason if value else None


def _topic(
    name: str, kind: Type, default: object, check: Check | None, synonyms: str, doc: str
) -> Setting:
    text = str(default).lower() if isinstance(default, bool) else str(default)
    return Setting(
        name, kind, text, check, tuple(synonyms.split()), doc, dynamic=True, used=name not in UNUSED
    )


_TABLE = (
    _topic(
        "cleanup.policy",
        LIST,
        "delete",
        some_of("compact", "delete"),
        "log.cleanup.policy",
        "What becomes of old segments: deleted, compacted, both.",
    ),
    _topic(
        "compression.gzip.level",
        INT,
        -1,
        either(-1, between(1, 9)),
        "compression.gzip.level",
        "Level when the broker compresses with gzip.",
    ),
    _topic(
        "compression.lz4.level",
        INT,
        9,
        between(1, 17),
        "compression.lz4.level",
        "Level when the broker compresses with lz4.",
    ),
    _topic(
        "compression.type",
        STRING,
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "compression.type",
        "How batches are stored; `producer`: as they came.",
    ),
    _topic(
        "compression.zstd.level",
        INT,
        3,
        between(-131072, 22),
        "compression.zstd.level",
        "Level when the broker compresses with zstd.",
    ),
    _topic(
        "delete.retention.ms",
        LONG,
        DAY_MS,
        at_least(0),
        "log.cleaner.delete.retention.ms",
        "How long a tombstone outlives its compaction.",
    ),
    _topic(
        "errors.deadletterqueue.group.enable",
        BOOLEAN,
        False,
        None,
        "",
        "May share groups write their dead letters here?",
    ),
    _topic(
        "file.delete.delay.ms",
        LONG,
        60_000,
        at_least(0),
        "log.segment.delete.delay.ms",
        "From a segment's removal to that of its file.",
    ),
    _topic(
        "flush.messages",
        LONG,
        FOREVER,
        at_least(1),
        "log.flush.interval.messages",
        "1: flushed before the answer, also with raftka.log.flush=os.",
    ),
    _topic(
        "flush.ms",
        LONG,
        FOREVER,
        at_least(0),
        "log.flush.interval.ms log.flush.scheduler.interval.ms",
        "With raftka.log.flush=os: from a write to its flush.",
    ),
    _topic(
        "follower.replication.throttled.replicas",
        LIST,
        "",
        _throttled,
        "",
        "Followers whose replication is throttled.",
    ),
    _topic(
        "index.interval.bytes",
        INT,
        4096,
        at_least(0),
        "log.index.interval.bytes",
        "Bytes of log for one entry of the offset index.",
    ),
    _topic(
        "leader.replication.throttled.replicas",
        LIST,
        "",
        _throttled,
        "",
        "Leaders whose replication is throttled.",
    ),
    _topic(
        "local.retention.bytes",
        LONG,
        -2,
        at_least(-2),
        "log.local.retention.bytes",
        "Size kept locally with tiered storage.",
    ),
    _topic(
        "local.retention.ms",
        LONG,
        -2,
        at_least(-2),
        "log.local.retention.ms",
        "Time kept locally with tiered storage.",
    ),
    _topic(
        "max.compaction.lag.ms",
        LONG,
        FOREVER,
        at_least(1),
        "log.cleaner.max.compaction.lag.ms",
        "Age at which a record must become compacted.",
    ),
    _topic(
        "max.decompressed.message.bytes",
        INT,
        LARGEST_RECORD_BYTES,
        between(1, LARGEST_RECORD_BYTES),
        "max.decompressed.message.bytes",
        "Largest record of a compressed batch, when it is opened.",
    ),
    _topic(
        "max.message.bytes",
        INT,
        MIB + 12,
        at_least(0),
        "message.max.bytes",
        "Largest record batch, after compression.",
    ),
    _topic(
        "message.timestamp.after.max.ms",
        LONG,
        3_600_000,
        at_least(0),
        "log.message.timestamp.after.max.ms",
        "How far ahead a timestamp may be.",
    ),
    _topic(
        "message.timestamp.before.max.ms",
        LONG,
        FOREVER,
        at_least(0),
        "log.message.timestamp.before.max.ms",
        "How far back a timestamp may be.",
    ),
    _topic(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        "log.message.timestamp.type",
        "The clock of the records' timestamps: the producer's or the leader's.",
    ),
    _topic(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        0.5,
        between(0, 1),
        "log.cleaner.min.cleanable.ratio",
        "Share of uncompacted log that starts the cleaner.",
    ),
    _topic(
        "min.compaction.lag.ms",
        LONG,
        0,
        at_least(0),
        "log.cleaner.min.compaction.lag.ms",
        "Age below which a record is left alone by the cleaner.",
    ),
    _topic(
        "min.insync.replicas",
        INT,
        1,
        at_least(1),
        "min.insync.replicas",
        "Replicas that must have a record before acks=all is answered.",
    ),
    _topic(
        "preallocate",
        BOOLEAN,
        False,
        None,
        "log.preallocate",
        "Reserve room on the disk for the whole of a new segment.",
    ),
    _topic(
        "remote.copy.lag.bytes",
        LONG,
        -1,
        at_least(-1),
        "log.remote.copy.lag.bytes",
        "Bytes that are not copied to tiered storage yet.",
    ),
    _topic(
        "remote.copy.lag.ms",
        LONG,
        0,
        at_least(-1),
        "log.remote.copy.lag.ms",
        "Age below which segments are not copied to tiered storage.",
    ),
    _topic("remote.log.copy.disable", BOOLEAN, False, None, "", "Stop copying to tiered storage."),
    _topic(
        "remote.log.delete.on.disable",
        BOOLEAN,
        False,
        None,
        "",
        "Delete tiered segments when tiering ends.",
    ),
    _topic(
        "remote.storage.enable",
        BOOLEAN,
        False,
        _off(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured "
            "with remote log storage."
        ),
        "",
        "Tiered storage; there is none here.",
    ),
    _topic(
        "retention.bytes",
        LONG,
        -1,
        None,
        "log.retention.bytes",
        "Size of a partition above which old segments go; -1: any size.",
    ),
    _topic(
        "retention.ms",
        LONG,
        7 * DAY_MS,
        at_least(-1),
        "log.retention.ms log.retention.minutes log.retention.hours",
        "Age at which segments go; -1: never.",
    ),
    _topic(
        "segment.bytes",
        INT,
        1024 * MIB,
        at_least(MIB),
        "log.segment.bytes",
        "Size at which a new segment begins.",
    ),
    _topic(
        "segment.index.bytes",
        INT,
        10 * MIB,
        at_least(4),
        "log.index.size.max.bytes",
        "Largest index of a segment.",
    ),
    _topic(
        "segment.jitter.ms",
        LONG,
        0,
        at_least(0),
        "log.roll.jitter.ms log.roll.jitter.hours",
        "Random part of segment.ms.",
    ),
    _topic(
        "segment.ms",
        LONG,
        7 * DAY_MS,
        at_least(1),
        "log.roll.ms log.roll.hours",
        "Age at which a new segment begins.",
    ),
    _topic(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        None,
        "unclean.leader.election.enable",
        "May a replica lead that can have lost records?",
    ),
)

TOPIC_SETTINGS = {setting.name: setting for setting in _TABLE}


def _strategy(value: str) -> str | None:
    known = (*STRATEGIES, *(f"{STRATEGY_PACKAGE}{each}" for each in STRATEGIES))
    return None if value in known else f"String must be one of: {', '.join(known)}"


def _topic_or_none(value: str) -> str | None:
    return (
        None
        if not value or (re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", value) and value not in (".", ".."))
        else f"{value!r} is no name of a topic"
    )


def _schema_settings(part: str) -> tuple[Setting, ...]:
    return (
        _topic(
            f"confluent.{part}.schema.validation",
            BOOLEAN,
            False,
            None,
            "",
            f"The {part} must begin with the id of a schema of its subject.",
        ),
        _topic(
            f"confluent.{part}.subject.name.strategy",
            STRING,
            f"{STRATEGY_PACKAGE}{STRATEGIES[0]}",
            _strategy,
            "",
            f"Subject of a {part}'s schema.",
        ),
        _topic(
            f"raftka.{part}.schema.validation.payload",
            BOOLEAN,
            False,
            None,
            "",
            f"The {part} must be a value of its schema, too.",
        ),
    )


# Not among Kafka's: DescribeConfigs lists those that a topic sets.
SCHEMA_SETTINGS = {
    setting.name: setting
    for setting in (
        *_schema_settings("key"),
        *_schema_settings("value"),
        _topic(
            DEAD_LETTER_TOPIC,
            STRING,
            "",
            _topic_or_none,
            "",
            "Topic that takes the records that their schemas refuse.",
        ),
    )
}

DELIVERY, DELAY_MS, MOST_DELAY_MS = (
    "raftka.delivery",
    "raftka.delivery.delay.ms",
    "raftka.delivery.max.ms",
)
CENTURY_MS = 36_525 * DAY_MS
IMMEDIATE, DELAYED = "immediate", "delayed"
# Not among Kafka's: DescribeConfigs lists those that a topic sets.
DELIVERY_SETTINGS = {
    setting.name: setting
    for setting in (
        _topic(
            DELIVERY,
            STRING,
            IMMEDIATE,
            one_of(IMMEDIATE, DELAYED),
            "",
            "`delayed`: records are hidden from readers until their time.",
        ),
        _topic(
            DELAY_MS,
            LONG,
            0,
            between(0, CENTURY_MS),
            "",
            "Delay of records without a raftka.deliver.at header.",
        ),
        _topic(
            MOST_DELAY_MS,
            LONG,
            7 * DAY_MS,
            between(1, CENTURY_MS),
            "",
            "How far ahead a record's time may lie.",
        ),
    )
}

# Not listed by DescribeConfigs: a segment size below 1 MiB, for tests (KIP-1030).
INTERNAL_SEGMENT_BYTES = _topic(
    "internal.segment.bytes",
    INT,
    1024 * MIB,
    at_least(14),
    "",
    "segment.bytes without its lower bound.",
)

# Functions that turn the value of a broker's synonym into the topic's.
UNIT_MS = {"hours": 3_600_000, "minutes": 60_000}
