"""ElectLeaders: v0-2 (KIP-460); before v1 only the preferred leader can be meant."""

from typing import TYPE_CHECKING

from raftka.broker.authorizer import THE_CLUSTER
from raftka.broker.dispatch import Request, handles
from raftka.metadata.commands import ElectLeaders, TopicPartitions, TopicResults
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.partitions import ELECT_LEADERS
from raftka.wire.schema import Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

response = ELECT_LEADERS.response


@handles(ELECT_LEADERS, refused=lambda request, code: _refused(request, code, None))
async def elect_leaders(request: Request, node: "Node") -> Row:
    body = request.body
    if not request.may("ALTER", THE_CLUSTER):
        return _refused(request, Code.CLUSTER_AUTHORIZATION_FAILED, None)
    asked = body.topic_partitions
    topics = None if asked is None else tuple([TopicPartitions(each.topic, tuple(each.partitions)) for each in asked])
    try:
        results: tuple[TopicResults, ...] = await node.link.ask(ElectLeaders(body.election_type, topics), body.timeout_ms / 1000)
    except KafkaError as error:
        return _refused(request, error.code, error.message)
    return response(replica_election_results=[_topic(each) for each in results])


def _topic(found: TopicResults) -> Row:
    row = response.replica_election_results
    rows = [row.partition_result(partition_id=index, error_code=error, error_message=message) for index, error, message in found.partitions]
    return row(topic=found.name, partition_result=rows)


def _refused(request: Request, code: Code, message: str | None) -> Row:
    """At the top, and of each partition."""
    row = response.replica_election_results
    topics = [
        row(topic=t.topic, partition_result=[row.partition_result(partition_id=p, error_code=int(code), error_message=message) for p in t.partitions])
        for t in request.body.topic_partitions or ()
    ]
    return request.answer(error_code=int(code), replica_election_results=topics)
