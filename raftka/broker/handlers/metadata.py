"""Metadata: v0-13; topics by name or id (KIP-516), auto-creation. Answers from the local image and never waits."""

from typing import TYPE_CHECKING

from raftka.broker.dispatch import Request, handles
from raftka.metadata.commands import CreateTopics, NewTopic
from raftka.metadata.image import MetadataImage, PartitionImage, TopicImage
from raftka.metadata.topics import check_topic_name
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.metadata import METADATA
from raftka.wire.schema import ZERO_UUID, Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

TOPIC_OPERATIONS = 3576  # everything but CLUSTER_ACTION, CREATE and IDEMPOTENT_WRITE, as bits
CLUSTER_OPERATIONS = 8096
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
response = METADATA.response


def _nothing(request: Request, code: Code) -> Row:
    topics = [response.topics(error_code=int(code), name=topic.name or "", topic_id=topic.topic_id) for topic in request.body.topics or ()]
    return response(cluster_id=None, controller_id=-1, topics=topics, error_code=int(code) if request.version >= 13 else 0)


@handles(METADATA, refused=_nothing)
def metadata(request: Request, node: "Node") -> Row:
    image, listener = node.image, request.session.listener
    asked = request.body.topics
    everything = asked is None or (request.version == 0 and not asked)
    if not everything and (row := _null_names(request)) is not None:
        return row
    topics = _all(request, node) if everything else [_asked(request, node, topic) for topic in asked]
    if request.body.include_topic_authorized_operations:
        for topic in topics:
            if not topic.error_code:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
    endpoints = [(broker, broker.endpoint(listener)) for broker in image.brokers.values() if not broker.fenced]
    return response(
        brokers=[
            response.brokers(node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker, endpoint in endpoints
            if endpoint is not None
        ],
        cluster_id=image.cluster_id,
        controller_id=node.controller_for_clients(),
        topics=topics,
        **({"cluster_authorized_operations": CLUSTER_OPERATIONS} if request.body.include_cluster_authorized_operations else {}),
    )


def _all(request: Request, node: "Node") -> list[Row]:
    allowed = node.dispatcher.authorizer.allowed
    return [_topic(node.image, topic) for topic in node.image.topics.values() if allowed(request.session, "DESCRIBE", ("topic", topic.name))]


def _asked(request: Request, node: "Node", topic: Row) -> Row:
    image = node.image
    if topic.name is None:
        known = image.topics.get(topic.topic_id)
        unknown = response.topics(error_code=int(Code.UNKNOWN_TOPIC_ID), name=None, topic_id=topic.topic_id)
    else:
        known = image.topic_named(topic.name)
        unknown = response.topics(error_code=int(Code.UNKNOWN_TOPIC_OR_PARTITION), name=topic.name)
    if known is None and topic.name is not None:
        if not _valid(topic.name):
            unknown.error_code = int(Code.INVALID_TOPIC_EXCEPTION)
        elif request.body.allow_auto_topic_creation and node.settings["auto.create.topics.enable"]:
            node.create_automatically(CreateTopics((NewTopic(topic.name),)))
    if known is not None and not node.dispatcher.authorizer.allowed(request.session, "DESCRIBE", ("topic", known.name)):
        return response.topics(error_code=int(Code.TOPIC_AUTHORIZATION_FAILED), name=topic.name, topic_id=ZERO_UUID)
    return unknown if known is None else _topic(image, known)


def _valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except KafkaError:
        return False
    return True


def _topic(image: MetadataImage, topic: TopicImage) -> Row:
    return response.topics(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(image, index, partition) for index, partition in enumerate(topic.partitions)],
    )


def _partition(image: MetadataImage, index: int, partition: PartitionImage) -> Row:
    brokers = image.brokers
    offline = tuple([i for i in partition.replicas if (broker := brokers.get(i)) is None or broker.fenced])
    return response.topics.partitions(
        error_code=int(Code.LEADER_NOT_AVAILABLE) if partition.leader < 0 else 0,
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=offline,
    )


def _null_names(request: Request) -> Row | None:
    """A null name is for asking by id, from version 12 on."""
    for topic in request.body.topics:
        if topic.name is None and (request.version < 12 or topic.topic_id == ZERO_UUID):
            return _nothing(request, Code.INVALID_REQUEST if request.version < 12 else Code.UNKNOWN_SERVER_ERROR)
    return None
