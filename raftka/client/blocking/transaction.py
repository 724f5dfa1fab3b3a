"""One transaction that several producers share: each writes under its id and epoch, over
connections of its own, and one of them ends it.

The requests are those of transactions of version 1, which every broker from Kafka 0.11 on knows:
partitions are added before they are written to, and EndTxn leaves the epoch as it is. So every
transaction needs a `begin` of its own: an EndTxn that is sent again would end the next transaction
of the same epoch.
"""

from collections.abc import Iterable
from typing import NamedTuple

from raftka.client.blocking.client import (
    TRANSACTION,
    Client,
    Where,
    by_topic,
    check,
    error_codes,
    is_retriable,
)
from raftka.wire.errors import Code
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.messages.transactions import ADD_PARTITIONS_TO_TXN, END_TXN

CLIENTS_ADD_PARTITIONS = 3  # the last version of AddPartitionsToTxn that is for clients
KEEPS_EPOCH = 4  # the last version of EndTxn that leaves the epoch as it is


class Identity(NamedTuple):
    """A producer's id and epoch. With a transactional id, records count when the transaction is
    committed.
    """

    producer_id: int
    producer_epoch: int
    transactional_id: str | None = None


def begin(client: Client, transactional_id: str, timeout_ms: int) -> Identity:
    """Abort or complete what is open under this id, and fence the producers that wrote it. Raises
    KafkaError and Unreachable.
    """
    request = INIT_PRODUCER_ID.request(
        transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
    )
    answer = client.ask_coordinator(
        transactional_id, INIT_PRODUCER_ID, request, kind=TRANSACTION, passing=is_retriable
    )
    check(
        answer.error_code,
        f"in answer to InitProducerId for the transactional id {transactional_id}",
    )
    return Identity(answer.producer_id, answer.producer_epoch, transactional_id)


def add_partitions(client: Client, identity: Identity, wheres: Iterable[Where]) -> None:
    """Tell the coordinator which partitions are written to next. Raises KafkaError and
    Unreachable.
    """
    topic = ADD_PARTITIONS_TO_TXN.request.v3_and_below_topics
    topics = by_topic((where, where[1]) for where in wheres)
    request = ADD_PARTITIONS_TO_TXN.request(
        v3_and_below_transactional_id=identity.transactional_id or "",
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.producer_epoch,
        v3_and_below_topics=[
            topic(name=name, partitions=partitions) for name, partitions in topics.items()
        ],
    )
    answer = client.ask_coordinator(
        identity.transactional_id or "",
        ADD_PARTITIONS_TO_TXN,
        request,
        CLIENTS_ADD_PARTITIONS,
        kind=TRANSACTION,
        passing=is_retriable,
    )
    # that one is of the partitions without a fault
    for code in sorted(error_codes(answer), key=lambda each: each == Code.OPERATION_NOT_ATTEMPTED):
        check(code, f"in answer to AddPartitionsToTxn for {', '.join(sorted(topics))}")


def end(client: Client, identity: Identity, *, commit: bool) -> None:
    """Commit or abort. Returns when the coordinator has decided; it is safe to send it again.
    Raises KafkaError and Unreachable.
    """
    request = END_TXN.request(
        transactional_id=identity.transactional_id or "",
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        committed=commit,
    )
    answer = client.ask_coordinator(
        identity.transactional_id or "",
        END_TXN,
        request,
        KEEPS_EPOCH,
        kind=TRANSACTION,
        passing=is_retriable,
    )
    check(
        answer.error_code,
        f"in answer to EndTxn for the transactional id {identity.transactional_id}",
    )


def give_up(client: Client, identity: Identity, timeout_ms: int) -> None:
    """Abort the transaction and fence all who write in it, unless a later `begin` has done so.
    Raises KafkaError and Unreachable.

    A plain abort would leave the epoch: a producer that has not heard of it could begin another
    transaction that nobody ends.
    """
    request = INIT_PRODUCER_ID.request(
        transactional_id=identity.transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
    )
    answer = client.ask_coordinator(
        identity.transactional_id or "", INIT_PRODUCER_ID, request, kind=TRANSACTION
    )
    if answer.error_code not in (Code.NONE, Code.CONCURRENT_TRANSACTIONS):  # it is being aborted
        check(
            answer.error_code,
            f"in answer to InitProducerId for the transactional id {identity.transactional_id}",
        )
