"""A Delta table whose rows are changed by key, each batch once. Knows Arrow and Delta's log, no
Spark and no topic.

Tasks put their rows into Parquet files in a folder that no reader of the table looks at. The driver
picks the last row of each key from them and merges these into the table, in one entry of the log
that also has the batch's number: a batch that stands there already is not merged again. Then it
removes the folder's files, those of killed tasks and drivers among them. What a batch removes is
noted before (`removed.py`), so that an older change of such a row does not bring it back.

Which row is the last one: that with the highest `order`; without `order` the one with the highest
offset where rows have `_partition` and `_offset` (or `partition` and `offset`); else the one that
was written last. The same decides between a row and the one that the table has. A removal without a
value in `order`, as a tombstone is, has its place by the offsets (`order.py`).
"""

import logging
import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from raftka.pipeline.connect.options import Keyed
from raftka.pipeline.errors import OptionRefused, PipelineError
from raftka.pipeline.lake import table as plain
from raftka.pipeline.lake.files import (
    DataFile,
    explained,
    files_of,
    plain_files_of,
    remove,
    write_files,
)
from raftka.pipeline.lake.options import Lake
from raftka.pipeline.lake.order import POSITIONS, last_changes, order_of
from raftka.pipeline.lake.removed import BEHIND, FLAG, note_removed, without_older
from raftka.pipeline.lake.table import (
    TRIES,
    Attempt,
    Done,
    compacted,
    demanded,
    is_there,
    new_columns,
)
from raftka.pipeline.lake.upkeep import check_there

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

STAGE = "_raftka_stage"  # names that begin with _ are no part of a table
TARGET, CHANGE = "target", "change"

log = logging.getLogger(__name__)


def prepare(lake: Lake, schema: "pa.Schema") -> None:
    """Before a task runs: a table that takes rows of this Arrow schema. Raises PipelineError."""
    keyed = _keyed(lake)
    keyed.check_columns(schema.names)
    for name in (*keyed.key, *([] if keyed.order is None else [keyed.order])):
        _check_compared(name, schema.field(name).type)
    if keyed.delete is not None and str(schema.field(keyed.delete).type) != "bool":
        raise OptionRefused(
            f"delete names {keyed.delete}, of type {schema.field(keyed.delete).type}: it is to be "
            "a boolean"
        )
    plain.prepare(lake, kept(lake, schema))


def _check_compared(name: str, kind: object) -> None:
    from pyarrow import types

    tests = (
        types.is_boolean,
        types.is_integer,
        types.is_string,
        types.is_binary,
        types.is_date,
        types.is_timestamp,
        types.is_decimal,
    )
    if not any(test(kind) for test in tests):
        raise OptionRefused(
            f"key or order names {name}, of type {kind}: it is to be a number without a fraction, "
            "a text, a time or bytes. Cast it"
        )


def _keyed(lake: Lake) -> Keyed:
    assert lake.keyed is not None
    return lake.keyed


def kept(lake: Lake, schema: "pa.Schema") -> "pa.Schema":
    """The columns that the table has: all but the flag that says which rows go."""
    import pyarrow as pa

    return pa.schema([each for each in schema if each.name != _keyed(lake).delete])


def stage(
    lake: Lake, schema: "pa.Schema", batches: "Iterable[pa.RecordBatch]", attempt: Attempt
) -> Done:
    """In a task. Raises PipelineError."""
    return Done(
        attempt, write_files(lake, schema, (), batches, f"{_folder(attempt)}/{attempt.batch}-")
    )


def _folder(attempt: Attempt) -> str:
    """Of a query's staged files. A batch query without a name has one for each task."""
    if attempt.query is None:
        return f"{STAGE}/{secrets.token_hex(8)}"
    return f"{STAGE}/query-{quote(attempt.query, safe='')}"


def commit(lake: Lake, schema: "pa.Schema", done: Sequence[Done]) -> None:
    """The whole batch, or, when it is there already, nothing. Raises PipelineError."""
    from deltalake.exceptions import CommitFailedError

    attempt = done[0].attempt if done else Attempt()
    files = [each for task in done for each in task.files]
    changes: pa.Table | None = None
    failure: Exception | None = None
    for _ in range(TRIES):
        with explained(lake):
            table = demanded(lake)
            seen = None if attempt.query is None else table.transaction_version(attempt.query)
            if not files or (seen is not None and is_there(lake, attempt, seen)):
                break
            if changes is None:
                check_there(lake, files)
                changes = without_older(lake, newest(lake, schema, files))
                note_removed(lake, changes)
                table = compacted(lake, table, attempt)
            try:
                if added := new_columns(lake, table, kept(lake, schema)):
                    table.alter.add_columns(list(added.values()))
                _merge(lake, demanded(lake), changes, attempt)
            except CommitFailedError as error:
                failure = error
                continue
        break
    else:
        raise PipelineError(
            f"the lake {lake.url} was changed by others {TRIES} times while this batch was to be "
            f"merged: {failure}"
        )
    _remove_staged(lake, attempt, [each.path for each in files])


