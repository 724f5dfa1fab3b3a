"""Rows of a Delta table: the files that may have those that are wanted, and of these the wanted
rows and columns. Knows no Spark and nothing of writing.

Conditions (lake_where.py) leave out files by partition and by the bounds in the log, then row
groups, then rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from raftka.json_values import Json
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.lake.files import explained, files_of
from raftka.pipeline.lake.options import Lake
from raftka.pipeline.lake.table import demanded
from raftka.pipeline.lake.where import Condition, typed

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyarrow.compute import Expression

TASK_BYTES = 128 << 20


class File(NamedTuple):
    path: str  # from the table's root
    size: int
    partition: Mapping[str, Json]


class Plan(NamedTuple):
    version: int
    schema: "pa.Schema"  # of the whole table
    columns: tuple[str, ...]
    conditions: tuple[Condition, ...]
    tasks: list[tuple[File, ...]]


def shape(lake: Lake) -> "pa.Schema":
    """Return the Arrow schema of a read. Raise PipelineError."""
    import pyarrow as pa

    found = _schema(lake, demanded(lake, lake.version))
    return (
        pa.schema([found.field(name) for name in _known(lake, lake.columns, found)])
        if lake.columns
        else found
    )


def plan(lake: Lake, columns: Sequence[str] = (), size: int = TASK_BYTES) -> Plan:
    """Tasks of about so many bytes each. Without `columns`: all. Raises PipelineError."""
    table = demanded(lake, lake.version)
    schema = _schema(lake, table)
    own = table.metadata().partition_columns
    _known(lake, [each.column for each in lake.where], schema)
    conditions = tuple(typed(each, schema.field(each.column).type) for each in lake.where)
    with explained(lake):
        found = _files(table, own, conditions)
    return Plan(
        table.version(),
        schema,
        _known(lake, columns or schema.names, schema),
        conditions,
        _tasks(found, size),
    )


def leave_out_files(lake: Lake, found: Plan, filters: Sequence[Condition]) -> Plan:
    """Return the plan without the files that have no row for these conditions, whose values are of
    the columns' types. Raise PipelineError.
    """
    table = demanded(lake, found.version)
    conditions = (*found.conditions, *filters)
    with explained(lake):
        files = _files(table, table.metadata().partition_columns, conditions)
    return found._replace(conditions=conditions, tasks=_tasks(files, TASK_BYTES))


def read(lake: Lake, wanted: Plan, files: Sequence[File]) -> "Iterator[pa.RecordBatch]":
    """Return the Arrow batches of one task. Raise PipelineError."""
    import pyarrow.dataset as ds

    with explained(lake):
        form, root = ds.ParquetFileFormat(), files_of(lake)
        fragments = [
            form.make_fragment(each.path, root, _place(each.partition, wanted.schema))
            for each in files
        ]
        dataset = ds.FileSystemDataset(fragments, wanted.schema, form, root)
        batches = dataset.to_batches(columns=list(wanted.columns), filter=_expression(wanted))
        yield from (batch for batch in batches if batch.num_rows)


def _schema(lake: Lake, table: "DeltaTable") -> "pa.Schema":
    import pyarrow as pa

    with explained(lake):
        # which also refuses what it can not read: deletion vectors, column mapping
        return pa.schema(table.to_pyarrow_dataset().schema)


def _known(lake: Lake, columns: Sequence[str], schema: "pa.Schema") -> tuple[str, ...]:
    for name in columns:
        if name not in schema.names:
            raise PipelineError(
                f"the lake {lake.url} has no column {name}: there are {', '.join(schema.names)}"
            )
    return tuple(columns)


def _files(table: "DeltaTable", own: Sequence[str], conditions: Sequence[Condition]) -> list[File]:
    import pyarrow as pa

    found = pa.table(table.get_add_actions(flatten=True))
    names = ["path", "size_bytes", "num_records", *(f"partition.{name}" for name in own)]
    names += [
        f"{what}.{each.column}" for each in conditions for what in ("min", "max", "null_count")
    ]
    there = [name for name in dict.fromkeys(names) if name in found.column_names]
    return [
        File(
            unquote(row["path"]),
            row["size_bytes"],
            {name: row[f"partition.{name}"] for name in own},
        )
        for row in found.select(there).to_pylist()
        if all(_may_hold(row, each, own) for each in conditions)
    ]


def _may_hold(row: Mapping[str, object], condition: Condition, own: Sequence[str]) -> bool:
    """Return whether a file may have a row that meets the condition."""
    name = condition.column
    if name in own:
        value = row[f"partition.{name}"]
        return condition.how == "null" if value is None else _between(condition, value, value)
    nulls, records = row.get(f"null_count.{name}"), row.get("num_records")
    if condition.how == "null":
        return nulls != 0
    if nulls is not None and nulls == records:
        return False
    least, most = row.get(f"min.{name}"), row.get(f"max.{name}")
    return least is None or most is None or _between(condition, least, most)


def _between(condition: Condition, least: object, most: object) -> bool:
    """Return whether a value from `least` to `most` may meet the condition."""
    value = condition.value
    match condition.how:
        case "=":
            return bool(least <= value <= most)
        case "in":
            return any(least <= each <= most for each in value)
        case "<":
            return bool(least < value)
        case "<=":
            return bool(least <= value)
        case ">":
            return bool(most > value)
        case ">=":
            return bool(most >= value)
    return condition.how == "not null"


def _tasks(files: Sequence[File], size: int) -> list[tuple[File, ...]]:
    groups: list[list[File]] = [[]]
    filled = 0
    for each in files:
        if groups[-1] and filled + each.size > size:
            groups.append([])
            filled = 0
        groups[-1].append(each)
        filled += each.size
    return [tuple(group) for group in groups if group]


def _place(partition: Mapping[str, Json], schema: "pa.Schema") -> "Expression":
    """Return the values of a file's partition columns as an expression of Arrow."""
    import pyarrow as pa
    import pyarrow.compute as pc

    place = pc.scalar(True)
    for name, value in partition.items():
        field = pc.field(name)
        place = place & (
            field.is_null() if value is None else field == pa.scalar(value, schema.field(name).type)
        )
    return place


def _expression(wanted: Plan) -> "Expression":
    """All conditions, as Arrow has them; None: none."""
    found = None
    for each in wanted.conditions:
        one = _one(each, wanted.schema.field(each.column).type)
        found = one if found is None else found & one
    return found


def _one(condition: Condition, kind: "pa.DataType") -> "Expression":
    import pyarrow as pa
    import pyarrow.compute as pc

    field = pc.field(condition.column)
    if condition.how == "null":
        return field.is_null()
    if condition.how == "not null":
        return field.is_valid()
    if condition.how == "in":
        return field.isin(pa.array(condition.value, kind))
    value = pa.scalar(condition.value, kind)
    match condition.how:
        case "=":
            return field == value
        case "<":
            return field < value
        case "<=":
            return field <= value
        case ">":
            return field > value
    return field >= value
