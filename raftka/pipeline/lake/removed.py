"""Notes on removed rows of a lake, and on the changes that removed them, so that an older change
that comes later does not bring them back.

It is a Delta table in a folder of the lake that no reader looks at; where the user names an
`order`, there is a second one for removals without one, by their offsets. The driver notes what a
batch removes before it merges the batch: noted twice counts once, and a batch that dies behind the
note is done again, with the same rows. A row is forgotten after the lake's `keepRemoved`; where
more than ROWS are noted, those that were removed first are.
"""

import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from raftka.pipeline.connect.options import Keyed
from raftka.pipeline.lake.files import explained
from raftka.pipeline.lake.options import Lake
from raftka.pipeline.lake.order import POSITIONS, last_of_keys
from raftka.pipeline.lake.table import opened

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

FOLDER, FOLDER_BARE = "_raftka_removed", "_raftka_removed_by_offset"
# columns of merged rows: the row goes; it is a bare removal, or stands behind one (`order.py`)
FLAG, BEHIND = "raftka delete", "raftka behind"
NUMBER = "raftka number"
AT = "_raftka_removed_at"
ROWS = 1_000_000
FILES = 20  # small ones; then they become one

log = logging.getLogger(__name__)


class Compared(NamedTuple):
    """Changes are compared where these columns are the same, by the order."""

    same: tuple[str, ...]
    order: str
    folder: str = FOLDER
    bare: bool = False  # removals without an `order` of the user's, by their offsets


def compared(keyed: Keyed, columns: Collection[str]) -> tuple[Compared, ...]:
    """Empty: nothing says which of two changes is the older one. Offsets are compared within a
    partition of one topic.
    """
    if keyed.delete is None:
        return ()
    by_order = () if keyed.order is None else (Compared(keyed.key, keyed.order),)
    for topic, partition, offset in POSITIONS:
        if partition in columns and offset in columns:
            elsewhere = [each for each in (topic, partition) if each in columns]
            same = (*keyed.key, *(each for each in elsewhere if each not in keyed.key))
            return (
                *by_order,
                Compared(same, offset, FOLDER_BARE, bare=True)
                if by_order
                else Compared(same, offset),
            )
    return by_order


def without_older(lake: Lake, changes: "pa.Table") -> "pa.Table":
    """The changes but those that are older than the removal of their row. Raises PipelineError."""
    for by in _compared(lake, changes):
        noted = _noted(lake, changes, by)
        if noted is not None:
            changes = _without_older(lake, changes, by, noted)
    return changes


def _without_older(lake: Lake, changes: "pa.Table", by: Compared, noted: "pa.Table") -> "pa.Table":
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in by.same:
        noted = noted.filter(pc.is_in(noted.column(name), changes.column(name).combine_chunks()))
    if not noted.num_rows:
        return changes
    numbered = changes.append_column(NUMBER, pa.array(range(changes.num_rows), pa.int64()))
    asked = numbered.filter(_has(changes, by.same))
    wanted = [*by.same, by.order]
    places = last_of_keys(
        pa.concat_tables([noted.select(wanted), asked.select(wanted)]), by.same, (by.order,)
    )
    newest = pc.subtract(places.filter(pc.greater_equal(places, noted.num_rows)), noted.num_rows)
    older = pc.and_(
        pc.is_in(numbered.column(NUMBER), asked.column(NUMBER).combine_chunks()),
        pc.invert(
            pc.is_in(numbered.column(NUMBER), asked.column(NUMBER).take(newest).combine_chunks())
        ),
    )
    if not by.bare:  # a bare removal, or one that such a change is behind, counts in any case
        goes = changes.schema.get_field_index(FLAG)
        changes = changes.set_column(goes, FLAG, pc.or_(changes.column(FLAG), older))
        older = pc.and_(older, pc.invert(changes.column(BEHIND)))
    if left := pc.sum(older).as_py():
        log.info(
            "the lake %s: %d changes are older than the removal of their rows, and are left out",
            lake.url,
            left,
        )
    return changes.filter(pc.invert(older))


def _has(changes: "pa.Table", columns: Sequence[str]) -> "pa.ChunkedArray":
    """Return for each row whether it has values in all of the columns."""
    import pyarrow.compute as pc

    return reduce(pc.and_, [pc.is_valid(changes.column(each)) for each in columns])


