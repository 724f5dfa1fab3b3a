"""Streams of positions with Spark's memory for each truck: where it is now, which fences it has crossed. What is decided stands in fences.py.

A position that is older than one that was seen of its truck moves nothing. Both need RocksDB as state store, as all of Spark's Python state does.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import StringType, StructType

from raftka.json_values import JsonObject
from raftka.pipeline.flows.fences import NOWHERE, Fence, Move, Position, Whereabouts, moves
from raftka.pipeline.flows.watch import Alarm, Reading, Rules, Watched, expired, silent_at, watch

if TYPE_CHECKING:
    from pyspark.sql.streaming import StatefulProcessorHandle
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo

RECORD = StructType().add("key", StringType()).add("value", StringType())


def latest(positions: DataFrame, truck: str = "truck", at: str = "_timestamp") -> DataFrame:
    """Records for a compacted topic: the newest position of each truck, all its columns as JSON."""
    return positions.groupBy(truck).transformWithState(Newest(truck, at), RECORD, "append", "none")


def alerts(positions: DataFrame, fences: Sequence[Fence], truck: str = "truck", at: str = "_timestamp") -> DataFrame:
    """Records of ENTER and LEAVE. Each has an id that is the same when it is written again."""
    return positions.groupBy(truck).transformWithState(Crossing(tuple(fences), at), RECORD, "append", "none")


def watched(
    positions: DataFrame, *, speed_kmh: float | None = None, silent_minutes: float | None = None, truck: str = "truck", at: str = "_timestamp"
) -> DataFrame:
    """Records of SPEEDING, SILENT and HEARD, with ids as those of `alerts`. Silence is found when the watermark has passed its end, so the stream
    needs one, and another truck must be heard of: where all are silent, time stands still."""
    rules = Rules(speed_kmh, None if silent_minutes is None else round(silent_minutes * 60_000_000))
    return positions.groupBy(truck).transformWithState(Watching(rules, at), RECORD, "append", "eventTime")


class Newest(StatefulProcessor):  # type: ignore[misc]
    def __init__(self, truck: str, at: str) -> None:
        self._truck, self._at = truck, at

    def init(self, handle: "StatefulProcessorHandle") -> None:
        self._seen = handle.getValueState("seen", StructType().add("at_us", "long"))

    def handleInputRows(self, key: tuple[object], rows: Iterator[Row], timerValues: object) -> Iterator[Row]:
        seen = self._seen.get()[0] if self._seen.exists() else NOWHERE.at_us
        newest = max(rows, key=lambda row: microseconds(row[self._at]))
        at_us = microseconds(newest[self._at])
        if at_us > seen:
            self._seen.update((at_us,))
            yield Row(key=str(key[0]), value=json.dumps(shown(newest.asDict())))

    def close(self) -> None:
        pass


class Crossing(StatefulProcessor):  # type: ignore[misc]
    def __init__(self, fences: tuple[Fence, ...], at: str) -> None:
        self._fences, self._at = fences, at

    def init(self, handle: "StatefulProcessorHandle") -> None:
        self._known = handle.getValueState("known", StructType().add("at_us", "long").add("inside", "string"))

    def handleInputRows(self, key: tuple[object], rows: Iterator[Row], timerValues: object) -> Iterator[Row]:
        known = NOWHERE
        if self._known.exists():
            at_us, inside = self._known.get()
            known = Whereabouts(at_us, frozenset(json.loads(inside)))
        found, now = moves(self._fences, known, [Position(microseconds(row[self._at]), row["latitude"], row["longitude"]) for row in rows])
        if now != known:
            self._known.update((now.at_us, json.dumps(sorted(now.inside))))
        for each in found:
            yield Row(key=str(key[0]), value=json.dumps(alert(str(key[0]), each)))

    def close(self) -> None:
        pass


class Watching(StatefulProcessor):  # type: ignore[misc]
    """One timer for each truck that is not silent: when it would be."""

    def __init__(self, rules: Rules, at: str) -> None:
        self._rules, self._at = rules, at

    def init(self, handle: "StatefulProcessorHandle") -> None:
        self._handle = handle
        shape = StructType().add("at_us", "long").add("latitude", "double").add("longitude", "double")
        self._known = handle.getValueState("watched", shape.add("is_fast", "boolean").add("is_silent", "boolean"))

    def handleInputRows(self, key: tuple[object], rows: Iterator[Row], timerValues: object) -> Iterator[Row]:
        before = Watched(*self._known.get()) if self._known.exists() else None
        readings = [Reading(microseconds(row[self._at]), row["latitude"], row["longitude"], row["speed_kmh"]) for row in rows]
        found, now = watch(self._rules, before, readings)
        if now is not None and now != before:
            self._known.update(tuple(now))
            self._set_timer(before, now)
        yield from (record(key, each) for each in found)

    def handleExpiredTimer(self, key: tuple[object], timerValues: object, expiredTimerInfo: "ExpiredTimerInfo") -> Iterator[Row]:
        if self._known.exists():
            found, now = expired(self._rules, Watched(*self._known.get()), expiredTimerInfo.getExpiryTimeInMs() * 1000)
            self._known.update(tuple(now))
            yield from (record(key, each) for each in found)

    def _set_timer(self, before: Watched | None, now: Watched) -> None:
        if before is not None and not before.is_silent and (at_us := silent_at(self._rules, before)) is not None:
            self._handle.deleteTimer(milliseconds(at_us))
        if (at_us := silent_at(self._rules, now)) is not None:
            self._handle.registerTimer(milliseconds(at_us))

    def close(self) -> None:
        pass


def record(key: tuple[object], alarm: Alarm) -> Row:
    at = text(alarm.at_us)
    told = {"truck": str(key[0]), "event": alarm.event, "at": at, "latitude": alarm.latitude, "longitude": alarm.longitude}
    speed = {} if alarm.speed_kmh is None else {"speed_kmh": alarm.speed_kmh}
    return Row(key=str(key[0]), value=json.dumps({"id": f"{key[0]} {alarm.event} {at}", **told, **speed}))


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
