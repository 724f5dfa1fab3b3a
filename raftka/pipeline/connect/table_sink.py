"""Write rows into a table, each batch once. Knows Arrow, and no Spark.

Tasks put their rows into a table of ours beside the target, under a name of their own. The driver
moves them into the target in one transaction, which also notes the batch's number under the query's
name: a batch that is noted already is not moved again. Rows that tasks and drivers left there when
they died are removed with the query's next batch.

Rows whose flag says so are removed from the target in the same transaction. Where an order says
which of two changes is the older one, their keys are noted in a table of ours for a time, so that
an older change that comes later does not bring them back. A removal without a value in the order,
as that of a tombstone, is newer than all that was written before it.
"""

import json
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from raftka.json_values import Json
from raftka.pipeline.connect.databases import Connection, column, connected, quoted
from raftka.pipeline.connect.table_options import TableSink, check_columns
from raftka.pipeline.connect.values import as_json
from raftka.pipeline.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa

BATCHES = "raftka_batches"
QUERY, TRY, TASK, ROW = (column(f"raftka_{name}") for name in ("query", "try", "task", "row"))
REMOVED_AT, PLACE, LATER, BEHIND = (
    column(f"raftka_{name}") for name in ("removed_at", "place", "later", "behind")
)
INSERTED = 1000  # rows at once


class Attempt(NamedTuple):
    query: str
    batch: int
    task: int


class Staged(NamedTuple):
    """A task's result for the driver."""

    attempt: Attempt
    name: str  # the try that its rows are under
    rows: int


def _beside(sink: TableSink, name: str) -> str:
    """A table of ours in the target's schema."""
    schema, dot, _ = sink.name.rpartition(".")
    return quoted(f"{schema}{dot}{name}")


def stage_of(sink: TableSink, columns: Sequence[str]) -> str:
    """Another one for other columns."""
    told = [sink.name, *columns, *([] if sink.delete is None else ["delete", sink.delete])]
    return _beside(sink, f"raftka_stage_{crc32(json.dumps(told).encode()):08x}")


def removed_of(sink: TableSink) -> str | None:
    """The table with keys of rows that were removed; None: nothing is noted."""
    if sink.delete is None or sink.order is None or not sink.keep_removed_s:
        return None
    identity = json.dumps([sink.name, *sink.key, "order", sink.order]).encode()
    return _beside(sink, f"raftka_removed_{crc32(identity):08x}")


def _kept(sink: TableSink, columns: Sequence[str]) -> list[str]:
    """The columns that the target has."""
    return [each for each in columns if each != sink.delete]


def prepare(sink: TableSink, columns: tuple[str, ...]) -> None:
    """Make our tables where they are not there. Raises PipelineError, also when the target has no
    such columns.
    """
    check_columns(sink, columns)
    stage, removed = stage_of(sink, columns), removed_of(sink)
    needed = [stage, _beside(sink, BATCHES), *([] if removed is None else [removed])]
    ours = (
        f"CAST('' AS TEXT) AS {QUERY}, CAST('' AS TEXT) AS {TRY}, CAST(0 AS BIGINT) AS {TASK}, "
        f"CAST(0 AS BIGINT) AS {ROW}"
    )
    with connected(sink.database) as connection:
        flag = "0" if connection.is_sqlite else "FALSE"
        wanted = ", ".join(
            f"{flag} AS {column(each)}" if each == sink.delete else column(each) for each in columns
        )
        if all(_is_there(connection, each) for each in needed):
            return
        with connection.transaction():
            if not connection.is_sqlite:
                # two that make one table at once fail
                connection.execute("SELECT pg_advisory_xact_lock(?)", [crc32(b"raftka tables")])
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {_beside(sink, BATCHES)} "
                "(query VARCHAR(200) NOT NULL, target VARCHAR(200) NOT NULL, batch BIGINT NOT "
                "NULL, PRIMARY KEY (query, target))"
            )
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {stage} AS SELECT {ours}, {wanted} FROM "
                f"{quoted(sink.name)} WHERE 1 = 0"
            )
            if removed is not None:
                compared = ", ".join(
                    [
                        *map(column, [*sink.key, str(sink.order)]),
                        f"CAST(0 AS BIGINT) AS {REMOVED_AT}",
                    ]
                )
                connection.execute(
                    f"CREATE TABLE IF NOT EXISTS {removed} AS SELECT {compared} FROM "
                    f"{quoted(sink.name)} WHERE 1 = 0"
                )


