"""The persisted state of share partitions (KIP-932), asked of share coordinators by brokers:
InitializeShareGroupState (83), ReadShareGroupState (84), WriteShareGroupState (85),
DeleteShareGroupState (86), ReadShareGroupStateSummary (87). Version 1 of 85 and 87 has the number
of completed deliveries (KIP-1226).
"""

from raftka.wire.schema import api, row_classes

INITIALIZE_SHARE_GROUP_STATE = api(
    "InitializeShareGroupState",
    83,
    versions="0",
    flexible="0+",
    request="""
    group_id                    string
    topics InitializeStateData[]
        topic_id                uuid
        partitions InitializePartitionData[]
            partition           int32
            state_epoch         int32
            start_offset        int64       # -1: not known yet
""",
    response="""
    results InitializeStateResult[]
        topic_id                uuid
        partitions InitializePartitionResult[]
            partition           int32
            error_code          int16
            error_message       string?
""",
)

READ_SHARE_GROUP_STATE = api(
    "ReadShareGroupState",
    84,
    versions="0",
    flexible="0+",
    request="""
    group_id                    string
    topics ReadStateData[]
        topic_id                uuid
        partitions ReadPartitionData[]
            partition           int32
            leader_epoch        int32
""",
    response="""
    results ReadStateResult[]
        topic_id                uuid
        partitions ReadPartitionResult[]
            partition           int32
            error_code          int16
            error_message       string?
            state_epoch         int32
            start_offset        int64
            state_batches ReadStateBatch[]
                first_offset    int64
                last_offset     int64
                delivery_state  int8
                delivery_count  int16
""",
)

WRITE_SHARE_GROUP_STATE = api(
    "WriteShareGroupState",
    85,
    versions="0-1",
    flexible="0+",
    request="""
    group_id                    string
    topics WriteStateData[]
        topic_id                uuid
        partitions WritePartitionData[]
            partition           int32
            state_epoch         int32
            leader_epoch        int32
            start_offset        int64       # -1: as before
            delivery_complete_count int32=-1 1+
            state_batches WriteStateBatch[]
                first_offset    int64
                last_offset     int64
                delivery_state  int8
                delivery_count  int16
""",
    response="""
    results WriteStateResult[]
        topic_id                uuid
        partitions WritePartitionResult[]
            partition           int32
            error_code          int16
            error_message       string?
""",
)

DELETE_SHARE_GROUP_STATE = api(
    "DeleteShareGroupState",
    86,
    versions="0",
    flexible="0+",
    request="""
    group_id                    string
    topics DeleteStateData[]
        topic_id                uuid
        partitions DeletePartitionData[]
            partition           int32
""",
    response="""
    results DeleteStateResult[]
        topic_id                uuid
        partitions DeletePartitionResult[]
            partition           int32
            error_code          int16
            error_message       string?
""",
)

READ_SHARE_GROUP_STATE_SUMMARY = api(
    "ReadShareGroupStateSummary",
    87,
    versions="0-1",
    flexible="0+",
    request="""
    group_id                    string
    topics ReadStateSummaryData[]
        topic_id                uuid
        partitions SummaryPartitionData[]
            partition           int32
            leader_epoch        int32
""",
    response="""
    results ReadStateSummaryResult[]
        topic_id                uuid
        partitions SummaryPartitionResult[]
            partition           int32
            error_code          int16
            error_message       string?
            state_epoch         int32
            leader_epoch        int32
            start_offset        int64
            delivery_complete_count int32=-1 1+
""",
)

__getattr__ = row_classes(
    INITIALIZE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE,
    WRITE_SHARE_GROUP_STATE,
    DELETE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
)
