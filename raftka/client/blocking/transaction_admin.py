"""Transactions of producers as an administrator sees them, through Kafka's protocol alone
(KIP-664), so that it works with any Kafka: list, describe, find those that hang, abort, fence.

A transaction *hangs* when it is open in a partition and no coordinator knows it there: nobody will
end it, and readers of committed records stop before it. Its producer's id, looked up at all
coordinators, decides; the age only limits how many are looked up.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from raftka.client.blocking.client import (
    NOT_COORDINATOR,
    TRANSACTION,
    Client,
    Where,
    by_topic,
    check,
    is_retriable,
)
from raftka.client.blocking.connection import ClientError
from raftka.client.blocking.coordinators import ask_coordinators
from raftka.client.blocking.every_broker import ask_brokers, ask_every_broker
from raftka.wire.errors import Code
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID, InitProducerIdResponse
from raftka.wire.messages.producers import (
    DESCRIBE_PRODUCERS,
    DescribeProducersRequest,
    PartitionResponse,
)
from raftka.wire.messages.transactions import (
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
    WRITE_TXN_MARKERS,
    DescribedTransactionState,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

COORDINATORS = "__transaction_state"  # the leaders of its partitions are the coordinators
ONGOING = "Ongoing"
ENDING = ("PrepareCommit", "PrepareAbort")  # partitions that are left are waiting for their markers
OPEN = (ONGOING, *ENDING)
STATES = ("Empty", *OPEN, "CompleteCommit", "CompleteAbort", "PrepareEpochFence", "Dead")
PARTITIONS_OF_REQUEST = 1_000


class Refused(ClientError):
    """A request that would do harm, or has no object. The text says why, and the next step."""


class ListedId(NamedTuple):
    """A transactional id at its coordinator."""

    transactional_id: str
    state: str
    producer_id: int
    coordinator: int  # the broker's id


class Listed(NamedTuple):
    ids: list[ListedId]  # by transactional id
    answered: frozenset[int]  # the brokers whose ids these are
    missing: Mapping[int, str]  # by broker: why its ids are not there


class Described(NamedTuple):
    """The rows, some with an error code, and their coordinators, in the order of the question."""

    found: dict[str, tuple[DescribedTransactionState, int]]
    lost: Mapping[str, str]  # by transactional id: why no coordinator has answered


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition."""

    where: Where
    producer_id: int
    epoch: int
    coordinator_epoch: int  # -1: no coordinator has written a marker of this producer here
    start_offset: int
    last_timestamp_ms: int

    @property
    def identity(self) -> tuple[Where, int, int]:
        return self.where, self.producer_id, self.start_offset


class PartitionRefusal(NamedTuple):
    """A partition about which its broker has not told."""

    where: Where
    code: int
    message: str | None = None


class InPartitions(NamedTuple):
    """Open transactions of partitions, and what may lack."""

    found: list[OpenTransaction]
    refused: list[PartitionRefusal]
    missing: dict[int, str]  # by broker: why it has not answered


class Known(NamedTuple):
    """Those of some open transactions that a coordinator knows, and will end."""

    by_identity: Mapping[tuple[Where, int, int], DescribedTransactionState]
    is_complete: bool  # all coordinators have answered
    missing: Mapping[int, str]  # by broker: why it has not answered


def list_transactions(client: Client, request: ListTransactionsRequest) -> Listed:
    """Ask all brokers. Raises KafkaError for a filter that a broker refuses, and OSError when no
    broker tells which brokers there are.
    """
    answers = ask_every_broker(
        client, LIST_TRANSACTIONS, request, passing=NOT_COORDINATOR.__contains__
    )
    found = sorted(_listed(answers.of), key=lambda each: each.transactional_id)
    return Listed(found, frozenset(answers.of), answers.missing)


def _listed(answers: Mapping[int, ListTransactionsResponse]) -> Iterator[ListedId]:
    for node_id, answer in answers.items():
        check(answer.error_code, f"in answer to ListTransactions at broker {node_id}")
        for each in answer.transaction_states:
            yield ListedId(each.transactional_id, each.transaction_state, each.producer_id, node_id)


