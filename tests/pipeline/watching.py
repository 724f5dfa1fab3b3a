"""Alarms as they are defined, reading by reading of one truck, and the same question to raftka,
which answers for all trucks at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from raftka.pipeline.projects.trucks.library import watch
from raftka.pipeline.projects.trucks.library.truck_states import as_bytes
from raftka.pipeline.projects.trucks.library.watch import HEARD, SILENT, SPEEDING, Alarm, Rules


class Reading(NamedTuple):
    at_us: int
    latitude: float
    longitude: float
    speed_kmh: float | None


class Watched(NamedTuple):
    """The last reading of a truck, and what has been reported of it."""

    at_us: int
    latitude: float
    longitude: float
    is_fast: bool
    is_silent: bool


def one_by_one(
    rules: Rules, truck: object, known: Watched | None, readings: Iterable[Reading]
) -> tuple[list[Alarm], Watched | None]:
    found: list[Alarm] = []
    for each in sorted(readings, key=lambda reading: reading.at_us):
        if known is not None and each.at_us <= known.at_us:
            continue
        if (
            known is not None
            and known.is_silent
            and rules.silent_us is not None
            and each.at_us < known.at_us + rules.silent_us
        ):
            continue
        if known is not None:
            some, known = silence(rules, truck, known, each.at_us)
            found += some
            if known.is_silent:
                found.append(Alarm(truck, HEARD, *each))
        was_fast = known is not None and known.is_fast
        is_fast = (
            was_fast
            if each.speed_kmh is None or rules.speed_kmh is None
            else each.speed_kmh > rules.speed_kmh
        )
        if is_fast and not was_fast:
            found.append(Alarm(truck, SPEEDING, *each))
        known = Watched(*each[:3], is_fast, False)
    return found, known


def silence(
    rules: Rules, truck: object, known: Watched, now_us: int
) -> tuple[list[Alarm], Watched]:
    if rules.silent_us is None or known.is_silent or now_us < known.at_us + rules.silent_us:
        return [], known
    return [
        Alarm(truck, SILENT, known.at_us + rules.silent_us, known.latitude, known.longitude)
    ], known._replace(is_silent=True)


Trucks = Mapping[int, Watched]


def at_once(
    rules: Rules, known: Trucks, readings: Mapping[int, Sequence[Reading]], tasks: int = 1
) -> tuple[list[Alarm], dict[int, Watched]]:
    """`tasks`: so many have a part of the readings each."""
    every = [(truck, *each) for truck, some in readings.items() for each in some]
    packs = []
    for task in range(tasks):
        columns = zip(*every[task::tasks], strict=True) if every[task::tasks] else ((),) * 5
        kinds = {
            "truck": pa.int32(),
            "at_us": pa.int64(),
            "latitude": pa.float64(),
            "longitude": pa.float64(),
            "speed_kmh": pa.float64(),
        }
        arrays = [
            pa.array([float("nan") if value is None else value for value in values], kind)
            for values, kind in zip(columns, kinds.values(), strict=True)
        ]
        packs.append(as_bytes(pa.table(dict(zip(kinds, arrays, strict=True)))))
    found, now = watch.watch(rules, table_of(known), packs)
    return found, trucks_of(now)


def expired(rules: Rules, known: Trucks, now_us: int) -> tuple[list[Alarm], dict[int, Watched]]:
    found, now = watch.expired(rules, table_of(known), now_us)
    return found, trucks_of(now)


def table_of(known: Trucks) -> Any:
    rows = [{"truck": truck, **each._asdict()} for truck, each in known.items()]
    return pa.Table.from_pylist(
        rows, schema=watch.nobody().schema.set(0, pa.field("truck", pa.int32()))
    )


def trucks_of(table: Any) -> dict[int, Watched]:
    return {each.pop("truck"): Watched(**each) for each in table.to_pylist()}
