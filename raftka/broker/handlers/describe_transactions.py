"""DescribeTransactions: v0; the state of transactional ids that this broker coordinates. One that
is named twice is described once.
"""

from raftka.broker.coordinators.runtime import Gathered
from raftka.broker.handlers.coordinator_request import CoordinatorRequest
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.access.authorizer import TOPIC, TRANSACTIONAL_ID
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.transactions.commands import DescribedTransaction, DescribeTransaction
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.transactions import (
    DESCRIBE_TRANSACTIONS,
    DescribedTransactionState,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)

response = DESCRIBE_TRANSACTIONS.response
row, topic_row = response.transaction_states, response.transaction_states.topics


def _refused(
    request: Request[DescribeTransactionsRequest], code: Code
) -> Steps[DescribeTransactionsResponse]:
    return (
        yield from _answer(request, [KafkaError(code)] * len(set(request.body.transactional_ids)))
    )


@handles(DESCRIBE_TRANSACTIONS, refused=_refused)
def describe_transactions(
    request: Request[DescribeTransactionsRequest], coordinators: CoordinatorParts
) -> Steps[DescribeTransactionsResponse | Delayed]:
    asking: CoordinatorRequest[DescribeTransactionsRequest, DescribeTransactionsResponse]
    asking = CoordinatorRequest(request, request.dispatcher.long_work, _answer)
    request.stays = True
    ids = dict.fromkeys(request.body.transactional_ids)
    gathered = Gathered(len(ids), asking)
    for place, transactional_id in enumerate(ids):
        ticket = gathered.place(place)
        try:
            if not request.may("DESCRIBE", (TRANSACTIONAL_ID, transactional_id)):
                raise KafkaError(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            coordinators.transactions.submit(
                transactional_id, DescribeTransaction(transactional_id), ticket
            )
        except KafkaError as error:
            ticket(error.with_traceback(None))
        yield
    return asking.result()


def _answer(
    request: Request[DescribeTransactionsRequest], answers: list[DescribedTransaction | KafkaError]
) -> Steps[DescribeTransactionsResponse]:
    rows = request.encoded_rows(row)
    for transactional_id, answer in zip(
        dict.fromkeys(request.body.transactional_ids), answers, strict=True
    ):
        rows.add((yield from _state(request, transactional_id, answer)))
        yield
    return response(transaction_states=rows)


def _state(
    request: Request[DescribeTransactionsRequest],
    transactional_id: str,
    answer: DescribedTransaction | KafkaError,
) -> Steps[DescribedTransactionState]:
    """Topics that the client may not describe are left out."""
    if isinstance(answer, KafkaError):
        return row(error_code=int(answer.code), transactional_id=transactional_id)
    topics = request.encoded_rows(topic_row)
    for name, partitions in answer.topics.items():
        if request.may("DESCRIBE", (TOPIC, name)):
            topics.add(topic_row(topic=name, partitions=sorted(partitions.indexes)))
        yield
    return row(
        transactional_id=transactional_id,
        transaction_state=answer.state.shown,
        transaction_timeout_ms=answer.timeout_ms,
        transaction_start_time_ms=answer.start_ms,
        producer_id=answer.producer_id,
        producer_epoch=answer.epoch,
        topics=topics,
    )
