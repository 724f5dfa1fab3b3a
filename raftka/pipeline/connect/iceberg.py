"""An Iceberg table that batches of rows are added to, each once, and its rows. Knows pyiceberg and
Arrow, and no Spark.

Tasks write Parquet files that no snapshot has. The driver adds them all in one commit of the table,
which also notes the batch's number under the query's name: in the summary of the snapshot, for
people, and in a property of the table, which is still there when the snapshot has expired.
"""

import logging
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from raftka.pipeline.connect.iceberg_options import Iceberg
from raftka.pipeline.errors import OptionRefused, PipelineError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import FileScanTask, Table

TRIES = 10  # others may add to the table at the same moment
BUFFERED_BYTES = 64 << 20  # in Arrow; then they are written out as a row group
FILE_BYTES = 512 << 20  # about; then another file is begun
QUERY, BATCH = "raftka.query", "raftka.batch"  # in the summary of a snapshot

log = logging.getLogger(__name__)


class Attempt(NamedTuple):
    query: str
    batch: int


class Done(NamedTuple):
    """A task's result for the driver."""

    attempt: Attempt
    files: tuple[str, ...]


@contextmanager
def explained(to: Iceberg) -> Iterator[None]:
    """Turn errors of the table into PipelineError."""
    try:
        yield
    except PipelineError:
        raise
    except Exception as error:  # of catalogs, stores and formats, each with kinds of its own
        text = " ".join(f"{type(error).__name__} {error}".split())
        raise PipelineError(
            f"the Iceberg table {to.table}: {text}. A batch that was to be written does not "
            "count; it is done again when the query is started again"
        ) from error


def catalog_of(to: Iceberg) -> "Catalog":
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError:
        raise OptionRefused(
            "Iceberg tables need pyiceberg on the driver and all executors: pip install "
            "'raftka[iceberg]'"
        ) from None
    return load_catalog("raftka", **to.properties())


def opened(to: Iceberg) -> "Table":
    """Raises PipelineError, also when there is none."""
    with explained(to):
        return catalog_of(to).load_table(to.table)


# writing


def prepare(to: Iceberg, schema: "pa.Schema") -> str:
    """Before a task runs: a table that takes rows of this Arrow schema, and the folder of its
    files. Raises PipelineError.
    """
    from pyiceberg.exceptions import NoSuchTableError

    with explained(to):
        catalog = catalog_of(to)
        try:
            table = catalog.load_table(to.table)
        except NoSuchTableError:
            catalog.create_namespace_if_not_exists(to.table.rpartition(".")[0])
            table = catalog.create_table_if_not_exists(to.table, schema)
        if not table.spec().is_unpartitioned():
            raise OptionRefused(
                f"the Iceberg table {to.table} is partitioned: rows are only written to tables "
                "that are not"
            )
        _check(to, table, schema)
    return f"{table.location().rstrip('/')}/data"


def _check(to: Iceberg, table: "Table", schema: "pa.Schema") -> None:
    """Add columns that the table has not yet; refuse columns of another type. Raise
    PipelineError.
    """
    there = {each.name: each for each in table.schema().as_arrow()}
    for each in schema:
        if each.name in there and (is_type := _kind(there[each.name].type)) != (
            wanted := _kind(each.type)
        ):
            raise PipelineError(
                f"column {each.name} is {is_type} in the Iceberg table {to.table}, and {wanted} "
                "in this query. Nothing was written. Next step: cast "
                "it to what it was, give it another name, or write to another table"
            )
    for name, each in there.items():
        if not each.nullable and name not in schema.names:
            raise PipelineError(
                f"the Iceberg table {to.table} needs a column {name}, which this query has not"
            )
    if set(schema.names) - there.keys():
        with table.update_schema() as update:
            update.union_by_name(schema)


def _kind(kind: object) -> str:
    """Return the name of an Arrow type as Iceberg distinguishes types; of lists and groups without
    the types inside.
    """
    text = str(kind).removeprefix("large_")
    text = text.partition("<")[0] if text.startswith(("list", "struct", "map")) else text
    return {
        "int8": "int32",
        "int16": "int32",
        "timestamp[us, tz=+00:00]": "timestamp[us, tz=UTC]",
    }.get(text, text)