def describe_transactions(client: Client, ids: Sequence[str]) -> Described:
    """Ask the coordinators of these transactional ids, all at once."""
    api = DESCRIBE_TRANSACTIONS
    asked = ask_coordinators(
        client, api, ids, lambda own: api.request(transactional_ids=list(own)), TRANSACTION
    )
    found = {
        each.transactional_id: (each, broker)
        for broker, answer in asked.answers.items()
        for each in answer.transaction_states
    }
    return Described({each: found[each] for each in ids if each in found}, asked.lost)


def describe_transaction(client: Client, transactional_id: str) -> DescribedTransactionState:
    """Ask the coordinator until it answers; the row may have an error code."""
    request = DESCRIBE_TRANSACTIONS.request(transactional_ids=[transactional_id])
    return client.ask_coordinator(
        transactional_id, DESCRIBE_TRANSACTIONS, request, kind=TRANSACTION
    ).transaction_states[0]


def partitions_in(found: DescribedTransactionState) -> set[Where]:
    """Return the partitions that the transaction has at its coordinator."""
    return {(each.topic, partition) for each in found.topics for partition in each.partitions}


def open_in_partitions(
    client: Client, wheres: Iterable[Where], broker_id: int | None = None
) -> InPartitions:
    """Return the transactions that are open in these partitions, as their leaders, or that broker,
    have them.
    """
    looked = InPartitions([], [], {})
    brokers: dict[int, list[Where]] = {}
    for where in sorted(set(wheres)):
        led = client.leader(where) if broker_id is None else None
        node_id = (
            broker_id
            if led is None
            else next(node_id for node_id, address in client.brokers.items() if address == led[0])
        )
        if node_id is None:
            looked.refused.append(PartitionRefusal(where, Code.LEADER_NOT_AVAILABLE))
        else:
            brokers.setdefault(node_id, []).append(where)
    while brokers:
        answers = ask_brokers(
            client,
            DESCRIBE_PRODUCERS,
            {
                node_id: _producers_of(own[:PARTITIONS_OF_REQUEST])
                for node_id, own in brokers.items()
            },
        )
        looked.missing.update(answers.missing)
        for answer in answers.of.values():
            for topic in answer.topics:
                for each in topic.partitions:
                    where = (topic.name, each.partition_index)
                    if each.error_code:
                        looked.refused.append(
                            PartitionRefusal(where, each.error_code, each.error_message)
                        )
                    looked.found.extend(_open_here(where, each))
        brokers = {
            node_id: own[PARTITIONS_OF_REQUEST:]
            for node_id, own in brokers.items()
            if node_id in answers.of and own[PARTITIONS_OF_REQUEST:]
        }
    return looked


