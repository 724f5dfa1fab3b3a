"""ListTransactions: v0-2; the transactional ids that this broker coordinates, by state and producer
id, by duration from version 1 on, by name from version 2 on.
"""

from collections.abc import Sequence
from typing import cast

from raftka.broker.handlers.coordinator_request import CoordinatorRequest
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.access.authorizer import TRANSACTIONAL_ID
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.transactions.commands import ListedTransaction, ListTransactions
from raftka.coordinator.transactions.records import State
from raftka.wire.errors import KafkaError
from raftka.wire.messages.transactions import (
    LIST_TRANSACTIONS,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

response = LIST_TRANSACTIONS.response
STATES = {state.shown: state for state in State}
NEVER_WRITTEN = frozenset({"Dead", "PrepareEpochFence"})  # Kafka's states that no id is in


@handles(LIST_TRANSACTIONS)
def list_transactions(
    request: Request[ListTransactionsRequest], coordinators: CoordinatorParts
) -> Steps[ListTransactionsResponse | Delayed]:
    body = request.body
    states = (
        frozenset([STATES[name] for name in body.state_filters if name in STATES])
        if body.state_filters
        else None
    )
    command = ListTransactions(
        states,
        frozenset(body.producer_id_filters),
        body.duration_filter,
        body.transactional_id_pattern,
    )
    asking: CoordinatorRequest[ListTransactionsRequest, ListTransactionsResponse]
    asking = CoordinatorRequest(request, request.dispatcher.long_work, _answer)
    yield from coordinators.transactions.runtime.submit_to_all(command, asking)
    return asking.result()


def _answer(
    request: Request[ListTransactionsRequest],
    answers: list[tuple[ListedTransaction, ...]] | KafkaError,
) -> Steps[ListTransactionsResponse]:
    if isinstance(answers, KafkaError):
        return response(error_code=int(answers.code))
    rows = request.encoded_rows(response.transaction_states)
    for answer in answers:
        for each in answer:
            if request.may("DESCRIBE", (TRANSACTIONAL_ID, each.transactional_id)):
                state = each.state.shown
                rows.add(
                    response.transaction_states(
                        transactional_id=each.transactional_id,
                        producer_id=each.producer_id,
                        transaction_state=state,
                    )
                )
            yield
    return response(
        unknown_state_filters=(yield from _unknown_states(request)), transaction_states=rows
    )


def _unknown_states(request: Request[ListTransactionsRequest]) -> Steps[Sequence[str]]:
    unknown = request.encoded_strings()
    for name in request.body.state_filters:
        if name not in STATES and name not in NEVER_WRITTEN:
            unknown.add(name)
        yield
    return cast(Sequence[str], unknown)  # the encoder takes it for one
