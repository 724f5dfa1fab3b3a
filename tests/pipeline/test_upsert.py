"""Delta tables whose rows are changed by key, without Spark: the last change of a key counts, each
batch once, whoever died in between.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")
pytest.importorskip("deltalake", reason="needs raftka[pipeline]")

import pyarrow as pa
from deltalake import DeltaTable

from raftka.pipeline.connect.options import Keyed
from raftka.pipeline.errors import OptionRefused, PipelineError
from raftka.pipeline.lake import upsert
from raftka.pipeline.lake.options import WRITTEN, lake_options
from tests.pipeline.upserting import SCHEMA, Query, change


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path / "lake")


def test_the_last_change_of_a_key_counts(query: Query) -> None:
    query.both(
        0,
        [change(1, "one", 0), change(2, "two", 1)],
        [change(1, "uno", 2), change(3, "three", 3, gone=False)],
    )
    query.both(1, [change(2, "deux", 5), change(2, "zwei", 4), change(4, "four", 6)])

    assert query.names() == {1: "uno", 2: "deux", 3: "three", 4: "four"}
    assert "gone" not in query.rows()[0]
    assert query.staged() == []


def test_every_order_of_tasks_gives_the_same_table(tmp_path: Path) -> None:
    tasks = [
        [change(1, "a", 0), change(1, "c", 2)],
        [change(1, "b", 1)],
        [change(1, "d", 3, gone=True), change(2, "x", 4)],
    ]
    for at, order in enumerate(permutations(tasks)):
        query = Query(tmp_path / str(at))
        query.both(0, *order)
        assert query.names() == {2: "x"}


def test_deletes_and_returns(query: Query) -> None:
    query.both(0, [change(1, "one", 0), change(2, "two", 1), change(3, "three", 2)])
    query.both(
        1,
        [
            change(1, "", 3, gone=True),
            change(2, "", 4, gone=True),
            change(2, "again", 5),
            change(9, "never there", 6, gone=True),
        ],
    )
    query.both(2, [change(5, "short", 7), change(5, "", 8, gone=True)])

    assert query.names() == {2: "again", 3: "three"}


def test_an_older_change_does_not_overwrite_a_newer_one(query: Query) -> None:
    query.both(0, [change(1, "new", 10), change(2, "two", 11)])
    query.both(1, [change(1, "old", 9), change(2, "", 8, gone=True)])
    assert query.names() == {1: "new", 2: "two"}

    # offsets of two partitions say nothing of each other: the later batch counts
    query.both(2, [change(1, "elsewhere", 0, partition=1)])
    assert query.names() == {1: "elsewhere", 2: "two"}


def test_offsets_of_another_topic_are_not_compared(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("_topic", pa.string()))
    query = Query(tmp_path / "lake", schema=schema)
    query.both(0, [change(1, "of the first", 100, _topic="a")])
    query.both(1, [change(1, "of the second", 3, _topic="b")])
    query.both(2, [change(1, "late", 2, _topic="b")])

    assert query.names() == {1: "of the second"}


def test_an_order_column_decides_and_nulls_are_before_all(tmp_path: Path) -> None:
    schema = pa.schema(
        [("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us", "UTC"))]
    )
    query = Query(tmp_path / "lake", Keyed(("id",), "at"), schema)
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)

    def row(key: int, name: str, at: datetime | None) -> dict[str, Any]:
        return {"id": key, "name": name, "at": at}

    query.both(0, [row(1, "noon", noon), row(1, "unknown", None), row(2, "unknown", None)])
    assert query.names() == {1: "noon", 2: "unknown"}
    query.both(
        1, [row(1, "before", noon.replace(hour=11)), row(1, "unknown", None), row(2, "noon", noon)]
    )
    assert query.names() == {1: "noon", 2: "noon"}
    query.both(2, [row(1, "equal", noon), row(2, "unknown", None)])
    assert query.names() == {1: "equal", 2: "noon"}


def test_without_an_order_the_row_that_was_written_last_counts(tmp_path: Path) -> None:
    query = Query(
        tmp_path / "lake", Keyed(("id",)), pa.schema([("id", pa.int64()), ("name", pa.string())])
    )
    query.both(0, [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}], [{"id": 1, "name": "c"}])
    assert query.names() == {1: "c"}
    query.both(1, [{"id": 1, "name": "d"}])
    assert query.names() == {1: "d"}


def test_a_batch_that_is_done_again_changes_nothing(tmp_path: Path) -> None:
    """Without an order a second time would bring back what another query has changed."""
    query = Query(
        tmp_path / "lake", Keyed(("id",)), pa.schema([("id", pa.int64()), ("name", pa.string())])
    )
    other = Query(tmp_path / "lake", Keyed(("id",)), query.schema, "other")
    query.both(0, [{"id": 1, "name": "a"}])
    other.both(0, [{"id": 1, "name": "theirs"}])
    version = DeltaTable(query.folder).version()
    query.both(0, [{"id": 1, "name": "a"}])

    assert (query.names(), DeltaTable(query.folder).version(), query.staged()) == (
        {1: "theirs"},
        version,
        [],
    )
    query.both(1, [{"id": 1, "name": "b"}])
    with pytest.raises(PipelineError, match="the checkpoint is older than the lake"):
        query.both(0, [{"id": 1, "name": "a"}])


def test_what_killed_tasks_and_drivers_left_is_removed_with_the_next_batch(query: Query) -> None:
    query.write(0, [change(1, "of a driver that died before its commit", 0)])
    other = Query(query.folder, name="query-0")
    waiting = other.write(0, [change(7, "seven", 0)])
    assert len(query.staged()) == 2
    query.both(0, [change(1, "one", 0)])
    other.commit(waiting)

    assert (query.names(), query.staged()) == ({1: "one", 7: "seven"}, [])


def test_a_driver_that_was_thought_dead_removes_nothing_of_a_later_batch(query: Query) -> None:
    query.both(0, [change(1, "one", 0)])
    later = query.write(1, [change(1, "uno", 1)])
    query.both(0, [change(1, "one", 0)])
    query.commit(later)

    assert (query.names(), query.staged()) == ({1: "uno"}, [])


def test_files_that_are_not_there_stop_the_batch(query: Query) -> None:
    done = query.write(0, [change(1, "one", 0)])
    query.staged()[0].unlink()
    with pytest.raises(PipelineError, match="the driver sees no such file"):
        query.commit(done)
    query.both(0, [change(1, "one", 0)])

    assert query.names() == {1: "one"}


def test_of_two_drivers_on_one_checkpoint_one_merges(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.both(0, [change(1, "one", 0)])
    first, second = query.write(1, [change(1, "uno", 1)]), query.write(1, [change(1, "uno", 1)])
    merge, calls = upsert._merge, []

    def overtaken(*given: Any) -> None:
        calls.append(given)
        if len(calls) == 1:
            query.commit(first)
        merge(*given)

    monkeypatch.setattr(upsert, "_merge", overtaken)
    query.commit(second)

    assert query.names() == {1: "uno"}
    assert (
        len([each for each in DeltaTable(query.folder).history() if each["operation"] == "MERGE"])
        == 2
    )


@pytest.mark.parametrize("partition_by", [(), ("_partition",)])
def test_of_two_queries_that_add_one_key_at_once_the_second_one_changes_the_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partition_by: tuple[str, ...]
) -> None:
    query = Query(tmp_path / "lake", partition_by=partition_by)
    other = Query(query.folder, name="other", partition_by=partition_by)
    query.both(0, [change(1, "one", 0)])
    merge, calls = upsert._merge, []

    def overtaken(*given: Any) -> None:
        calls.append(given)
        if len(calls) == 1:
            other.both(0, [change(2, "theirs", 1), change(1, "theirs", 1)])
        merge(*given)

    monkeypatch.setattr(upsert, "_merge", overtaken)
    query.both(1, [change(2, "ours", 2), change(3, "ours", 3)])

    assert query.names() == {1: "theirs", 2: "ours", 3: "ours"}
    assert len(calls) > 2, "the second one was not tried again"


def test_an_aborted_batch_leaves_nothing(query: Query) -> None:
    done = query.write(0, [change(1, "one", 0)])
    upsert.abort(query.lake, [*done, None])
    assert query.staged() == []


def test_keys_of_several_columns_and_kinds_with_names_that_need_quotes(tmp_path: Path) -> None:
    kinds = [
        (pa.string(), 'it\'s `a` "key"'),
        (pa.binary(), b"\0\xff"),
        (pa.date32(), date(2026, 1, 2)),
        (pa.timestamp("us", "UTC"), datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
        (pa.decimal128(9, 2), Decimal("1.20")),
        (pa.bool_(), True),
        (pa.int64(), 2**62),
    ]
    schema = pa.schema(
        [
            ("id", pa.int64()),
            *((f"Key.{at} `x`", kind) for at, (kind, _) in enumerate(kinds)),
            ("a b", pa.list_(pa.int64())),
        ]
    )
    query = Query(tmp_path / "lake", Keyed(tuple(schema.names[:-1])), schema)
    row = {"id": 1, **{f"Key.{at} `x`": value for at, (_, value) in enumerate(kinds)}}
    query.both(0, [{**row, "a b": [1]}, {**row, "id": 2, "a b": [2]}])
    query.both(1, [{**row, "a b": [3, None]}])

    assert [each["a b"] for each in query.rows()] == [[3, None], [2]]


def test_rows_move_between_partitions(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("day", pa.date32()))
    query = Query(tmp_path / "lake", schema=schema, partition_by=("day",))
    query.both(
        0, [change(1, "one", 0, day=date(2026, 1, 1)), change(2, "two", 1, day=date(2026, 1, 1))]
    )
    query.both(1, [change(1, "one", 2, day=date(2026, 1, 2)), change(2, "", 3, gone=True)])

    assert [(row["id"], row["day"]) for row in query.rows()] == [(1, date(2026, 1, 2))]


def test_new_columns_come_and_columns_that_are_missing_stay_as_they_are(query: Query) -> None:
    query.both(0, [change(1, "one", 0), change(2, "two", 1)])
    wider = Query(query.folder, schema=SCHEMA.append(pa.field("price", pa.float64())))
    wider.both(1, [change(1, "uno", 2, price=1.5)])
    query.both(2, [change(1, "eins", 3)])

    assert [(row["name"], row["price"]) for row in query.rows()] == [("eins", 1.5), ("two", None)]


def test_lakes_are_compacted_between_batches(tmp_path: Path) -> None:
    query = Query(tmp_path / "lake", compact_every=3)
    for batch in range(5):
        query.both(batch, [change(batch, "new", batch)])
    query.both(5, [change(0, "again", 5)])

    assert query.names() == {0: "again", 1: "new", 2: "new", 3: "new", 4: "new"}
    assert any(each["operation"] == "OPTIMIZE" for each in DeltaTable(query.folder).history())


def test_a_batch_query_without_a_number_merges_each_time(tmp_path: Path) -> None:
    query = Query(tmp_path / "lake", name=None)
    for _ in range(2):
        query.both(0, [change(1, "one", 0)], [change(2, "two", 1)])

    assert (query.names(), query.staged()) == ({1: "one", 2: "two"}, [])


def test_a_null_in_the_key_stops_the_batch_and_says_what_to_do(query: Query) -> None:
    with pytest.raises(
        PipelineError,
        match=r"1 rows have no value in id, which is of the key.*where id is not null",
    ):
        query.both(0, [change(None, "nobody", 0), change(1, "one", 1)])
    assert query.rows() == []


@pytest.mark.parametrize(
    ("keyed", "said"),
    [
        (
            Keyed(("nobody",)),
            "key names nobody, which is no column: there are id, name, _partition",
        ),
        (Keyed(("id",), "nobody"), "order names nobody"),
        (Keyed(("id",), None, "nobody"), "delete names nobody"),
        (Keyed(("id",), None, "name"), "delete names name, of type string: it is to be a boolean"),
        (Keyed(("ratio",)), "names ratio, of type double: .*Cast it"),
    ],
)
def test_columns_that_can_not_be_of_use_are_refused(
    tmp_path: Path, keyed: Keyed, said: str
) -> None:
    with pytest.raises(OptionRefused, match=said):
        Query(tmp_path / "lake", keyed, SCHEMA.append(pa.field("ratio", pa.float64()))).write(0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mode": "upsert"}, "mode upsert needs a key"),
        ({"mode": "append", "key": "id"}, "mode append adds rows"),
        ({"mode": "merge", "key": "id"}, "append or upsert"),
        ({"order": "at"}, "order decides between rows with one key: it needs a key"),
        ({"delete": "gone"}, "delete decides between rows with one key"),
        ({"key": "id, id"}, "names a column twice"),
        ({"key": "id", "order": "id"}, "order names id, which is of the key"),
        ({"key": "id", "delete": "id"}, "delete names id"),
        ({"key": "id", "delete": "at", "order": "at"}, "order and delete name one column"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: Mapping[str, str], said: str) -> None:
    with pytest.raises(OptionRefused, match=said):
        lake_options({"path": "/lake", **options}, known=WRITTEN)


def test_options_of_keys() -> None:
    assert lake_options(
        {"path": "/lake", "key": "id, day", "Order": "at", "DELETE": "gone"}, known=WRITTEN
    ).keyed == Keyed(("id", "day"), "at", "gone")
    assert lake_options({"path": "/lake", "mode": "append"}, known=WRITTEN).keyed is None
