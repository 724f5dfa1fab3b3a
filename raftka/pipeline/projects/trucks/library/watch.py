"""Trucks that go too fast, or send nothing: all trucks of a bucket at once, by NumPy. Spark's side
is in moves.py.

The result depends neither on the batches in which readings come, nor on the moment when Spark's
timers fire: the timer finds silence, or the reading that ends it does. tests/pipeline/watching.py
has the same rules, reading by reading.
"""

from collections.abc import Iterable, Iterator
from math import isnan
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from raftka.json_values import JsonObject
from raftka.pipeline.projects.trucks.library.truck_states import AT, TRUCK, Rows, together

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

SPEEDING, SILENT, HEARD = "SPEEDING", "SILENT", "HEARD"
LATITUDE, LONGITUDE, SPEED = "latitude", "longitude", "speed_kmh"
IS_FAST, IS_SILENT = "is_fast", "is_silent"  # of known rows: reported of the truck


class Rules(NamedTuple):
    speed_kmh: float | None = None  # faster than this is too fast; None: anything goes
    # so long without a reading is silence; None: silence does not matter
    silent_us: int | None = None


class Alarm(NamedTuple):
    truck: object
    event: str
    at_us: int
    latitude: float
    longitude: float
    speed_kmh: float | None = None


def nobody() -> "pa.Table":
    import pyarrow as pa

    numbers = [(AT, pa.int64()), (LATITUDE, pa.float64()), (LONGITUDE, pa.float64())]
    return pa.schema(
        [(TRUCK, pa.null()), *numbers, (IS_FAST, pa.bool_()), (IS_SILENT, pa.bool_())]
    ).empty_table()


def watch(
    rules: Rules, known: "pa.Table", packs: Iterable[bytes]
) -> "tuple[list[Alarm], pa.Table]":
    """A reading that is not later than the last known one is skipped, and one that comes when the
    silence that it would have ended is reported: it is too late. SPEEDING is found once until a
    reading is not too fast any more; a reading without a speed changes nothing of that.
    """
    too_late_us = max(0, (rules.silent_us or 0) - 1)
    rows = together(
        known, packs, known.column(AT).to_numpy() + too_late_us * _flags(known, IS_SILENT)
    )
    at_us, was_silent = rows.table.column(AT).to_numpy(), _flags(rows.table, IS_SILENT)
    fast = _fast(rules, rows)
    before = np.maximum(np.arange(len(at_us)) - 1, 0)
    follows = ~rows.is_known & ~rows.is_first
    gap = (
        np.zeros(len(at_us), np.bool_)
        if rules.silent_us is None
        else at_us - at_us[before] >= rules.silent_us
    )
    silent, heard = follows & gap & ~was_silent[before], follows & (gap | was_silent[before])
    speeding = ~rows.is_known & fast & (rows.is_first | ~fast[before])
    now = (
        rows.table.select([TRUCK, AT, LATITUDE, LONGITUDE])
        .append_column(IS_FAST, [fast])
        .append_column(IS_SILENT, [was_silent])
    )
    return list(_alarms(rules, rows.table, silent, heard, speeding)), now.filter(rows.is_last)


def _flags(table: "pa.Table", name: str) -> "NDArray[np.bool_]":
    """Return a column of flags. New rows have none."""
    found: NDArray[np.bool_] = table.column(name).fill_null(False).to_numpy()
    return found


def _fast(rules: Rules, rows: Rows) -> "NDArray[np.bool_]":
    """Return whether each truck was too fast at its last reading with a speed."""
    fast, says = _flags(rows.table, IS_FAST), rows.is_known | rows.is_first
    if rules.speed_kmh is not None:
        speeds = rows.table.column(SPEED).to_numpy()
        fast = np.where(rows.is_known, fast, speeds > rules.speed_kmh)
        says = says | ~np.isnan(speeds)
    return fast[np.maximum.accumulate(np.where(says, np.arange(len(says)), 0))]


def _alarms(rules: Rules, table: "pa.Table", *found: "NDArray[np.bool_]") -> Iterator[Alarm]:
    """`found`: silent, heard, speeding."""
    places = np.flatnonzero(np.logical_or.reduce(found))
    rows, before = table.take(places).to_pylist(), table.take(np.maximum(places - 1, 0)).to_pylist()
    for row, last, is_silent, *others in zip(
        rows, before, *(each[places] for each in found), strict=True
    ):
        if is_silent:
            yield _silence(rules, last)
        for event, is_found in zip((HEARD, SPEEDING), others, strict=True):
            if is_found:
                yield Alarm(
                    row[TRUCK],
                    event,
                    row[AT],
                    row[LATITUDE],
                    row[LONGITUDE],
                    None if isnan(row[SPEED]) else row[SPEED],
                )


def expired(rules: Rules, known: "pa.Table", now_us: int) -> "tuple[list[Alarm], pa.Table]":
    """Return SILENT, once, for each truck without a reading for too long at `now_us`; with its last
    place.
    """
    was_silent = _flags(known, IS_SILENT)
    silent = (
        ~was_silent & (known.column(AT).to_numpy() + rules.silent_us <= now_us)
        if rules.silent_us is not None
        else np.zeros_like(was_silent)
    )
    found = [_silence(rules, each) for each in known.filter(silent).to_pylist()]
    return found, known.set_column(
        known.schema.get_field_index(IS_SILENT), IS_SILENT, [was_silent | silent]
    )


def _silence(rules: Rules, last: JsonObject) -> Alarm:
    return Alarm(
        last[TRUCK], SILENT, last[AT] + (rules.silent_us or 0), last[LATITUDE], last[LONGITUDE]
    )


def silent_at(rules: Rules, known: "pa.Table") -> int | None:
    """Return the time at which the first of the trucks is silent, unless it sends before."""
    at_us = known.column(AT).to_numpy()[~_flags(known, IS_SILENT)]
    return None if rules.silent_us is None or not len(at_us) else int(at_us.min()) + rules.silent_us
