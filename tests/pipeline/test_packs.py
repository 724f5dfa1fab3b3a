"""Packs of positions say what the positions themselves say, one by one, however they are cut into tasks and batches."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")

from raftka.pipeline.flows.fences import NOWHERE, Fence, Position, moved, moves
from raftka.pipeline.flows.packs import Packing, inside, newest, packed, packing_of, readings, together, turns
from raftka.pipeline.flows.watch import Reading, Rules, Watched, watch

HOLE = ((4.0, 4.0), (6.0, 4.0), (6.0, 6.0), (4.0, 6.0))
FENCES = (
    Fence("yard", (((0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0)), HOLE)),
    Fence("triangle", (((5.0, 5.0), (15.0, 5.0), (10.0, 15.0)),)),
    *(Fence(f"strip {at}", (((float(at), 0.0), (at + 1.0, 0.0), (at + 1.0, 9.0), (float(at), 9.0)),)) for at in range(8)),
)
PLACE = ("latitude", "longitude")
READING = (*PLACE, "speed_kmh")
Row = tuple[int | None, int, float | None, float, float | None]  # truck, us, latitude, longitude, speed


def table(rows: list[Row]) -> Any:
    trucks, times, latitudes, longitudes, speeds = zip(*rows, strict=True) if rows else ((),) * 5
    moments = pa.array([datetime.fromtimestamp(each / 1_000_000, UTC) for each in times], pa.timestamp("us", "UTC"))
    columns = {"truck": pa.array(trucks, pa.int32()), "at": moments}
    others = zip(READING, (latitudes, longitudes, speeds), strict=True)
    return pa.table({**columns, **{name: pa.array(values, pa.float64()) for name, values in others}})


def packs(rows: list[Row], numbers: tuple[str, ...], fences: tuple[Fence, ...] = (), tasks: int = 3) -> Iterator[dict[str, Any]]:
    """Of the only truck."""
    for task in range(tasks):
        for batch in packed(table(rows[task::tasks]).to_batches(max_chunksize=7), "truck", "at", numbers, fences):
            yield from batch.to_pylist()


def ways(draw: random.Random, count: int) -> list[Row]:
    """Times come twice now and then, and not in order; positions lie on edges and corners, too."""
    speeds = [None, 50.0, 90.0, 90.5, 120.0]
    return [
        (7, draw.randrange(0, count * 40_000_000, 20_000_000), draw.randrange(-2, 34) / 2, draw.randrange(-2, 34) / 2, draw.choice(speeds))
        for _ in range(count)
    ]


def test_inside_is_what_each_fence_says() -> None:
    rows = ways(random.Random(1), 500)
    latitudes, longitudes = (pa.array(each).to_numpy() for each in ([row[2] for row in rows], [row[3] for row in rows]))

    found = inside(FENCES, longitudes, latitudes)

    assert found.tolist() == [[fence.holds(x, y) for fence in FENCES] for y, x in zip(latitudes.tolist(), longitudes.tolist(), strict=True)]
    assert found.any()


@pytest.mark.parametrize("seed", range(20))
def test_crossings_of_packs_are_those_of_positions(seed: int) -> None:
    draw = random.Random(seed)
    slow = fast = NOWHERE
    for _ in range(4):
        rows = ways(draw, draw.randrange(1, 60))
        expected, slow = moves(FENCES, slow, [Position(row[1], float(row[2] or 0), row[3]) for row in rows])

        there = together(packs(rows, PLACE, FENCES), PLACE, fast.at_us, width=2)
        some = there.take(turns(there))
        holding = [frozenset(fence.name for fence in FENCES if fence.holds(x, y)) for y, x in zip(*some.others[:2], strict=True)]
        positions = [Position(*each) for each in zip(some.at_us.tolist(), *(column.tolist() for column in some.others[:2]), strict=True)]
        found, fast = moved(fast, zip(positions, holding, strict=True))

        assert (found, fast) == (expected, slow)


@pytest.mark.parametrize("rules", [Rules(90.0, 60_000_000), Rules(None, 60_000_000), Rules(90.0, None), Rules()])
@pytest.mark.parametrize("seed", range(10))
def test_alarms_of_packs_are_those_of_readings(seed: int, rules: Rules) -> None:
    draw = random.Random(seed)
    slow: Watched | None = None
    fast: Watched | None = None
    for _ in range(4):
        rows = sorted({row[1]: row for row in ways(draw, draw.randrange(1, 60))}.values(), key=lambda row: draw.random())
        expected, slow = watch(rules, slow, [Reading(row[1], float(row[2] or 0), row[3], row[4]) for row in rows])

        there = together(packs(rows, READING), READING, NOWHERE.at_us if fast is None else fast.at_us)
        found, fast = watch(rules, fast, readings(rules, fast, there))

        assert (found, fast) == (expected, slow)


def test_a_reading_that_comes_when_its_silence_is_reported_is_too_late() -> None:
    rules = Rules(90.0, 60_000_000)
    silent = Watched(0, 1.0, 2.0, is_fast=False, is_silent=True)

    found, now = watch(rules, silent, [Reading(30_000_000, 1.0, 2.0, 100.0), Reading(70_000_000, 1.0, 2.0, 50.0)])

    assert [(each.event, each.at_us) for each in found] == [("HEARD", 70_000_000)]
    assert now == Watched(70_000_000, 1.0, 2.0, is_fast=False, is_silent=False)


def test_each_truck_has_its_own_pack_and_rows_without_a_place_or_a_time_have_none() -> None:
    rows: list[Row] = [(1, 5, 1.0, 2.0, None), (None, 6, 3.0, 4.0, 5.0), (1, 4, None, 2.0, 1.0), (2, 7, 8.0, 9.0, 10.0), (1, 3, 1.5, 2.5, 3.5)]

    (batch,) = packed(table(rows).to_batches(), "truck", "at", READING)

    found = {row["truck"]: together([row], READING, NOWHERE.at_us) for row in batch.to_pylist()}
    assert {truck: each.at_us.tolist() for truck, each in found.items()} == {None: [6], 1: [3, 5], 2: [7]}
    assert [str(each) for each in found[1].others[2]] == ["3.5", "nan"]


def test_only_the_newest_row_of_a_truck_is_left() -> None:
    rows: list[Row] = [(1, 5, 1.0, 1.0, None), (2, 9, 2.0, 2.0, None), (1, 8, 3.0, 3.0, 1.0), (1, 8, 4.0, 4.0, None), (2, 1, 5.0, 5.0, None)]

    (batch,) = newest(table(rows).to_batches(), "truck", "at")

    assert sorted((row["truck"], row["latitude"]) for row in batch.to_pylist()) == [(1, 3.0), (2, 2.0)]
    assert batch.schema == table(rows).schema


def test_nothing_comes_of_nothing() -> None:
    assert list(packed([], "truck", "at", READING)) == []
    empty = table([(1, 5, None, 1.0, None)])
    assert [batch.num_rows for batch in packed(empty.to_batches(), "truck", "at", READING, FENCES)] == [0]


def test_a_packing_survives_the_way_to_its_source() -> None:
    packing = Packing("truck", "at", READING, FENCES)

    assert packing_of(packing.as_json()) == packing
    assert packing_of(Packing("truck", "at").as_json()) == Packing("truck", "at")


def test_a_timed_pack_has_the_newest_time_of_its_rows() -> None:
    rows: list[Row] = [(1, 5, 1.0, 2.0, None), (2, 9, 1.0, 2.0, None), (1, 8, 1.0, 2.0, 1.0)]
    columns = table(rows).rename_columns(["truck", "_at", *READING])

    (batch,) = packed(columns.to_batches(), "truck", "_at", READING, timed=True)

    assert {row["truck"]: round(row["_at"].timestamp() * 1_000_000) for row in batch.to_pylist()} == {1: 8, 2: 9}
