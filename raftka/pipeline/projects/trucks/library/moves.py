"""Streams of positions with a state for each truck: its newest place, the fences that it has
crossed, alarms about speed and silence.

A position that is older than a known one of its truck changes nothing. Spark's key is a bucket of
trucks (truck_states.py), its value a table of them. All need RocksDB as state store, as Spark's
Python state does.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import ArrayType, BinaryType, LongType, StringType, StructType

from raftka.json_values import JsonObject
from raftka.pipeline.flows.fences import Fence, Move, Position, moved
from raftka.pipeline.flows.frames import PACKED, packed_by_source, with_schema
from raftka.pipeline.flows.packing import BUCKET, PACK
from raftka.pipeline.projects.trucks.library.truck_states import (
    AT,
    INSIDE,
    ROW,
    TRUCK,
    Rows,
    TruckPacking,
    as_bytes,
    encoded,
    from_bytes,
    together,
)
from raftka.pipeline.projects.trucks.library.watch import (
    Alarm,
    Rules,
    expired,
    nobody,
    silent_at,
    watch,
)

if TYPE_CHECKING:
    from pyspark.sql.streaming import StatefulProcessorHandle
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

PLACE = ("latitude", "longitude")
READING = (*PLACE, "speed_kmh")
RECORDS = StructType().add("key", ArrayType(StringType())).add("value", ArrayType(StringType()))
TOGETHER = 1000  # records in one row of these
Record = tuple[str, str]  # key and value


def latest(positions: DataFrame, truck: str = "truck", at: str = "_timestamp") -> DataFrame:
    """Return records for a compacted topic: the newest position of each truck, as JSON."""
    return _records(positions, TruckPacking(truck, at), Newest(), "none")


def alerts(
    positions: DataFrame, fences: Sequence[Fence], truck: str = "truck", at: str = "_timestamp"
) -> DataFrame:
    """Return records of ENTER and LEAVE. Each has an id, the same when it is written again."""
    return _records(positions, TruckPacking(truck, at, PLACE, tuple(fences)), Crossing(), "none")


def watched(
    positions: DataFrame,
    *,
    speed_kmh: float | None = None,
    silent_minutes: float | None = None,
    truck: str = "truck",
    at: str = "_timestamp",
) -> DataFrame:
    """Return records of SPEEDING, SILENT and HEARD, with ids as those of `alerts`. Silence is found
    when the watermark has passed its end. So the stream needs a watermark, and another truck must
    send: where all are silent, time stands still.
    """
    rules = Rules(speed_kmh, None if silent_minutes is None else round(silent_minutes * 60_000_000))
    return _records(positions, TruckPacking(truck, at, READING), Watching(rules), "eventTime")


def _records(positions: DataFrame, packing: TruckPacking, state: "Bucket", time: str) -> DataFrame:
    """Return records of the states. They come from Python together: a row from Python to Java costs
    as much as fifty of Java's own.
    """
    packs = packed_by_source(positions, packing)
    if packs is None:
        names, known = [packing.key, packing.at, *packing.numbers], positions.schema
        columns = (
            with_schema(positions.select(*names), StructType([known[name] for name in names]))
            if packing.numbers
            else positions
        )
        packs = with_schema(columns.mapInArrow(packing.rows, PACKED), PACKED)
    return (
        packs.groupBy(BUCKET)
        .transformWithState(state, RECORDS, "append", time)
        .selectExpr("inline(arrays_zip(key, value))")
    )


def in_rows(records: Iterable[Record]) -> Iterator[Row]:
    left = iter(records)
    while some := list(islice(left, TOGETHER)):
        keys, values = zip(*some, strict=True)
        yield Row(key=list(keys), value=list(values))


class Bucket(StatefulProcessor):  # type: ignore[misc]
    """State of a bucket: the last row of each truck in one table, and at most one timer."""

    def __init__(self, name: str, nobody: pa.Table) -> None:
        self._name, self._nobody = name, as_bytes(nobody)

    def init(self, handle: "StatefulProcessorHandle") -> None:
        self._handle = handle
        self._state = handle.getValueState(
            self._name, StructType().add("trucks", BinaryType()).add("timer_ms", LongType())
        )

    def handleInputRows(
        self, key: tuple[int], rows: Iterator[Row], timerValues: "TimerValues"
    ) -> Iterator[Row]:
        # each question to Java costs some 100 us: `exists` would be one more
        known, timer_ms = self._state.get() or (self._nobody, None)
        before = from_bytes(known)
        found, now = self.found(before, (each[PACK] for each in rows))
        yield from in_rows(found)
        if not now.equals(before):
            self._remember(now, timer_ms)

    def _remember(self, now: pa.Table, timer_ms: int | None) -> None:
        due_ms = self.due_ms(now)
        if due_ms != timer_ms and timer_ms is not None:
            self._handle.deleteTimer(timer_ms)
        if due_ms != timer_ms and due_ms is not None:
            self._handle.registerTimer(due_ms)
        self._state.update((as_bytes(now), due_ms))

    def found(self, known: pa.Table, packs: Iterable[bytes]) -> tuple[Iterable[Record], pa.Table]:
        """Return the records, and the table that is known now."""
        raise NotImplementedError

    def due_ms(self, known: pa.Table) -> int | None:
        """Return the time at which the state is to be asked without a new position."""
        return None

    def close(self) -> None:
        pass


class Newest(Bucket):
    def __init__(self) -> None:
        super().__init__("seen", pa.schema([(TRUCK, pa.null()), (AT, pa.int64())]).empty_table())

    def found(self, known: pa.Table, packs: Iterable[bytes]) -> tuple[Iterable[Record], pa.Table]:
        last = together(known, packs, known.column(AT).to_numpy()).last()
        rows = last.filter(last.column(ROW).is_valid()).select([TRUCK, ROW]).to_pylist()
        return ((str(each[TRUCK]), json.dumps(shown(each[ROW]))) for each in rows), last.select(
            known.column_names
        )


class Crossing(Bucket):
    def __init__(self) -> None:
        super().__init__(
            "known",
            pa.schema([(TRUCK, pa.null()), (AT, pa.int64()), (INSIDE, pa.string())]).empty_table(),
        )

    def found(self, known: pa.Table, packs: Iterable[bytes]) -> tuple[Iterable[Record], pa.Table]:
        rows = together(known, packs, known.column(AT).to_numpy(), PLACE)
        return list(self._crossings(rows)), rows.last().select(known.column_names)

    def _crossings(self, rows: Rows) -> Iterator[Record]:
        numbers, texts = encoded(rows.table.column(INSIDE))
        before = np.where(rows.is_first, len(texts), np.roll(numbers, 1))
        fences = [*(frozenset(json.loads(str(each or "[]"))) for each in texts), frozenset[str]()]
        places = np.flatnonzero(~rows.is_known & (numbers != before))
        for row, was, now in zip(
            rows.table.take(places).to_pylist(), before[places], numbers[places], strict=True
        ):
            for event, fence in moved(fences[was], fences[now]):
                told = alert(
                    str(row[TRUCK]),
                    Move(event, fence, Position(row[AT], *(row[name] for name in PLACE))),
                )
                yield str(row[TRUCK]), json.dumps(told)


class Watching(Bucket):
    def __init__(self, rules: Rules) -> None:
        super().__init__("watched", nobody())
        self._rules = rules

    def found(self, known: pa.Table, packs: Iterable[bytes]) -> tuple[Iterable[Record], pa.Table]:
        alarms, now = watch(self._rules, known, packs)
        return lines(alarms), now

    def due_ms(self, known: pa.Table) -> int | None:
        """Return the time at which the first truck will be silent."""
        at_us = silent_at(self._rules, known)
        return None if at_us is None else milliseconds(at_us)

    def handleExpiredTimer(
        self, key: tuple[int], timerValues: "TimerValues", expiredTimerInfo: "ExpiredTimerInfo"
    ) -> Iterator[Row]:
        """Report all trucks that are silent by now: their own timers would fire later."""
        alarms, now = expired(
            self._rules,
            from_bytes(self._state.get()[0]),
            timerValues.getCurrentWatermarkInMs() * 1000,
        )
        yield from in_rows(lines(alarms))
        self._remember(now, None)  # Spark removes what has fired


def lines(alarms: Iterable[Alarm]) -> Iterator[Record]:
    """Return each alarm as JSON, as `json.dumps` writes it."""
    for each in alarms:
        name, at = json.dumps(str(each.truck))[1:-1], text(each.at_us)
        speed = "" if each.speed_kmh is None else f', "speed_kmh": {number(each.speed_kmh)}'
        yield (
            str(each.truck),
            f'{{"id": "{name} {each.event} {at}", "truck": "{name}", "event": "{each.event}", '
            f'"at": "{at}", '
            f'"latitude": {number(each.latitude)}, "longitude": {number(each.longitude)}{speed}}}',
        )


def number(value: float) -> str:
    return repr(value) if isfinite(value) else json.dumps(value)


def milliseconds(at_us: int) -> int:
    """Round up to milliseconds."""
    return -(-at_us // 1000)


def alert(truck: str, move: Move) -> JsonObject:
    at, (_, latitude, longitude) = text(move.position.at_us), move.position
    told = {
        "truck": truck,
        "event": move.event,
        "fence": move.fence,
        "at": at,
        "latitude": latitude,
        "longitude": longitude,
    }
    return {"id": f"{truck} {move.event} {move.fence} {at}", **told}


def shown(row: JsonObject) -> JsonObject:
    """Return the row for JSON, without the key that it was made of."""
    return {
        name: text(microseconds(value)) if isinstance(value, datetime) else value
        for name, value in row.items()
        if name != "_key"
    }


def microseconds(moment: datetime) -> int:
    """Convert a timestamp of Spark's, which has no zone: it is in the zone of this process."""
    return round(moment.timestamp() * 1_000_000)


def text(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1_000_000, UTC).isoformat(timespec="milliseconds")
