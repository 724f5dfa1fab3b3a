"""Streams of positions with Spark's memory for each truck: where it is now, which fences it has
crossed, whether it is too fast or silent.

A position that is older than one that was seen of its truck moves nothing. Spark's key is a bucket
of trucks (packs.py), its value a table of them. All need RocksDB as state store, as Spark's Python
state does.
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
from raftka.pipeline.flows.truck_states import (
    AT,
    BUCKET,
    INSIDE,
    PACK,
    ROW,
    TRUCK,
    Packing,
    Rows,
    as_bytes,
    encoded,
    from_bytes,
    together,
)
from raftka.pipeline.flows.watch import Alarm, Rules, expired, nobody, silent_at, watch

if TYPE_CHECKING:
    from pyspark.sql.streaming import StatefulProcessorHandle
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

PLACE = ("latitude", "longitude")
READING = (*PLACE, "speed_kmh")
RECORDS = StructType().add("key", ArrayType(StringType())).add("value", ArrayType(StringType()))
TOGETHER = 1000  # records in one row of these
Record = tuple[str, str]  # key and value


def latest(positions: DataFrame, truck: str = "truck", at: str = "_timestamp") -> DataFrame:
    """Records for a compacted topic: the newest position of each truck, all its columns as JSON."""
    return _records(positions, Packing(truck, at), Newest(), "none")


def alerts(
    positions: DataFrame, fences: Sequence[Fence], truck: str = "truck", at: str = "_timestamp"
) -> DataFrame:
    """Records of ENTER and LEAVE. Each has an id that is the same when it is written again."""
    return _records(positions, Packing(truck, at, PLACE, tuple(fences)), Crossing(), "none")


def watched(
    positions: DataFrame,
    *,
    speed_kmh: float | None = None,
    silent_minutes: float | None = None,
    truck: str = "truck",
    at: str = "_timestamp",
) -> DataFrame:
    """Records of SPEEDING, SILENT and HEARD, with ids as those of `alerts`. Silence is found when
    the watermark has passed its end, so the stream needs one, and another truck must be heard of:
    where all are silent, time stands still.
    """
    rules = Rules(speed_kmh, None if silent_minutes is None else round(silent_minutes * 60_000_000))
    return _records(positions, Packing(truck, at, READING), Watching(rules), "eventTime")


def _records(positions: DataFrame, packing: Packing, state: "Bucket", time: str) -> DataFrame:
    """They come from Python together, since a row from there to Java costs as much as fifty of
    Java's own.
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
    """Gets packs. Remembers the last row of each truck in one table, and has one timer at most."""

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
        """Records, and what is known now."""
        raise NotImplementedError

    def due_ms(self, known: pa.Table) -> int | None:
        """When something is to be found without a position."""
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
        """Of the first truck that will be silent."""
        at_us = silent_at(self._rules, known)
        return None if at_us is None else milliseconds(at_us)

    def handleExpiredTimer(
        self, key: tuple[int], timerValues: "TimerValues", expiredTimerInfo: "ExpiredTimerInfo"
    ) -> Iterator[Row]:
        """All trucks are told that are silent by now: their own timers would come with later
        batches.
        """
        alarms, now = expired(
            self._rules,
            from_bytes(self._state.get()[0]),
            timerValues.getCurrentWatermarkInMs() * 1000,
        )
        yield from in_rows(lines(alarms))
        self._remember(now, None)  # Spark removes what has fired


def lines(alarms: Iterable[Alarm]) -> Iterator[Record]:
    """Each as JSON, as `json.dumps` writes it."""
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
    """Not before that time."""
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
    """As JSON; the record's own columns without what it was made of."""
    return {
        name: text(microseconds(value)) if isinstance(value, datetime) else value
        for name, value in row.items()
        if name != "_key"
    }


def microseconds(moment: datetime) -> int:
    """Spark's timestamps come without a zone, in the zone of this process."""
    return round(moment.timestamp() * 1_000_000)


def text(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1_000_000, UTC).isoformat(timespec="milliseconds")
