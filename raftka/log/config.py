"""Settings of a log: Kafka's topic configuration, typed, with Kafka's defaults.

Knows neither where the values come from nor their names on the wire.
"""

from dataclasses import dataclass
from typing import Literal

MIB = 1024 * 1024
HOUR_MS = 3_600_000
LARGEST_RECORD_BYTES = (1 << 31) - 9  # Java's largest array: no bound
FOREVER = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class SchemaRule:
    """A rule for the keys, or the values, of a topic: begin with the number of a schema that is
    registered under their subject.
    """

    strategy: str  # of the subject's name: one of STRATEGIES
    payload: bool  # what follows must also be a value of that schema


@dataclass(frozen=True, slots=True)
class SchemaRules:
    """The log only makes sure that a client's batch was compared with them; it does not compare."""

    key: SchemaRule | None
    value: SchemaRule | None
    dead_letter_topic: str  # takes the records that do not keep to them; "": there is none


TOPIC_NAME, RECORD_NAME, TOPIC_RECORD_NAME = STRATEGIES = (
    "TopicNameStrategy",
    "RecordNameStrategy",
    "TopicRecordNameStrategy",
)


@dataclass(frozen=True, slots=True)
class DeliveryRules:
    """Records of the topic may be held back until their time (delivery/)."""

    delay_ms: int = 0  # of records that name no time
    most_ms: int = 7 * 24 * HOUR_MS  # how far ahead a time may lie


@dataclass(frozen=True, slots=True)
class LogConfig:
    segment_bytes: int = 1024 * MIB
    segment_ms: int = 7 * 24 * HOUR_MS
    segment_index_bytes: int = 10 * MIB  # a full index rolls the segment
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * 24 * HOUR_MS  # -1: for ever
    retention_bytes: int = -1  # -1: without bound
    max_message_bytes: int = MIB + 12  # one batch with its 12 bytes of offset and length
    # one compressed record when it is opened
    max_decompressed_message_bytes: int = LARGEST_RECORD_BYTES
    message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = "CreateTime"
    message_timestamp_before_max_ms: int = FOREVER
    message_timestamp_after_max_ms: int = HOUR_MS
    cleanup_policy: str = "delete"  # or "compact", or both with a comma
    compression_type: str = "producer"
    # "records": each record is walked and Kafka's full answers are given
    validation: Literal["header", "records"] = "header"
    # "os": an answer may leave before the disk has the bytes, as Kafka's do
    flush: Literal["fsync", "os"] = "fsync"
    gzip_level: int = -1  # when the broker compresses; -1: gzip's own
    lz4_level: int = 9
    zstd_level: int = 3
    delete_retention_ms: int = 24 * HOUR_MS  # a tombstone outlives its first compaction so long
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = FOREVER
    segment_jitter_ms: int = 0
    flush_messages: int = FOREVER  # 1: as flush="fsync"
    flush_ms: int = FOREVER  # with flush="os": how long what is written may be in memory alone
    preallocate: bool = False  # a segment's blocks are reserved when it begins
    file_delete_delay_ms: int = 60_000
    # the file of a deleted segment waits so long for a next one; 0: never
    segment_reuse_ms: int = 600_000
    producer_id_expiration_ms: int = 24 * HOUR_MS
    schemas: SchemaRules | None = None
    delivery: DeliveryRules | None = None

    @property
    def bounds_opened(self) -> bool:
        """Return whether compressed records must be opened to find those that are too large."""
        return self.max_decompressed_message_bytes < LARGEST_RECORD_BYTES

    @property
    def roll_ms(self) -> int:
        """A segment begins when the last is so old; what must be compacted in time must not be in
        the active one (KIP-354).
        """
        return (
            min(self.segment_ms, self.max_compaction_lag_ms) if self.compacted else self.segment_ms
        )

    @property
    def compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deleted_by_age(self) -> bool:
        return "delete" in self.cleanup_policy
