"""DescribeTopicPartitions: v0; a page of partitions over all topics by name, and where the next
page begins. Answers from the local image.
"""

from collections.abc import Collection
from heapq import merge
from itertools import islice

from raftka.broker.context import MetadataCache
from raftka.broker.coordinators.topics import INTERNAL_TOPICS
from raftka.broker.handlers.parts import DiscoveryParts
from raftka.broker.network.access.authorizer import TOPIC
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.metadata.controller.topic_names import check_topic_name
from raftka.metadata.image import MetadataImage, PartitionImage, TopicImage
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.topic_partitions import (
    DESCRIBE_TOPIC_PARTITIONS,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

response = DESCRIBE_TOPIC_PARTITIONS.response
SORTED_AT_ONCE = 256  # names


def _refused(
    request: Request[DescribeTopicPartitionsRequest], code: Code
) -> Steps[DescribeTopicPartitionsResponse]:
    topics = request.encoded_rows(response.topics)
    for topic in request.body.topics:
        topics.add(response.topics(error_code=int(code), name=topic.name))
        yield
    return response(topics=topics)


@handles(DESCRIBE_TOPIC_PARTITIONS, refused=_refused)
def describe_topic_partitions(
    request: Request[DescribeTopicPartitionsRequest],
    metadata: MetadataCache,
    discovery: DiscoveryParts,
) -> Steps[DescribeTopicPartitionsResponse | Delayed]:
    return (
        yield from discovery.suspects.answer(
            request, lambda leaders: _answer(request, metadata, leaders)
        )
    )


def _answer(
    request: Request[DescribeTopicPartitionsRequest], metadata: MetadataCache, leaders: set[int]
) -> Steps[DescribeTopicPartitionsResponse]:
    """A cursor that names none of the asked topics, or a partition that can not be, is refused for
    each of them.
    """
    image, cursor = metadata.image, request.body.cursor
    everything = not request.body.topics
    asked = image.topic_ids.keys() if everything else {topic.name for topic in request.body.topics}
    start = "", 0
    if cursor is not None:
        if cursor.partition_index < 0 or not (everything or cursor.topic_name in asked):
            raise KafkaError(Code.INVALID_REQUEST)
        start = cursor.topic_name, cursor.partition_index
    most = int(metadata.settings["max.request.partition.size.limit"])
    names = yield from _in_order(asked, start[0])
    room = max(1, min(request.body.response_partition_limit, most))
    return (yield from _page(request, image, names, start, room, leaders, everything=everything))


def _in_order(names: Collection[str], first: str) -> Steps[list[str]]:
    """Those from `first` on, sorted by portions: sorting 100,000 names at once would take some 50
    ms.
    """
    portions: list[list[str]] = []
    rest = iter(names)
    while portion := list(islice(rest, SORTED_AT_ONCE)):
        portions.append(sorted([name for name in portion if name >= first]))
        yield
    merged: list[str] = []
    for name in merge(*portions):
        merged.append(name)
        if not len(merged) % SORTED_AT_ONCE:
            yield
    return merged


def _page(
    request: Request[DescribeTopicPartitionsRequest],
    image: MetadataImage,
    names: list[str],
    start: tuple[str, int],
    room: int,
    leaders: set[int],
    *,
    everything: bool,
) -> Steps[DescribeTopicPartitionsResponse]:
    topics = request.encoded_rows(response.topics)
    for name in names:
        yield
        if not request.may("DESCRIBE", (TOPIC, name)):  # whether it is there or not
            if not everything:
                topics.add(
                    response.topics(error_code=int(Code.TOPIC_AUTHORIZATION_FAILED), name=name)
                )
            continue
        known = image.topic_named(name)
        if known is None:
            operations = request.authorized_operations((TOPIC, name))
            topics.add(
                response.topics(
                    error_code=int(_missing(name)),
                    name=name,
                    topic_authorized_operations=operations,
                )
            )
            continue
        if room == 0:
            return response(
                topics=topics, next_cursor=response.next_cursor(topic_name=name, partition_index=0)
            )
        first = start[1] if name == start[0] else 0
        last = min(first + room, len(known.partitions))
        leaders.update([partition.leader for partition in known.partitions[first:last]])
        topics.add((yield from _topic(request, image, known, range(first, last))))
        if last < len(known.partitions):
            return response(
                topics=topics,
                next_cursor=response.next_cursor(topic_name=name, partition_index=last),
            )
        room -= max(0, last - first)
    return response(topics=topics)


def _missing(name: str) -> Code:
    try:
        check_topic_name(name)
    except KafkaError as error:
        return error.code
    return Code.UNKNOWN_TOPIC_OR_PARTITION


def _topic(
    request: Request[DescribeTopicPartitionsRequest],
    image: MetadataImage,
    topic: TopicImage,
    indexes: range,
) -> Steps[DescribeTopicPartitionsResponseTopic]:
    partitions = request.encoded_rows(response.topics.partitions)
    for index in indexes:
        partitions.add(_partition(image, index, topic.partitions[index]))
        yield
    return response.topics(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=request.authorized_operations((TOPIC, topic.name)),
    )


def _partition(
    image: MetadataImage, index: int, partition: PartitionImage
) -> DescribeTopicPartitionsResponsePartition:
    brokers = image.brokers
    return response.topics.partitions(
        error_code=0,  # also without a leader, unlike in Metadata
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.elr,
        last_known_elr=partition.last_known_elr,
        offline_replicas=tuple(
            [
                each
                for each in partition.replicas
                if each not in brokers or brokers[each].fenced or each in partition.offline
            ]
        ),
    )
