"""`raftka transactions ...`: transactions of producers through Kafka's protocol alone (KIP-664), so
they work against any Kafka.

A transaction *hangs* when it is open in a partition and no coordinator knows it there: nobody will
end it, and readers of committed records stop before it. Its producer's id, looked up at all
coordinators, decides; the age only limits how many are looked up.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from raftka.cli.admin.client import ask_all, connect, finish, partitions_of, sentence
from raftka.cli.output import CommandFailed, command, show, warn
from raftka.client.blocking.client import TRANSACTION, Client, Where, by_topic, check, is_retriable
from raftka.client.blocking.every_broker import ask_brokers
from raftka.wire.errors import Code
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
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
    ListedTransactionState,
    ListTransactionsResponse,
)

COORDINATORS = "__transaction_state"  # the leaders of its partitions are the coordinators
ONGOING = "Ongoing"
ENDING = ("PrepareCommit", "PrepareAbort")  # partitions that are left are waiting for their markers
STATES = ("Empty", ONGOING, *ENDING, "CompleteCommit", "CompleteAbort", "PrepareEpochFence", "Dead")
PARTITIONS_OF_REQUEST = 1_000
MINUTE_MS = 60_000
HANGING = [
    "topic",
    "partition",
    "producer_id",
    "epoch",
    "coordinator_epoch",
    "start_offset",
    "last_timestamp_ms",
    "age_minutes",
]


class Open(NamedTuple):
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


@command
def list_all(
    states: Sequence[str],
    producer_ids: Sequence[int],
    duration_ms: int | None,
    pattern: str | None,
    bootstrap_server: str,
    output: str,
) -> None:
    request = LIST_TRANSACTIONS.request(
        state_filters=[_state(each) for each in states],
        producer_id_filters=list(producer_ids),
        duration_filter=-1 if duration_ms is None else duration_ms,
        transactional_id_pattern=pattern,
    )
    with connect(bootstrap_server) as client:
        answers = ask_all(
            client, LIST_TRANSACTIONS, request, "transactions that it coordinates may be missing"
        )
        rows = [
            {
                "id": each.transactional_id,
                "state": each.transaction_state,
                "producer_id": each.producer_id,
                "coordinator": broker,
            }
            for broker, each in sorted(
                _listed(answers), key=lambda found: found[1].transactional_id
            )
        ]
        show(rows, ["id", "state", "producer_id", "coordinator"], output)


def _state(given: str) -> str:
    known = {each.lower(): each for each in STATES}
    found = known.get(given.lower().replace("-", "").replace("_", ""))
    if found is None:
        raise CommandFailed(f"--state {given}: transactional ids are {', '.join(STATES)}")
    return found


def _listed(
    answers: Mapping[int, ListTransactionsResponse],
) -> Iterator[tuple[int, ListedTransactionState]]:
    """Return the transactional ids that each broker coordinates, with the broker's id."""
    for node_id, answer in answers.items():
        check(answer.error_code, f"in answer to ListTransactions at broker {node_id}")
        for each in answer.transaction_states:
            yield node_id, each


