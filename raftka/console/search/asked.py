"""A search as a page asks for it: parameters of the query, and what they mean."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from raftka.client.blocking.client import Client, Where
from raftka.client.blocking.positions import Bounds, Position, offsets_at
from raftka.console.call import ApiError, Call
from raftka.console.decoding.decoder import AUTO, CHOICES
from raftka.console.limits import FILTERS_AT_ONCE, LATE_MS
from raftka.console.parameters import (
    LARGEST,
    Choice,
    Flag,
    Number,
    Numbers,
    Parameter,
    Text,
    Texts,
    refusal,
)
from raftka.console.search.filters import (
    ANYWHERE,
    KEY,
    PLACES,
    VALUE,
    Condition,
    Filter,
    Formats,
    Header,
    Matching,
    Path,
)
from raftka.console.search.filters import Text as TextFilter
from raftka.console.search.json_paths import Comparison, NoPath
from raftka.console.search.patterns import NoPattern
from raftka.json_values import Json
from raftka.wire.errors import Code, KafkaError, name_of_code

NO_LEADER = "no broker leads it now"
BEGIN, END, OFFSET, TIME = "begin", "end", "offset", "time"

# what is read, and how
SCOPE: Mapping[str, Parameter] = {
    "partition": Numbers(most=2**31 - 1),
    "committed": Flag(default=True),
    "key_as": Choice(AUTO, CHOICES),
    "value_as": Choice(AUTO, CHOICES),
}
# which records are wanted
FILTERS: Mapping[str, Parameter] = {
    "text": Text(""),
    "place": Choice(ANYWHERE, PLACES),
    "case": Flag(),
    "regex": Flag(),
    "header": Texts(FILTERS_AT_ONCE.value),
    "path": Texts(FILTERS_AT_ONCE.value),
    "path_in": Choice(VALUE, (VALUE, KEY)),
    "from_ms": Number(),
    "to_ms": Number(),
}


def filter_of(query: Mapping[str, Json]) -> Filter:
    """Raise ApiError for a filter that cannot be."""
    conditions: list[Condition] = []
    text, place, ignores_case = query["text"], query["place"], not query["case"]
    try:
        if text and query["regex"]:
            conditions.append(Matching(text, place, ignores_case=ignores_case))
        elif text:
            conditions.append(TextFilter(text, place, ignores_case=ignores_case))
        for each in query["header"]:
            name, separator, value = each.partition("=")
            if not name:
                raise refusal(f"header {each}: it is NAME=VALUE, or NAME for any value")
            conditions.append(Header(name, value if separator else None))
        conditions += [Path(Comparison.of(each), query["path_in"]) for each in query["path"]]
    except (NoPattern, NoPath) as error:
        raise refusal(str(error)) from None
    from_ms, to_ms = query["from_ms"], query["to_ms"]
    if from_ms is not None and to_ms is not None and to_ms < from_ms:
        raise refusal("the time range ends before it begins")
    return Filter(tuple(conditions), from_ms, to_ms)


def formats_of(query: Mapping[str, Json]) -> Formats:
    return Formats(query["key_as"], query["value_as"])


class Range(NamedTuple):
    """Offsets of a topic's partitions: where a reader begins, and where it ends."""

    begins: Mapping[Where, int]
    stops: Mapping[Where, int]
    bounds: Bounds


def partitions_of(client: Client, topic: str, wanted: tuple[int, ...] = ()) -> list[Where]:
    """Return the wanted partitions of a topic, or all. Raise ApiError and KafkaError."""
    (found,) = client.metadata([topic]).topics
    if found.error_code:
        code = found.error_code
        known = Code(code) if code in Code._value2member_map_ else Code.UNKNOWN_SERVER_ERROR
        raise KafkaError(known, f"{topic}: {name_of_code(code)}")
    known_ = sorted(each.partition_index for each in found.partitions)
    if missing := set(wanted) - set(known_):
        raise ApiError(404, "UNKNOWN_PARTITION", f"{topic} has no partition {min(missing)}")
    return [(topic, each) for each in (sorted(set(wanted)) or known_)]


class Reachable(NamedTuple):
    """The wanted partitions of a topic. `left_out`: those that cannot be read now, and why;
    `missing`: brokers that do not answer.
    """

    wheres: Sequence[Where]
    left_out: Mapping[Where, str]
    missing: Mapping[int, str]

    @property
    def read(self) -> list[Where]:
        """Return the partitions that can be read."""
        return [where for where in self.wheres if where not in self.left_out]

    @property
    def reasons(self) -> dict[str, str]:
        """Return why partitions are left out, by partition."""
        return {str(where[1]): why for where, why in self.left_out.items()}


def reachable(call: Call, client: Client, topic: str, wanted: tuple[int, ...] = ()) -> Reachable:
    """Find out which leaders answer: a silent one would hold up the others. Raise ApiError and
    KafkaError.
    """
    wheres = partitions_of(client, topic, wanted)
    leaders = {where: client.leader_id(where) for where in wheres}
    missing = call.view.silent({each for each in leaders.values() if each >= 0})
    left_out = {}
    for where, node_id in leaders.items():
        if node_id < 0:
            left_out[where] = NO_LEADER
        elif node_id in missing:
            left_out[where] = f"broker {node_id}: {missing[node_id]}"
    return Reachable(wheres, left_out, missing)


def range_of(client: Client, wheres: Sequence[Where], wanted: Filter) -> Range:
    """Return what a search of these partitions reads. A record that came more than an hour later
    than its own time may be behind the stop of a search with an end in time.
    """
    bounds = Bounds.of(client, wheres)
    begins: Mapping[Where, int] = bounds.begins
    stops: Mapping[Where, int] = bounds.ends
    if wanted.from_ms is not None:
        begins = offsets_at(client, Position("time", wanted.from_ms), bounds)
    if wanted.to_ms is not None:
        until_ms = min(wanted.to_ms + LATE_MS.value, LARGEST)
        stops = offsets_at(client, Position("time", until_ms), bounds)
    return Range(begins, stops, bounds)


def read_place(place: str) -> Position:
    """Return the position of "begin", "end", "offset:N", "time:MS". Raise ApiError."""
    if place == BEGIN:
        return Position("start")
    if place == END:
        return Position("end")
    match = re.fullmatch(r"(offset|time):(\d{1,19})", place)
    if match is None:
        raise refusal("from is begin, end, offset:N or time:MS")
    return Position(match[1], min(int(match[2]), LARGEST))
