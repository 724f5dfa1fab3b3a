"""Kinds of fields as types of Arrow, and the columns of a stream as one array of structs."""

from collections.abc import Sequence

import pyarrow as pa

from raftka.pipeline.records.fields import Exact, Field, Group, Kind, Many, MapOf

ERROR = "_error"  # the last column: why a row has no fields
ARROW = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
}


def arrow_type(kind: Kind) -> pa.DataType:
    """Return the type of a column of this kind."""
    if isinstance(kind, Group):
        return pa.struct([pa.field(each.name, arrow_type(each.kind)) for each in kind.fields])
    if isinstance(kind, MapOf):
        return pa.map_(pa.string(), arrow_type(kind.of))
    if isinstance(kind, Exact):
        return pa.decimal128(kind.digits, kind.scale)
    return pa.list_(arrow_type(kind.of)) if isinstance(kind, Many) else ARROW[kind]


def struct_array(
    wanted: Sequence[Field], arrays: Sequence[pa.Array], errors: pa.Array
) -> pa.StructArray:
    return pa.StructArray.from_arrays(
        [*arrays, errors], names=[*(each.name for each in wanted), ERROR]
    )
