"""ElectLeaders: v0-2 (KIP-460); v0 can elect the preferred leader only."""

from collections.abc import Iterator, Sequence

from raftka.broker.context import MetadataCache
from raftka.broker.controller.controller_client import ControllerClient
from raftka.broker.handlers.by_topic import partition_commands
from raftka.broker.network.access.authorizer import CLUSTER, REFUSED, THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps
from raftka.metadata.commands import ElectLeaders, PartitionResult, TopicResults
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.partitions import ELECT_LEADERS, ElectLeadersRequest, ElectLeadersResponse

response = ELECT_LEADERS.response


@handles(ELECT_LEADERS, refused=lambda request, code: _refuse_all(request, code, None))
async def elect_leaders(
    request: Request[ElectLeadersRequest], metadata: MetadataCache, controller: ControllerClient
) -> ElectLeadersResponse:
    """Send a request for very many partitions as several commands; each is committed as a whole."""
    body = request.body
    if not request.may("ALTER", THE_CLUSTER):
        return await request.finish(
            _refuse_all(request, Code.CLUSTER_AUTHORIZATION_FAILED, REFUSED[CLUSTER])
        )
    results: dict[str, list[PartitionResult]] = {}
    wanted = body.topic_partitions
    for topics in await request.finish(
        partition_commands(
            _all_partitions(metadata)
            if wanted is None
            else ((t.topic, t.partitions) for t in wanted)
        )
    ):
        try:
            found: tuple[TopicResults, ...] = await controller.ask(
                ElectLeaders(body.election_type, topics), body.timeout_ms / 1000
            )
        except KafkaError as error:
            return await request.finish(_refuse_all(request, error.code, error.message))
        for topic in found:
            partitions = [
                each
                for each in topic.partitions
                if wanted is not None or each.error != Code.ELECTION_NOT_NEEDED
            ]
            results.setdefault(topic.name, []).extend(partitions)
    return await request.finish(_make_response(request, results))


def _all_partitions(metadata: MetadataCache) -> Iterator[tuple[str, Sequence[int]]]:
    return ((topic.name, range(len(topic.partitions))) for topic in metadata.image.topics.values())


def _make_response(
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


def _refuse_all(
    request: Request[ElectLeadersRequest], code: Code, message: str | None
) -> Steps[ElectLeadersResponse]:
    """Put the error at the top of the response and into each partition."""
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
