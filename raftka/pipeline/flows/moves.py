"""Streams of positions with Spark's memory for each truck: where it is now, which fences it has crossed. What is decided stands in fences.py.

A position that is older than one that was seen of its truck moves nothing. Both need RocksDB as state store, as all of Spark's Python state does.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import BinaryType, StringType, StructType

from raftka.json_values import JsonObject
from raftka.pipeline.flows.fences import NOWHERE, Fence, Move, Position, Whereabouts, moved
from raftka.pipeline.flows.frames import packed_by_source, with_schema
from raftka.pipeline.flows.packs import Packing, readings, together, turns
from raftka.pipeline.flows.watch import Alarm, Rules, Watched, expired, silent_at, watch

if TYPE_CHECKING:
    from pyspark.sql.streaming import StatefulProcessorHandle
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo

PLACE = ("latitude", "longitude")
READING = (*PLACE, "speed_kmh")
RECORD = StructType().add("key", StringType()).add("value", StringType())
TOGETHER = 1000  # records of a truck in one row
BETWEEN = "\n"  # them: no JSON of ours has it


def latest(positions: DataFrame, truck: str = "truck", at: str = "_timestamp") -> DataFrame:
    """Records for a compacted topic: the newest position of each truck, all its columns as JSON."""
    packing, shape = Packing(truck, at), positions.schema
    few = packed_by_source(positions, packing)
    if few is None:
        few = with_schema(positions.mapInArrow(packing.rows, shape), shape)
    return few.groupBy(truck).transformWithState(Newest(truck, at), RECORD, "append", "none")


def alerts(positions: DataFrame, fences: Sequence[Fence], truck: str = "truck", at: str = "_timestamp") -> DataFrame:
    """Records of ENTER and LEAVE. Each has an id that is the same when it is written again."""
    packs = _packs(positions, truck, at, PLACE, fences)
    return _apart(packs.groupBy(truck).transformWithState(Crossing(tuple(each.name for each in fences)), RECORD, "append", "none"))


def watched(
    positions: DataFrame, *, speed_kmh: float | None = None, silent_minutes: float | None = None, truck: str = "truck", at: str = "_timestamp"
) -> DataFrame:
    """Records of SPEEDING, SILENT and HEARD, with ids as those of `alerts`. Silence is found when the watermark has passed its end, so the stream
    needs one, and another truck must be heard of: where all are silent, time stands still."""
    rules = Rules(speed_kmh, None if silent_minutes is None else round(silent_minutes * 60_000_000))
    packs = _packs(positions, truck, at, READING)
    return _apart(packs.groupBy(truck).transformWithState(Watching(rules), RECORD, "append", "eventTime"))


def _apart(rows: DataFrame) -> DataFrame:
    """A row for each record. They come from Python together, since a row from there to Java costs as much as fifty of Java's own."""
    return rows.select("key", f.explode(f.split("value", BETWEEN)).alias("value"))


def in_rows(key: tuple[object], lines: Iterable[str]) -> Iterator[Row]:
    """Records of one truck, joined."""
    left = iter(lines)
    while some := list(islice(left, TOGETHER)):
        yield Row(key=str(key[0]), value=BETWEEN.join(some))


def _packs(positions: DataFrame, truck: str, at: str, numbers: Sequence[str], fences: Sequence[Fence] = ()) -> DataFrame:
    """The positions of each truck that a task has at hand, as one row."""
    packing = Packing(truck, at, tuple(numbers), tuple(fences))
    packs = packed_by_source(positions, packing)
    if packs is not None:
        return packs
    known = positions.schema
    shape = StructType([known[truck]])
    for name in packing.columns:
        shape = shape.add(name, BinaryType())
    columns = with_schema(positions.select(truck, at, *numbers), StructType([known[name] for name in (truck, at, *numbers)]))
    return with_schema(columns.mapInArrow(packing.rows, shape), shape)


class Newest(StatefulProcessor):  # type: ignore[misc]
    def __init__(self, truck: str, at: str) -> None:
        self._truck, self._at = truck, at

    def init(self, handle: "StatefulProcessorHandle") -> None:
        self._seen = handle.getValueState("seen", StructType().add("at_us", "long"))

    def handleInputRows(self, key: tuple[object], rows: Iterator[Row], timerValues: object) -> Iterator[Row]:
        known = self._seen.get()  # each question to Java costs some 100 us: `exists` would be one more
        seen = NOWHERE.at_us if known is None else known[0]
        newest = max(rows, key=lambda row: microseconds(row[self._at]))
        at_us = microseconds(newest[self._at])
        if at_us > seen:
            self._seen.update((at_us,))
            yield Row(key=str(key[0]), value=json.dumps(shown(newest.asDict())))

    def close(self) -> None:
        pass


