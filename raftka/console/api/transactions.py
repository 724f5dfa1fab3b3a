"""Transactions: open, late and hanging ones, the readers they hold back, and their ends."""

from collections import Counter
from typing import NamedTuple

from raftka.client.blocking.transaction_admin import (
    OPEN,
    STATES,
    ListedId,
    Refused,
    abort_hanging,
    fence,
    partitions_in,
)
from raftka.console.call import ApiError, Call
from raftka.console.parameters import Choice, Field, Number, Text
from raftka.console.routes import route
from raftka.console.rows import missing_nodes, paged, rows_of_page
from raftka.console.transactions.monitor import (
    HANGING,
    MONITORS,
    HeldPartition,
    Holder,
    age_ms,
    describe_listed,
)
from raftka.json_values import Json, JsonObject
from raftka.wire.messages.transactions import DescribedTransactionState

PARTITIONS_SHOWN = 20  # of a transaction in a list
SORTS = ("id", "-id", "age", "-age", "state", "-state", "producer", "-producer")


class Row(NamedTuple):
    listed: ListedId
    described: DescribedTransactionState | None

    @property
    def age_ms(self) -> int | None:
        found = self.described
        if found is None or found.transaction_state not in OPEN:
            return None
        return age_ms(found.transaction_start_time_ms)

    @property
    def is_late(self) -> bool:
        """Return whether it is open for longer than its producer has asked for."""
        age = self.age_ms
        return (
            age is not None
            and self.described is not None
            and age > self.described.transaction_timeout_ms
        )

    def as_json(self) -> JsonObject:
        listed, found = self.listed, self.described
        where = sorted(partitions_in(found)) if found is not None else []
        return {
            "id": listed.transactional_id,
            "state": listed.state,
            "producer_id": listed.producer_id,
            "epoch": found and found.producer_epoch,
            "timeout_ms": found and found.transaction_timeout_ms,
            "age_ms": self.age_ms,
            "late": self.is_late,
            "coordinator": listed.coordinator,
            "partitions": [
                {"topic": topic, "partition": partition}
                for topic, partition in where[:PARTITIONS_SHOWN]
            ],
            "partition_count": len(where),
        }


@route(
    "GET",
    "/api/transactions",
    "Transactional ids with their transactions",
    query={
        "search": Text(""),
        "state": Choice("open", ("open", "late", "all", *STATES)),
        "producer_id": Number(None),
        "sort": Choice("-age", SORTS),
        **paged(),
    },
    answer="The ids of a page, and how many there are in each state",
)
def transactions(call: Call) -> Json:
    ids, query = MONITORS.of(call.session).ids(), call.query
    search, producer_id = query["search"].casefold(), query["producer_id"]
    rows = [
        Row(each, ids.described.get(each.transactional_id))
        for each in ids.listed
        if search in each.transactional_id.casefold()
        and (producer_id is None or each.producer_id == producer_id)
    ]
    late = [each for each in rows if each.is_late]
    states = Counter(each.listed.state for each in rows)
    rows = late if query["state"] == "late" else [each for each in rows if _is(each, query)]
    _sort(rows, query["sort"])
    page = rows_of_page(rows, query["page"], query["size"])
    missing = dict(ids.missing)
    unknown = [each.listed for each in page if each.described is None]
    if unknown:
        with call.client() as client:
            client.refresh([])
            found, more = describe_listed(client, unknown)
        missing |= more
        page = [
            Row(each.listed, each.described or found.get(each.listed.transactional_id))
            for each in page
        ]
    return {
        "transactions": [each.as_json() for each in page],
        "total": len(rows),
        "states": {
            **states,
            "open": sum(states[each] for each in OPEN),
            "late": len(late),
            "all": sum(states.values()),
        },
        "is_cut": ids.is_cut,
        "missing": missing_nodes(missing),
    }


def _is(row: Row, query: Json) -> bool:
    wanted, state = query["state"], row.listed.state
    return wanted in ("all", state) or (wanted == "open" and state in OPEN)


def _sort(rows: list[Row], sort: str) -> None:
    key, is_descending = sort.removeprefix("-"), sort.startswith("-")
    rows.sort(key=lambda row: row.listed.transactional_id, reverse=sort == "-id")
    if key == "age":
        # unknown ages come last in both directions
        rows.sort(key=lambda row: row.age_ms or 0, reverse=is_descending)
        rows.sort(key=lambda row: row.age_ms is None)
    elif key in ("state", "producer"):
        field = {"state": "state", "producer": "producer_id"}[key]
        rows.sort(key=lambda row: getattr(row.listed, field), reverse=is_descending)


@route(
    "GET",
    "/api/transactions/held",
    "Partitions whose readers of committed records are held back, and by which transactions",
    answer="Partitions with their last stable offset, end, open transactions and waiting groups",
)
def held_partitions(call: Call) -> Json:
    held = MONITORS.of(call.session).held()
    return {
        "partitions": [_held_json(each) for each in held.partitions],
        "hanging": sum(
            holder.state == HANGING for each in held.partitions for holder in each.holders
        ),
        "is_cut": held.is_cut,
        "missing": missing_nodes(held.missing),
    }


def _held_json(each: HeldPartition) -> JsonObject:
    return {
        "topic": each.where[0],
        "partition": each.where[1],
        "stable": each.stable,
        "end": each.end,
        "held": each.end - each.stable,
        "transactions": [_holder_json(holder) for holder in each.holders],
        "groups": each.waiting,
    }


def _holder_json(holder: Holder) -> JsonObject:
    found = holder.transaction
    started = holder.started_ms if holder.started_ms is not None else found.last_timestamp_ms
    age = age_ms(started)
    return {
        "id": holder.transactional_id,
        "state": holder.state,
        "producer_id": found.producer_id,
        "epoch": found.epoch,
        "coordinator_epoch": found.coordinator_epoch,
        "start_offset": found.start_offset,
        "last_timestamp_ms": found.last_timestamp_ms,
        "age_ms": age,  # of the transaction, else of its last record here
        "timeout_ms": holder.timeout_ms,
        "late": holder.timeout_ms is not None and age is not None and age > holder.timeout_ms,
    }


@route(
    "POST",
    "/api/transactions/abort",
    "Abort a hanging transaction in one partition",
    body={"topic": Field(str), "partition": Field(int), "start_offset": Field(int)},
    writes=True,
    answer="The transaction that was aborted; refused when a coordinator knows it, or may",
)
def abort(call: Call) -> Json:
    body = call.body
    where = (body["topic"], body["partition"])
    if call.view.metadata().partition(where) is None:
        raise ApiError(404, "NOT_FOUND", f"there is no partition {where[0][:249]}-{where[1]}")
    with call.client() as client:
        try:
            found = abort_hanging(client, where, body["start_offset"])
        except Refused as error:
            raise ApiError(409, "NOT_HANGING", str(error)) from None
    MONITORS.of(call.session).forget()
    return {
        "topic": found.where[0],
        "partition": found.where[1],
        "producer_id": found.producer_id,
        "epoch": found.epoch,
        "start_offset": found.start_offset,
    }


@route(
    "POST",
    "/api/transactions/ids/{id}/fence",
    "Abort the open transaction of a transactional id, and shut out its producer",
    writes=True,
    answer="The producer id and the new epoch",
)
def fence_id(call: Call) -> Json:
    with call.client() as client:
        found = fence(client, call.path["id"])
    MONITORS.of(call.session).forget()
    return {
        "id": call.path["id"],
        "producer_id": found.producer_id,
        "epoch": found.producer_epoch,
    }
