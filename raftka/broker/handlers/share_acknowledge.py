"""ShareAcknowledge: v1-2 (KIP-932). A member of a share group says of records that it has acquired
whether they are done. Answered when that is persisted.
"""

from raftka.broker.handlers.parts import ShareParts
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.share.acknowledge import Acknowledgements, check_request
from raftka.broker.share.sessions import BEGIN, END
from raftka.broker.work.long_work import Steps
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.share_acknowledge import (
    SHARE_ACKNOWLEDGE,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)

TOTAL = "kafka_server_brokertopicmetrics_totalshareacknowledgementrequests_total"
FAILED = "kafka_server_brokertopicmetrics_failedshareacknowledgementrequests_total"

response = SHARE_ACKNOWLEDGE.response
of_topic = response.responses
of_partition = of_topic.partitions


@handles(SHARE_ACKNOWLEDGE)
def share_acknowledge(
    request: Request[ShareAcknowledgeRequest], share: ShareParts
) -> Steps[ShareAcknowledgeResponse | Delayed]:
    body, sessions = request.body, share.sessions
    share.leader.context.metrics.count(TOTAL)
    key = check_request(request, share.leader.context.metadata)
    if body.share_session_epoch == BEGIN:
        raise KafkaError(Code.INVALID_SHARE_SESSION_EPOCH)
    session = sessions.find(key, body.share_session_epoch, request.connection)
    acks = Acknowledgements(request, share.leader, key)
    if body.share_session_epoch == END:
        sessions.close(session)
        yield from acks.begin(body.topics)
        yield from acks.release(session.partitions)
    else:
        sessions.go_on(session)
        yield from acks.begin(body.topics)
    if acks.are_written:
        return (yield from _answer(request, share, key.group_id, acks))
    pending = Delayed(request)
    acks.when_written(
        lambda: request.dispatcher.long_work.run(
            request.api.name,
            _answer(request, share, key.group_id, acks),
            pending.settle,
            lambda: not pending.over,
            spent=request.spent,
        )
    )
    return pending


def _answer(
    request: Request[ShareAcknowledgeRequest],
    share: ShareParts,
    group_id: str,
    acks: Acknowledgements,
) -> Steps[ShareAcknowledgeResponse]:
    """Return the rows of the partitions with acknowledgements."""
    leader, session = share.leader, request.session
    metadata = leader.context.metadata
    topics, rows = request.encoded_rows(of_topic), request.encoded_rows(of_partition)
    last_id: bytes | None = None
    leaders: set[int] = set()
    for (topic_id, index), error in acks.results.items():
        if last_id not in (None, topic_id):
            topics.add(of_topic(topic_id=last_id, partitions=rows))
            rows = request.encoded_rows(of_partition)
        last_id = topic_id
        row = of_partition(partition_index=index)
        if error is not None:
            row.error_code, row.error_message = int(error.code), error.message
            leader.context.metrics.count(FAILED)
            leads = metadata.image.partition(topic_id, index)
            if error.code is Code.NOT_LEADER_OR_FOLLOWER and leads is not None:
                row.current_leader = of_partition.current_leader(
                    leader_id=leads.leader, leader_epoch=leads.leader_epoch
                )
                leaders.add(leads.leader)
        rows.add(row)
        yield
    if last_id is not None:
        topics.add(of_topic(topic_id=last_id, partitions=rows))
    return response(
        acquisition_lock_timeout_ms=leader.lock_ms_of(group_id),
        responses=topics,
        node_endpoints=metadata.endpoints_of(
            leaders, session.listener, session.reached_at, response.node_endpoints
        ),
    )
