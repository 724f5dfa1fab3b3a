"""Requests that many tests make, and the one partition of their answers."""

from typing import Any

from raftka.wire.messages.fetch import FETCH, FetchRequest, FetchResponse, PartitionData
from raftka.wire.messages.list_offsets import LIST_OFFSETS, ListOffsetsRequest
from raftka.wire.messages.produce import (
    PRODUCE,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
)
from raftka.wire.records import build_batch
from raftka.wire.rows import ZERO_UUID


def batch(*values: bytes, **fields: Any) -> bytes:
    """A batch of records without keys."""
    return bytes(build_batch([(None, value, (), 1_700_000_000_000) for value in values], **fields))


def produce(
    topic: str,
    records: bytes | None,
    partition: int = 0,
    *,
    acks: int = -1,
    timeout_ms: int = 5000,
    topic_id: bytes = ZERO_UUID,
    **fields: Any,
) -> ProduceRequest:
    request = PRODUCE.request
    data = request.topic_data.partition_data(index=partition, records=records)
    topics = [request.topic_data(name=topic, topic_id=topic_id, partition_data=[data])]
    return request(acks=acks, timeout_ms=timeout_ms, topic_data=topics, **fields)


def fetch(
    topic: str, offset: int = 0, partition: int = 0, *, topic_id: bytes = ZERO_UUID, **fields: Any
) -> FetchRequest:
    """`fields` of the request, or of its only partition."""
    request = FETCH.request
    of_partition = {field.name for field in request.topics.partitions.struct.fields}
    given = {name: fields.pop(name) for name in list(fields) if name in of_partition}
    asked = request.topics.partitions(
        **({"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20} | given)
    )
    return request(
        **(
            {"topics": [request.topics(topic=topic, topic_id=topic_id, partitions=[asked])]}
            | fields
        )
    )


def list_offsets(
    topic: str, timestamp: int, partition: int = 0, **fields: Any
) -> ListOffsetsRequest:
    request = LIST_OFFSETS.request
    asked = request.topics.partitions(partition_index=partition, timestamp=timestamp, **fields)
    return request(topics=[request.topics(name=topic, partitions=[asked])])


def produced(answer: ProduceResponse) -> PartitionProduceResponse:
    """The only partition's part of an answer to Produce."""
    ((partition,),) = [topic.partition_responses for topic in answer.responses]
    return partition


def fetched(answer: FetchResponse) -> PartitionData:
    ((partition,),) = [topic.partitions for topic in answer.responses]
    return partition
