"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, Rows
from raftka.wire.schema import Api, Row

class ListedTransactionState(Row):
    transactional_id: str
    producer_id: int
    transaction_state: str
    def __init__(
        self,
        *,
        transactional_id: str = ...,
        producer_id: int = ...,
        transaction_state: str = ...,
    ) -> None: ...

class ListTransactionsResponse(Row):
    throttle_time_ms: int
    error_code: int
    unknown_state_filters: Sequence[str]
    transaction_states: Many[ListedTransactionState, Sequence[ListedTransactionState]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        unknown_state_filters: Sequence[str] = ...,
        transaction_states: Rows[ListedTransactionState] = ...,
    ) -> None: ...

class ListTransactionsRequest(Row):
    state_filters: Sequence[str]
    producer_id_filters: Sequence[int]
    duration_filter: int
    transactional_id_pattern: str | None
    def __init__(
        self,
        *,
        state_filters: Sequence[str] = ...,
        producer_id_filters: Sequence[int] = ...,
        duration_filter: int = ...,
        transactional_id_pattern: str | None = ...,
    ) -> None: ...

class TopicData(Row):
    topic: str
    partitions: Sequence[int]
    def __init__(
        self,
        *,
        topic: str = ...,
        partitions: Sequence[int] = ...,
    ) -> None: ...

class DescribedTransactionState(Row):
    error_code: int
    transactional_id: str
    transaction_state: str
    transaction_timeout_ms: int
    transaction_start_time_ms: int
    producer_id: int
    producer_epoch: int
    topics: Many[TopicData, Sequence[TopicData]]
    def __init__(
        self,
        *,
        error_code: int = ...,
        transactional_id: str = ...,
        transaction_state: str = ...,
        transaction_timeout_ms: int = ...,
        transaction_start_time_ms: int = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        topics: Rows[TopicData] = ...,
    ) -> None: ...

class DescribeTransactionsResponse(Row):
    throttle_time_ms: int
    transaction_states: Many[DescribedTransactionState, Sequence[DescribedTransactionState]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        transaction_states: Rows[DescribedTransactionState] = ...,
    ) -> None: ...

class DescribeTransactionsRequest(Row):
    transactional_ids: Sequence[str]
    def __init__(
        self,
        *,
        transactional_ids: Sequence[str] = ...,
    ) -> None: ...

class TxnOffsetCommitResponsePartition(Row):
    partition_index: int
    error_code: int
    def __init__(
        self,
        *,
        partition_index: int = ...,
        error_code: int = ...,
    ) -> None: ...

class TxnOffsetCommitResponseTopic(Row):
    name: str
    topic_id: bytes
    partitions: Many[TxnOffsetCommitResponsePartition, Sequence[TxnOffsetCommitResponsePartition]]
    def __init__(
        self,
        *,
        name: str = ...,
        topic_id: bytes = ...,
        partitions: Rows[TxnOffsetCommitResponsePartition] = ...,
    ) -> None: ...

class TxnOffsetCommitResponse(Row):
    throttle_time_ms: int
    topics: Many[TxnOffsetCommitResponseTopic, Sequence[TxnOffsetCommitResponseTopic]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: Rows[TxnOffsetCommitResponseTopic] = ...,
    ) -> None: ...

class TxnOffsetCommitRequestPartition(Row):
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None
    def __init__(
        self,
        *,
        partition_index: int = ...,
        committed_offset: int = ...,
        committed_leader_epoch: int = ...,
        committed_metadata: str | None = ...,
    ) -> None: ...

class TxnOffsetCommitRequestTopic(Row):
    name: str
    topic_id: bytes
    partitions: Many[TxnOffsetCommitRequestPartition, Sequence[TxnOffsetCommitRequestPartition]]
    def __init__(
        self,
        *,
        name: str = ...,
        topic_id: bytes = ...,
        partitions: Rows[TxnOffsetCommitRequestPartition] = ...,
    ) -> None: ...

class TxnOffsetCommitRequest(Row):
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    topics: Many[TxnOffsetCommitRequestTopic, Sequence[TxnOffsetCommitRequestTopic]]
    def __init__(
        self,
        *,
        transactional_id: str = ...,
        group_id: str = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        generation_id_or_member_epoch: int = ...,
        member_id: str = ...,
        group_instance_id: str | None = ...,
        topics: Rows[TxnOffsetCommitRequestTopic] = ...,
    ) -> None: ...

class WritableTxnMarkerPartitionResult(Row):
    partition_index: int
    error_code: int
    def __init__(
        self,
        *,
        partition_index: int = ...,
        error_code: int = ...,
    ) -> None: ...

class WritableTxnMarkerTopicResult(Row):
    name: str
    partitions: Many[WritableTxnMarkerPartitionResult, Sequence[WritableTxnMarkerPartitionResult]]
    def __init__(
        self,
        *,
        name: str = ...,
        partitions: Rows[WritableTxnMarkerPartitionResult] = ...,
    ) -> None: ...

class WritableTxnMarkerResult(Row):
    producer_id: int
    topics: Many[WritableTxnMarkerTopicResult, Sequence[WritableTxnMarkerTopicResult]]
    def __init__(
        self,
        *,
        producer_id: int = ...,
        topics: Rows[WritableTxnMarkerTopicResult] = ...,
    ) -> None: ...

class WriteTxnMarkersResponse(Row):
    markers: Many[WritableTxnMarkerResult, Sequence[WritableTxnMarkerResult]]
    def __init__(
        self,
        *,
        markers: Rows[WritableTxnMarkerResult] = ...,
    ) -> None: ...