@command
def describe(ids: Sequence[str], bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        described = {each: _described(client, each) for each in ids}
        now_ms = round(time.time() * 1000)
        rows = [_row(client, found, now_ms) for found in described.values() if not found.error_code]
        refused = [
            sentence(each, found.error_code)
            for each, found in described.items()
            if found.error_code
        ]
        finish(
            rows,
            [
                "id",
                "state",
                "producer_id",
                "epoch",
                "timeout_ms",
                "start_ms",
                "age_ms",
                "coordinator",
                "partitions",
            ],
            output,
            refused,
        )


def _described(client: Client, transactional_id: str) -> DescribedTransactionState:
    request = DESCRIBE_TRANSACTIONS.request(transactional_ids=[transactional_id])
    return client.ask_coordinator(
        transactional_id, DESCRIBE_TRANSACTIONS, request, kind=TRANSACTION
    ).transaction_states[0]


def _row(client: Client, found: DescribedTransactionState, now_ms: int) -> dict[str, object]:
    address = client.coordinator(found.transactional_id, TRANSACTION)
    start_ms = found.transaction_start_time_ms if found.transaction_start_time_ms >= 0 else None
    ongoing = found.transaction_state in (ONGOING, *ENDING)
    return {
        "id": found.transactional_id,
        "state": found.transaction_state,
        "producer_id": found.producer_id,
        "epoch": found.producer_epoch,
        "timeout_ms": found.transaction_timeout_ms,
        "start_ms": start_ms,
        "age_ms": now_ms - start_ms if start_ms is not None and ongoing else None,
        "coordinator": next(
            (node_id for node_id, each in client.brokers.items() if each == address), None
        ),
        "partitions": [f"{topic}-{partition}" for topic, partition in sorted(_partitions(found))],
    }


def _partitions(found: DescribedTransactionState) -> set[Where]:
    return {(each.topic, partition) for each in found.topics for partition in each.partitions}


# hanging transactions


@command
def find_hanging(
    topics: Sequence[str],
    partitions: Sequence[int],
    broker_id: int | None,
    minutes: int,
    bootstrap_server: str,
    output: str,
) -> None:
    if partitions and len(topics) != 1:
        raise CommandFailed("--partition needs exactly one --topic")
    with connect(bootstrap_server) as client:
        there = partitions_of(client, topics)
        if missing := sorted(set(partitions) - {partition for _, partition in there}):
            raise CommandFailed(f"{topics[0]} has no partition {missing[0]}")
        wheres = [
            where
            for where, row in there.items()
            if broker_id is None or broker_id in row.replica_nodes
        ]
        wheres = [where for where in wheres if not partitions or where[1] in partitions]
        now_ms = round(time.time() * 1000)
        found, refused = _open(client, wheres, broker_id)
        # one in the future tells no age
        late = [
            each
            for each in found
            if not 0 <= now_ms - each.last_timestamp_ms <= minutes * MINUTE_MS
        ]
        known, complete = _known(client, late)
        if not complete:
            warn(
                "a transaction that only a missing coordinator knows looks as if it hung: abort "
                "none before that broker is back"
            )
        suspects = [each for each in late if each.identity not in known]
        still = {
            each.identity for each in _open(client, [each.where for each in suspects], broker_id)[0]
        }
        rows = [_hanging_row(each, now_ms) for each in suspects if each.identity in still]
        finish(rows, HANGING, output, refused)


def _hanging_row(each: Open, now_ms: int) -> dict[str, object]:
    topic, partition = each.where
    age = max(0, now_ms - each.last_timestamp_ms) // MINUTE_MS
    return dict(zip(HANGING, (topic, partition, *each[1:], age), strict=True))


def _open(
    client: Client, wheres: Iterable[Where], broker_id: int | None = None
) -> tuple[list[Open], list[str]]:
    """The transactions that are open in these partitions, by their leaders or that broker; and the
    refusals as sentences.
    """
    found: list[Open] = []
    refused: list[str] = []
    brokers: dict[int, list[Where]] = {}
    for where in sorted(set(wheres)):
        led = client.leader(where) if broker_id is None else None
        node_id = (
            broker_id
            if led is None
            else next(node_id for node_id, address in client.brokers.items() if address == led[0])
        )
        if node_id is None:
            refused.append(sentence("-".join(map(str, where)), Code.LEADER_NOT_AVAILABLE))
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
        refused += [
            f"broker {node_id} has not answered ({why})"
            for node_id, why in sorted(answers.missing.items())
        ]
        for answer in answers.of.values():
            for topic in answer.topics:
                for each in topic.partitions:
                    if each.error_code:
                        refused.append(
                            sentence(
                                f"{topic.name}-{each.partition_index}",
                                each.error_code,
                                each.error_message,
                            )
                        )
                    found += _open_here((topic.name, each.partition_index), each)
        brokers = {
            node_id: own[PARTITIONS_OF_REQUEST:]
            for node_id, own in brokers.items()
            if node_id in answers.of and own[PARTITIONS_OF_REQUEST:]
        }
    return found, refused


def _producers_of(wheres: Iterable[Where]) -> DescribeProducersRequest:
    topics = by_topic((where, where[1]) for where in wheres)
    row = DESCRIBE_PRODUCERS.request.topics
    return DESCRIBE_PRODUCERS.request(
        topics=[row(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
    )


def _open_here(where: Where, row: PartitionResponse) -> Iterator[Open]:
    for each in row.active_producers:
        if each.current_txn_start_offset >= 0:
            start, last = each.current_txn_start_offset, each.last_timestamp
            yield Open(
                where, each.producer_id, each.producer_epoch, each.coordinator_epoch, start, last
            )


def _known(
    client: Client, transactions: Sequence[Open]
) -> tuple[Mapping[tuple[Where, int, int], DescribedTransactionState], bool]:
    """Those of the transactions that a coordinator knows, and will end; and whether all
    coordinators have answered.
    """
    if not transactions:
        return {}, True
    request = LIST_TRANSACTIONS.request(
        producer_id_filters=sorted({each.producer_id for each in transactions})
    )
    coordinators = _coordinators(client)
    answers = ask_all(
        client, LIST_TRANSACTIONS, request, "transactions that it coordinates may be unknown"
    )
    # one that has taken over meanwhile may have answered before it did
    coordinators |= _coordinators(client)
    ids = {each.transactional_id for _, each in _listed(answers)}
    described = {
        found.producer_id: found
        for found in (_described(client, each) for each in ids)
        if not found.error_code
    }
    pairs = [
        (each, described[each.producer_id])
        for each in transactions
        if each.producer_id in described
    ]
    return {
        each.identity: found for each, found in pairs if _ends(found, each)
    }, coordinators <= answers.keys()


def _coordinators(client: Client) -> set[int]:
    """Return the brokers that coordinate transactions; -1 among them: some are coordinated by no
    broker now.
    """
    return {
        row.leader_id
        for topic in client.metadata([COORDINATORS]).topics
        for row in topic.partitions
    }


def _ends(found: DescribedTransactionState, transaction: Open) -> bool:
    """Return whether the coordinator ends this one. The end of a transaction may raise the epoch
    before the partition has its marker.
    """
    same = found.producer_epoch == transaction.epoch
    ending = found.transaction_state in ENDING and found.producer_epoch >= transaction.epoch
    return transaction.where in _partitions(found) and (
        (same and found.transaction_state == ONGOING) or ending
    )


@command
def abort(
    topic: str, partition: int, start_offset: int, force: bool, bootstrap_server: str, output: str
) -> None:
    where = (topic, partition)
    with connect(bootstrap_server) as client:
        if where not in partitions_of(client, [topic]):
            raise CommandFailed(f"{topic} has no partition {partition}")
        found, refused = _open(client, [where])
        if refused:
            raise CommandFailed(refused[0])
        hanging = next((each for each in found if each.start_offset == start_offset), None)
        if hanging is None:
            there = ", ".join(str(each.start_offset) for each in found)
            text = f"open ones begin at {there}" if there else "none is open there"
            raise CommandFailed(
                f"{topic}-{partition}: no transaction that begins at offset {start_offset} is "
                f"open; {text}"
            )
        known_ones, complete = ({}, True) if force else _known(client, [hanging])
        if not complete:
            raise CommandFailed(
                f"{topic}-{partition}: a coordinator that has not answered may know the "
                "transaction; --force aborts it nevertheless"
            )
        if (known := known_ones.get(hanging.identity)) is not None:
            name, state = known.transactional_id, known.transaction_state
            raise CommandFailed(
                f"{topic}-{partition}: the transaction does not hang: it is {state} at its "
                f"coordinator, as {name}; "
                f"`raftka transactions fence {name}` aborts it in all its partitions"
            )
        code = _mark_aborted(client, hanging)
        row = {
            "topic": topic,
            "partition": partition,
            "producer_id": hanging.producer_id,
            "epoch": hanging.epoch,
            "start_offset": start_offset,
        }
        finish(
            [] if code else [row],
            list(row),
            output,
            [sentence(f"{topic}-{partition}", code)] if code else [],
        )


def _mark_aborted(client: Client, hanging: Open) -> int:
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


@command
def fence(ids: Sequence[str], bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        rows, refused = [], []
        for each in ids:
            found = _described(client, each)  # an id that is not there would be made
            if found.error_code:
                refused.append(sentence(each, found.error_code))
                continue
            request = INIT_PRODUCER_ID.request(
                transactional_id=each, transaction_timeout_ms=found.transaction_timeout_ms
            )
            answer = client.ask_coordinator(
                each, INIT_PRODUCER_ID, request, kind=TRANSACTION, passing=is_retriable
            )
            if answer.error_code:
                refused.append(sentence(each, answer.error_code))
            else:
                rows.append(
                    {"id": each, "producer_id": answer.producer_id, "epoch": answer.producer_epoch}
                )
        finish(rows, ["id", "producer_id", "epoch"], output, refused)
