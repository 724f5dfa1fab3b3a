"""A Delta table that batches of rows are added to, each once. Knows Delta's log through
`deltalake`, no Spark and no topic.

Tasks have written Parquet files nobody sees yet (lake_files.py). One entry of the log adds them
all, together with the number of the batch under the query's name: a batch that stands there already
is not added again. What is left over of a batch that was tried before is removed once the batch is
in the log; until then nobody can tell it from what is still to be added.
"""

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote
from zlib import crc32

from raftka.json_values import JsonObject
from raftka.pipeline.errors import OptionRefused, PipelineError
from raftka.pipeline.lake.files import DataFile, explained, remove
from raftka.pipeline.lake.options import Lake
from raftka.pipeline.lake.upkeep import batch_in_log, check_there, compact, remove_tries

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

TRIES = 10  # others may add to the table at the same moment
PARTITION_TYPES = ("string", "integer", "long", "short", "byte", "date", "boolean")


class Attempt(NamedTuple):
    """The batch that a task writes for. `query`: the name that its batches are numbered under;
    None: not numbered, as in a plain batch query.
    """

    query: str | None = None
    batch: int = 0
    run: str = ""
    number: int = 0  # how often the task was tried before

    @property
    def stem(self) -> str:
        """The first part of the names of its files."""
        return (
            f"raftka-{quote(self.query, safe='')}-{self.batch}-"
            if self.query is not None
            else "raftka-"
        )


class Done(NamedTuple):
    """A task's result for the driver."""

    attempt: Attempt
    files: tuple[DataFile, ...]


# the table


