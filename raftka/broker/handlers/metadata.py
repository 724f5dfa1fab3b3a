"""Metadata: v0-13; topics by name or id (KIP-516), auto-creation. Answers from the local image.

An answer that names a leader that seems to have died waits (suspects.py); nothing else does.
"""

from collections.abc import Iterator

from raftka.broker.context import MetadataCache
from raftka.broker.coordinators.topics import INTERNAL_TOPICS
from raftka.broker.handlers.parts import DiscoveryParts
from raftka.broker.network.access.authorizer import THE_CLUSTER, TOPIC
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.metadata.commands import NewTopic
from raftka.metadata.controller.topic_names import check_topic_name
from raftka.metadata.image import MetadataImage, PartitionImage, TopicImage
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.metadata import (
    METADATA,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from raftka.wire.schema import ZERO_UUID

response = METADATA.response


def _nothing(request: Request[MetadataRequest], code: Code) -> Steps[MetadataResponse]:
    topics = request.encoded_rows(response.topics)
    for topic in request.body.topics or ():
        topics.add(
            response.topics(error_code=int(code), name=topic.name or "", topic_id=topic.topic_id)
        )
        yield
    return response(
        cluster_id=None,
        controller_id=-1,
        topics=topics,
        error_code=int(code) if request.version >= 13 else 0,
    )


@handles(METADATA, refused=_nothing)
def metadata(
    request: Request[MetadataRequest], metadata: MetadataCache, discovery: DiscoveryParts
) -> Steps[MetadataResponse | Delayed]:
    return (
        yield from discovery.suspects.answer(
            request, lambda leaders: _answer(request, metadata, discovery, leaders)
        )
    )


def _answer(
    request: Request[MetadataRequest],
    metadata: MetadataCache,
    discovery: DiscoveryParts,
    leaders: set[int],
) -> Steps[MetadataResponse]:
    """Return the answer; add the leaders that it names to `leaders`."""
    image, session = metadata.image, request.session
    asked = request.body.topics
    everything = asked is None or (request.version == 0 and not asked)
    if not everything and (code := (yield from _badly_asked(request))) is not Code.NONE:
        return (yield from _nothing(request, code))
    topics = request.encoded_rows(response.topics)
    for steps in (
        _all(request, metadata, leaders)
        if everything
        else _each_asked(request, metadata, discovery, leaders)
    ):
        row = yield from steps
        if (
            request.body.include_topic_authorized_operations
            and row.name is not None
            and row.error_code != Code.TOPIC_AUTHORIZATION_FAILED
        ):
            row.topic_authorized_operations = request.authorized_operations((TOPIC, row.name))
        topics.add(row)
        yield
    endpoints = [
        (broker, metadata.endpoint_of(broker, session.listener, session.reached_at))
        for broker in discovery.listed_brokers.of(image)
    ]
    return response(
        brokers=[
            response.brokers(
                node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
            )
            for broker, endpoint in endpoints
            if endpoint is not None
        ],
        cluster_id=image.cluster_id,
        controller_id=discovery.controller_for_clients(),
        topics=topics,
        **(
            {"cluster_authorized_operations": request.authorized_operations(THE_CLUSTER)}
            if request.body.include_cluster_authorized_operations
            else {}
        ),
    )


def _all(
    request: Request[MetadataRequest], metadata: MetadataCache, leaders: set[int]
) -> Iterator[Steps[MetadataResponseTopic]]:
    return (
        _topic(request, metadata.image, topic, leaders)
        for topic in metadata.image.topics.values()
        if request.may("DESCRIBE", (TOPIC, topic.name))
    )


def _each_asked(
    request: Request[MetadataRequest],
    metadata: MetadataCache,
    discovery: DiscoveryParts,
    leaders: set[int],
) -> Iterator[Steps[MetadataResponseTopic]]:
    """Yield the row of each topic once, also of one that the request names more than once."""
    image = metadata.image
    seen: set[object] = set()
    for topic in request.body.topics or ():
        by_name = (
            image.topic_named(topic.name)
            if topic.topic_id == ZERO_UUID and topic.name is not None
            else None
        )
        key = (
            topic.topic_id
            if topic.topic_id != ZERO_UUID
            else by_name.topic_id
            if by_name is not None
            else topic.name
        )
        if key not in seen:
            seen.add(key)
            yield _asked(request, metadata, discovery, topic, leaders)


def _asked(
    request: Request[MetadataRequest],
    metadata: MetadataCache,
    discovery: DiscoveryParts,
    topic: MetadataRequestTopic,
    leaders: set[int],
) -> Steps[MetadataResponseTopic]:
    """Return the row of a topic. As in Kafka, its id counts, whatever the name beside it: the topic
    may have been deleted and created again under that name.
    """
    image = metadata.image
    if topic.topic_id != ZERO_UUID:
        known = image.topics.get(topic.topic_id)
        code = Code.UNKNOWN_TOPIC_ID if known is None else Code.TOPIC_AUTHORIZATION_FAILED
        if known is None or not request.may("DESCRIBE", (TOPIC, known.name)):
            return response.topics(error_code=int(code), name=None, topic_id=topic.topic_id)
        return (yield from _topic(request, image, known, leaders))
    assert topic.name is not None, "refused before"
    if not request.may("DESCRIBE", (TOPIC, topic.name)):  # whether it is there or not
        return response.topics(error_code=int(Code.TOPIC_AUTHORIZATION_FAILED), name=topic.name)
    known = image.topic_named(topic.name)
    if known is None:
        return response.topics(
            error_code=int(_missing(request, metadata, discovery, topic.name)), name=topic.name
        )
    return (yield from _topic(request, image, known, leaders))


def _missing(
    request: Request[MetadataRequest], metadata: MetadataCache, discovery: DiscoveryParts, name: str
) -> Code:
    """Return the error of an unknown topic. Ask for its creation where the client and the settings
    allow it; the client finds the topic when it retries.
    """
    if not _valid(name):
        return Code.INVALID_TOPIC_EXCEPTION
    if request.body.allow_auto_topic_creation and metadata.settings["auto.create.topics.enable"]:
        if not request.may("CREATE", THE_CLUSTER) and not request.may("CREATE", (TOPIC, name)):
            return Code.TOPIC_AUTHORIZATION_FAILED
        settings = metadata.settings  # this broker's, whichever node is the controller
        partitions: int = settings["num.partitions"]
        if (
            request.meter is None
            or discovery.topic_creation.wants(name)
            or request.meter.may_create(partitions)
        ):
            discovery.topic_creation.want(
                NewTopic(name, partitions, settings["default.replication.factor"])
            )
    return Code.UNKNOWN_TOPIC_OR_PARTITION


def _valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except KafkaError:
        return False
    return True


def _topic(
    request: Request[MetadataRequest], image: MetadataImage, topic: TopicImage, leaders: set[int]
) -> Steps[MetadataResponseTopic]:
    partitions = request.encoded_rows(response.topics.partitions)
    for index, partition in enumerate(topic.partitions):
        partitions.add(_partition(image, index, partition))
        leaders.add(partition.leader)
        yield
    return response.topics(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
    )


def _partition(
    image: MetadataImage, index: int, partition: PartitionImage
) -> MetadataResponsePartition:
    brokers = image.brokers
    offline = tuple(
        [
            i
            for i in partition.replicas
            if (broker := brokers.get(i)) is None or broker.fenced or i in partition.offline
        ]
    )
    return response.topics.partitions(
        error_code=int(Code.LEADER_NOT_AVAILABLE) if partition.leader < 0 else 0,
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=offline,
    )


def _badly_asked(request: Request[MetadataRequest]) -> Steps[Code]:
    """Return NONE if no topic is refused: ids are for versions from 12 on, and a null name is for
    requests by id.
    """
    for topic in request.body.topics or ():
        if request.version < 12 and (topic.name is None or topic.topic_id != ZERO_UUID):
            return Code.INVALID_REQUEST
        if topic.name is None and topic.topic_id == ZERO_UUID:
            return Code.UNKNOWN_SERVER_ERROR
        yield
    return Code.NONE
