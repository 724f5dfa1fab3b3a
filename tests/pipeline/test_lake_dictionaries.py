"""Columns whose values repeat get a dictionary in Parquet, others none; what is read is the
same.
"""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")
pytest.importorskip("deltalake", reason="needs raftka[pipeline]")

import pyarrow as pa
import pyarrow.parquet as pq

from raftka.pipeline.lake.dictionaries import SAMPLE, repeating
from raftka.pipeline.lake.files import write_files
from raftka.pipeline.lake.options import Lake

PER_TASK = 7 * SAMPLE


SCHEMA = pa.schema(
    [
        ("truck", pa.string()),
        ("offset", pa.int64()),
        ("place", pa.float64()),
        ("day", pa.timestamp("us", "UTC")),
        ("nothing", pa.string()),
    ]
)


def rows(count: int, first: int = 0) -> pa.RecordBatch:
    at = range(first, first + count)
    columns = [
        [f"truck-{each % 1000}" for each in at],
        list(at),
        [each / 7 for each in at],
        [datetime(2026, 1, 1 + each % 20, tzinfo=UTC) for each in at],
        [None] * count,
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(each, field.type) for each, field in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )


def with_dictionary(path: Path) -> set[str]:
    """Columns, as Parquet names them."""
    group = pq.read_metadata(path).row_group(0)
    columns = [group.column(at) for at in range(group.num_columns)]
    return {each.path_in_schema for each in columns if each.has_dictionary_page}


def written(folder: Path, *batches: pa.RecordBatch) -> Path:
    (done,) = write_files(Lake(str(folder)), batches[0].schema, (), batches, "part-")
    return folder / done.path


def test_columns_whose_values_repeat_have_a_dictionary(tmp_path: Path) -> None:
    path = written(tmp_path, *(rows(SAMPLE, at) for at in range(0, PER_TASK, SAMPLE)))

    assert with_dictionary(path) >= {"truck", "day"}
    assert not with_dictionary(path) & {"offset", "place"}
    assert pq.read_table(path).equals(pa.Table.from_batches([rows(PER_TASK)]))


@pytest.mark.parametrize("trucks", [1_000, 50_000])
def test_trucks_that_report_in_turns_are_seen_to_repeat(trucks: int) -> None:
    batches = [
        pa.RecordBatch.from_pydict({"truck": range(trucks), "at": range(first, first + trucks)})
        for first in range(0, 4 * trucks, trucks)
    ]

    assert repeating(batches) == ["truck"]


@pytest.mark.parametrize("counts", [(1,), (1, 0, 3), (SAMPLE, 1), (SAMPLE + 1, 0, 2 * SAMPLE)])
def test_batches_of_any_size_are_looked_at(counts: tuple[int, ...]) -> None:
    assert "offset" not in repeating(
        [rows(each, sum(counts[:at])) for at, each in enumerate(counts)]
    )


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (
            [{"key": "a", "value": b"b"}],
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        ),
        (
            {"inner": {"list": [1]}},
            pa.struct([("inner", pa.struct([("list", pa.list_(pa.int32()))]))]),
        ),
        ([("a", [1.5])], pa.map_(pa.string(), pa.list_(pa.float64()))),
        (True, pa.bool_()),
        (Decimal("1.50"), pa.decimal128(9, 2)),
        (b"x", pa.binary()),
    ],
)
def test_columns_of_any_type_are_named_as_parquet_names_them(
    tmp_path: Path, value: Any, kind: pa.DataType
) -> None:
    batch = pa.RecordBatch.from_pydict({"is": pa.array([value] * 10, kind)})

    path = written(tmp_path, batch)

    schema = pq.ParquetFile(path).schema
    assert repeating([batch]) == [schema.column(at).path for at in range(len(schema))]
    assert pq.read_table(path).equals(pa.Table.from_batches([batch]))