def newest(lake: Lake, schema: "pa.Schema", files: Sequence[DataFile]) -> "pa.Table":
    """The last row of each key in the staged files, with FLAG in place of the column that says so,
    and BEHIND. In memory are keys, orders and places of all rows, and the rows that are left.
    Raises PipelineError.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow.parquet import ParquetFile

    keyed, root = _keyed(lake), files_of(lake)
    order = order_of(keyed, schema.names)
    wanted = list(
        dict.fromkeys([*keyed.key, *order, *([] if keyed.delete is None else [keyed.delete])])
    )
    compared = pa.concat_tables(
        [ParquetFile(root.open_input_file(each.path)).read(columns=wanted) for each in files]
    )
    last = last_changes(compared, keyed)
    places = last.places
    found, begin = [], 0
    for each in files:
        end = begin + each.records
        inside = places.filter(pc.and_(pc.greater_equal(places, begin), pc.less(places, end)))
        found.append(
            ParquetFile(root.open_input_file(each.path))
            .read()
            .cast(schema)
            .take(pc.subtract(inside, begin))
        )
        begin = end
    rows = pa.concat_tables(found)
    flags = (
        pa.array([False] * rows.num_rows)
        if keyed.delete is None
        else pc.fill_null(rows.column(keyed.delete), False)
    )
    if keyed.order is not None:
        at = rows.schema.get_field_index(keyed.order)
        rows = rows.set_column(
            at,
            rows.schema.field(at),
            compared.column(keyed.order).take(last.ordered).cast(rows.schema.field(at).type),
        )
    return (
        rows.select(kept(lake, schema).names)
        .append_column(FLAG, flags)
        .append_column(BEHIND, last.behind)
    )


def _merge(lake: Lake, table: "DeltaTable", changes: "pa.Table", attempt: Attempt) -> None:
    from deltalake import CommitProperties, Transaction

    keyed = _keyed(lake)
    numbers = None if attempt.query is None else [Transaction(attempt.query, attempt.batch)]
    same = " AND ".join(f"{_of(TARGET, name)} = {_of(CHANGE, name)}" for name in keyed.key)
    goes = _of(CHANGE, FLAG)
    columns = [name for name in changes.schema.names if name not in (FLAG, BEHIND)]
    newer = is_newer(keyed, columns)
    if keyed.order is not None and keyed.delete is not None:
        bare = f"({goes} AND {_of(CHANGE, keyed.order)} IS NULL)"
        newer_by_place = is_newer(replace(keyed, order=None), columns)
        newer = f"((NOT {bare} AND {newer}) OR ({_of(CHANGE, BEHIND)} AND {newer_by_place}))"
    every = {_of(TARGET, name): _of(CHANGE, name) for name in columns}
    merger = table.merge(
        changes,
        same,
        source_alias=CHANGE,
        target_alias=TARGET,
        streamed_exec=False,  # so files whose bounds have none of the keys are not read
        commit_properties=CommitProperties(app_transactions=numbers),
    )
    if keyed.delete is not None:
        merger = merger.when_matched_delete(f"{goes} AND {newer}")
    merger.when_matched_update(every, f"NOT {goes} AND {newer}").when_not_matched_insert(
        every, f"NOT {goes}"
    ).execute()


def is_newer(keyed: Keyed, columns: Collection[str]) -> str:
    """An SQL condition: the change is not older than the table's row. Offsets are compared within a
    partition; a change of another one is newer.
    """
    if keyed.order is not None:
        theirs, ours = _of(TARGET, keyed.order), _of(CHANGE, keyed.order)
        return f"({theirs} IS NULL OR {ours} >= {theirs})"
    for topic, *position in POSITIONS:
        if all(each in columns for each in position):
            elsewhere = [each for each in (topic, position[0]) if each in columns]
            others = [f"{_of(TARGET, each)} <> {_of(CHANGE, each)}" for each in elsewhere]
            offset = f"{_of(CHANGE, position[1])} >= {_of(TARGET, position[1])}"
            missing = [f"{_of(TARGET, each)} IS NULL" for each in (*elsewhere, position[1])]
            return f"({' OR '.join([*missing, *others, offset])})"
    return "true"


def _of(side: str, name: str) -> str:
    escaped = name.replace("`", "``")
    return f"{side}.`{escaped}`"


def abort(lake: Lake, done: Sequence[Done | None]) -> None:
    """The batch is done again, with files of its own."""
    remove(lake, [each.path for task in done if task is not None for each in task.files])


def _remove_staged(lake: Lake, attempt: Attempt, paths: Sequence[str]) -> None:
    """Files of this batch and of earlier ones, all that killed tasks and drivers of its query have
    left. A later batch may be another driver's.
    """
    from pyarrow.fs import FileSelector, FileType

    if attempt.query is None:
        remove(lake, paths)
        return
    try:
        found = plain_files_of(lake).get_file_info(
            FileSelector(_folder(attempt), allow_not_found=True)
        )
    except Exception as error:  # what stays is in no log
        log.warning("the lake %s could not be searched for staged files: %s", lake.url, error)
        return
    old = [
        each.path
        for each in found
        if each.type == FileType.File and _batch_of(each.base_name) <= attempt.batch
    ]
    remove(lake, old)


def _batch_of(name: str) -> int:
    """Of a staged file; 0: the name is none of ours."""
    number = name.partition("-")[0]
    return int(number) if number.isdecimal() else 0