def _producers_of(wheres: Iterable[Where]) -> DescribeProducersRequest:
    topics = by_topic((where, where[1]) for where in wheres)
    row = DESCRIBE_PRODUCERS.request.topics
    return DESCRIBE_PRODUCERS.request(
        topics=[row(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
    )


def _open_here(where: Where, row: PartitionResponse) -> Iterator[OpenTransaction]:
    for each in row.active_producers:
        if each.current_txn_start_offset >= 0:
            start, last = each.current_txn_start_offset, each.last_timestamp
            yield OpenTransaction(
                where, each.producer_id, each.producer_epoch, each.coordinator_epoch, start, last
            )


def known_to_coordinators(client: Client, transactions: Sequence[OpenTransaction]) -> Known:
    """Return those of the transactions that a coordinator knows. Raises ClientError when no broker
    answers.
    """
    if not transactions:
        return Known({}, True, {})
    request = LIST_TRANSACTIONS.request(
        producer_id_filters=sorted({each.producer_id for each in transactions})
    )
    coordinators = coordinators_of_transactions(client)
    listed = list_transactions(client, request)
    if not listed.answered:
        raise ClientError(f"no broker has answered {LIST_TRANSACTIONS.name}")
    # one that has taken over meanwhile may have answered before it did
    coordinators |= coordinators_of_transactions(client)
    described = {
        found.producer_id: found
        for found in (describe_transaction(client, each.transactional_id) for each in listed.ids)
        if not found.error_code
    }
    pairs = [
        (each, described[each.producer_id])
        for each in transactions
        if each.producer_id in described
    ]
    return Known(
        {each.identity: found for each, found in pairs if _ends(found, each)},
        coordinators <= listed.answered,
        listed.missing,
    )


def coordinators_of_transactions(client: Client) -> set[int]:
    """Return the brokers that coordinate transactions; -1 among them: some are coordinated by no
    broker now.
    """
    return {
        row.leader_id
        for topic in client.metadata([COORDINATORS]).topics
        for row in topic.partitions
    }


def _ends(found: DescribedTransactionState, transaction: OpenTransaction) -> bool:
    """Return whether the coordinator ends this one. The end of a transaction may raise the epoch
    before the partition has its marker.
    """
    same = found.producer_epoch == transaction.epoch
    ending = found.transaction_state in ENDING and found.producer_epoch >= transaction.epoch
    return transaction.where in partitions_in(found) and (
        (same and found.transaction_state == ONGOING) or ending
    )


def find_hanging(
    client: Client, suspects: Sequence[OpenTransaction], broker_id: int | None = None
) -> tuple[list[OpenTransaction], Known]:
    """Return those of the open transactions that no coordinator knows and that are open still,
    and what the coordinators know of the others.
    """
    known = known_to_coordinators(client, suspects)
    unknown = [each for each in suspects if each.identity not in known.by_identity]
    # it may have ended while the coordinators were asked
    again = open_in_partitions(client, [each.where for each in unknown], broker_id)
    still = {each.identity for each in again.found}
    return [each for each in unknown if each.identity in still], known


def abort_hanging(
    client: Client, where: Where, start_offset: int, *, force: bool = False
) -> OpenTransaction:
    """Abort the transaction that begins at this offset of a partition, if no coordinator knows it.
    `force`: also one that a coordinator knows, or may know.

    Raises Refused, and KafkaError when the leader refuses.
    """
    name = f"{where[0]}-{where[1]}"
    looked = open_in_partitions(client, [where])
    for refused in looked.refused:
        check(refused.code, refused.message or f"{name}, in answer to DescribeProducers")
    for node_id, why in looked.missing.items():
        raise Refused(f"broker {node_id} has not answered ({why})")
    hanging = next((each for each in looked.found if each.start_offset == start_offset), None)
    if hanging is None:
        there = ", ".join(str(each.start_offset) for each in looked.found)
        text = f"open ones begin at {there}" if there else "none is open there"
        raise Refused(
            f"{name}: no transaction that begins at offset {start_offset} is open; {text}"
        )
    known = Known({}, True, {}) if force else known_to_coordinators(client, [hanging])
    if not known.is_complete:
        raise Refused(
            f"{name}: a coordinator that has not answered may know the transaction; --force "
            "aborts it nevertheless"
        )
    if (found := known.by_identity.get(hanging.identity)) is not None:
        raise Refused(
            f"{name}: the transaction does not hang: it is {found.transaction_state} at its "
            f"coordinator, as {found.transactional_id}; "
            f"`raftka transactions fence {found.transactional_id}` aborts it in all its partitions"
        )
    check(_mark_aborted(client, hanging), f"{name}, in answer to WriteTxnMarkers")
    return hanging


def _mark_aborted(client: Client, hanging: OpenTransaction) -> int:
    """Write the marker that a coordinator would. Returns the error code."""
    (topic, partition), rows = hanging.where, WRITE_TXN_MARKERS.request.markers
    marker = rows(
        producer_id=hanging.producer_id,
        producer_epoch=hanging.epoch,
        transaction_result=False,
        topics=[rows.topics(name=topic, partition_indexes=[partition])],
        coordinator_epoch=max(0, hanging.coordinator_epoch),
    )
    answer = client.ask_leader(
        hanging.where, WRITE_TXN_MARKERS, WRITE_TXN_MARKERS.request(markers=[marker])
    )
    return next(
        each.error_code
        for of in answer.markers
        for topic_row in of.topics
        for each in topic_row.partitions
    )


def fence(client: Client, transactional_id: str) -> InitProducerIdResponse:
    """Abort what the id has open, and shut out the producers that use it now. Raises KafkaError,
    for an id that is not there too: the request alone would make it.
    """
    found = describe_transaction(client, transactional_id)
    check(found.error_code, transactional_id)
    request = INIT_PRODUCER_ID.request(
        transactional_id=transactional_id, transaction_timeout_ms=found.transaction_timeout_ms
    )
    answer = client.ask_coordinator(
        transactional_id, INIT_PRODUCER_ID, request, kind=TRANSACTION, passing=is_retriable
    )
    check(answer.error_code, transactional_id)
    return answer