def opened(lake: Lake, version: int | None = None) -> "DeltaTable | None":
    """None: there is none. Raises PipelineError."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    with explained(lake):
        try:
            return DeltaTable(lake.url, version=version, storage_options=dict(lake.storage) or None)
        except TableNotFoundError:
            return None


def prepare(lake: Lake, schema: "pa.Schema") -> tuple[str, ...]:
    """Open or make a table that takes rows of this Arrow schema, before a task runs, and return its
    partition columns. Raise PipelineError.
    """
    _check_partitioning(lake, schema)
    with explained(lake):
        table = opened(lake) or _created(lake, schema)
    added = new_columns(lake, table, schema)
    own = tuple(table.metadata().partition_columns)
    assert not added.keys() & set(own), own
    return own


def _check_partitioning(lake: Lake, schema: "pa.Schema") -> None:
    fields = _fields(lake, schema)
    for name in lake.partition_by:
        if name not in fields:
            raise OptionRefused(
                f"partitionBy names {name}, which is no column: there are {', '.join(fields)}"
            )
        if getattr(fields[name].type, "type", None) not in PARTITION_TYPES:
            raise OptionRefused(
                f"partitionBy names {name}, of type {_named(fields[name].type)}; it is to be one "
                f"of {', '.join(PARTITION_TYPES)}: cast it"
            )
    for name in lake.z_order_by:
        if name not in fields or name in lake.partition_by:
            where = (
                "partitionBy has it already" if name in fields else f"there are {', '.join(fields)}"
            )
            raise OptionRefused(f"zOrderBy names {name}, which is no column of the files: {where}")
    if len(lake.partition_by) == len(fields):
        raise OptionRefused("partitionBy names all columns: one at least must be in the files")


def _fields(lake: Lake, schema: "pa.Schema") -> JsonObject:
    from deltalake import Schema

    if void := [each.name for each in schema if str(each.type) == "null"]:
        raise PipelineError(f"column {void[0]} has no type: it is always null. Cast it")
    try:
        return {each.name: each for each in Schema.from_arrow(schema).fields}
    except Exception as error:  # of several kinds, one of them the base
        raise PipelineError(
            f"the lake {lake.url} has no type for a column of "
            f"{schema.to_string().replace(chr(10), ', ')}: {error}. Cast it"
        ) from error


def new_columns(lake: Lake, table: "DeltaTable", schema: "pa.Schema") -> JsonObject:
    """Return columns that the table has not yet. Raise PipelineError for columns of another
    type.
    """
    own = tuple(table.metadata().partition_columns)
    if lake.partition_by and lake.partition_by != own:
        raise OptionRefused(
            f"the lake {lake.url} is partitioned by {', '.join(own) or 'nothing'}, not by "
            f"{', '.join(lake.partition_by)}"
        )
    there = {each.name: each for each in table.schema().fields}
    lower = {name.lower(): name for name in there}
    fields = _fields(lake, schema)
    for name, each in fields.items():
        if name in there and there[name].type != each.type:
            raise PipelineError(
                f"column {name} is {_named(there[name].type)} in the lake {lake.url}, and "
                f"{_named(each.type)} in this query. Nothing was written. "
                "Next step: cast it to what it was, give it another name, or write to another path"
            )
        if name not in there and name.lower() in lower:
            raise PipelineError(
                f"column {name} is spelt {lower[name.lower()]} in the lake {lake.url}: readers "
                "could not tell them apart. Rename it"
            )
    for name, each in there.items():
        if name not in fields and (not each.nullable or name in own):
            raise PipelineError(
                f"the lake {lake.url} needs a column {name}, which this query has not"
            )
    return {name: each for name, each in fields.items() if name not in there}


def _named(kind: object) -> str:
    return (
        str(kind.type)
        if hasattr(kind, "type")
        and isinstance(kind.type, str)
        and kind.type not in ("struct", "array", "map")
        else str(kind)
    )


# a batch


def commit(lake: Lake, schema: "pa.Schema", done: Sequence[Done]) -> None:
    """All files, or, for a batch that is there already, none. Raises PipelineError."""
    from deltalake.exceptions import CommitFailedError

    attempt = done[0].attempt if done else Attempt()
    files = [each for task in done for each in task.files]
    failure: Exception | None = None
    for tried in range(TRIES):
        with explained(lake):
            table = demanded(lake)
            seen = None if attempt.query is None else table.transaction_version(attempt.query)
            if seen is not None and is_there(lake, attempt, seen):
                # after a failure they may be the ones that are there
                _tidy(lake, table, attempt, files if not tried else ())
                return
            first = _is_first(table, done)
            if not files:
                return
            if not tried:
                check_there(lake, files)
                table = compacted(lake, table, attempt)
            try:
                if added := new_columns(lake, table, schema):
                    table.alter.add_columns(list(added.values()))
                _append(table, schema, files, attempt)
            except CommitFailedError as error:
                failure = error
                continue
        if first:
            remove_tries(lake, attempt.stem, {each.path for each in files}, table.version())
        return
    raise PipelineError(
        f"the lake {lake.url} was changed by others {TRIES} times while this batch was to be "
        f"added: {failure}"
    )


def _tidy(lake: Lake, table: "DeltaTable", attempt: Attempt, files: Sequence[DataFile]) -> None:
    """Remove files that other tries of a logged batch left: those of this try, and those of drivers
    that were killed before they removed theirs.
    """
    assert attempt.query is not None
    added = batch_in_log(lake, table, attempt.query, attempt.batch)
    remove(lake, [each.path for each in files if added is None or each.path not in added])
    if added:
        remove_tries(lake, attempt.stem, added, table.version())


def compacted(lake: Lake, table: "DeltaTable", attempt: Attempt) -> "DeltaTable":
    """Every so many batches, before one is added: the files of the last batch, which may be done
    again, are as the log's entry of it says.
    """
    if (
        attempt.query is None
        or not lake.compact_every
        or attempt.batch % lake.compact_every
        or not attempt.batch
    ):
        return table
    compact(lake, table)
    return demanded(lake)


def _created(lake: Lake, schema: "pa.Schema") -> "DeltaTable":
    from deltalake import DeltaTable, Schema

    return DeltaTable.create(
        lake.url,
        Schema.from_arrow(schema),
        mode="ignore",
        partition_by=list(lake.partition_by),
        storage_options=dict(lake.storage) or None,
    )


def is_there(lake: Lake, attempt: Attempt, seen: int) -> bool:
    """Only the last batch is ever done again: a checkpoint that is further behind would number
    other rows like those that are there.
    """
    if seen > attempt.batch:
        raise PipelineError(
            f"the lake {lake.url} has batch {seen} of this query, whose checkpoint is at batch "
            f"{attempt.batch}: the checkpoint is older than "
            "the lake. Nothing was written. Next step: bring back the newest checkpoint, or begin "
            "a new one with startingOffsets of your choice"
        )
    return seen == attempt.batch


def _is_first(table: "DeltaTable", done: Sequence[Done]) -> bool:
    """Return whether the batch may have been tried before: so it is when the run of the query is
    new, or a task was tried again.
    """
    attempt = done[0].attempt if done else Attempt()
    return attempt.query is not None and (
        table.transaction_version(_runs(attempt)) != _run(attempt)
        or any(task.attempt.number for task in done)
    )


def _runs(attempt: Attempt) -> str:
    return f"{attempt.query}-run"


def _run(attempt: Attempt) -> int:
    """The run of the query as a number: the log has no other values."""
    return crc32(attempt.run.encode())


def _append(
    table: "DeltaTable", schema: "pa.Schema", files: Iterable[DataFile], attempt: Attempt
) -> None:
    from deltalake import CommitProperties, Transaction
    from deltalake.transaction import AddAction

    now_ms = time.time_ns() // 1_000_000
    adds = [
        AddAction(
            each.path, each.size, dict(each.partition), now_ms, data_change=True, stats=each.stats
        )
        for each in files
    ]
    numbers = (
        []
        if attempt.query is None
        else [Transaction(attempt.query, attempt.batch), Transaction(_runs(attempt), _run(attempt))]
    )
    partition_by = list(table.metadata().partition_columns)
    table.create_write_transaction(
        adds,
        "append",
        table.schema(),
        partition_by,
        commit_properties=CommitProperties(app_transactions=numbers or None),
    )


def abort(lake: Lake, done: Sequence[Done | None]) -> None:
    """Files of tasks that ended, when others did not. When all ended, the log may have them: they
    are left to the batch's next try.
    """
    if None in done:
        remove(lake, [each.path for task in done if task is not None for each in task.files])


def demanded(lake: Lake, version: int | None = None) -> "DeltaTable":
    """Raises PipelineError, also when there is none."""
    table = opened(lake, version)
    if table is None:
        raise PipelineError(f"there is no Delta table at {lake.url}")
    return table
