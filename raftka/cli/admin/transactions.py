"""`raftka transactions ...`: transactions of producers through Kafka's protocol alone (KIP-664), so
they work against any Kafka.
"""

import time
from collections.abc import Sequence

from raftka.cli.admin.client import (
    connect,
    finish,
    partitions_of,
    sentence,
    warn_of_lost,
    warn_of_missing,
)
from raftka.cli.output import CommandFailed, command, show, warn_of_lack
from raftka.client.blocking.client import Client, Where
from raftka.client.blocking.transaction_admin import (
    OPEN,
    STATES,
    InPartitions,
    OpenTransaction,
    abort_hanging,
    describe_transactions,
    list_transactions,
    open_in_partitions,
    partitions_in,
)
from raftka.client.blocking.transaction_admin import (
    fence as fence_id,
)
from raftka.client.blocking.transaction_admin import (
    find_hanging as hanging_of,
)
from raftka.wire.errors import KafkaError
from raftka.wire.messages.transactions import LIST_TRANSACTIONS, DescribedTransactionState

MINUTE_MS = 60_000
DESCRIBED = [
    "transactional_id",
    "state",
    "producer_id",
    "epoch",
    "timeout_ms",
    "start_ms",
    "age_ms",
    "coordinator",
    "topic_partitions",
]
HANGING = [
    "topic",
    "partition",
    "producer_id",
    "epoch",
    "coordinator_epoch",
    "start_offset",
    "last_timestamp_ms",
    "age_ms",
]


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
        listed = list_transactions(client, request)
        warn_of_missing(listed.missing, "transactions that it coordinates may be missing")
        if not listed.answered:
            raise CommandFailed(f"no broker has answered {LIST_TRANSACTIONS.name}")
        rows = [each._asdict() for each in listed.ids]
        show(rows, ["transactional_id", "state", "producer_id", "coordinator"], output)


def _state(given: str) -> str:
    known = {each.lower(): each for each in STATES}
    found = known.get(given.lower().replace("-", "").replace("_", ""))
    if found is None:
        raise CommandFailed(f"--state {given}: transactional ids are {', '.join(STATES)}")
    return found


@command
def describe(ids: Sequence[str], bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        described = describe_transactions(client, ids)
        now_ms = round(time.time() * 1000)
        rows = [
            _row(found, broker, now_ms)
            for found, broker in described.found.values()
            if not found.error_code
        ]
        warn_of_lost(described.lost)
        refused = [
            sentence(found.transactional_id, found.error_code)
            for found, _ in described.found.values()
            if found.error_code
        ]
        finish(rows, DESCRIBED, output, refused)


def _row(found: DescribedTransactionState, broker: int, now_ms: int) -> dict[str, object]:
    start_ms = found.transaction_start_time_ms if found.transaction_start_time_ms >= 0 else None
    ongoing = found.transaction_state in OPEN
    return {
        "transactional_id": found.transactional_id,
        "state": found.transaction_state,
        "producer_id": found.producer_id,
        "epoch": found.producer_epoch,
        "timeout_ms": found.transaction_timeout_ms,
        "start_ms": start_ms,
        "age_ms": now_ms - start_ms if start_ms is not None and ongoing else None,
        "coordinator": broker,
        "topic_partitions": [
            f"{topic}-{partition}" for topic, partition in sorted(partitions_in(found))
        ],
    }


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
        looked = open_in_partitions(client, wheres, broker_id)
        for node_id, why in sorted(looked.missing.items()):
            warn_of_lack(
                f"broker {node_id} has not answered ({why}): its partitions are not looked at"
            )
        # one in the future tells no age
        late = [
            each
            for each in looked.found
            if not 0 <= now_ms - each.last_timestamp_ms <= minutes * MINUTE_MS
        ]
        found = _hanging(client, late, broker_id)
        finish([_hanging_row(each, now_ms) for each in found], HANGING, output, _refusals(looked))


def _hanging(
    client: Client, late: Sequence[OpenTransaction], broker_id: int | None
) -> list[OpenTransaction]:
    found, known = hanging_of(client, late, broker_id)
    warn_of_missing(known.missing, "transactions that it coordinates may be unknown")
    if not known.is_complete:
        warn_of_lack(
            "a transaction that only a missing coordinator knows looks as if it hung: abort "
            "none before that broker is back"
        )
    return found


def _refusals(looked: InPartitions) -> list[str]:
    return [sentence(_name(each.where), each.code, each.message) for each in looked.refused]


def _name(where: Where) -> str:
    return f"{where[0]}-{where[1]}"


def _hanging_row(each: OpenTransaction, now_ms: int) -> dict[str, object]:
    topic, partition = each.where
    age = max(0, now_ms - each.last_timestamp_ms)
    return dict(zip(HANGING, (topic, partition, *each[1:], age), strict=True))


@command
def abort(
    topic: str, partition: int, start_offset: int, force: bool, bootstrap_server: str, output: str
) -> None:
    where = (topic, partition)
    with connect(bootstrap_server) as client:
        if where not in partitions_of(client, [topic]):
            raise CommandFailed(f"{topic} has no partition {partition}")
        try:
            hanging = abort_hanging(client, where, start_offset, force=force)
        except KafkaError as error:
            raise CommandFailed(sentence(_name(where), error.code, error.message)) from None
        row = {
            "topic": topic,
            "partition": partition,
            "producer_id": hanging.producer_id,
            "epoch": hanging.epoch,
            "start_offset": start_offset,
        }
        finish([row], list(row), output, [])


@command
def fence(ids: Sequence[str], bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        rows, refused = [], []
        for each in ids:
            try:
                answer = fence_id(client, each)
            except KafkaError as error:
                refused.append(sentence(each, error.code))
                continue
            rows.append(
                {
                    "transactional_id": each,
                    "producer_id": answer.producer_id,
                    "epoch": answer.producer_epoch,
                }
            )
        finish(rows, ["transactional_id", "producer_id", "epoch"], output, refused)
