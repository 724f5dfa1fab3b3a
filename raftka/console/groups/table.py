"""The list of all groups: filtered, sorted and paged here; lag in seconds of the rows that are
shown.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from raftka.client.blocking.client import Where
from raftka.client.blocking.groups import SHARE
from raftka.console.groups.facts import METADATA_S, next_records
from raftka.console.groups.memory import Memory
from raftka.console.groups.next_records import NextRecord
from raftka.console.limits import TIMED_PARTITIONS
from raftka.console.rows import missing_nodes, rows_of_page
from raftka.json_values import Json

if TYPE_CHECKING:
    from raftka.console.view.groups import Group
    from raftka.console.view.view import View

ORDERS = ("-lag", "lag", "-seconds", "seconds", "name", "-name", "state", "-state", "type", "-type")
TYPES = ("any", "classic", "consumer", "share", "streams")
COMMITTED_S, LAGS_S = 5.0, 10.0
OF_SHARE = "a share group commits no offsets: its own page reads those of its partitions"
TOO_MANY = "it has many partitions: its own page reads their times"


class Wanted(NamedTuple):
    search: str
    state: str  # as Kafka has it, in any case; empty for all
    type: str  # of TYPES
    sort: str  # of ORDERS
    page: int  # from 1
    size: int


class RowLag(NamedTuple):
    """`seconds`: of the record that waits longest; None with a reason."""

    records: int | None
    seconds: float | None
    why: str = ""
    topics: Sequence[str] = ()


class Order(NamedTuple):
    """Values by group, that a list is sorted by. `age_s`: of values that were read in the
    background. `is_of_values`: false for an order by name, state or type.
    """

    values: Mapping[str, float]
    age_s: float | None = None
    pending: Sequence[str] = ()
    is_of_values: bool = True


def list_groups(view: "View", memory: Memory, wanted: Wanted) -> dict[str, Json]:
    """Return a page of groups. While the lags of all are read for the first time, `pending` says
    so, and groups are sorted by name. Groups whose lag is not known come last; `not_sorted` counts
    them.
    """
    groups = view.groups()
    memory.histories.see_states(
        time.time(), ((each.group_id, each.state) for each in groups.of.values())
    )
    lags = view.kept_lags.peek(LAGS_S)
    by_group = lags.value.by_group if lags is not None else {}
    order = _order_of(memory, wanted.sort, by_group)
    found = _sorted(_matching(groups.of.values(), wanted), wanted.sort, order.values)
    shown = rows_of_page(found, wanted.page, wanted.size)
    rows_lags, missing = _lags_of(view, memory, [each.group_id for each in shown])
    if order.age_s is not None:
        shown = _sorted_by_newest(shown, wanted.sort, order.values, rows_lags)
    counts: dict[str, int] = {}
    for each in groups.of.values():
        counts[each.state] = counts.get(each.state, 0) + 1
    return {
        "rows": [
            {
                **_row(each, rows_lags[each.group_id]),
                "is_sorted": not order.is_of_values or each.group_id in order.values,
            }
            for each in shown
        ],
        "not_sorted": sum(each.group_id not in order.values for each in found)
        if order.is_of_values
        else 0,
        "sorted_age_s": order.age_s,
        "total": len(found),
        "all": len(groups.of),
        "lag": sum(by_group.values()) if lags is not None else None,
        "states": counts,
        "pending": [*([] if lags is not None else ["lag"]), *order.pending],
        "missing": missing_nodes({**groups.missing, **missing}),
    }


def _matching(groups: Iterable["Group"], wanted: Wanted) -> list["Group"]:
    search, state = wanted.search.casefold(), wanted.state.casefold()
    return [
        each
        for each in groups
        if (not search or search in each.group_id.casefold())
        and (not state or state == each.state.casefold())
        and wanted.type in ("any", each.type)
    ]


def _order_of(memory: Memory, sort: str, lags: Mapping[str, int]) -> Order:
    match sort.removeprefix("-"):
        case "lag":
            return Order(lags)
        case "seconds":
            read, now_s = memory.seconds.peek(), time.time()
            if read is None:
                return Order({}, pending=("seconds",))
            seconds = {group_id: each.seconds(now_s) for group_id, each in read.value.of.items()}
            return Order(seconds, round(read.age_s, 1))
        case _:
            return Order({}, is_of_values=False)


def _sorted(groups: list["Group"], sort: str, values: Mapping[str, float]) -> list["Group"]:
    groups.sort(key=lambda each: each.group_id)
    order, is_descending = sort.removeprefix("-"), sort.startswith("-")
    match order:
        case "lag" | "seconds":
            # a group without a known value comes last in both directions
            sign = -1 if is_descending else 1
            groups.sort(
                key=lambda each: (each.group_id not in values, sign * values.get(each.group_id, 0))
            )
        case "state":
            groups.sort(key=lambda each: each.state, reverse=is_descending)
        case "type":
            groups.sort(key=lambda each: each.type, reverse=is_descending)
        case _ if is_descending:
            groups.reverse()
    return groups


def _sorted_by_newest(
    shown: Sequence["Group"],
    sort: str,
    values: Mapping[str, float],
    newest: Mapping[str, RowLag],
) -> list["Group"]:
    """Sort the rows of a page by what was just read for them: the order of all is older."""
    placed = {
        each.group_id: seconds
        for each in shown
        if each.group_id in values and (seconds := newest[each.group_id].seconds) is not None
    }
    return _sorted(list(shown), sort, placed)


def _row(group: "Group", lag: RowLag) -> dict[str, Json]:
    return {
        "name": group.group_id,
        "type": group.type,
        "state": group.state or None,
        "protocol": group.protocol or None,
        "coordinator": group.coordinator,
        "lag": lag.records,
        "seconds": lag.seconds,
        "seconds_why": OF_SHARE if group.type == SHARE else lag.why,
        "topics": list(lag.topics),
    }


def _lags_of(
    view: "View", memory: Memory, group_ids: Sequence[str]
) -> tuple[dict[str, RowLag], dict[int, str]]:
    """Read the lags of these groups: offsets first, then ends, then times of records."""
    committed = view.committed(group_ids, COMMITTED_S)
    metadata = view.metadata(METADATA_S)
    wheres = {where for offsets in committed.values() for where in offsets}
    ends = view.ends(wheres, COMMITTED_S)
    waiting: dict[str, dict[Where, int]] = {}
    left = TIMED_PARTITIONS.value
    too_many = set()
    for group_id in group_ids:
        own = {
            where: offset
            for where, offset in committed.get(group_id, {}).items()
            if offset < ends.get(where, 0)
        }
        if len(own) > left:
            too_many.add(group_id)
        else:
            waiting[group_id] = own
            left -= len(own)
    # groups may wait at different offsets of a partition: one of each in a question
    found: dict[str, dict[Where, NextRecord]] = {each: {} for each in group_ids}
    missing: dict[int, str] = {}
    rounds = list(waiting.items())
    while rounds:
        asked: dict[Where, int] = {}
        later = []
        answered: list[tuple[str, dict[Where, int]]] = []
        for group_id, own in rounds:
            if any(asked.get(where, offset) != offset for where, offset in own.items()):
                later.append((group_id, own))
            else:
                asked |= own
                answered.append((group_id, own))
        times, silent = next_records(view, metadata, memory.times, asked)
        missing |= silent
        for group_id, own in answered:
            found[group_id] = {where: times[where] for where in own if where in times}
        rounds = later
    now_s = time.time()
    return {
        group_id: _row_lag(
            committed.get(group_id, {}),
            ends,
            found[group_id],
            now_s,
            TOO_MANY if group_id in too_many else "",
        )
        for group_id in group_ids
    }, missing


def _row_lag(
    offsets: Mapping[Where, int],
    ends: Mapping[Where, int],
    records: Mapping[Where, NextRecord],
    now_s: float,
    why: str,
) -> RowLag:
    topics = sorted({topic for topic, _ in offsets})
    if not offsets:
        return RowLag(None, None, "it has committed nothing, or this login may not see it", topics)
    known = {
        where: max(0, ends[where] - offset) for where, offset in offsets.items() if where in ends
    }
    if not known:
        return RowLag(None, None, "the ends of its partitions are not known", topics)
    total = sum(known.values())
    if why:
        return RowLag(total, None, why, topics)
    longest = 0.0
    for where, lag in known.items():
        record = records.get(where)
        if lag == 0 or (record is not None and record.is_none):
            continue
        if record is None or record.time_ms is None:
            reason = record.why if record is not None else "its leader has not answered"
            return RowLag(total, None, f"{where[0]}-{where[1]}: {reason}", topics)
        longest = max(longest, now_s - record.time_ms / 1000)
    return RowLag(total, round(longest, 3), topics=topics)
