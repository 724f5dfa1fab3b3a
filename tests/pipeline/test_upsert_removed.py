"""Removed rows of Delta tables whose rows are changed by key: older changes do not bring them back,
tombstones need no order.
"""

import json
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")
pytest.importorskip("deltalake", reason="needs raftka[pipeline]")

import pyarrow as pa
from deltalake import DeltaTable

from raftka.pipeline.connect.options import Keyed
from raftka.pipeline.errors import OptionRefused, PipelineError
from raftka.pipeline.lake import removed, upsert
from raftka.pipeline.lake.options import WRITTEN, lake_options
from raftka.pipeline.records.envelopes import EnvelopeDecoder
from raftka.pipeline.records.fields import ADDED, envelope, fields
from tests.pipeline.upserting import KEYED, SCHEMA, Query, change


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path / "lake")


@pytest.fixture
def gone(query: Query) -> Query:
    """1 was removed at offset 10; 2 is there."""
    query.both(0, [change(1, "one", 8), change(2, "two", 9)])
    query.both(1, [change(1, "", 10, gone=True)])
    return query


def test_an_older_change_does_not_bring_back_a_row_that_was_removed(gone: Query) -> None:
    gone.both(2, [change(1, "old", 9), change(2, "newer", 11)])
    assert gone.names() == {2: "newer"}

    gone.both(3, [change(1, "back", 12)])
    assert gone.names() == {1: "back", 2: "newer"}
    gone.both(4, [change(1, "old", 9)])
    assert gone.names() == {1: "back", 2: "newer"}


def test_a_topic_that_is_read_once_more_leaves_removed_rows_away(gone: Query) -> None:
    again = Query(gone.folder, name="another checkpoint")
    again.both(0, [change(1, "one", 8), change(2, "two", 9)])
    assert again.names() == {2: "two"}
    again.both(1, [change(1, "", 10, gone=True), change(2, "newer", 11)])
    assert again.names() == {2: "newer"}


def test_what_was_removed_is_compared_within_its_partition(gone: Query) -> None:
    gone.both(2, [change(1, "elsewhere", 0, partition=1)])
    assert gone.names() == {1: "elsewhere", 2: "two"}


@pytest.mark.parametrize(
    "key", [b"k", "k", date(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC), Decimal("1.25"), True, 7]
)
def test_rows_of_any_key_stay_removed_by_an_order_of_ones_own(tmp_path: Path, key: object) -> None:
    kind = (
        pa.decimal128(9, 2)
        if isinstance(key, Decimal)
        else pa.timestamp("us", "UTC")
        if isinstance(key, datetime)
        else pa.scalar(key).type
    )
    schema = pa.schema(
        [("id", kind), ("shop", pa.string()), ("at", pa.int64()), ("gone", pa.bool_())]
    )
    query = Query(tmp_path / "lake", Keyed(("id", "shop"), "at", "gone"), schema)

    def row(at: int | None, *, gone: bool = False, shop: str = "a") -> dict[str, Any]:
        return {"id": key, "shop": shop, "at": at, "gone": gone}

    query.both(0, [row(1), row(1, shop="b")])
    query.both(1, [row(5, gone=True)])
    query.both(2, [row(4), row(2, shop="b")])
    query.both(3, [row(None)])
    assert [(each["shop"], each["at"]) for each in query.rows()] == [("b", 2)]
    query.both(4, [row(5)])
    assert sorted((each["shop"], each["at"]) for each in query.rows()) == [("a", 5), ("b", 2)]


