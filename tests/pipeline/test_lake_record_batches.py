"""Rows that go to a lake as whole Arrow batches come out as they went in. No session."""

from datetime import UTC, datetime
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")
pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from raftka.pipeline.lake.record_batches import (
    BYTES,
    COLUMN,
    COUNT,
    batch_schema,
    pack,
    rows_of,
    unpack,
)


def batch(count: int, text: str = "car") -> Any:
    return pa.RecordBatch.from_pydict(
        {
            "car": pa.array([at if at % 3 else None for at in range(count)], pa.int32()),
            "name": pa.array(
                [f"{text} {at}" if at % 5 else None for at in range(count)], pa.string()
            ),
            "tags": pa.array(
                [["a", None] * (at % 3) for at in range(count)], pa.list_(pa.string())
            ),
            "place": pa.array(
                [{"x": at / 2, "y": None} for at in range(count)],
                pa.struct({"x": pa.float64(), "y": pa.float64()}),
            ),
            "sent": pa.array(
                [1_700_000_000_000_000 + at * 7 % count for at in range(count)],
                pa.timestamp("us", "UTC"),
            ),
        }
    )


def test_batches_come_out_as_they_went_in() -> None:
    whole = [batch(1), batch(1000), batch(1000).slice(17, 300), batch(0)]

    found = list(unpack(pack(whole)))

    assert pa.Table.from_batches(found).equals(pa.Table.from_batches(whole))
    assert [each.schema for each in found] == [whole[0].schema] * 3
    assert [each.column(COUNT).to_pylist() for each in pack(whole)] == [[1], [1000], [300]]


def test_a_value_is_small_however_large_a_batch_is() -> None:
    large = batch(5000, "x" * 4000)

    sizes = [len(each.column(COLUMN)[0].as_py()) for each in pack([large])]

    assert large.nbytes > 3 * BYTES
    assert max(sizes) < 2 * BYTES
    assert len(sizes) < 2 * large.nbytes / BYTES
    assert pa.Table.from_batches(unpack(pack([large]))).equals(pa.Table.from_batches([large]))
    (huge,) = pack([batch(1, "x" * 2 * BYTES)])
    assert huge.num_rows == 1


def test_the_newest_time_of_each_batch_is_beside_it() -> None:
    never = batch(2).set_column(4, "sent", pa.nulls(2, pa.timestamp("us", "UTC")))

    found = [each.column("sent")[0].as_py() for each in pack([batch(10), never], ["sent"])]

    assert found == [datetime.fromtimestamp(1_700_000_000, UTC).replace(microsecond=9), None]


def test_the_columns_of_the_rows_are_in_those_of_the_frame() -> None:
    rows = from_arrow_schema(batch(1).schema)
    frame = batch_schema(rows, ["sent"])

    assert frame.names == [COLUMN, COUNT, "sent"]
    # the time is to be dropped before
    assert rows_of(StructType.fromJson(frame.jsonValue())) is None
    for each in (batch_schema(rows), StructType([batch_schema(rows)[COLUMN]])):
        assert rows_of(StructType.fromJson(each.jsonValue())) == rows


PLAIN, CAR = StructField(COLUMN, BinaryType()), StructField("car", IntegerType())


@pytest.mark.parametrize(
    "other", [StructType([PLAIN]), StructType([PLAIN, CAR]), StructType([CAR]), StructType()]
)
def test_columns_of_other_kinds_are_no_batches(other: StructType) -> None:
    assert rows_of(other) is None
