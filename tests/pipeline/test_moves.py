"""Spark's memory of the trucks of a bucket, here a dict. No session."""

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

import pyarrow as pa

from raftka.pipeline.flows.fences import NOWHERE, Fence, Position, moves
from raftka.pipeline.flows.packing import BUCKET
from raftka.pipeline.projects.trucks.library.moves import PLACE, Bucket, Crossing, Newest, alert
from raftka.pipeline.projects.trucks.library.truck_states import AT, TruckPacking, from_bytes

YARD = Fence("yard", (((0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0)),))
HOLE = ((4.0, 4.0), (6.0, 4.0), (6.0, 6.0), (4.0, 6.0))
FENCES = (
    Fence("yard", (((0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0)), HOLE)),
    Fence("triangle", (((5.0, 5.0), (15.0, 5.0), (10.0, 15.0)),)),
    # one name twice
    *(
        Fence(
            f"strip {at % 7}",
            (((float(at), 0.0), (at + 1.0, 0.0), (at + 1.0, 9.0), (float(at), 9.0)),),
        )
        for at in range(8)
    ),
)
START_S = 1_700_000_000
Way = tuple[int, float, float, float]  # truck, second, latitude, longitude


class Value:
    def __init__(self) -> None:
        self.value: Any = None

    def get(self) -> Any:
        return self.value

    def update(self, value: Any) -> None:
        self.value = value


class Memory:
    """Of all buckets."""

    def __init__(self, state: Bucket, packing: TruckPacking) -> None:
        self._state, self._packing = state, packing
        self.values: dict[int, Value] = {}

    def getValueState(self, _name: str, _schema: Any) -> Value:
        return self.values.setdefault(self._bucket, Value())

    def feed(self, *ways: Way, tasks: int = 2) -> list[tuple[str, Any]]:
        """A batch whose rows are in so many tasks. Returns keys and values."""
        packs: dict[int, list[Any]] = {}
        for task in range(tasks):
            for batch in self._packing.rows(table(ways[task::tasks]).to_batches(max_chunksize=7)):
                for row in batch.to_pylist():
                    packs.setdefault(row[BUCKET], []).append(row)
        found = []
        for self._bucket, some in packs.items():
            self._state.init(self)
            for row in self._state.handleInputRows((self._bucket,), iter(some), None):
                found += [
                    (key, json.loads(value)) for key, value in zip(row.key, row.value, strict=True)
                ]
        return found

    def known(self) -> Iterator[dict[str, Any]]:
        for each in self.values.values():
            yield from from_bytes(each.value[0]).to_pylist()


def table(ways: Sequence[Way]) -> pa.Table:
    trucks, seconds, latitudes, longitudes = zip(*ways, strict=True) if ways else ((),) * 4
    times = pa.array([round((START_S + each) * 1_000_000) for each in seconds]).cast(
        pa.timestamp("us", "UTC")
    )
    places = {
        "latitude": pa.array(latitudes, pa.float64()),
        "longitude": pa.array(longitudes, pa.float64()),
    }
    return pa.table(
        {
            "truck": pa.array(trucks, pa.int32()),
            **places,
            "_key": [b"k"] * len(trucks),
            "_timestamp": times,
        }
    )


def newest() -> Memory:
    return Memory(Newest(), TruckPacking("truck", "_timestamp"))


def crossing(fences: tuple[Fence, ...]) -> Memory:
    return Memory(Crossing(), TruckPacking("truck", "_timestamp", PLACE, fences))


def test_only_the_newest_position_of_a_batch_and_none_that_is_older_than_the_last() -> None:
    memory = newest()

    found = memory.feed((7, 1, 5.0, 1.0), (7, 3, 5.0, 3.0), (7, 2, 5.0, 2.0), (8, 1, 5.0, 8.0))
    assert dict(found) == {
        "7": {
            "truck": 7,
            "latitude": 5.0,
            "longitude": 3.0,
            "_timestamp": "2023-11-14T22:13:23.000+00:00",
        },
        "8": {
            "truck": 8,
            "latitude": 5.0,
            "longitude": 8.0,
            "_timestamp": "2023-11-14T22:13:21.000+00:00",
        },
    }
    assert memory.feed((7, 2, 5.0, 9.0), (7, 3, 5.0, 9.0)) == []
    assert {each["truck"]: each[AT] for each in memory.known()} == {
        7: (START_S + 3) * 1_000_000,
        8: (START_S + 1) * 1_000_000,
    }
    assert [(key, value["longitude"]) for key, value in memory.feed((7, 4, 5.0, 4.0))] == [
        ("7", 4.0)
    ]