def _is_there(connection: Connection, table: str) -> bool:
    if connection.is_sqlite:
        return (
            connection.one("SELECT 1 FROM sqlite_master WHERE name = ?", [table.strip('"')])
            is not None
        )
    return connection.one("SELECT to_regclass(?)", [table]) is not None


def write_task(
    sink: TableSink, columns: tuple[str, ...], batches: "Iterable[pa.RecordBatch]", attempt: Attempt
) -> Staged:
    """Raises PipelineError."""
    name = f"{attempt.query}:{attempt.batch}:{attempt.task}:{secrets.token_hex(8)}"
    places = ", ".join("?" for _ in range(len(columns) + 4))
    statement = (
        f"INSERT INTO {stage_of(sink, columns)} ({QUERY}, {TRY}, {TASK}, {ROW}, "
        f"{', '.join(map(column, columns))}) VALUES ({places})"
    )
    rows, count = _rows(sink, columns, batches), 0
    first = list(islice(rows, INSERTED))
    if not first:
        return Staged(attempt, name, 0)
    with connected(sink.database) as connection:
        while first:
            found = [
                (attempt.query, name, attempt.task, count + at, *row)
                for at, row in enumerate(first)
            ]
            with connection.transaction():  # short ones: SQLite has one writer at a time
                connection.insert(statement, found)
            count += len(found)
            first = list(islice(rows, INSERTED))
    return Staged(attempt, name, count)


def _rows(
    sink: TableSink, columns: Sequence[str], batches: "Iterable[pa.RecordBatch]"
) -> Iterator[list[Json]]:
    for batch in batches:
        if sink.delete is not None and str(kind := batch.schema.field(sink.delete).type) != "bool":
            raise PipelineError(
                f"delete names {sink.delete}, of type {kind}: it is to be a boolean"
            )
        for row in batch.to_pylist():
            yield [cell(row[each], is_sqlite=sink.database.is_sqlite) for each in columns]


def cell(value: object, *, is_sqlite: bool) -> Json:
    """As the driver takes it. Lists and groups become JSON; SQLite has times and decimals as
    text.
    """
    if isinstance(value, Mapping | list):
        return as_json(value).decode()
    if is_sqlite and isinstance(value, date | datetime):
        return value.isoformat()
    if is_sqlite and isinstance(value, Decimal):
        return str(value)
    return value


def commit(sink: TableSink, columns: tuple[str, ...], staged: Sequence[Staged]) -> None:
    """Add the batch, or, when it is there already, nothing. Raises PipelineError."""
    if not staged:
        return
    query, batch, _ = staged[0].attempt
    stage, batches = stage_of(sink, columns), _beside(sink, BATCHES)
    with connected(sink.database) as connection, connection.transaction():
        seen = _seen(connection, batches, query, sink.name)
        if seen > batch:
            raise PipelineError(
                f"the table {sink.name} has batch {seen} of this query, whose checkpoint is at "
                f"batch {batch}: the checkpoint is older than "
                "the table. Nothing was written. Next step: bring back the newest checkpoint, or "
                "begin a new one"
            )
        if seen < batch:
            _move(connection, sink, columns, stage, [each for each in staged if each.rows])
            connection.execute(
                f"UPDATE {batches} SET batch = ? WHERE query = ? AND target = ?",
                [batch, query, sink.name],
            )
        connection.execute(f"DELETE FROM {stage} WHERE {QUERY} = ?", [query])


def _seen(connection: Connection, batches: str, query: str, target: str) -> int:
    """The newest batch of the query in the target; -1: none. Others that write for this query wait
    until our transaction ends.
    """
    connection.execute(
        f"INSERT INTO {batches} (query, target, batch) VALUES (?, ?, -1) ON CONFLICT (query, "
        "target) DO NOTHING",
        [query, target],
    )
    lock = "" if connection.is_sqlite else " FOR UPDATE"
    return int(
        connection.one(
            f"SELECT batch FROM {batches} WHERE query = ? AND target = ?{lock}", [query, target]
        )
    )