def test_a_driver_that_dies_behind_the_note_does_the_batch_again(
    gone: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = gone.write(2, [change(2, "", 20, gone=True)])
    with monkeypatch.context() as dying:
        dying.setattr(upsert, "_merge", lambda *_: (_ for _ in ()).throw(PipelineError("killed")))
        with pytest.raises(PipelineError, match="killed"):
            gone.commit(done)
    assert gone.names() == {2: "two"}

    gone.commit(done)

    assert gone.names() == {}
    gone.both(3, [change(2, "old", 19)])
    assert gone.names() == {}


def test_removed_rows_are_forgotten_after_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    monkeypatch.setattr(removed, "_now", lambda: now[0])
    query = Query(tmp_path / "lake", keep_removed_s=3600)
    query.both(0, [change(1, "", 10, gone=True)])
    now[0] += timedelta(seconds=3600)
    query.both(1, [change(1, "old", 9)])
    assert query.names() == {}

    now[0] += timedelta(seconds=1)
    query.both(2, [change(1, "old", 9)])
    assert query.names() == {1: "old"}


def test_a_lake_that_keeps_no_removed_rows_has_no_notes(tmp_path: Path) -> None:
    query = Query(tmp_path / "lake", keep_removed_s=0)
    query.both(0, [change(1, "", 10, gone=True)])
    query.both(1, [change(1, "old", 9)])

    assert query.names() == {1: "old"}
    assert not (query.folder / removed.FOLDER).exists()


@pytest.mark.parametrize("bare", [False, True])
def test_notes_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, bare: bool
) -> None:
    monkeypatch.setattr(removed, "FILES", 3)
    monkeypatch.setattr(removed, "ROWS", 2)
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    monkeypatch.setattr(removed, "_now", lambda: now[0])
    query = (
        Query(
            tmp_path / "lake",
            Keyed(("id",), "at", "gone"),
            SCHEMA.append(pa.field("at", pa.int64())),
        )
        if bare
        else Query(tmp_path / "lake")
    )
    order: dict[str, Any] = {"at": None} if bare else {}
    for batch in range(4):
        now[0] += timedelta(seconds=1)
        query.both(batch, [change(batch, "", 10, gone=True, **order)])

    notes = DeltaTable(str(query.folder / (removed.FOLDER_BARE if bare else removed.FOLDER)))
    assert len(notes.file_uris()) == 1
    assert "the first ones are forgotten" in caplog.text
    query.both(4, [change(batch, "old", 9, **order) for batch in range(4)])
    assert sorted(query.names()) == [0, 1]


def test_readers_and_vacuum_pass_the_notes_by(gone: Query) -> None:
    DeltaTable(str(gone.folder)).vacuum(
        retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True
    )

    gone.both(2, [change(1, "old", 9)])
    assert gone.names() == {2: "two"}


def test_notes_of_another_key_say_nothing(gone: Query) -> None:
    schema = SCHEMA.append(pa.field("at", pa.int64()))
    other = Query(gone.folder, Keyed(("id",), "at", "gone"), schema, name="other")
    other.both(0, [{**change(1, "old", 9), "at": 1}])
    assert other.names() == {1: "old", 2: "two"}
    other.both(1, [{**change(1, "", 9, gone=True), "at": 3}])
    other.both(2, [{**change(1, "old", 9), "at": 2}])
    assert other.names() == {2: "two"}


# removals without an order, as tombstones are


ORDERED = SCHEMA.append(pa.field("at", pa.int64()))


@pytest.fixture
def ordered(tmp_path: Path) -> Query:
    return Query(tmp_path / "lake", Keyed(("id",), "at", "gone"), ORDERED)


def at(key: int, name: str, order: int | None, offset: int, partition: int = 0) -> dict[str, Any]:
    return change(key, name, offset, partition, at=order)


def removal(key: int, order: int | None, offset: int, partition: int = 0) -> dict[str, Any]:
    return change(key, "", offset, partition, at=order, gone=True)


def test_a_lone_tombstone_removes_the_row_that_the_lake_has(ordered: Query) -> None:
    ordered.both(0, [at(1, "one", 100, 0), at(2, "two", 100, 1), at(3, "unknown", None, 2)])
    ordered.both(1, [removal(1, None, 3), removal(3, None, 4)])
    assert ordered.names() == {2: "two"}

    ordered.both(2, [at(1, "again, with a lower order", 5, 5)])
    assert ordered.names() == {1: "again, with a lower order", 2: "two"}


def test_a_tombstone_removes_what_stands_before_it_in_its_batch_and_nothing_behind(
    ordered: Query,
) -> None:
    ordered.both(0, [at(1, "one", 100, 0), at(2, "two", 100, 1), at(3, "three", 100, 2)])
    late = [
        at(1, "behind", 5, 12),
        removal(1, None, 11),
        removal(2, None, 13),
        removal(3, None, 15),
        at(3, "unknown", None, 16),
    ]
    ordered.both(
        1,
        late,
        [at(1, "before", 200, 10), at(2, "before", 200, 9), at(4, "", 1, 3), removal(4, None, 4)],
    )

    assert ordered.names() == {1: "behind", 3: "unknown"}


