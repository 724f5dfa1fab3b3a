"""Backup (30000-30004): the part of a backup that a node does, for `raftka backup create`. These
APIs are raftka's own: Kafka's keys are below 30,000, and only tools of raftka are shown these.
"""

from raftka.wire.schema import api, row_classes

BACKUP_HOLD = api(
    "BackupHold",
    30000,
    versions="0",
    flexible="0+",
    request="""
    backup_id               string
    hold_ms                 int32           # transactions are not committed for so long; 0: the hold ends
""",
    response="""
    error_code              int16
    error_message           string?
    held                    bool            # a hold of this backup was in force until now
    pending                 int32           # commits that are decided, without all their markers
""",
)

BACKUP_CUT = api(
    "BackupCut",
    30001,
    versions="0",
    flexible="0+",
    request="""
    backup_id               string
    topics BackupCutTopic[]
        name                string
        partitions BackupCutPartition[]
            index           int32
            at_least        int64           # the cut is at or above it; -1: at or above the log's end
""",
    response="""
    error_code              int16
    error_message           string?
    topics BackupCutTopicResult[]
        name                string
        partitions BackupCutPartitionResult[]
            index           int32
            error_code      int16           # OFFSET_NOT_AVAILABLE: ask again with `at_least`
            at_least        int64
            leader_epoch    int32
            start_offset    int64
            end_offset      int64           # of the cut
            segments BackupCutSegment[]
                base_offset int64
                size        int64           # bytes below the cut
                path        string          # on the node
""",
)

BACKUP_METADATA = api(
    "BackupMetadata",
    30002,
    versions="0",
    flexible="0+",
    request="",
    response="""
    error_code              int16
    error_message           string?
    image                   bytes           # a snapshot of the metadata, as committed
""",
)

BACKUP_READ = api(
    "BackupRead",
    30003,
    versions="0",
    flexible="0+",
    request="""
    backup_id               string
    path                    string
    position                int64
    max_bytes               int32
""",
    response="""
    error_code              int16
    error_message           string?
    data                    bytes
""",
)

BACKUP_DROP = api(
    "BackupDrop",
    30004,
    versions="0",
    flexible="0+",
    request="""
    backup_id               string
""",
    response="""
    error_code              int16
    error_message           string?
""",
)

__getattr__ = row_classes(BACKUP_HOLD, BACKUP_CUT, BACKUP_METADATA, BACKUP_READ, BACKUP_DROP)