def _move(
    connection: Connection,
    sink: TableSink,
    columns: Sequence[str],
    stage: str,
    staged: Sequence[Staged],
) -> None:
    if not staged:
        return
    tries = f"{TRY} IN ({', '.join('?' for _ in staged)})"
    names, wanted = [each.name for each in staged], sum(each.rows for each in staged)
    found = connection.one(f"SELECT count(*) FROM {stage} WHERE {tries}", names)
    if found != wanted:
        raise PipelineError(
            f"{wanted:,} rows were written beside {sink.name}, and {found:,} are there: another "
            "driver has the same checkpoint, or somebody removed "
            "them. Nothing of this batch counts. Next step: end the other one, then start the "
            "query again"
        )
    if not sink.key:
        listed = ", ".join(map(column, columns))
        connection.execute(
            f"INSERT INTO {quoted(sink.name)} ({listed}) SELECT {listed} FROM {stage} WHERE "
            f"{tries} ORDER BY {TASK}, {ROW}",
            names,
        )
        return
    newest = _newest(sink, columns, stage, tries)
    removed = removed_of(sink)
    if removed is not None:
        newest = _without_older(sink, columns, newest, removed)
    if sink.delete is not None:
        _remove(connection, sink, newest, names, removed)
    listed, key = ", ".join(map(column, _kept(sink, columns))), ", ".join(map(column, sink.key))
    stays = "WHERE true" if sink.delete is None else f"WHERE NOT {column(sink.delete)}"
    connection.execute(
        f"INSERT INTO {quoted(sink.name)} AS target ({listed}) SELECT {listed} FROM {newest} AS "
        f"newest {stays} "
        f"ON CONFLICT ({key}) {_update(sink, columns)}",
        names,
    )


def _newest(sink: TableSink, columns: Sequence[str], stage: str, tries: str) -> str:
    """A query in brackets: of the staged rows the last one of each key. A flag that is null says
    nothing of a removal.
    """
    key, kept = ", ".join(map(column, sink.key)), _kept(sink, columns)
    listed = ", ".join(map(column, kept))
    first = (
        "" if sink.order is None else f"{column(sink.order)} IS NULL, {column(sink.order)} DESC, "
    )
    numbered = (
        f"row_number() OVER (PARTITION BY {key} ORDER BY {first}{TASK} DESC, {ROW} DESC) AS {PLACE}"
    )
    flag = (
        ""
        if sink.delete is None
        else f", CASE WHEN {column(sink.delete)} THEN true ELSE false END AS {column(sink.delete)}"
    )
    rows, behind = f"{stage} WHERE {tries}", ""
    if sink.delete is not None and sink.order is not None:
        rows = f"{_behind_bare(sink, kept, key, rows)} AS found WHERE {LATER} = 0"
        behind = f", {BEHIND}"
    return (
        f"(SELECT * FROM (SELECT {listed}{flag}{behind}, {numbered} FROM {rows}) AS numbered "
        f"WHERE {PLACE} = 1)"
    )