class Crossing(StatefulProcessor):  # type: ignore[misc]
    """Gets packs."""

    def __init__(self, fences: tuple[str, ...]) -> None:
        self._fences = fences

    def init(self, handle: "StatefulProcessorHandle") -> None:
        self._known = handle.getValueState("known", StructType().add("at_us", "long").add("inside", "string"))

    def handleInputRows(self, key: tuple[object], rows: Iterator[Row], timerValues: object) -> Iterator[Row]:
        before = self._known.get()
        known = NOWHERE if before is None else Whereabouts(before[0], frozenset(json.loads(before[1])))
        found, now = moved(known, self._positions(rows, known.at_us))
        if now != known:
            self._known.update((now.at_us, json.dumps(sorted(now.inside))))
        yield from in_rows(key, (json.dumps(alert(str(key[0]), each)) for each in found))

    def _positions(self, packs: Iterator[Row], after_us: int) -> Iterator[tuple[Position, frozenset[str]]]:
        there = together(packs, PLACE, after_us, width=-(-len(self._fences) // 8))
        some = there.take(turns(there))
        latitudes, longitudes = (each.tolist() for each in some.others[:2])
        bits = np.unpackbits(some.others[2], axis=1, count=len(self._fences)).tolist() if self._fences else [[]] * len(some.at_us)
        for at_us, latitude, longitude, mask in zip(some.at_us.tolist(), latitudes, longitudes, bits, strict=True):
            yield Position(at_us, latitude, longitude), frozenset(name for name, is_in in zip(self._fences, mask, strict=True) if is_in)

    def close(self) -> None:
        pass


class Watching(StatefulProcessor):  # type: ignore[misc]
    """Gets packs. One timer for each truck that is not silent: when it would be."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def init(self, handle: "StatefulProcessorHandle") -> None:
        self._handle = handle
        shape = StructType().add("at_us", "long").add("latitude", "double").add("longitude", "double")
        self._known = handle.getValueState("watched", shape.add("is_fast", "boolean").add("is_silent", "boolean"))

    def handleInputRows(self, key: tuple[object], rows: Iterator[Row], timerValues: object) -> Iterator[Row]:
        known = self._known.get()
        before = None if known is None else Watched(*known)
        there = together(rows, READING, NOWHERE.at_us if before is None else before.at_us)
        found, now = watch(self._rules, before, readings(self._rules, before, there))
        if now is not None and now != before:
            self._known.update(tuple(now))
            self._set_timer(before, now)
        yield from in_rows(key, lines(key, found))

    def handleExpiredTimer(self, key: tuple[object], timerValues: object, expiredTimerInfo: "ExpiredTimerInfo") -> Iterator[Row]:
        known = self._known.get()
        if known is not None:
            found, now = expired(self._rules, Watched(*known), expiredTimerInfo.getExpiryTimeInMs() * 1000)
            self._known.update(tuple(now))
            yield from in_rows(key, lines(key, found))

    def _set_timer(self, before: Watched | None, now: Watched) -> None:
        if before is not None and not before.is_silent and (at_us := silent_at(self._rules, before)) is not None:
            self._handle.deleteTimer(milliseconds(at_us))
        if (at_us := silent_at(self._rules, now)) is not None:
            self._handle.registerTimer(milliseconds(at_us))

    def close(self) -> None:
        pass


def lines(key: tuple[object], alarms: Iterable[Alarm]) -> Iterator[str]:
    """Each as JSON, as `json.dumps` writes it."""
    name = json.dumps(str(key[0]))[1:-1]
    for each in alarms:
        at = text(each.at_us)
        speed = "" if each.speed_kmh is None else f', "speed_kmh": {number(each.speed_kmh)}'
        yield (
            f'{{"id": "{name} {each.event} {at}", "truck": "{name}", "event": "{each.event}", "at": "{at}", '
            f'"latitude": {number(each.latitude)}, "longitude": {number(each.longitude)}{speed}}}'
        )


def number(value: float) -> str:
    return repr(value) if isfinite(value) else json.dumps(value)


def milliseconds(at_us: int) -> int:
    """Not before that time."""
    return -(-at_us // 1000)


def alert(truck: str, move: Move) -> JsonObject:
    at, (_, latitude, longitude) = text(move.position.at_us), move.position
    told = {"truck": truck, "event": move.event, "fence": move.fence, "at": at, "latitude": latitude, "longitude": longitude}
    return {"id": f"{truck} {move.event} {move.fence} {at}", **told}


def shown(row: JsonObject) -> JsonObject:
    """As JSON; the record's own columns without what it was made of."""
    return {name: text(microseconds(value)) if isinstance(value, datetime) else value for name, value in row.items() if name != "_key"}


def microseconds(moment: datetime) -> int:
    """Spark's timestamps come without a zone, in the zone of this process."""
    return round(moment.timestamp() * 1_000_000)


def text(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1_000_000, UTC).isoformat(timespec="milliseconds")
