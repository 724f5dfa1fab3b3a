"""Produce: v3-13; by topic id from v13 on. Its work is in broker/produce/; a request like the one
before it on its connection is answered by a plan (broker/produce/plan.py).
"""

from raftka.broker.handlers.parts import AppendParts, ReplicaParts
from raftka.broker.network.access.authorizer import TRANSACTIONAL_ID
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.produce.produce import Produce, response
from raftka.broker.work.long_work import Steps
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.produce import PRODUCE, ProduceRequest, ProduceResponse
from raftka.wire.schema import ZERO_UUID


def _refused(request: Request[ProduceRequest], code: Code) -> Steps[ProduceResponse | None]:
    """Return the same error for every partition."""
    if request.body.acks == 0:
        request.connection.end("a produce without acknowledgement failed")
        return None
    row = response.responses.partition_responses
    topics = request.encoded_rows(response.responses)
    for topic in request.body.topic_data:
        partitions = request.encoded_rows(row)
        for asked in topic.partition_data:
            partitions.add(row(index=asked.index, error_code=int(code), base_offset=-1))
            yield
        topics.add(
            response.responses(
                name=topic.name,
                topic_id=topic.topic_id or ZERO_UUID,
                partition_responses=partitions,
            )
        )
        yield
    return response(responses=topics)


@handles(PRODUCE, refused=_refused)
def produce(
    request: Request[ProduceRequest], replicas: ReplicaParts, append: AppendParts
) -> Steps[ProduceResponse | Delayed | None]:
    run = Produce(
        request,
        replicas.manager,
        append.pool,
        append.background,
        append.verifier,
        append.schemas,
    )
    transactional_id = request.body.transactional_id
    if (yield from run.list_partitions()) and (
        transactional_id is None or not request.may("WRITE", (TRANSACTIONAL_ID, transactional_id))
    ):
        raise KafkaError(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return (yield from (run.append_all() if transactional_id is None else run.verify_and_append()))
