"""DescribeProducers: v0; the producers that write to a partition idempotently or in transactions,
as this replica knows them (KIP-664).
"""

from typing import TYPE_CHECKING

from raftka.broker.context import MetadataCache
from raftka.broker.handlers.by_topic import rows_by_topic
from raftka.broker.handlers.parts import ReplicaParts
from raftka.broker.network.access.authorizer import REFUSED, TOPIC
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps
from raftka.metadata.controller.topic_names import check_topic_name
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.producers import (
    DESCRIBE_PRODUCERS,
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
)

if TYPE_CHECKING:
    from raftka.log.producers.state import Producer

response = DESCRIBE_PRODUCERS.response
partition_row = response.topics.partitions
ABSENT = "This server does not host this topic-partition."  # Kafka's words


def _refused(
    request: Request[DescribeProducersRequest], code: Code
) -> Steps[DescribeProducersResponse]:
    topics = yield from rows_by_topic(
        request,
        response.topics,
        request.body.topics,
        lambda _, index: partition_row(partition_index=index, error_code=int(code)),
        asked=lambda topic: topic.partition_indexes,
    )
    return response(topics=topics)


@handles(DESCRIBE_PRODUCERS, refused=_refused)
def describe_producers(
    request: Request[DescribeProducersRequest], metadata: MetadataCache, replicas: ReplicaParts
) -> Steps[DescribeProducersResponse]:
    """A partition that is named twice is described once: an answer is no larger than what there
    is.
    """
    topics = request.encoded_rows(response.topics)
    described: set[tuple[str, int]] = set()
    for topic in request.body.topics:
        rows = request.encoded_rows(partition_row)
        for index in topic.partition_indexes:
            if (topic.name, index) not in described:
                described.add((topic.name, index))
                rows.add((yield from _partition(request, metadata, replicas, topic.name, index)))
            yield
        topics.add(response.topics(name=topic.name, partitions=rows))
        yield
    return response(topics=topics)


def _partition(
    request: Request[DescribeProducersRequest],
    metadata: MetadataCache,
    replicas: ReplicaParts,
    topic: str,
    index: int,
) -> Steps[PartitionResponse]:
    row = partition_row(partition_index=index, error_code=0)
    try:
        check_topic_name(topic)
        if not request.may("READ", (TOPIC, topic)):
            raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED, REFUSED[TOPIC])
        if metadata.image.topic_named(topic) is None:
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, ABSENT)
        producers = replicas.manager.find(topic, index).log.producers.producers
        active = row.active_producers = request.encoded_rows(partition_row.active_producers)
        for producer_id, producer in list(producers.items()):
            active.add(_producer(producer_id, producer))
            yield
    except KafkaError as error:
        row.error_code, row.error_message = int(error.code), error.message
    return row


def _producer(producer_id: int, producer: "Producer") -> ProducerState:
    """One without batches that have sequences has none: only a marker is left, or a coordinator has
    written its records.
    """
    last = producer.batches[-1][1] if producer.batches else -1
    return partition_row.active_producers(
        producer_id=producer_id,
        producer_epoch=producer.epoch,
        last_sequence=last,
        last_timestamp=producer.timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.transaction_start,
    )