def write_files(
    to: Iceberg,
    schema: "pa.Schema",
    folder: str,
    batches: "Iterable[pa.RecordBatch]",
    attempt: Attempt,
) -> Done:
    """Raises PipelineError; what a task could not finish it removes again."""
    found: list[str] = []
    with explained(to):
        files = opened(to).io
        try:
            rows = (batch.cast(schema) for batch in batches if batch.num_rows)
            first = next(rows, None)
            while first is not None:
                found.append(
                    f"{folder}/"
                    f"raftka-{attempt.query}-{attempt.batch}-{secrets.token_hex(8)}.parquet"
                )
                with files.new_output(found[-1]).create() as stream:
                    first = _write_file(stream, schema, first, rows)
        except BaseException:
            _remove(to, found)
            raise
    return Done(attempt, tuple(found))


def _write_file(
    stream: object, schema: "pa.Schema", first: "pa.RecordBatch", rows: "Iterator[pa.RecordBatch]"
) -> "pa.RecordBatch | None":
    """Returns the batch that the next file begins with."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    written, waiting, buffered = 0, [first], first.nbytes
    with pq.ParquetWriter(stream, schema) as writer:
        for batch in rows:
            if written + buffered > FILE_BYTES:
                writer.write_table(pa.Table.from_batches(waiting))
                return batch
            if buffered > BUFFERED_BYTES:
                writer.write_table(pa.Table.from_batches(waiting))
                written, waiting, buffered = written + buffered, [], 0
            waiting.append(batch)
            buffered += batch.nbytes
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting))
    return None


def commit(to: Iceberg, done: Sequence[Done]) -> None:
    """Add all files, or, for a batch that is there already, none. Raises PipelineError."""
    from pyiceberg.exceptions import CommitFailedException

    files = [each for task in done for each in task.files]
    if not files:
        return
    attempt, failure = done[0].attempt, ""
    name = property_of(attempt.query)
    for tried in range(TRIES):
        with explained(to):
            table = opened(to)
            seen = int(table.properties.get(name, -1))
            if seen > attempt.batch:
                raise PipelineError(
                    f"the Iceberg table {to.table} has batch {seen} of this query, whose "
                    f"checkpoint is at batch {attempt.batch}: the checkpoint is "
                    "older than the table. Nothing was written. Next step: bring back the newest "
                    "checkpoint, or begin a new one"
                )
            if seen == attempt.batch:
                if not tried:  # after a failure they may be the ones that are there
                    _remove(to, files)
                return
            try:
                with table.transaction() as changes:
                    changes.add_files(
                        files,
                        {QUERY: attempt.query, BATCH: str(attempt.batch)},
                        check_duplicate_files=False,
                    )
                    changes.set_properties({name: str(attempt.batch)})
                return
            except CommitFailedException as error:
                failure = str(error)
    raise PipelineError(
        f"the Iceberg table {to.table} was changed by others {TRIES} times while this batch was "
        f"to be added: {failure}"
    )


def property_of(query: str) -> str:
    """The table's property with the number of the query's newest batch."""
    return f"{BATCH}.{query}"


def abort(to: Iceberg, done: Sequence[Done], *, complete: bool) -> None:
    """Remove files of tasks that ended, when others did not. When all ended, the table may have
    them: they are left.
    """
    if not complete:
        _remove(to, [each for task in done for each in task.files])


def _remove(to: Iceberg, paths: Sequence[str]) -> None:
    """Files that no snapshot has. That they can not be removed harms nothing."""
    try:
        files = opened(to).io
        for path in paths:
            files.delete(path)
    except Exception as error:
        log.warning(
            "files of the Iceberg table %s, which no snapshot has, could not be removed: %s",
            to.table,
            error,
        )


# reading


def shape(to: Iceberg) -> "pa.Schema":
    """The table's columns, as Spark takes them."""
    import pyarrow as pa

    found = opened(to).schema().as_arrow()
    return pa.schema([pa.field(each.name, _small(each.type)) for each in found])


def _small(kind: "pa.DataType") -> "pa.DataType":
    import pyarrow as pa

    return {"large_string": pa.string(), "large_binary": pa.binary()}.get(str(kind), kind)


def plan(to: Iceberg, columns: Sequence[str]) -> "list[FileScanTask]":
    """The files of the newest snapshot. Raises PipelineError."""
    with explained(to):
        return list(opened(to).scan(selected_fields=tuple(columns)).plan_files())


def read(to: Iceberg, schema: "pa.Schema", task: "FileScanTask") -> "Iterator[pa.RecordBatch]":
    """Raises PipelineError."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    with explained(to):
        table = opened(to)
        scan = ArrowScan(
            table.metadata, table.io, table.schema().select(*schema.names), AlwaysTrue()
        )
        for batch in scan.to_record_batches([task]):
            yield batch.select(schema.names).cast(schema)