def _behind_bare(sink: TableSink, kept: Sequence[str], key: str, rows: str) -> str:
    """A query in brackets. A *bare* removal has no value in `order`, as a tombstone: it is newer
    than all rows of its key before it, and older than those behind it. It takes the order of the
    newest removal that has one, which it repeats. LATER: bare ones behind a row; BEHIND: it is one,
    or stands behind one, if no other one is behind it.
    """
    order, flag = column(str(sink.order)), column(str(sink.delete))
    bare = f"CASE WHEN {flag} AND {order} IS NULL THEN 1 ELSE 0 END"
    later = (
        f"SUM({bare}) OVER (PARTITION BY {key} ORDER BY {TASK} DESC, {ROW} DESC ROWS BETWEEN "
        "UNBOUNDED PRECEDING AND 1 PRECEDING)"
    )
    newest = f"CASE WHEN {flag} AND {order} IS NOT NULL THEN 0 ELSE 1 END, {order} DESC"
    repeated = (
        f"FIRST_VALUE(CASE WHEN {flag} THEN {order} END) OVER (PARTITION BY {key} ORDER BY "
        f"{newest})"
    )
    named = [
        f"CASE WHEN {bare} = 1 THEN {repeated} ELSE {order} END AS {order}"
        if each == sink.order
        else column(each)
        for each in kept
    ]
    behind = (
        f"CASE WHEN SUM({bare}) OVER (PARTITION BY {key}) > 0 THEN true ELSE false END AS {BEHIND}"
    )
    return (
        f"(SELECT {', '.join(named)}, {flag}, {TASK}, {ROW}, COALESCE({later}, 0) AS {LATER}, "
        f"{behind} FROM {rows})"
    )


def _same_key(sink: TableSink, left: str, right: str) -> str:
    return " AND ".join(f"{left}.{column(each)} = {right}.{column(each)}" for each in sink.key)


def _without_older(sink: TableSink, columns: Sequence[str], newest: str, removed: str) -> str:
    """A query in brackets: the rows but those that are older than the removal of their row. A bare
    removal before such a one counts.
    """
    order, flag = column(str(sink.order)), column(str(sink.delete))
    listed = ", ".join(map(column, _kept(sink, columns)))
    older = (
        f"removed.{order} IS NOT NULL AND (each.{order} IS NULL OR each.{order} < removed.{order})"
    )
    is_older = (
        f"EXISTS (SELECT 1 FROM {removed} AS removed WHERE {_same_key(sink, 'removed', 'each')} "
        f"AND {older})"
    )
    return (
        f"(SELECT {listed}, {BEHIND}, ({flag} OR {is_older}) AS {flag} FROM {newest} AS each "
        f"WHERE {BEHIND} OR NOT {is_older})"
    )


def _remove(
    connection: Connection, sink: TableSink, newest: str, names: Sequence[str], removed: str | None
) -> None:
    """Remove rows from the target, and note their keys."""
    flag = column(str(sink.delete))
    goes = f"newest.{flag}"
    if sink.order is not None:
        order = column(sink.order)
        goes = (
            f"(newest.{BEHIND} OR (newest.{flag} AND (target.{order} IS NULL OR newest.{order} "
            f">= target.{order})))"
        )
    connection.execute(
        f"DELETE FROM {quoted(sink.name)} AS target WHERE EXISTS "
        f"(SELECT 1 FROM {newest} AS newest WHERE {goes} AND "
        f"{_same_key(sink, 'newest', 'target')})",
        names,
    )
    if removed is None:
        return
    listed = ", ".join(map(column, [*sink.key, str(sink.order)]))
    now_s = time.time_ns() // 1_000_000_000
    connection.execute(
        f"DELETE FROM {removed} WHERE {REMOVED_AT} < ?", [now_s - sink.keep_removed_s]
    )
    connection.execute(
        f"INSERT INTO {removed} ({listed}, {REMOVED_AT}) SELECT {listed}, CAST(? AS BIGINT) FROM "
        f"{newest} AS newest WHERE newest.{flag}",
        [now_s, *names],
    )


def _update(sink: TableSink, columns: Sequence[str]) -> str:
    others = [column(each) for each in _kept(sink, columns) if each not in sink.key]
    if not others:
        return "DO NOTHING"
    update = f"DO UPDATE SET {', '.join(f'{each} = excluded.{each}' for each in others)}"
    if sink.order is None:
        return update
    order = column(sink.order)
    return f"{update} WHERE target.{order} IS NULL OR excluded.{order} >= target.{order}"


def abort(sink: TableSink, columns: tuple[str, ...], staged: Sequence[Staged]) -> None:
    """Remove the rows of tasks that ended, when others did not."""
    if names := [each.name for each in staged if each.rows]:
        with connected(sink.database) as connection:
            connection.execute(
                f"DELETE FROM {stage_of(sink, columns)} WHERE {TRY} IN "
                f"({', '.join('?' for _ in names)})",
                names,
            )
