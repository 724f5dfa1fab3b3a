"""Packs have the rows of their trucks, and are joined by truck and time behind what is known. What
is found in them: test_moves.py, test_watch.py.
"""

import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")
np = pytest.importorskip("numpy", reason="needs raftka[pipeline]")

from raftka.pipeline.flows.fences import Fence
from raftka.pipeline.flows.packing import BUCKET, PACK
from raftka.pipeline.projects.trucks.library.truck_states import (
    AT,
    BUCKETS,
    INSIDE,
    TRUCK,
    TruckPacking,
    as_bytes,
    bucket_of,
    from_bytes,
    inside,
    newest,
    packing_of,
    positions,
    together,
)

HOLE = ((4.0, 4.0), (6.0, 4.0), (6.0, 6.0), (4.0, 6.0))
FENCES = (
    Fence("yard", (((0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0)), HOLE)),
    Fence("triangle", (((5.0, 5.0), (15.0, 5.0), (10.0, 15.0)),)),
    *(
        Fence(
            f"strip {at}", (((float(at), 0.0), (at + 1.0, 0.0), (at + 1.0, 9.0), (float(at), 9.0)),)
        )
        for at in range(8)
    ),
)
PLACE = ("latitude", "longitude")
READING = (*PLACE, "speed_kmh")
# truck, us, latitude, longitude, speed
Row = tuple[int | None, int, float | None, float, float | None]


def table(rows: list[Row]) -> Any:
    trucks, times, latitudes, longitudes, speeds = zip(*rows, strict=True) if rows else ((),) * 5
    moments = pa.array(
        [datetime.fromtimestamp(each / 1_000_000, UTC) for each in times], pa.timestamp("us", "UTC")
    )
    columns = {"truck": pa.array(trucks, pa.int32()), "at": moments}
    others = zip(READING, (latitudes, longitudes, speeds), strict=True)
    return pa.table(
        {**columns, **{name: pa.array(values, pa.float64()) for name, values in others}}
    )


def ways(draw: random.Random, count: int) -> list[Row]:
    """Times come twice now and then, and not in order; positions lie on edges and corners, too."""
    speeds = [None, 50.0, 90.0, 90.5, 120.0]
    return [
        (
            7,
            draw.randrange(0, count * 40_000_000, 20_000_000),
            draw.randrange(-2, 34) / 2,
            draw.randrange(-2, 34) / 2,
            draw.choice(speeds),
        )
        for _ in range(count)
    ]


def test_inside_is_what_each_fence_says() -> None:
    rows = ways(random.Random(1), 500)
    latitudes, longitudes = (
        pa.array(each).to_numpy() for each in ([row[2] for row in rows], [row[3] for row in rows])
    )

    found = inside(FENCES, longitudes, latitudes)

    assert found.tolist() == [
        [fence.holds(x, y) for fence in FENCES]
        for y, x in zip(latitudes.tolist(), longitudes.tolist(), strict=True)
    ]
    assert found.any()


def test_each_truck_is_in_its_bucket_and_rows_without_a_place_or_a_time_are_in_none() -> None:
    rows: list[Row] = [
        (1, 5, 1.0, 2.0, None),
        (None, 6, 3.0, 4.0, 5.0),
        (1, 4, None, 2.0, 1.0),
        (2, 7, 8.0, 9.0, 10.0),
        (1, 3, 1.5, 2.5, 3.5),
    ]

    (batch,) = TruckPacking("truck", "at", READING).rows(table(rows).to_batches())

    found = {row[BUCKET]: from_bytes(row[PACK]).to_pylist() for row in batch.to_pylist()}
    assert {
        bucket: [(each[TRUCK], each[AT]) for each in some] for bucket, some in found.items()
    } == {
        bucket_of(1): [(1, 5), (1, 3)],
        bucket_of(None): [(None, 6)],
        bucket_of(2): [(2, 7)],
    }
    assert [str(each["speed_kmh"]) for each in found[bucket_of(1)]] == ["nan", "3.5"]


