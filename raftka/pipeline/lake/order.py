"""Which of several rows with one key is the last one. Knows Arrow and no lake."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from raftka.pipeline.connect.options import Keyed
from raftka.pipeline.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa

POSITIONS = (("_topic", "_partition", "_offset"), ("topic", "partition", "offset"))  # of records, in the views of streams and in their source


def order_of(keyed: Keyed, columns: Collection[str]) -> tuple[str, ...]:
    """The columns that order the rows of a key; empty: the rows' own order does."""
    if keyed.order is not None:
        return (keyed.order,)
    return next(((partition, offset) for _, partition, offset in POSITIONS if partition in columns and offset in columns), ())


def last_of_keys(rows: "pa.Table", key: Sequence[str], order: Sequence[str]) -> "pa.Array":
    """Places of the rows that are the last ones of their keys, ascending; a null is before all else in `order`. Raises PipelineError for a key that
    is null."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in key:
        if nulls := rows.column(name).null_count:
            raise PipelineError(
                f"{nulls:,} rows have no value in {name}, which is of the key. Nothing of this batch counts. Next step: keep such rows out, with "
                f"`where {name} is not null` in the view, or take another key"
            )
    columns = {f"key {at}": rows.column(name) for at, name in enumerate(key)} | {"place": np.arange(rows.num_rows, dtype=np.int64)}
    for at, name in enumerate(order):
        columns |= {f"known {at}": pc.is_valid(rows.column(name)), f"order {at}": rows.column(name)}
    numbered = pa.table(columns)
    if order:
        by = [(f"{what} {at}", "ascending") for at in range(len(order)) for what in ("known", "order")]
        numbered = numbered.take(pc.sort_indices(numbered, sort_keys=[*by, ("place", "ascending")]))
    last = numbered.group_by([f"key {at}" for at in range(len(key))], use_threads=False).aggregate([("place", "last")])
    places = last.column("place_last").combine_chunks()
    return places.take(pc.sort_indices(places))