def test_a_tombstone_that_is_delivered_again_does_not_remove_a_later_row(ordered: Query) -> None:
    ordered.both(0, [at(1, "one", 100, 0), at(3, "three", 1, 1)])
    ordered.both(
        1,
        [removal(1, None, 1), at(1, "back", 5, 2), at(2, "unknown", None, 3), removal(3, None, 4)],
    )
    again = Query(ordered.folder, ordered.lake.keyed or KEYED, ORDERED, name="another checkpoint")
    for batch, row in enumerate(
        [
            at(1, "one", 100, 0),
            removal(1, None, 1),
            removal(2, None, 2),
            at(1, "back", 5, 2),
            at(3, "three", 1, 1),
        ]
    ):
        again.both(batch, [row])
        assert again.names() == {1: "back", 2: "unknown"}, row


def test_offsets_of_tombstones_are_compared_within_their_partition(ordered: Query) -> None:
    ordered.both(0, [at(1, "one", 100, 50)])
    ordered.both(1, [removal(1, None, 3, partition=1)])
    assert ordered.names() == {}
    ordered.both(2, [at(1, "elsewhere", 1, 2)])
    assert ordered.names() == {1: "elsewhere"}


def test_a_tombstone_behind_a_removal_with_an_order_repeats_it(ordered: Query) -> None:
    """Debezium writes both, and after a failure changes again: these are older, whatever their
    offsets are.
    """
    ordered.both(0, [at(1, "one", 1, 0), removal(1, 7, 1), removal(1, None, 2)])
    ordered.both(1, [at(1, "one", 1, 3)])
    assert ordered.names() == {}
    ordered.both(2, [removal(1, 7, 4), removal(1, None, 5), at(1, "one", 6, 6)])
    assert ordered.names() == {}
    ordered.both(3, [at(1, "new", 8, 7)])
    assert ordered.names() == {1: "new"}
    ordered.both(4, [removal(1, None, 8), at(1, "older than the removal", 6, 9)])
    assert ordered.names() == {}


def test_a_driver_that_dies_behind_the_note_of_a_tombstone_does_the_batch_again(
    ordered: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordered.both(0, [at(1, "one", 100, 0), at(2, "two", 100, 1)])
    done = ordered.write(1, [removal(1, None, 2), removal(2, None, 3), at(2, "back", 5, 4)])
    with monkeypatch.context() as dying:
        dying.setattr(upsert, "_merge", lambda *_: (_ for _ in ()).throw(PipelineError("killed")))
        with pytest.raises(PipelineError, match="killed"):
            ordered.commit(done)
    assert ordered.names() == {1: "one", 2: "two"}

    ordered.commit(done)
    ordered.commit(done)
    assert ordered.names() == {2: "back"}


def test_tombstones_without_offsets_are_newer_than_what_was_written_before(tmp_path: Path) -> None:
    schema = pa.schema([each for each in ORDERED if each.name not in ("_partition", "_offset")])
    query = Query(tmp_path / "lake", Keyed(("id",), "at", "gone"), schema)

    def bare(row: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in row.items() if name in schema.names}

    query.both(0, [bare(at(1, "one", 100, 0)), bare(at(2, "two", 100, 0))])
    query.both(1, [bare(removal(1, None, 0)), bare(removal(2, None, 0)), bare(at(2, "back", 5, 0))])
    assert query.names() == {2: "back"}
    assert not (query.folder / removed.FOLDER_BARE).exists()


def test_keys_of_several_columns_of_any_names_have_tombstones(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("order", pa.string()),
            ("turn", pa.int64()),
            ("place", pa.int64()),
            ("gone", pa.bool_()),
        ]
    )
    query = Query(tmp_path / "lake", Keyed(("id", "order", "turn"), "place", "gone"), schema)

    def row(key: int, order: str, place: int | None, *, gone: bool = False) -> dict[str, Any]:
        return {"id": key, "order": order, "turn": 1, "place": place, "gone": gone}

    query.both(0, [row(1, "a", 9), row(1, "b", 9), row(2, "a", 9)])
    query.both(1, [row(1, "a", None, gone=True), row(2, "a", None, gone=True), row(2, "a", 1)])
    assert [(each["id"], each["order"], each["place"]) for each in query.rows()] == [
        (1, "b", 9),
        (2, "a", 1),
    ]