def test_the_same_fences_are_the_same_text() -> None:
    """States and packs compare texts. A name that two fences have is there once."""
    square = (((0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0)),)
    fences = tuple(Fence(f"fence {at % 9}", square) for at in range(20, 0, -1))
    rows: list[Row] = [(1, 5, 1.0, 2.0, None), (2, 6, 11.0, 2.0, None), (1, 7, 2.0, 1.0, None)]

    found = (
        positions(table(rows), TruckPacking("truck", "at", READING, fences))
        .column(INSIDE)
        .to_pylist()
    )

    every = json.dumps([f"fence {at}" for at in range(9)])
    assert found == [every, "[]", every]


def test_a_bucket_is_the_same_for_ever() -> None:
    """Checkpoints have them."""
    assert (BUCKETS, [bucket_of(each) for each in (1, 2, "1", "truck-0001", None, "é")]) == (
        32,
        [23, 13, 23, 31, 17, 30],
    )
    assert {bucket_of(at) for at in range(1000)} == set(range(BUCKETS))


def test_only_the_newest_row_of_a_truck_is_left() -> None:
    rows: list[Row] = [
        (1, 5, 1.0, 1.0, None),
        (2, 9, 2.0, 2.0, None),
        (1, 8, 3.0, 3.0, 1.0),
        (1, 8, 4.0, 4.0, None),
        (2, 1, 5.0, 5.0, None),
    ]

    found = newest(table(rows), "truck", "at")

    assert sorted((row[TRUCK], row[AT], row["row"]["latitude"]) for row in found.to_pylist()) == [
        (1, 8, 3.0),
        (2, 9, 2.0),
    ]
    assert found.schema.field("row").type == pa.struct(list(table(rows).schema))


def test_rows_later_than_what_is_known_come_behind_it_by_truck_and_time() -> None:
    known = pa.table({TRUCK: [7, 8], AT: [50, 10]})
    packs = [
        as_bytes(pa.table({TRUCK: trucks, AT: times, "x": places}))
        for trucks, times, places in (
            ([7, 9, 7], [60, 5, 50], [1.0, 2.0, 3.0]),
            ([9, 7, 7], [5, 55, 60], [1.0, 5.0, 6.0]),
        )
    ]

    first = together(known, packs, known.column(AT).to_numpy())
    by_place = together(known, packs, known.column(AT).to_numpy(), ("x",))

    columns = [TRUCK, AT, "x"]
    assert [tuple(row[name] for name in columns) for row in first.table.to_pylist()] == [
        (7, 50, None),
        (7, 55, 5.0),
        (7, 60, 1.0),
        (8, 10, None),
        (9, 5, 2.0),
    ]
    assert (first.is_known.tolist(), first.is_first.tolist()) == (
        [True, False, False, True, False],
        [True, False, False, True, True],
    )
    assert first.last().column(AT).to_pylist() == [60, 10, 5]
    assert by_place.table.column("x").to_pylist() == [None, 5.0, 1.0, None, 1.0]


def test_nothing_comes_of_nothing() -> None:
    packing = TruckPacking("truck", "at", READING, FENCES)
    assert list(packing.rows([])) == []
    assert list(packing.rows(table([(1, 5, None, 1.0, None)]).to_batches())) == []
    assert (
        together(pa.table({TRUCK: [], AT: pa.array([], pa.int64())}), [], np.zeros(0, np.int64))
        .last()
        .num_rows
        == 0
    )


def test_a_packing_survives_the_way_to_its_source() -> None:
    packing = TruckPacking("truck", "at", READING, FENCES)

    assert packing_of(packing.as_json()) == packing
    assert packing_of(TruckPacking("truck", "at").as_json()) == TruckPacking("truck", "at")


def test_a_timed_pack_has_the_newest_time_of_its_rows() -> None:
    rows: list[Row] = [(1, 5, 1.0, 2.0, None), (2, 9, 1.0, 2.0, None), (1, 8, 1.0, 2.0, 1.0)]
    columns = table(rows).rename_columns(["truck", "_at", *READING])

    (batch,) = TruckPacking("truck", "_at", READING).rows(columns.to_batches(), timed=True)

    assert {
        row[BUCKET]: round(row["_at"].timestamp() * 1_000_000) for row in batch.to_pylist()
    } == {bucket_of(1): 8, bucket_of(2): 9}
