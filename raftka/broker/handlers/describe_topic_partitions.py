"""DescribeTopicPartitions: v0; a page of partitions over all topics by name, and where the next page begins. Answers from the local image."""

from typing import TYPE_CHECKING

from raftka.broker.authorizer import TOPIC
from raftka.broker.dispatch import Request, handles
from raftka.broker.handlers.metadata import INTERNAL_TOPICS
from raftka.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from raftka.metadata.topics import check_topic_name
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.topic_partitions import DESCRIBE_TOPIC_PARTITIONS
from raftka.wire.schema import Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

response = DESCRIBE_TOPIC_PARTITIONS.response


def _refused(request: Request, code: Code) -> Row:
    return request.answer(topics=[response.topics(error_code=int(code), name=topic.name) for topic in request.body.topics])


@handles(DESCRIBE_TOPIC_PARTITIONS, refused=_refused)
def describe_topic_partitions(request: Request, node: "Node") -> Row:
    """A cursor that names none of the asked topics, or a partition that can not be, is refused for each of them."""
    image, cursor = node.image, request.body.cursor
    everything = not request.body.topics
    names = sorted(image.topic_ids if everything else {topic.name for topic in request.body.topics})
    start = "", 0
    if cursor is not None:
        if cursor.partition_index < 0 or not (everything or cursor.topic_name in names):
            raise KafkaError(Code.INVALID_REQUEST)
        names = [name for name in names if name >= cursor.topic_name]
        start = cursor.topic_name, cursor.partition_index
    most = int(node.settings["max.request.partition.size.limit"])
    return _page(request, image, names, start, max(1, min(request.body.response_partition_limit, most)), everything=everything)


def _page(request: Request, image: MetadataImage, names: list[str], start: tuple[str, int], room: int, *, everything: bool) -> Row:
    topics: list[Row] = []
    for name in names:
        if not request.may("DESCRIBE", (TOPIC, name)):  # whether it is there or not
            if not everything:
                topics.append(response.topics(error_code=int(Code.TOPIC_AUTHORIZATION_FAILED), name=name))
            continue
        known = image.topic_named(name)
        if known is None:
            operations = request.authorized_operations((TOPIC, name))
            topics.append(response.topics(error_code=int(_missing(name)), name=name, topic_authorized_operations=operations))
            continue
        if room == 0:
            return response(topics=topics, next_cursor=response.next_cursor(topic_name=name, partition_index=0))
        first = start[1] if name == start[0] else 0
        last = min(first + room, len(known.partitions))
        topics.append(_topic(request, image, known, range(first, last)))
        if last < len(known.partitions):
            return response(topics=topics, next_cursor=response.next_cursor(topic_name=name, partition_index=last))
        room -= max(0, last - first)
    return response(topics=topics)


def _missing(name: str) -> Code:
    try:
        check_topic_name(name)
    except KafkaError as error:
        return error.code
    return Code.UNKNOWN_TOPIC_OR_PARTITION


def _topic(request: Request, image: MetadataImage, topic: TopicImage, indexes: range) -> Row:
    return response.topics(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(image, index, topic.partitions[index]) for index in indexes],
        topic_authorized_operations=request.authorized_operations((TOPIC, topic.name)),
    )


def _partition(image: MetadataImage, index: int, partition: PartitionImage) -> Row:
    """The eligible leader replicas are empty, not null: ELR is off."""
    brokers = image.brokers
    return response.topics.partitions(
        error_code=int(Code.LEADER_NOT_AVAILABLE) if partition.leader == NO_LEADER else 0,
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=(),
        last_known_elr=(),
        offline_replicas=tuple([each for each in partition.replicas if each not in brokers or brokers[each].fenced or each in partition.offline]),
    )
