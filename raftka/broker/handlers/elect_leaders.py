"""ElectLeaders: v0-2 (KIP-460); before v1 only the preferred leader can be meant."""

from collections.abc import Iterator, Sequence

from raftka.broker.handlers.by_topic import partition_commands
from raftka.broker.handlers.services import Services
from raftka.broker.network.access.authorizer import CLUSTER, REFUSED, THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps
from raftka.metadata.commands import ElectLeaders, PartitionResult, TopicResults
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.partitions import ELECT_LEADERS, ElectLeadersRequest, ElectLeadersResponse

response = ELECT_LEADERS.response


@handles(ELECT_LEADERS, refused=lambda request, code: _refused(request, code, None))
async def elect_leaders(
    request: Request[ElectLeadersRequest], services: Services
) -> ElectLeadersResponse:
    """A request for very many partitions is several commands, each of which is committed as a
    whole.
    """
    body = request.body
    if not request.may("ALTER", THE_CLUSTER):
        return await request.finish(
            _refused(request, Code.CLUSTER_AUTHORIZATION_FAILED, REFUSED[CLUSTER])
        )
    results: dict[str, list[PartitionResult]] = {}
    asked = body.topic_partitions
    for topics in await request.finish(
        partition_commands(
            _every(services) if asked is None else ((t.topic, t.partitions) for t in asked)
        )
    ):
        try:
            found: tuple[TopicResults, ...] = await services.controller.ask(
                ElectLeaders(body.election_type, topics), body.timeout_ms / 1000
            )
        except KafkaError as error:
            return await request.finish(_refused(request, error.code, error.message))
        for topic in found:
            told = [
                each
                for each in topic.partitions
                if asked is not None or each.error != Code.ELECTION_NOT_NEEDED
            ]
            results.setdefault(topic.name, []).extend(told)
    return await request.finish(_answer(request, results))


def _every(services: Services) -> Iterator[tuple[str, Sequence[int]]]:
    return (
        (topic.name, range(len(topic.partitions)))
        for topic in services.metadata.image.topics.values()
    )


def _answer(
    request: Request[ElectLeadersRequest], results: dict[str, list[PartitionResult]]
) -> Steps[ElectLeadersResponse]:
    row = response.replica_election_results
    topics = request.encoded_rows(row)
    for name, found in results.items():
        partitions = request.encoded_rows(row.partition_result)
        for index, error, message in found:
            partitions.add(
                row.partition_result(partition_id=index, error_code=error, error_message=message)
            )
            yield
        topics.add(row(topic=name, partition_result=partitions))
        yield
    return response(replica_election_results=topics)


def _refused(
    request: Request[ElectLeadersRequest], code: Code, message: str | None
) -> Steps[ElectLeadersResponse]:
    """At the top, and of each partition."""
    row = response.replica_election_results
    topics = request.encoded_rows(row)
    for topic in request.body.topic_partitions or ():
        partitions = request.encoded_rows(row.partition_result)
        for index in topic.partitions:
            partitions.add(
                row.partition_result(
                    partition_id=index, error_code=int(code), error_message=message
                )
            )
            yield
        topics.add(row(topic=topic.topic, partition_result=partitions))
        yield
    return response(error_code=int(code), replica_election_results=topics)