def test_crossings_go_on_where_the_last_batch_was() -> None:
    memory = crossing((YARD,))

    first = memory.feed((7, 1, 5.0, -1.0), (7, 2, 5.0, 5.0))
    again = memory.feed((7, 1, 5.0, -1.0), (7, 2, 5.0, 5.0))
    inside = memory.feed((7, 3, 5.0, 6.0))
    last = memory.feed((7, 4, 5.0, 11.0))

    at = "2023-11-14T22:13:22.000+00:00"
    told = {
        "truck": "7",
        "event": "ENTER",
        "fence": "yard",
        "at": at,
        "latitude": 5.0,
        "longitude": 5.0,
    }
    assert first == [("7", {"id": f"7 ENTER yard {at}", **told})]
    assert (again, inside) == ([], [])
    assert [(each["event"], each["longitude"]) for _, each in last] == [("LEAVE", 11.0)]


def test_a_fence_that_is_taken_away_is_left_and_a_new_one_is_entered() -> None:
    """With the next position, for a truck that is inside."""
    memory = crossing((YARD,))
    memory.feed((7, 1, 5.0, 5.0), (8, 1, 5.0, 5.0))
    other = crossing((Fence("field", YARD.rings),))
    other.values = memory.values

    assert [
        (each["truck"], each["event"], each["fence"]) for _, each in other.feed((7, 2, 5.0, 5.0))
    ] == [
        ("7", "LEAVE", "yard"),
        ("7", "ENTER", "field"),
    ]
    none = crossing(())
    none.values = memory.values
    assert sorted(
        (each["truck"], each["event"], each["fence"])
        for _, each in none.feed((7, 3, 5.0, 5.0), (8, 3, 5.0, 5.0))
    ) == [
        ("7", "LEAVE", "field"),
        ("8", "LEAVE", "yard"),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_crossings_are_those_of_positions_one_by_one(seed: int) -> None:
    """Times come twice now and then, and not in order; positions lie on edges and corners, too."""
    draw = random.Random(seed)
    memory, known = crossing(FENCES), dict.fromkeys(range(70), NOWHERE)
    for _ in range(4):
        ways = [
            (
                draw.randrange(70),
                draw.randrange(0, 100, 5),
                draw.randrange(-2, 34) / 2,
                draw.randrange(-2, 34) / 2,
            )
            for _ in range(400)
        ]
        found = memory.feed(*ways, tasks=3)

        for truck in known:
            way = [
                Position(round((START_S + second) * 1_000_000), *place)
                for each, second, *place in ways
                if each == truck
            ]
            expected, known[truck] = moves(FENCES, known[truck], way)
            assert [value for key, value in found if key == str(truck)] == [
                alert(str(truck), each) for each in expected
            ]
    kept = {
        each["truck"]: (each[AT], frozenset(json.loads(each["inside"]))) for each in memory.known()
    }
    assert kept == {
        truck: (each.at_us, each.inside) for truck, each in known.items() if each != NOWHERE
    }


@pytest.mark.parametrize("seed", range(5))
def test_the_newest_of_each_truck_whatever_the_tasks(seed: int) -> None:
    draw = random.Random(seed)
    memory, last = newest(), dict[int, Way]()
    for _ in range(4):
        ways = [
            (draw.randrange(70), at + draw.random() / 2, 1.0, float(at))
            for at in draw.sample(range(1000), 200)
        ]
        found = memory.feed(*ways, tasks=3)

        expected = {
            truck: max((each for each in ways if each[0] == truck), key=lambda way: way[1])
            for truck, *_ in ways
        }
        expected = {
            truck: way
            for truck, way in expected.items()
            if truck not in last or way[1] > last[truck][1]
        }
        assert {key: value["longitude"] for key, value in found} == {
            str(truck): way[3] for truck, way in expected.items()
        }
        assert len(found) == len(expected)
        last |= expected