class WritableTxnMarkerTopic(Row):
    name: str
    partition_indexes: Sequence[int]
    def __init__(
        self,
        *,
        name: str = ...,
        partition_indexes: Sequence[int] = ...,
    ) -> None: ...

class WritableTxnMarker(Row):
    producer_id: int
    producer_epoch: int
    transaction_result: bool
    topics: Many[WritableTxnMarkerTopic, Sequence[WritableTxnMarkerTopic]]
    coordinator_epoch: int
    transaction_version: int
    def __init__(
        self,
        *,
        producer_id: int = ...,
        producer_epoch: int = ...,
        transaction_result: bool = ...,
        topics: Rows[WritableTxnMarkerTopic] = ...,
        coordinator_epoch: int = ...,
        transaction_version: int = ...,
    ) -> None: ...

class WriteTxnMarkersRequest(Row):
    markers: Many[WritableTxnMarker, Sequence[WritableTxnMarker]]
    def __init__(
        self,
        *,
        markers: Rows[WritableTxnMarker] = ...,
    ) -> None: ...

class EndTxnResponse(Row):
    throttle_time_ms: int
    error_code: int
    producer_id: int
    producer_epoch: int
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
    ) -> None: ...

class EndTxnRequest(Row):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    def __init__(
        self,
        *,
        transactional_id: str = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        committed: bool = ...,
    ) -> None: ...

class AddOffsetsToTxnResponse(Row):
    throttle_time_ms: int
    error_code: int
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
    ) -> None: ...

class AddOffsetsToTxnRequest(Row):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str
    def __init__(
        self,
        *,
        transactional_id: str = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        group_id: str = ...,
    ) -> None: ...

class AddPartitionsToTxnPartitionResult(Row):
    partition_index: int
    partition_error_code: int
    def __init__(
        self,
        *,
        partition_index: int = ...,
        partition_error_code: int = ...,
    ) -> None: ...

class AddPartitionsToTxnTopicResult(Row):
    name: str
    results_by_partition: Many[AddPartitionsToTxnPartitionResult, Sequence[AddPartitionsToTxnPartitionResult]]
    def __init__(
        self,
        *,
        name: str = ...,
        results_by_partition: Rows[AddPartitionsToTxnPartitionResult] = ...,
    ) -> None: ...

class AddPartitionsToTxnResult(Row):
    transactional_id: str
    topic_results: Many[AddPartitionsToTxnTopicResult, Sequence[AddPartitionsToTxnTopicResult]]
    def __init__(
        self,
        *,
        transactional_id: str = ...,
        topic_results: Rows[AddPartitionsToTxnTopicResult] = ...,
    ) -> None: ...

class AddPartitionsToTxnResponse(Row):
    throttle_time_ms: int
    error_code: int
    results_by_transaction: Many[AddPartitionsToTxnResult, Sequence[AddPartitionsToTxnResult]]
    results_by_topic_v3_and_below: Many[AddPartitionsToTxnTopicResult, Sequence[AddPartitionsToTxnTopicResult]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        results_by_transaction: Rows[AddPartitionsToTxnResult] = ...,
        results_by_topic_v3_and_below: Rows[AddPartitionsToTxnTopicResult] = ...,
    ) -> None: ...

class AddPartitionsToTxnTopic(Row):
    name: str
    partitions: Sequence[int]
    def __init__(
        self,
        *,
        name: str = ...,
        partitions: Sequence[int] = ...,
    ) -> None: ...

class AddPartitionsToTxnTransaction(Row):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    topics: Many[AddPartitionsToTxnTopic, Sequence[AddPartitionsToTxnTopic]]
    def __init__(
        self,
        *,
        transactional_id: str = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        verify_only: bool = ...,
        topics: Rows[AddPartitionsToTxnTopic] = ...,
    ) -> None: ...

class AddPartitionsToTxnRequest(Row):
    transactions: Many[AddPartitionsToTxnTransaction, Sequence[AddPartitionsToTxnTransaction]]
    v3_and_below_transactional_id: str
    v3_and_below_producer_id: int
    v3_and_below_producer_epoch: int
    v3_and_below_topics: Many[AddPartitionsToTxnTopic, Sequence[AddPartitionsToTxnTopic]]
    def __init__(
        self,
        *,
        transactions: Rows[AddPartitionsToTxnTransaction] = ...,
        v3_and_below_transactional_id: str = ...,
        v3_and_below_producer_id: int = ...,
        v3_and_below_producer_epoch: int = ...,
        v3_and_below_topics: Rows[AddPartitionsToTxnTopic] = ...,
    ) -> None: ...

ADD_PARTITIONS_TO_TXN: Api[AddPartitionsToTxnRequest, AddPartitionsToTxnResponse]
ADD_OFFSETS_TO_TXN: Api[AddOffsetsToTxnRequest, AddOffsetsToTxnResponse]
END_TXN: Api[EndTxnRequest, EndTxnResponse]
WRITE_TXN_MARKERS: Api[WriteTxnMarkersRequest, WriteTxnMarkersResponse]
TXN_OFFSET_COMMIT: Api[TxnOffsetCommitRequest, TxnOffsetCommitResponse]
DESCRIBE_TRANSACTIONS: Api[DescribeTransactionsRequest, DescribeTransactionsResponse]
LIST_TRANSACTIONS: Api[ListTransactionsRequest, ListTransactionsResponse]
