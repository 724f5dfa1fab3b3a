"""The newest rows of tables that a query joins, in a file beside its checkpoint. Knows no Spark.

Each change has the offset of its record, and an older one changes nothing: a batch that is done
again after a SIGKILL leaves the same rows, and its output is the same.
"""

import pickle
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc

from raftka.json_values import Json
from raftka.sql.language.changes import CHANGED_AT, CHANGED_KEY, IS_PRESENT
from raftka.sql.language.table_joins import SIDE

WAIT_S = 600  # until another task has written
AT_ONCE = 5000  # rows of an output batch
CACHE_KIB = 16 << 10  # of a task
# `number`: of the table, in its query. `names`: the key of the row that it is joined with.
TABLE = """CREATE TABLE IF NOT EXISTS rows (
    number INTEGER, key TEXT, offset INTEGER, names TEXT, row BLOB, PRIMARY KEY (number, key)
) WITHOUT ROWID"""
INDEX = "CREATE INDEX IF NOT EXISTS by_name ON rows (number, names) WHERE names IS NOT NULL"
PUT = """INSERT INTO rows VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
    SET offset = excluded.offset, names = excluded.names, row = excluded.row
    WHERE excluded.offset >= offset"""
FORGET = "DELETE FROM rows WHERE number = ? AND key = ? AND row IS NULL"
FIND = "SELECT row, names FROM rows WHERE number = ? AND key = ?"
NAMING = "SELECT key FROM rows WHERE number = ? AND names = ?"
# columns of the rows that a join gets: the number of the side, the key, and what a row names
NUMBER, KEY, NAMES = "_number", "_key", "_names"

Row = Mapping[str, Json] | None


class TableState:
    """The rows of the tables of one join. For one thread; other processes may use the same file."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
        for setting in (
            "journal_mode = WAL",
            "synchronous = FULL",  # the checkpoint says that its changes are there
            f"cache_size = -{CACHE_KIB}",
        ):
            self._database.execute(f"PRAGMA {setting}")
        self._database.execute(TABLE)
        self._database.execute(INDEX)
        self._deleted: list[tuple[int, str]] = []

    def __enter__(self) -> "TableState":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._database.close()

    def put(self, number: int, batch: pa.RecordBatch) -> None:
        """Keep changes of a table."""
        side = batch.column(f"{SIDE}{number}").to_pylist()
        keys = batch.column(KEY).to_pylist()
        offsets = batch.column(CHANGED_AT).to_pylist()
        names = batch.column(NAMES).to_pylist()
        self._database.execute("BEGIN IMMEDIATE")
        self._database.executemany(
            PUT,
            (
                (number, key, offset, name, None if row is None else pickle.dumps(row))
                for key, offset, name, row in zip(keys, offsets, names, side, strict=True)
            ),
        )
        self._database.execute("COMMIT")
        self._deleted += [(number, key) for key, row in zip(keys, side, strict=True) if row is None]

    def forget_deleted(self) -> None:
        """Remove the keys of deleted rows, when no older change of them can come."""
        if self._deleted:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany(FORGET, self._deleted)
            self._database.execute("COMMIT")
            self._deleted = []

    def find(
        self, number: int, keys: Iterable[str | None]
    ) -> Mapping[str | None, tuple[Row, str | None]]:
        """Return rows of a table by their keys, and the keys that they name."""
        return {key: self._row(number, key) for key in set(keys)}

    def _row(self, number: int, key: str | None) -> tuple[Row, str | None]:
        found = None if key is None else self._database.execute(FIND, (number, key)).fetchone()
        if found is None or found[0] is None:
            return None, None
        return pickle.loads(found[0]), found[1]

    def naming(self, number: int, key: str) -> list[str]:
        """Return the keys of rows that name a key."""
        return [each for (each,) in self._database.execute(NAMING, (number, key))]


def lookup_rows(
    path: Path, kind: str, number: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield rows of a stream with the row of a table. `batches`: of both; all changes of the table
    count before the first row of the stream. `number`: of the table's side.
    """
    waiting = []
    with TableState(path) as state:
        for batch in batches:
            is_change = pc.equal(batch.column(NUMBER), number)
            changes, rows = batch.filter(is_change), batch.filter(pc.invert(is_change))
            if changes.num_rows:
                state.put(number, changes)
            if rows.num_rows:
                waiting.append(rows)
        state.forget_deleted()
        names = [f"{SIDE}{each}" for each in range(number + 1)]
        for batch in waiting:
            keys = batch.column(KEY).to_pylist()
            found = state.find(number, keys)
            side = pa.array([found[key][0] for key in keys], batch.column(names[-1]).type)
            columns = [*(batch.column(each) for each in names[:-1]), side]
            made = pa.RecordBatch.from_arrays(columns, names)
            yield made.filter(pc.is_valid(side)) if kind == "INNER" else made


def changed_rows(
    path: Path, kind: str, is_foreign: bool, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield each row that may have changed, of two tables that are joined: once, as it is after all
    changes. `is_foreign`: rows of the left table name those of the right one.
    """
    with TableState(path) as state:
        touched: dict[str, None] = {}
        named: dict[str, None] = {}
        schema = None
        for batch in batches:
            schema = batch.schema
            for number in (0, 1):
                changes = batch.filter(pc.equal(batch.column(NUMBER), number))
                if changes.num_rows:
                    state.put(number, changes)
                    found = dict.fromkeys(changes.column(KEY).to_pylist())
                    (named if number and is_foreign else touched).update(found)
        state.forget_deleted()
        for key in named:
            touched.update(dict.fromkeys(state.naming(0, key)))
        left = iter(touched)
        while schema is not None and (keys := list(islice(left, AT_ONCE))):
            yield _joined(state, kind, is_foreign, keys, schema)


def _joined(
    state: TableState, kind: str, is_foreign: bool, keys: Sequence[str], schema: pa.Schema
) -> pa.RecordBatch:
    lefts = state.find(0, keys)
    named = {key: lefts[key][1] if is_foreign else key for key in keys}
    rights = state.find(1, named.values())
    sides = [[lefts[key][0] for key in keys], [rights[named[key]][0] for key in keys]]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([_is_row(kind, *each) for each in zip(*sides, strict=True)], pa.bool_()),
            pa.array(keys, schema.field(KEY).type),
            pa.array([0] * len(keys), pa.int64()),
            *(
                pa.array(rows, schema.field(f"{SIDE}{number}").type)
                for number, rows in enumerate(sides)
            ),
        ],
        [IS_PRESENT, CHANGED_KEY, CHANGED_AT, f"{SIDE}0", f"{SIDE}1"],
    )


def _is_row(kind: str, left: Row, right: Row) -> bool:
    """Return whether a join has a row of these two."""
    if kind == "FULL":
        return left is not None or right is not None
    needs_left, needs_right = kind != "RIGHT", kind != "LEFT"
    return (left is not None or not needs_left) and (right is not None or not needs_right)