def test_rows_that_lack_their_partition_are_compared_with_no_tombstone(ordered: Query) -> None:
    ordered.both(0, [removal(1, None, 5)])
    nowhere = {**at(1, "from nowhere", 1, 0), "_partition": None, "_offset": None}
    ordered.both(1, [nowhere, at(2, "two", 1, 6)])
    assert ordered.names() == {1: "from nowhere", 2: "two"}


@pytest.mark.parametrize("kind", ["debezium", "upsert"])
def test_a_tombstone_of_a_compacted_topic_removes_its_row_by_any_order(
    tmp_path: Path, kind: str
) -> None:
    """Compaction takes the event of a removal away, and leaves its tombstone."""
    declared = fields({"id": "bigint", "state": "string", "at": "bigint?"}, "fields")
    found = envelope(kind, "id", declared, "orders")
    assert found is not None
    decoder = EnvelopeDecoder(("json",), (*declared, *ADDED[kind]), found)
    order = "_changed" if kind == "debezium" else "at"

    def row(key: int, state: str, ms: int) -> bytes:
        plain = {"id": key, "state": state, "at": ms}
        return json.dumps(
            {"op": "u", "before": None, "after": plain, "source": {"ts_ms": ms}}
            if kind == "debezium"
            else plain
        ).encode()

    def rows(first: int, *values: bytes | None) -> list[dict[str, Any]]:
        keys = [b'{"id": 1}'] * len(values)
        columns = decoder.columns(
            pa.StructArray.from_arrays(
                [pa.array(keys, pa.binary()), pa.array(values, pa.binary())], names=["key", "value"]
            )
        )
        return [
            {**each, "_partition": 0, "_offset": first + at}
            for at, each in enumerate(columns.to_pylist())
        ]

    kinds = {
        each.name: each.type
        for each in decoder.columns(
            pa.nulls(0, pa.struct([("key", pa.binary()), ("value", pa.binary())]))
        ).type
    }
    schema = pa.schema(
        [
            *((name, kinds[name]) for name in ("id", "state", order, "_deleted")),
            ("_partition", pa.int32()),
            ("_offset", pa.int64()),
        ]
    )
    query = Query(tmp_path / "lake", Keyed(("id",), order, "_deleted"), schema)
    query.both(0, rows(0, row(1, "PAID", 1_000), row(1, "SENT", 2_000)))
    assert [each["state"] for each in query.rows()] == ["SENT"]

    query.both(1, rows(7, None))
    assert query.rows() == []
    query.both(2, rows(8, row(1, "NEW", 1_000)))
    assert [each["state"] for each in query.rows()] == ["NEW"]


@pytest.mark.parametrize("seed", range(12))
def test_however_a_topic_is_cut_into_batches_tombstones_remove_what_stands_before_them(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    topic, rows = [], dict[int, tuple[int, str]]()
    for offset in range(40):
        key = chance.randrange(4)
        if chance.random() < 0.3:
            topic.append(removal(key, None, offset))
            rows.pop(key, None)
            continue
        order, name = chance.randrange(5), f"{offset}"
        topic.append(at(key, name, order, offset))
        if key not in rows or order >= rows[key][0]:
            rows[key] = (order, name)
    for reading in range(2):
        query = Query(
            tmp_path / "lake", Keyed(("id",), "at", "gone"), ORDERED, name=f"reading {reading}"
        )
        begin, batch = 0, 0
        while begin < len(topic):
            end = begin + chance.randint(1, 15)
            tasks = [topic[begin:end][at::2] for at in range(2)]
            query.both(batch, *chance.sample(tasks, 2))
            begin, batch = end, batch + 1
        assert query.names() == {key: name for key, (_, name) in rows.items()}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7 days", 604_800),
        ("1 hour", 3600),
        ("90 minutes", 5400),
        ("5seconds", 5),
        ("0", 0),
        ("1 week", None),
        ("-1 day", None),
    ],
)
def test_how_long_is_an_option(text: str, seconds: int | None) -> None:
    options = {"path": "/x", "key": "id", "delete": "gone", "keepRemoved": text}
    if seconds is None:
        with pytest.raises(OptionRefused, match="keepRemoved is"):
            lake_options(options, known=WRITTEN)
        return
    assert lake_options(options, known=WRITTEN).keep_removed_s == seconds
    with pytest.raises(OptionRefused, match="needs a delete"):
        lake_options({"path": "/x", "key": "id", "keepRemoved": text}, known=WRITTEN)
