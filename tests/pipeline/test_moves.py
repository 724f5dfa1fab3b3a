"""What Spark's side remembers of each truck, with a memory that is a dict. No session."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)")

import pyarrow as pa
from pyspark.sql import Row

from raftka.pipeline.flows.fences import Fence
from raftka.pipeline.flows.moves import Crossing, Newest
from raftka.pipeline.flows.packs import packed

YARD = Fence("yard", (((0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0)),))


class Value:
    def __init__(self) -> None:
        self.value: Any = None

    def exists(self) -> bool:
        return self.value is not None

    def get(self) -> Any:
        return self.value

    def update(self, value: Any) -> None:
        self.value = value


class Handle:
    def getValueState(self, _name: str, _schema: Any) -> Value:
        self.state = Value()
        return self.state


def rows(*positions: tuple[int, float]) -> Iterator[Row]:
    """Seconds and longitudes, as Spark hands them over: times without a zone, in that of the process."""
    return iter([Row(truck=7, latitude=5.0, longitude=x, _key=b"k", _timestamp=datetime.fromtimestamp(1_700_000_000 + at)) for at, x in positions])


def packs(fences: tuple[Fence, ...], *positions: tuple[int, float]) -> Iterator[dict[str, bytes]]:
    """As a task hands them over: two packs of one truck."""
    for part in (positions[::2], positions[1::2]):
        times = pa.array([datetime.fromtimestamp(1_700_000_000 + at, UTC) for at, _ in part], pa.timestamp("us", "UTC"))
        columns = {"truck": [7] * len(part), "_timestamp": times, "latitude": [5.0] * len(part), "longitude": [x for _, x in part]}
        for batch in packed(pa.table(columns).to_batches(), "truck", "_timestamp", ("latitude", "longitude"), fences):
            yield from batch.to_pylist()


def test_only_the_newest_position_of_a_batch_and_none_that_is_older_than_the_last() -> None:
    newest, handle = Newest("truck", "_timestamp"), Handle()
    newest.init(handle)

    (row,) = newest.handleInputRows((7,), rows((1, 1.0), (3, 3.0), (2, 2.0)), None)
    assert (row.key, json.loads(row.value)) == (
        "7",
        {"truck": 7, "latitude": 5.0, "longitude": 3.0, "_timestamp": "2023-11-14T22:13:23.000+00:00"},
    )
    assert list(newest.handleInputRows((7,), rows((2, 9.0), (3, 9.0)), None)) == []
    assert handle.state.value == (1_700_000_003_000_000,)
    assert [json.loads(each.value)["longitude"] for each in newest.handleInputRows((7,), rows((4, 4.0)), None)] == [4.0]


def test_crossings_go_on_where_the_last_batch_was() -> None:
    crossing, handle = Crossing(("yard",)), Handle()
    crossing.init(handle)

    first = [json.loads(each.value) for each in crossing.handleInputRows((7,), packs((YARD,), (1, -1.0), (2, 5.0)), None)]
    again = list(crossing.handleInputRows((7,), packs((YARD,), (1, -1.0), (2, 5.0)), None))
    inside = list(crossing.handleInputRows((7,), packs((YARD,), (3, 6.0)), None))
    last = [json.loads(each.value) for each in crossing.handleInputRows((7,), packs((YARD,), (4, 11.0)), None)]

    assert first == [
        {
            "id": "7 ENTER yard 2023-11-14T22:13:22.000+00:00",
            "truck": "7",
            "event": "ENTER",
            "fence": "yard",
            "at": "2023-11-14T22:13:22.000+00:00",
            "latitude": 5.0,
            "longitude": 5.0,
        }
    ]
    assert (again, inside) == ([], [])
    assert [(each["event"], each["longitude"]) for each in last] == [("LEAVE", 11.0)]
