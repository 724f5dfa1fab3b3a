"""Groups: the list, one group and why it does not move, its offsets moved and deleted."""

from raftka.client.blocking.client import Where
from raftka.client.blocking.groups import UnknownPlace
from raftka.console.call import Call
from raftka.console.groups.changes import (
    PLACES,
    BadChange,
    delete,
    delete_some,
    preview_reset,
    reset,
)
from raftka.console.groups.detail import PARTITION_ORDERS, PageOfPartitions, describe_group
from raftka.console.groups.memory import MEMORIES
from raftka.console.groups.table import ORDERS, TYPES, Wanted, list_groups
from raftka.console.limits import OFFSETS_OF_CHANGE
from raftka.console.parameters import LARGEST, Choice, Field, Text, refusal
from raftka.console.routes import route
from raftka.console.rows import paged
from raftka.json_values import Json


@route(
    "GET",
    "/api/groups",
    "Groups of all types, a page of them, with their lag in records and in seconds",
    query={
        "search": Text(""),
        "state": Text(""),
        "type": Choice("any", TYPES),
        "sort": Choice("-lag", ORDERS),
        **paged(),
    },
    answer="Rows of the page; seconds: null is not known, and seconds_why says why. An order by "
    "lag has the groups whose lag is not known at its end: not_sorted counts them, is_sorted is "
    "false in their rows. Seconds of all groups are read in the background, sorted_age_s ago",
)
def groups(call: Call) -> Json:
    wanted = Wanted(*(call.query[name] for name in Wanted._fields))
    return list_groups(call.view, MEMORIES.of(call.view), wanted)


@route(
    "GET",
    "/api/groups/{group}",
    "One group: members, a page of its partitions, and why it does not move",
    query={
        "sort": Choice("-lag", PARTITION_ORDERS),
        **paged(100),
    },
    answer="The group; history and times of commits go back to the first look of this login",
)
def group(call: Call) -> Json:
    page = PageOfPartitions(*(call.query[name] for name in PageOfPartitions._fields))
    with call.client() as client:
        return describe_group(call.view, client, MEMORIES.of(call.view), call.path["group"], page)


@route(
    "POST",
    "/api/groups/{group}/reset/preview",
    "Where a reset would move the offsets of a group, and which members are in the way",
    body={
        "topics": Field(list[str], []),
        "partitions": Field(list[int], []),
        "to": Field(str),
        "value": Field(int | None, None),
    },
    answer="Offsets before and after, members, and the command that does the same",
)
def preview(call: Call) -> Json:
    body = call.body
    if body["to"] not in PLACES:
        raise refusal(f"to is {' or '.join(PLACES)}, not {body['to'][:40]!r}")
    try:
        with call.client() as client:
            found = preview_reset(client, call.path["group"], **body)
    except (BadChange, UnknownPlace) as error:
        raise refusal(str(error)) from None
    return {
        "moves": [
            {
                "topic": each.where[0],
                "partition": each.where[1],
                "before": each.before,
                "after": each.after,
            }
            for each in found.moves
        ],
        "members": list(found.members),
        "command": found.command,
    }


@route(
    "POST",
    "/api/groups/{group}/reset",
    "Move committed offsets of a group without members, as a preview has shown them",
    body={"offsets": Field(list[dict[str, object]])},
    writes=True,
    answer="How many were moved, and why others were not",
)
def apply(call: Call) -> Json:
    offsets = {
        _place(each): _number(each, "offset")
        for each in _rows(call, ("topic", "partition", "offset"))
    }
    with call.client() as client:
        refused = reset(client, call.path["group"], offsets)
    call.view.forget()
    return _result(len(offsets), refused)


@route(
    "POST",
    "/api/groups/{group}/offsets/delete",
    "Delete committed offsets of topics that no member of the group reads",
    body={"topics": Field(list[str]), "partitions": Field(list[int], [])},
    writes=True,
    answer="How many were deleted, and why others were not",
)
def delete_offsets(call: Call) -> Json:
    with call.client() as client:
        asked, refused = delete_some(client, call.path["group"], **call.body)
    call.view.forget()
    return _result(asked, refused)


@route(
    "POST",
    "/api/groups/{group}/delete",
    "Delete a group without members, with its offsets",
    writes=True,
    answer="The group's name",
)
def delete_group(call: Call) -> Json:
    with call.client() as client:
        delete(client, call.path["group"])
    call.view.forget()
    return {"name": call.path["group"]}


def _rows(call: Call, names: tuple[str, ...]) -> list[dict[str, Json]]:
    """The rows of the body's field `offsets`, each with these fields. Raises ApiError."""
    rows: list[dict[str, Json]] = call.body["offsets"]
    if not 0 < len(rows) <= OFFSETS_OF_CHANGE.value:
        raise refusal(f"offsets has {len(rows)} rows, 1 to {OFFSETS_OF_CHANGE.value} are possible")
    for row in rows:
        if set(row) != set(names):
            raise refusal(f"a row of offsets has {', '.join(names)}, and nothing else")
    return rows


def _place(row: dict[str, Json]) -> Where:
    topic = row["topic"]
    if not isinstance(topic, str) or not topic:
        raise refusal("the topic of a row of offsets is a text")
    return topic, _number(row, "partition", 2**31 - 1)


def _number(row: dict[str, Json], name: str, most: int = LARGEST) -> int:
    value = row[name]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise refusal(f"the {name} of a row of offsets is a whole number from 0 on")
    return value


def _result(asked: int, refused: dict[Where, str]) -> Json:
    return {
        "changed": asked - len(refused),
        "refused": [
            {"topic": topic, "partition": partition, "why": why}
            for (topic, partition), why in sorted(refused.items())
        ],
    }
