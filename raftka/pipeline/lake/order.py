"""Order of changes: the last one of several rows with one key. Knows Arrow and no lake.

A *bare* removal has no value in `order`, as a tombstone of a compacted topic, which has a key
alone. It is newer than all changes of its key that stand before it, by the offsets where rows have
them, and older than those behind it, whatever their orders are.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from raftka.pipeline.connect.options import Keyed
from raftka.pipeline.errors import PipelineError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

# of records, in the views of streams and in their source
POSITIONS = (("_topic", "_partition", "_offset"), ("topic", "partition", "offset"))


class Last(NamedTuple):
    """The last changes of the keys in a batch."""

    places: "pa.Array"  # ascending
    ordered: "pa.Array"  # places of the rows whose values in `order` they have
    behind: "pa.Array"  # true: it is a bare removal, or stands behind one


def position_of(columns: Collection[str]) -> tuple[str, ...]:
    """Partition and offset; empty: rows do not have them."""
    return next(
        (
            (partition, offset)
            for _, partition, offset in POSITIONS
            if partition in columns and offset in columns
        ),
        (),
    )


def order_of(keyed: Keyed, columns: Collection[str]) -> tuple[str, ...]:
    """The columns that order the rows of a key; empty: the rows' own order does."""
    return (*([] if keyed.order is None else [keyed.order]), *position_of(columns))


def last_changes(rows: "pa.Table", keyed: Keyed) -> Last:
    """A bare removal takes the order of the newest removal before it that has one, which it
    repeats. Raises PipelineError for a key that is null.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    gone = None if keyed.delete is None else pc.fill_null(rows.column(keyed.delete), False)
    order = keyed.order
    bare = None if gone is None or order is None else pc.and_(gone, pc.is_null(rows.column(order)))
    if bare is None or not pc.any(bare).as_py():
        places = last_of_keys(rows, keyed.key, order_of(keyed, rows.column_names))
        return Last(places, places, pa.array([False] * len(places), pa.bool_()))
    return _behind_bare(rows, keyed, gone, bare)


def _behind_bare(
    rows: "pa.Table", keyed: Keyed, gone: "pa.ChunkedArray", bare: "pa.ChunkedArray"
) -> Last:
    import numpy as np
    import pyarrow as pa

    order = str(keyed.order)
    check_keys(rows, keyed.key)
    keys, turns = _numbered_keys(rows, keyed.key), _turns(rows, position_of(rows.column_names))
    is_bare = bare.to_numpy()
    # of each key, the turn of its last bare removal
    last_bare = np.full(rows.num_rows, -1, dtype=np.int64)
    np.maximum.at(last_bare, keys[is_bare], turns[is_bare])
    bounds = last_bare[keys]
    # removals with an order
    repeated = np.flatnonzero(gone.to_numpy() & ~is_bare & (turns < bounds))
    newest = last_of_keys(rows.take(pa.array(repeated)), keyed.key, (order,)).to_numpy()
    ordered = np.arange(rows.num_rows, dtype=np.int64)
    of_key = np.full(rows.num_rows, -1, dtype=np.int64)
    of_key[keys[repeated[newest]]] = repeated[newest]
    takes = is_bare & (of_key[keys] >= 0)
    ordered[takes] = of_key[keys][takes]
    left = np.flatnonzero(turns >= bounds)
    names = [f"key {at}" for at in range(len(keyed.key))]
    columns = [rows.column(name).take(pa.array(left)) for name in keyed.key]
    columns += [rows.column(order).take(pa.array(ordered[left])), pa.array(turns[left])]
    found = left[
        last_of_keys(
            pa.table(columns, [*names, "order", "turn"]), names, ("order", "turn")
        ).to_numpy()
    ]
    return Last(pa.array(found), pa.array(ordered[found]), pa.array(bounds[found] >= 0))


def _numbered_keys(rows: "pa.Table", key: Sequence[str]) -> "NDArray[np.int64]":
    """The same number for rows with the same key, less than the number of rows."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    names = [f"key {at}" for at in range(len(key))]
    table = pa.table(
        [*(rows.column(name) for name in key), np.arange(rows.num_rows, dtype=np.int64)],
        [*names, "place"],
    )
    lists = (
        table.group_by(names, use_threads=False)
        .aggregate([("place", "list")])
        .column("place_list")
        .combine_chunks()
    )
    found = np.empty(rows.num_rows, dtype=np.int64)
    found[lists.flatten().to_numpy()] = pc.list_parent_indices(lists).to_numpy()
    return found


def _turns(rows: "pa.Table", position: Sequence[str]) -> "NDArray[np.int64]":
    """The turn of each row, from 0."""
    import numpy as np

    found = np.empty(rows.num_rows, dtype=np.int64)
    found[_sorted(rows, position).to_numpy()] = np.arange(rows.num_rows, dtype=np.int64)
    return found


def last_of_keys(rows: "pa.Table", key: Sequence[str], order: Sequence[str]) -> "pa.Array":
    """Places of the rows that are the last ones of their keys, ascending; a null is before all else
    in `order`. Raises PipelineError for a key that is null.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    check_keys(rows, key)
    columns = {f"key {at}": rows.column(name) for at, name in enumerate(key)} | {
        "place": np.arange(rows.num_rows, dtype=np.int64)
    }
    numbered = pa.table(columns)
    if order:
        numbered = numbered.take(_sorted(rows, order))
    last = numbered.group_by([f"key {at}" for at in range(len(key))], use_threads=False).aggregate(
        [("place", "last")]
    )
    places = last.column("place_last").combine_chunks()
    return places.take(pc.sort_indices(places))


def check_keys(rows: "pa.Table", key: Sequence[str]) -> None:
    """Raises PipelineError for a key that is null."""
    for name in key:
        if nulls := rows.column(name).null_count:
            raise PipelineError(
                f"{nulls:,} rows have no value in {name}, which is of the key. Nothing of this "
                "batch counts. Next step: keep such rows out, with "
                f"`where {name} is not null` in the view, or take another key"
            )


def _sorted(rows: "pa.Table", order: Sequence[str]) -> "pa.Array":
    """Places of the rows in this order, rows that are alike as they stand; a null is before all
    else.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    columns: dict[str, object] = {"place": np.arange(rows.num_rows, dtype=np.int64)}
    for at, name in enumerate(order):
        columns |= {f"known {at}": pc.is_valid(rows.column(name)), f"order {at}": rows.column(name)}
    by = [(f"{what} {at}", "ascending") for at in range(len(order)) for what in ("known", "order")]
    return pc.sort_indices(pa.table(columns), sort_keys=[*by, ("place", "ascending")])