def note_removed(lake: Lake, changes: "pa.Table") -> None:
    """Raises PipelineError."""
    for by in _compared(lake, changes):
        gone = changes.filter(
            changes.column(BEHIND if by.bare else FLAG)
        )  # a bare removal has also removed the rows before it, where another row follows
        gone = gone.filter(_has(gone, [*by.same, by.order]))
        if gone.num_rows:
            _note(lake, changes, by, _stamped(gone.select([*by.same, by.order])))


def _note(lake: Lake, changes: "pa.Table", by: Compared, rows: "pa.Table") -> None:
    from deltalake import write_deltalake

    place = _place(lake, by)
    with explained(lake):
        table = opened(place)
        # another key or order: what was noted says nothing of it
        if table is None or not _fits(table, changes, by):
            write_deltalake(
                place.url,
                rows,
                mode="overwrite",
                schema_mode="overwrite",
                storage_options=dict(place.storage) or None,
            )
        else:
            write_deltalake(table, rows, mode="append")
            if len(table.file_uris()) > FILES:
                _rewrite(lake, table, by)


def _compared(lake: Lake, changes: "pa.Table") -> tuple[Compared, ...]:
    return (
        ()
        if lake.keyed is None or not lake.keep_removed_s
        else compared(lake.keyed, changes.column_names)
    )


def _place(lake: Lake, by: Compared) -> Lake:
    return replace(
        lake, url=f"{lake.url.rstrip('/')}/{by.folder}", keyed=None, partition_by=(), z_order_by=()
    )


def _now() -> datetime:
    return datetime.fromtimestamp(time.time_ns() // 1_000_000_000, UTC)


def _stamped(rows: "pa.Table") -> "pa.Table":
    import pyarrow as pa

    return rows.append_column(AT, pa.array([_now()] * rows.num_rows, pa.timestamp("us", "UTC")))


def _noted(lake: Lake, changes: "pa.Table", by: Compared) -> "pa.Table | None":
    """Return the noted removals that are not forgotten, in the types of the changes."""
    import pyarrow as pa

    with explained(lake):
        table = opened(_place(lake, by))
        if table is None or not _fits(table, changes, by):
            return None
        found = _unforgotten(lake, table, by)
        return found.cast(
            pa.schema(
                [changes.schema.field(each) for each in found.column_names if each != AT]
                + [found.schema.field(AT)]
            )
        )


def _fits(table: "DeltaTable", changes: "pa.Table", by: Compared) -> bool:
    import pyarrow as pa
    from deltalake import Schema

    wanted = Schema.from_arrow(
        pa.schema([changes.schema.field(each) for each in (*by.same, by.order)])
    )
    there = {each.name: each.type for each in table.schema().fields if each.name != AT}
    return there == {each.name: each.type for each in wanted.fields}


def _unforgotten(lake: Lake, table: "DeltaTable", by: Compared) -> "pa.Table":
    import pyarrow.compute as pc

    found = table.to_pyarrow_table(columns=[*by.same, by.order, AT])
    return found.filter(
        pc.greater_equal(found.column(AT), _now() - timedelta(seconds=lake.keep_removed_s))
    )


def _rewrite(lake: Lake, table: "DeltaTable", by: Compared) -> None:
    """Keep the last removal of each row. This is no part of a batch: after a failure it is tried
    with the next one.
    """
    from deltalake import write_deltalake

    try:
        found = _unforgotten(lake, table, by).sort_by(AT)
        if found.num_rows > ROWS:
            log.warning(
                "the lake %s: more than %d rows were removed in %d s; the first ones are forgotten",
                lake.url,
                ROWS,
                lake.keep_removed_s,
            )
        kept = found.take(last_of_keys(found, by.same, (by.order,)))[-ROWS:]
        write_deltalake(table, kept, mode="overwrite")
        table.create_checkpoint()
        table.cleanup_metadata()
        table.vacuum(dry_run=False)
    except Exception as error:
        log.warning(
            "the rows that were removed from the lake %s could not be written anew: %s",
            lake.url,
            error,
        )
