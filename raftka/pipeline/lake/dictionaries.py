"""Choice of the columns of a Parquet file that get a dictionary. Parquet would make one for each
column, and give it up when it has a megabyte: for offsets and places that took a third of the time
of writing a file, and made the file larger.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE = 4000  # rows that are looked at
# so many different ones among the sampled values: there are some 100,000 altogether, or more, about
# where a dictionary has its megabyte
OWN = 0.98


def repeating(batches: "Sequence[pa.RecordBatch]") -> list[str]:
    """The columns for which a dictionary pays, as Parquet names them."""
    sample = _some(batches)
    most = OWN * sample.num_rows
    return [
        path
        for field, values in zip(sample.schema, sample.columns, strict=True)
        if field.type.num_fields or len(values.unique()) <= most
        for path in _leaves(field.name, field.type)
    ]


def _some(batches: "Sequence[pa.RecordBatch]") -> "pa.Table":
    """Rows from all over these."""
    import numpy as np
    import pyarrow as pa

    ends = np.cumsum([each.num_rows for each in batches])
    rows = (
        np.unique(np.random.default_rng(0).integers(0, ends[-1], SAMPLE))
        if ends[-1] > SAMPLE
        else np.arange(ends[-1])
    )
    parts = np.split(rows, np.searchsorted(rows, ends[:-1]))
    return pa.Table.from_batches(
        [
            each.take(pa.array(part - end + each.num_rows))
            for each, part, end in zip(batches, parts, ends, strict=True)
        ]
    )


def _leaves(path: str, kind: "pa.DataType") -> "Iterator[str]":
    """The columns that Parquet makes of one Arrow column, by their paths."""
    from pyarrow import types

    if types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path
