"""StreamsGroupTopologyDescriptionUpdate: v0 (KIP-1331). The group coordinator keeps descriptions in
memory if the node's settings say so; there are no other plugins.
"""

from raftka.broker.context import MetadataCache
from raftka.broker.handlers.coordinator_request import ask, check_group
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.handlers.streams_group_heartbeat import check_served
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps, counted_as
from raftka.coordinator.streams.commands import DescribeTopology
from raftka.metadata.configs.of_groups import IN_MEMORY
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.streams_groups import (
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    DescriptionGlobalStore,
    DescriptionNode,
    DescriptionSubtopology,
    PushedNode,
    PushedTopologyDescription,
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
    TopologyDescription,
)

response = STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE.response
NODE_TYPES = range(1, 4)  # source, processor, sink
ROW_BYTES, TEXT_BYTES = 500, 50  # of a row and of a text in memory, about, beside what they hold


@handles(STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE)
def streams_group_topology_description_update(
    request: Request[StreamsGroupTopologyDescriptionUpdateRequest],
    metadata: MetadataCache,
    coordinators: CoordinatorParts,
) -> Steps[StreamsGroupTopologyDescriptionUpdateResponse | Delayed]:
    check_served(metadata)
    body = request.body
    check_group(request, "READ", body.group_id)
    if metadata.settings["group.streams.topology.description.plugin.class"] != IN_MEMORY:
        text = "The broker has no streams group topology description plugin configured."
        return _answer(request, KafkaError(Code.UNSUPPORTED_VERSION, text))
    for name, value in (("GroupId", body.group_id), ("MemberId", body.member_id)):
        if not value:
            return _answer(request, KafkaError(Code.INVALID_REQUEST, f"{name} can't be empty."))
    try:
        description, size = yield from _read(body.topology_description)
    except KafkaError as error:
        return _answer(request, error)
    command = DescribeTopology(
        body.group_id, body.member_id, body.topology_epoch, description, size
    )
    return ask(request, coordinators, body.group_id, command, _answer)


def _answer(
    request: Request[StreamsGroupTopologyDescriptionUpdateRequest], answer: KafkaError | None
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    if answer is None:
        return response()
    return response(error_code=int(answer.code), error_message=answer.message)


def _read(pushed: PushedTopologyDescription) -> Steps[tuple[TopologyDescription, int]]:
    """Return the description as answers have it, and its size in bytes, about. Raises
    INVALID_REQUEST.
    """
    size, subtopologies, stores = ROW_BYTES, [], []
    for subtopology in pushed.subtopologies:
        nodes = []
        for pushed_node in subtopology.nodes:
            node, bytes_of_node = yield from _read_node(pushed_node)
            nodes.append(node)
            size += bytes_of_node
        name = subtopology.subtopology_id
        size += ROW_BYTES + len(name)
        subtopologies.append(DescriptionSubtopology(subtopology_id=name, nodes=nodes))
        yield
    for store in pushed.global_stores:
        source, bytes_of_source = yield from _read_node(store.source)
        processor, bytes_of_processor = yield from _read_node(store.processor)
        stores.append(DescriptionGlobalStore(source=source, processor=processor))
        size += ROW_BYTES + bytes_of_source + bytes_of_processor
    return TopologyDescription(subtopologies=subtopologies, global_stores=stores), size


def _read_node(node: PushedNode) -> Steps[tuple[DescriptionNode, int]]:
    if node.node_type not in NODE_TYPES:
        text = f"Unknown topology node type: {node.node_type}"
        raise KafkaError(Code.INVALID_REQUEST, text)
    texts = [node.name, node.sink_topic or "", *node.source_topics, *node.stores, *node.successors]
    yield from counted_as(len(texts))
    row = DescriptionNode(
        name=node.name,
        node_type=node.node_type,
        source_topics=list(node.source_topics),
        sink_topic=node.sink_topic,
        stores=list(node.stores),
        successors=list(node.successors),
    )
    return row, ROW_BYTES + TEXT_BYTES * len(texts) + sum(map(len, texts))
