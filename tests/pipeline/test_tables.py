"""Tables without Spark, in SQLite and in a real PostgreSQL: batches by a growing column, upserts
that count once, what is said of mistakes.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")

from raftka.pipeline.connect.databases import connected
from raftka.pipeline.connect.table_options import table_sink, table_source
from raftka.pipeline.connect.table_sink import (
    Attempt,
    Staged,
    abort,
    commit,
    prepare,
    removed_of,
    stage_of,
    write_task,
)
from raftka.pipeline.connect.table_source import INITIAL, Plan, check, read
from raftka.pipeline.errors import OptionRefused, PipelineError
from tests.pipeline.postgres import postgres, why_not

IDS = pa.schema([("id", pa.int64()), ("name", pa.string())])


class Base:
    """A database of the test."""

    def __init__(self, url: str) -> None:
        self.url = url

    def execute(self, *statements: str) -> None:
        with connected(table_sink({"url": self.url, "name": "t"}).database) as connection:
            for each in statements:
                connection.execute(each)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with connected(table_sink({"url": self.url, "name": "t"}).database) as connection:
            return [tuple(row) for row in connection.execute(statement).fetchmany(1_000_000)]


@pytest.fixture(scope="module")
def server() -> Iterator[str | None]:
    """None: there is none."""
    if why_not() is not None:
        yield None
    else:
        with postgres() as url:
            yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Base:
    if request.param == "postgresql":
        pytest.importorskip("psycopg", reason="needs raftka[jdbc]")
        url = request.getfixturevalue("server")
        if url is None:
            pytest.skip(str(why_not()))
        found = Base(url)
        found.execute("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    else:
        (tmp_path / "data base.db").touch()
        found = Base(f"sqlite:///{tmp_path}/data base.db")
    return found


def source(base: Base, **options: str) -> Any:
    return table_source({"url": base.url, "name": "orders", "column": "id", **options})


def batches(base: Base, schema: Any = IDS, **options: str) -> list[list[dict[str, Any]]]:
    """All there are now, from the beginning on."""
    plan, start, found = Plan(source(base, **options)), dict(INITIAL), []
    while (end := plan.latest(start)) != start:
        found.append(
            [
                row
                for each in read(source(base, **options), schema, start, end)
                for row in each.to_pylist()
            ]
        )
        start = end
    return found


# reading


def test_batches_are_bounded_and_the_same_when_they_are_read_again(base: Base) -> None:
    base.execute(
        'CREATE TABLE orders (id bigint, "name" text)',
        "INSERT INTO orders VALUES (5, 'e'), (1, 'a'), (NULL, 'never'), (3, 'c')",
    )

    found = batches(base, rows_per_batch="2")
    assert found == [[{"id": 1, "name": "a"}, {"id": 3, "name": "c"}], [{"id": 5, "name": "e"}]]
    base.execute("INSERT INTO orders VALUES (6, NULL)")
    again = [
        row
        for each in read(source(base), IDS, {"after": 1}, {"after": 5})
        for row in each.to_pylist()
    ]
    assert again == [{"id": 3, "name": "c"}, {"id": 5, "name": "e"}]
    assert batches(base, rows_per_batch="2")[1] == [{"id": 5, "name": "e"}, {"id": 6, "name": None}]


def test_rows_with_one_value_are_in_one_batch(base: Base) -> None:
    base.execute(
        "CREATE TABLE orders (id bigint, name text)",
        "INSERT INTO orders VALUES (1, 'a'), (1, 'b'), (1, 'c'), (2, 'd')",
    )

    assert [len(each) for each in batches(base, rows_per_batch="2")] == [3, 1]


def test_many_rows_come_in_pieces(base: Base) -> None:
    base.execute("CREATE TABLE orders (id bigint, name text)")
    base.execute(
        "INSERT INTO orders WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE "
        "i < 25000) SELECT i, 'n' FROM n"
    )

    assert [
        each.num_rows for each in read(source(base), IDS, dict(INITIAL), {"after": 25_000})
    ] == [10_000, 10_000, 5_000]


def test_lag_leaves_the_newest_rows_to_later_batches(base: Base) -> None:
    base.execute(
        "CREATE TABLE orders (id bigint, name text)",
        "INSERT INTO orders VALUES (1, 'a'), (5, 'b'), (6, 'c')",
    )

    assert [[row["id"] for row in each] for each in batches(base, lag="1")] == [[1, 5]]
    base.execute("INSERT INTO orders VALUES (7, 'd')")
    assert Plan(source(base, lag="1")).latest({"after": 5}) == {"after": 6}


def test_a_frozen_run_ends_where_the_table_ended(base: Base) -> None:
    base.execute("CREATE TABLE orders (id bigint, name text)")
    empty = Plan(source(base))
    empty.freeze()
    base.execute("INSERT INTO orders VALUES (1, 'a')")
    full = Plan(source(base))
    full.freeze()
    base.execute("INSERT INTO orders VALUES (2, 'b')")

    assert (empty.latest(dict(INITIAL)), full.latest(dict(INITIAL)), full.latest({"after": 1})) == (
        INITIAL,
        {"after": 1},
        {"after": 1},
    )


def test_times_are_followed_in_postgresql(base: Base) -> None:
    schema = pa.schema([("id", pa.timestamp("us", tz="UTC"))])
    if base.url.startswith("sqlite"):
        with pytest.raises(OptionRefused, match="SQLite has no type for times"):
            check(source(base), schema)
        return
    for kind in ("timestamptz", "timestamp"):
        base.execute("DROP TABLE IF EXISTS orders", f"CREATE TABLE orders (id {kind})")
        base.execute(
            "INSERT INTO orders VALUES ('2026-01-02 03:04:05.000006'), ('2026-01-02 "
            "03:04:05.000007'), (now() + interval '1 hour')"
        )
        first = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
        found = batches(base, schema, rows_per_batch="1")
        assert [[row["id"] for row in each] for each in found[:2]] == [
            [first],
            [first + timedelta(microseconds=1)],
        ]
        assert (len(found), len(batches(base, schema, rows_per_batch="1", lag="30 seconds"))) == (
            3,
            2,
        )


def test_values_of_every_kind(base: Base) -> None:
    many = pa.schema(
        [
            *(
                ("id", pa.int32()),
                ("b", pa.bool_()),
                ("d", pa.float64()),
                ("m", pa.float64()),
                ("t", pa.timestamp("us", tz="UTC")),
            ),
            *(
                ("x", pa.binary()),
                ("j", pa.string()),
                ("n", pa.string()),
                ("c", pa.date32()),
                ("e", pa.decimal128(9, 2)),
            ),
        ]
    )
    lite = base.url.startswith("sqlite")
    time, data, json, day = (
        ("text", "blob", "text", "text") if lite else ("timestamp", "bytea", "jsonb", "date")
    )
    base.execute(
        f"CREATE TABLE orders (id int, b boolean, d float, m numeric, t {time}, x {data}, j "
        f"{json}, n text, c {day}, e numeric)"
    )
    data = "x'00ff'" if lite else "'\\x00ff'"
    base.execute(
        f"INSERT INTO orders VALUES (1, true, 1.5, 2.25, '2026-01-02T03:04:05', {data}, '[1]', "
        "NULL, '2026-01-02', 2.25)"
    )

    (found,) = batches(base, many)
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert found == [
        {
            "id": 1,
            "b": True,
            "d": 1.5,
            "m": 2.25,
            "t": at,
            "x": b"\x00\xff",
            "j": "[1]",
            "n": None,
            "c": at.date(),
            "e": Decimal("2.25"),
        }
    ]


def test_a_value_of_another_kind_is_told(base: Base) -> None:
    base.execute(
        "CREATE TABLE orders (id bigint, name text)",
        "INSERT INTO orders VALUES (1, '7'), (2, 'seven')",
    )

    for kind, said in (
        (pa.int32(), "no int32 in its column name: '7'"),
        (pa.timestamp("us", tz="UTC"), "its column name: "),
    ):
        with pytest.raises(PipelineError, match=said):
            batches(base, pa.schema([("id", pa.int64()), ("name", kind)]))
    with pytest.raises(PipelineError, match=r"the database .*missing"):
        batches(base, pa.schema([("id", pa.int64()), ("missing", pa.string())]))


# writing


class Job:
    """A query that writes."""

    def __init__(
        self,
        base: Base,
        query: str = "q",
        columns: tuple[str, ...] = ("id", "name"),
        **options: str,
    ) -> None:
        self.sink = table_sink({"url": base.url, "name": "orders", "key": "id", **options})
        self.query, self.columns = query, columns

    def stage(self, batch: int, *tasks: list[tuple[Any, ...]]) -> list[Staged]:
        prepare(self.sink, self.columns)
        found = []
        for at, rows in enumerate(tasks):
            batches = (
                [
                    pa.RecordBatch.from_pylist(
                        [dict(zip(self.columns, row, strict=True)) for row in rows]
                    )
                ]
                if rows
                else []
            )
            found.append(
                write_task(self.sink, self.columns, batches, Attempt(self.query, batch, at))
            )
        return found

    def write(self, batch: int, *tasks: list[tuple[Any, ...]]) -> None:
        commit(self.sink, self.columns, self.stage(batch, *tasks))


ORDERS = "CREATE TABLE orders (id bigint PRIMARY KEY, name text)"


def test_a_batch_that_is_done_again_counts_once(base: Base) -> None:
    base.execute(ORDERS)
    job = Job(base)
    job.write(0, [(1, "a"), (2, "b")], [(3, "c")], [])
    base.execute("UPDATE orders SET name = 'changed' WHERE id = 1")
    job.write(0, [(1, "a"), (2, "b")], [(3, "c")])
    assert base.rows("SELECT * FROM orders ORDER BY id") == [(1, "changed"), (2, "b"), (3, "c")]

    job.write(1, [(2, "B"), (4, "d")])
    assert base.rows("SELECT * FROM orders ORDER BY id") == [
        (1, "changed"),
        (2, "B"),
        (3, "c"),
        (4, "d"),
    ]
    assert base.rows("SELECT query, target, batch FROM raftka_batches") == [("q", "orders", 1)]
    assert base.rows(f"SELECT count(*) FROM {stage_of(job.sink, job.columns)}") == [(0,)]
    with pytest.raises(
        PipelineError,
        match="has batch 1 of this query, whose checkpoint is at batch 0: the checkpoint is older",
    ):
        job.write(0, [(9, "z")])


def test_queries_count_for_themselves(base: Base) -> None:
    base.execute(ORDERS)
    Job(base).write(5, [(1, "a")])
    Job(base, "other").write(0, [(2, "b")])

    assert base.rows("SELECT id FROM orders ORDER BY id") == [(1,), (2,)]


def test_a_driver_that_died_before_its_commit_leaves_nothing_that_counts(base: Base) -> None:
    base.execute(ORDERS)
    job = Job(base)
    job.stage(0, [(1, "left"), (7, "left")])
    job.write(0, [(1, "a")])

    assert base.rows("SELECT * FROM orders") == [(1, "a")]
    assert base.rows(f"SELECT count(*) FROM {stage_of(job.sink, job.columns)}") == [(0,)]


def test_of_two_drivers_one_adds_the_batch(base: Base) -> None:
    base.execute(ORDERS)
    job = Job(base)
    first, second = job.stage(0, [(1, "a")]), job.stage(0, [(1, "b")])
    commit(job.sink, job.columns, first)
    commit(job.sink, job.columns, second)

    assert base.rows("SELECT * FROM orders") == [(1, "a")]
    gone = job.stage(1, [(2, "b")])
    base.execute(f"DELETE FROM {stage_of(job.sink, job.columns)}")
    with pytest.raises(PipelineError, match="1 rows were written beside orders, and 0 are there"):
        commit(job.sink, job.columns, gone)
    assert base.rows("SELECT batch FROM raftka_batches") == [(0,)]


def test_a_batch_that_the_table_refuses_leaves_no_trace(base: Base) -> None:
    base.execute("CREATE TABLE orders (id bigint PRIMARY KEY, name text CHECK (name <> 'bad'))")
    job = Job(base)
    with pytest.raises(PipelineError, match=r"the database .*(CHECK|check) constraint"):
        job.write(0, [(1, "a"), (2, "bad")])
    assert base.rows("SELECT * FROM orders") == []
    job.write(0, [(1, "a"), (2, "good")])
    assert base.rows("SELECT count(*) FROM orders") == [(2,)]


def test_the_last_row_of_a_key_stays_or_the_one_that_order_names(base: Base) -> None:
    base.execute("CREATE TABLE orders (id bigint PRIMARY KEY, name text, at bigint)")
    columns = ("id", "name", "at")
    Job(base, columns=columns).write(0, [(1, "new", 9), (1, "newer", 3)], [(1, "newest", 1)])
    assert base.rows("SELECT name FROM orders") == [("newest",)]
    ordered = Job(base, "other", columns, order="at")
    ordered.write(0, [(1, "late", 0), (2, "x", 5), (2, "y", 4), (3, "null", None), (3, "one", 1)])
    ordered.write(1, [(2, "late", 4), (3, "two", 2)])
    assert base.rows("SELECT * FROM orders ORDER BY id") == [
        (1, "newest", 1),
        (2, "x", 5),
        (3, "two", 2),
    ]


# removing


FLAGGED = ("id", "name", "at", "gone")


@pytest.fixture
def removing(base: Base) -> Job:
    base.execute("CREATE TABLE orders (id bigint PRIMARY KEY, name text, at bigint)")
    return Job(base, columns=FLAGGED, order="at", delete="gone")


def test_a_flag_removes_rows_and_is_no_column_of_the_table(base: Base, removing: Job) -> None:
    removing.write(
        0,
        [(1, "one", 1, False), (2, "two", 1, None), (3, "three", 1, False)],
        [(4, "short", 1, False), (4, "", 2, True)],
    )
    removing.write(1, [(1, "", 2, True), (2, "TWO", 2, False), (9, "never there", 2, True)])
    assert base.rows("SELECT * FROM orders ORDER BY id") == [(2, "TWO", 2), (3, "three", 1)]

    removing.write(1, [(1, "", 2, True)])  # a batch that is there
    # the removal is older than the row
    removing.write(2, [(1, "back", 3, False), (2, "", 1, True)])
    assert base.rows("SELECT * FROM orders ORDER BY id") == [
        (1, "back", 3),
        (2, "TWO", 2),
        (3, "three", 1),
    ]


def test_an_older_change_does_not_bring_back_a_row_that_was_removed(
    base: Base, removing: Job
) -> None:
    removing.write(0, [(1, "one", 1, False), (2, "two", 1, False)])
    removing.write(1, [(1, "", 5, True)])
    removing.write(2, [(1, "old", 4, False), (2, "newer", 4, False)])
    removing.write(3, [(1, "unknown", None, False)])
    assert base.rows("SELECT * FROM orders") == [(2, "newer", 4)]

    Job(base, "another checkpoint", FLAGGED, order="at", delete="gone").write(
        0, [(1, "one", 1, False)]
    )
    assert base.rows("SELECT * FROM orders") == [(2, "newer", 4)]
    removing.write(4, [(1, "back", 5, False)])
    assert base.rows("SELECT * FROM orders ORDER BY id") == [(1, "back", 5), (2, "newer", 4)]


def test_a_tombstone_has_no_order_and_is_newer_than_all_before_it(
    base: Base, removing: Job
) -> None:
    removing.write(
        0,
        [
            (1, "one", 100, False),
            (2, "two", 100, False),
            (3, "three", 100, False),
            (4, "unknown", None, False),
        ],
    )
    late = [
        (1, "before", 200, False),
        (1, "", None, True),
        (1, "behind", 5, False),
        (2, "", None, True),
        (4, "", None, True),
    ]
    removing.write(1, late, [(5, "", None, True), (5, "unknown", None, False)])
    assert base.rows("SELECT * FROM orders ORDER BY id") == [
        (1, "behind", 5),
        (3, "three", 100),
        (5, "unknown", None),
    ]
    removing.write(2, [(2, "back", 1, False)])
    assert base.rows("SELECT name FROM orders WHERE id = 2") == [("back",)]


def test_a_tombstone_behind_a_removal_with_an_order_repeats_it(base: Base, removing: Job) -> None:
    removing.write(0, [(1, "one", 1, False), (1, "", 7, True), (1, "", None, True)])
    removing.write(1, [(1, "one", 1, False)])
    assert base.rows("SELECT * FROM orders") == []
    removing.write(2, [(1, "", 7, True), (1, "", None, True), (1, "one", 6, False)])
    assert base.rows("SELECT * FROM orders") == []
    removing.write(3, [(1, "new", 8, False)])
    assert base.rows("SELECT * FROM orders") == [(1, "new", 8)]
    removing.write(4, [(1, "", None, True), (1, "older than the removal", 6, False)])
    assert base.rows("SELECT * FROM orders") == []


@pytest.mark.parametrize("keep_removed", ["7 days", "0"])
def test_however_a_topic_is_cut_into_batches_tombstones_remove_what_stands_before_them(
    base: Base, removing: Job, keep_removed: str
) -> None:
    chance, batch, rows = Random(25), 0, dict[int, tuple[int, str, int]]()
    job = Job(base, columns=FLAGGED, order="at", delete="gone", keep_removed=keep_removed)
    for _ in range(20):
        changes: list[tuple[Any, ...]] = []
        for at in range(chance.randint(1, 12)):
            key, order = chance.randrange(4), chance.randrange(5)
            if chance.random() < 0.3:
                changes.append((key, None, None, True))
                rows.pop(key, None)
                continue
            changes.append((key, f"{batch} {at}", order, False))
            if key not in rows or order >= rows[key][2]:
                rows[key] = (key, f"{batch} {at}", order)
        job.write(batch, changes)
        batch += 1
        assert base.rows("SELECT * FROM orders ORDER BY id") == [rows[key] for key in sorted(rows)]


def test_removed_rows_are_forgotten_after_a_time(
    base: Base, removing: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [1_800_000_000]
    monkeypatch.setattr(
        "raftka.pipeline.connect.table_sink.time.time_ns", lambda: now_s[0] * 1_000_000_000
    )
    job = Job(base, columns=FLAGGED, order="at", delete="gone", keep_removed="1 hour")
    job.write(0, [(1, "", 5, True)])
    now_s[0] += 3601
    job.write(1, [(2, "", 5, True)])  # forgets the first one
    job.write(2, [(1, "old", 4, False), (2, "old", 4, False)])

    assert base.rows("SELECT * FROM orders") == [(1, "old", 4)]


def test_without_an_order_the_last_row_of_a_batch_says_whether_it_stays(base: Base) -> None:
    base.execute(ORDERS)
    job = Job(base, columns=("id", "name", "gone"), delete="gone")
    job.write(0, [(1, "a", False), (2, "b", True), (2, "c", False)], [(1, "", True)])
    assert base.rows("SELECT * FROM orders") == [(2, "c")]
    assert removed_of(job.sink) is None


def test_a_batch_with_removals_that_the_table_refuses_leaves_no_trace(base: Base) -> None:
    base.execute(
        "CREATE TABLE orders (id bigint PRIMARY KEY, name text CHECK (name <> 'bad'), at bigint)"
    )
    job = Job(base, columns=FLAGGED, order="at", delete="gone")
    job.write(0, [(1, "a", 1, False)])
    with pytest.raises(PipelineError, match=r"the database .*(CHECK|check) constraint"):
        job.write(1, [(1, "", 5, True), (2, "bad", 1, False)])
    assert base.rows("SELECT * FROM orders") == [(1, "a", 1)]
    job.write(1, [(1, "b", 4, False)])
    assert base.rows("SELECT * FROM orders") == [(1, "b", 4)]  # nothing was noted


def test_a_flag_is_a_boolean(base: Base) -> None:
    base.execute(ORDERS)
    with pytest.raises(
        PipelineError, match="delete names gone, of type string: it is to be a boolean"
    ):
        Job(base, columns=("id", "name", "gone"), delete="gone").write(0, [(1, "a", "true")])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"key": "", "delete": "gone"}, "delete decides between rows with one key"),
        ({"delete": "gone", "keep_removed": "1 day"}, "it needs a delete and an order"),
        ({"delete": "gone", "order": "at", "keep_removed": "long"}, "keep_removed is 'long'"),
        ({"delete": "id"}, "delete names id, which is of the key"),
    ],
)
def test_wrong_options_of_removals(options: dict[str, str], why: str) -> None:
    with pytest.raises(OptionRefused, match=why):
        table_sink({"url": "sqlite:///x", "name": "orders", "key": "id", **options})


def test_without_a_key_rows_are_added(base: Base) -> None:
    base.execute("CREATE TABLE orders (id bigint, name text)")
    job = Job(base, key="")
    for _ in range(2):
        job.write(0, [(1, "a"), (1, "a")])

    assert base.rows("SELECT * FROM orders") == [(1, "a"), (1, "a")]


def test_an_aborted_batch_is_removed(base: Base) -> None:
    base.execute(ORDERS)
    job = Job(base)
    abort(job.sink, job.columns, job.stage(0, [(1, "a")], []))

    assert base.rows(f"SELECT count(*) FROM {stage_of(job.sink, job.columns)}") == [(0,)]


def test_many_rows_and_all_kinds_are_written(base: Base) -> None:
    base.execute(
        "CREATE TABLE orders (id bigint PRIMARY KEY, b boolean, d float, m numeric, t timestamp, "
        "j text, x text)"
    )
    columns = ("id", "b", "d", "m", "t", "j", "x")
    row = (True, 1.5, Decimal("2.25"), datetime(2026, 1, 2, 3, 4, 5), [{"a": 1}], 'it\'s "%s" ?')
    Job(base, columns=columns).write(0, [(at, *row) for at in range(2500)])

    told = "2026-01-02T03:04:05" if base.url.startswith("sqlite") else row[3]
    money = 2.25 if base.url.startswith("sqlite") else Decimal("2.25")
    assert base.rows("SELECT * FROM orders WHERE id = 2499") == [
        (2499, True, 1.5, money, told, '[{"a":1}]', row[5])
    ]
    assert base.rows("SELECT count(*) FROM orders") == [(2500,)]


def test_a_table_or_a_database_that_is_not_there_is_told(base: Base, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"the database .*orders"):
        prepare(Job(base).sink, ("id",))
    with pytest.raises(PipelineError, match=r"the database sqlite://.*/none\.db: unable to open"):
        prepare(table_sink({"url": f"sqlite:///{tmp_path}/none.db", "name": "t"}), ("id",))
    assert not (tmp_path / "none.db").exists()


# options


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": "oracle://x/y"}, "is to be postgresql://user@host/database or sqlite"),
        ({"url": "postgresql://u@h"}, "is to be postgresql://user@host/database"),
        (
            {"url": "postgresql://u:p@h/d"},
            "has a password: name an environment variable in password_from",
        ),
        ({"url": "postgresql://u@h/d?password=p"}, "has a password"),
        ({"url": "sqlite:///x", "password_from": "X"}, "no password"),
        ({"name": 'a"b'}, "can not be a name in SQL"),
        ({"name": ""}, "which table"),
        ({"column": ""}, "which column of the table grows"),
        ({"column": "a?"}, "can not be a column's name"),
        ({"lag": "1 week"}, "lag is '1 week'"),
        ({"rows_per_batch": "0"}, "rows_per_batch is '0'"),
        ({"key": "id"}, "there is no option key"),
    ],
)
def test_mistakes_of_sources_are_told(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionRefused, match=said):
        table_source({"url": "sqlite:///x", "name": "t", "column": "id", **options})


def test_columns_are_checked() -> None:
    found = table_source({"url": "postgresql://h/d", "name": "t", "column": "id", "lag": "5"})
    for schema, said in (
        (pa.schema([("nr", pa.int64())]), "column names id, which is no field: there are nr"),
        (pa.schema([("id", pa.string())]), "is to be an int, a bigint or a timestamp"),
        (pa.schema([("id", pa.timestamp("us"))]), "lag is to be a time"),
        (pa.schema([("id", pa.int64()), ('a"', pa.int64())]), "can not be a column's name"),
    ):
        with pytest.raises(OptionRefused, match=said):
            check(found, schema)
    with pytest.raises(OptionRefused, match="order decides between rows with one key"):
        table_sink({"url": "sqlite:///x", "name": "t", "order": "at"})
    with pytest.raises(OptionRefused, match="order names id, which is of the key"):
        table_sink({"url": "sqlite:///x", "name": "t", "order": "id", "key": "id"})
    with pytest.raises(OptionRefused, match="order names at, which is no column: there are id"):
        prepare(
            table_sink({"url": "sqlite:///x", "name": "t", "key": "id", "order": "at"}), ("id",)
        )


def test_passwords_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg", reason="needs raftka[jdbc]")
    monkeypatch.delenv("SHOP_PASSWORD", raising=False)
    found = table_sink(
        {"url": "postgresql://u@127.0.0.1:1/d", "name": "t", "password_from": "SHOP_PASSWORD"}
    )
    with pytest.raises(
        OptionRefused,
        match=(
            "the password is to come from the environment variable SHOP_PASSWORD, which is not set"
        ),
    ):
        prepare(found, ("id",))
    monkeypatch.setenv("SHOP_PASSWORD", "hidden")
    with pytest.raises(
        PipelineError, match=r"the database postgresql://127\.0\.0\.1/d: connection failed"
    ) as error:
        prepare(found, ("id",))
    assert "hidden" not in str(error.value)
