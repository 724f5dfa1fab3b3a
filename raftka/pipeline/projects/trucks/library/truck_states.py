"""Many positions of many trucks as one row, before Spark sends rows from task to task: Python's
state costs some 20 us for each row and 1 ms for each key, whatever is in them.

A *bucket* is the trucks whose keys have one checksum: the key of Spark's state. A *pack* is an
Arrow table, as bytes, of rows of a bucket that a task has at hand. A bucket may have several packs
in a batch: `together` joins them behind what is known. Knows Arrow and NumPy, and no Spark.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np

from raftka.pipeline.flows.fences import Fence, Ring
from raftka.pipeline.flows.packing import BUCKET, PACK

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

ROWS = 100_000  # of a task at a time
BUCKETS = 32  # all checkpoints count on it
TRUCK, AT, INSIDE, ROW = "truck", "at_us", "inside", "row"  # columns of packs


class TruckPacking(NamedTuple):
    """Rows of trucks as packs. Without `numbers`: the newest row of each key stays as it is."""

    key: str
    at: str
    numbers: tuple[str, ...] = ()
    fences: tuple[Fence, ...] = ()

    def rows(
        self, batches: "Iterable[pa.RecordBatch]", *, timed: bool = False
    ) -> "Iterator[pa.RecordBatch]":
        """Return a row for each bucket. `timed`: with the newest time of each pack, in the column
        of times.
        """
        for table in portions(batches):
            rows = positions(table, self) if self.numbers else newest(table, self.key, self.at)
            if rows.num_rows:
                yield _in_buckets(
                    rows, {self.at: table.schema.field(self.at).type} if timed else {}
                )

    def as_json(self) -> str:
        return json.dumps(
            [self.key, self.at, self.numbers, [[each.name, each.rings] for each in self.fences]]
        )


def packing_of(text: str) -> TruckPacking:
    key, at, numbers, fences = json.loads(text)
    shapes = tuple(
        Fence(name, tuple(tuple((x, y) for x, y in ring) for ring in rings))
        for name, rings in fences
    )
    return TruckPacking(key, at, tuple(numbers), shapes)


# before the shuffle: for tasks


def portions(batches: "Iterable[pa.RecordBatch]", rows: int = ROWS) -> "Iterator[pa.Table]":
    """Return tables of about so many rows."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= rows:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def newest(table: "pa.Table", key: str, at: str) -> "pa.Table":
    """Return the newest row of each key; of rows of one time the first one. Rows without a time are
    left out.
    """
    import pyarrow as pa

    there = table.filter(table.column(at).is_valid())
    groups, times = encoded(there.column(key))[0], microseconds(there.column(at))
    order = np.lexsort((-np.arange(len(times)), times, groups))
    rows = there.take(order[np.flatnonzero(np.diff(groups[order], append=-1))])
    return pa.table(
        {TRUCK: rows.column(key), AT: microseconds(rows.column(at)), ROW: rows.to_struct_array()}
    )


def positions(table: "pa.Table", packing: TruckPacking) -> "pa.Table":
    """Return the key, the time and `numbers` of each row, and where there are fences, the names of
    those around it. Numbers that are null are NaN. Rows without a time, or without one of the first
    two numbers, which are the place, are left out.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    there = pc.and_(
        table.column(packing.at).is_valid(),
        pc.and_(*(table.column(name).is_valid() for name in packing.numbers[:2])),
    )
    rows = table.filter(there)
    values = {
        name: rows.column(name).cast(pa.float64()).to_numpy().astype(np.float64)
        for name in packing.numbers
    }
    columns = {TRUCK: rows.column(packing.key), AT: microseconds(rows.column(packing.at)), **values}
    if packing.fences:
        latitudes, longitudes = (values[name] for name in packing.numbers[:2])
        columns[INSIDE] = _names(packing.fences, inside(packing.fences, longitudes, latitudes))
    return pa.table(columns)


def _names(fences: Sequence[Fence], found: "NDArray[np.bool_]") -> "pa.Array":
    """Return sorted names as JSON, made once for all positions inside the same fences."""
    import pyarrow as pa

    masks = np.packbits(found, axis=1)
    width = masks.shape[1]
    distinct = pa.Array.from_buffers(
        pa.binary(width), len(masks), [None, pa.py_buffer(masks)]
    ).dictionary_encode()
    bits = [
        np.unpackbits(np.frombuffer(each, np.uint8), count=len(fences))
        for each in distinct.dictionary.to_pylist()
    ]
    texts = [
        json.dumps(sorted({fence.name for fence, is_in in zip(fences, each, strict=True) if is_in}))
        for each in bits
    ]
    return pa.DictionaryArray.from_arrays(distinct.indices, pa.array(texts, pa.string())).cast(
        pa.string()
    )


def inside(
    fences: Sequence[Fence], longitudes: "NDArray[np.float64]", latitudes: "NDArray[np.float64]"
) -> "NDArray[np.bool_]":
    """Return `Fence.holds` as a row for each position and a column for each fence."""
    found = np.zeros((len(longitudes), len(fences)), np.bool_)
    for at, fence in enumerate(fences):
        for ring in fence.rings:
            found[:, at] ^= _crossed(ring, longitudes, latitudes)
    return found


def _crossed(ring: Ring, x: "NDArray[np.float64]", y: "NDArray[np.float64]") -> "NDArray[np.bool_]":
    odd = np.zeros(len(x), np.bool_)
    for (x1, y1), (x2, y2) in zip(ring, ring[1:] + ring[:1], strict=True):
        if y1 != y2:
            odd ^= ((y1 > y) != (y2 > y)) & (x < (x2 - x1) * (y - y1) / (y2 - y1) + x1)
    return odd


def _in_buckets(rows: "pa.Table", timed: "dict[str, pa.DataType]") -> "pa.RecordBatch":
    import pyarrow as pa

    groups, trucks = encoded(rows.column(TRUCK))
    buckets = np.array([bucket_of(each) for each in trucks], np.uint8)[groups]
    order = np.argsort(buckets, kind="stable")
    found, first = np.unique(buckets[order], return_index=True)
    ordered = rows.take(order).combine_chunks()
    packs = [
        as_bytes(ordered.slice(begin, end - begin)) for begin, end in pairwise([*first, len(order)])
    ]
    columns = {BUCKET: pa.array(found, pa.int32()), PACK: pa.array(packs, pa.binary())}
    for name, kind in timed.items():
        last = np.maximum.reduceat(ordered.column(AT).to_numpy(), first)
        columns[name] = pa.array(last).cast(pa.timestamp("us", kind.tz)).cast(kind)
    return pa.RecordBatch.from_pydict(columns)


def bucket_of(truck: object) -> int:
    """Return the bucket of a truck, the same on all machines and for ever."""
    return crc32(str(truck).encode(errors="replace")) % BUCKETS


def encoded(values: "pa.ChunkedArray") -> "tuple[NDArray[np.int64], list[object]]":
    """Return a number for each value, null included, and the values that the numbers stand for."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = values.combine_chunks()
    found = pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
    numbered = pc.dictionary_encode(found, null_encoding="encode")
    return numbered.indices.to_numpy().astype(np.int64), numbered.dictionary.to_pylist()


def microseconds(times: "pa.ChunkedArray") -> "NDArray[np.int64]":
    import pyarrow as pa

    return times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64()).to_numpy()


def as_bytes(table: "pa.Table") -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    return bytes(sink.getvalue().to_pybytes())


def from_bytes(data: bytes) -> "pa.Table":
    import pyarrow as pa

    return pa.ipc.open_stream(data).read_all()


# behind it: for the state of a bucket


class Rows(NamedTuple):
    """Rows by truck and time. The first row of a truck is the known one, where there is one."""

    table: "pa.Table"
    is_known: "NDArray[np.bool_]"
    is_first: "NDArray[np.bool_]"  # of its truck

    @property
    def is_last(self) -> "NDArray[np.bool_]":
        return np.roll(self.is_first, -1)

    def last(self) -> "pa.Table":
        """Return the last row of each truck: the known ones of the next batch."""
        return self.table.filter(self.is_last)


def together(
    known: "pa.Table",
    packs: Iterable[bytes],
    after_us: "NDArray[np.int64]",
    place: Sequence[str] = (),
) -> Rows:
    """Return the known row of each truck, and the rows of packs later than its `after_us`; of rows
    of one time the first one, by their `place`.
    """
    import pyarrow as pa

    table = pa.concat_tables([known, *map(from_bytes, packs)], promote_options="permissive")
    groups, trucks = encoded(table.column(TRUCK))
    at_us, is_known = table.column(AT).to_numpy(), np.arange(table.num_rows) < known.num_rows
    after = np.full(len(trucks), -(2**63))
    after[groups[is_known]] = after_us
    there = np.flatnonzero(is_known | (at_us > after[groups]))
    order = there[np.lexsort((at_us[there], groups[there]))]
    if place and _repeats(groups[order], at_us[order]).any():
        places = [table.column(name).to_numpy()[there] for name in reversed(place)]
        order = there[np.lexsort((*places, at_us[there], groups[there]))]
    order = order[~_repeats(groups[order], at_us[order])]
    first = np.diff(groups[order], prepend=-1) != 0
    return Rows(table.take(order), is_known[order], first)


def _repeats(*columns: "NDArray[np.int64]") -> "NDArray[np.bool_]":
    """Return whether each row repeats the one before it."""
    return np.logical_and.reduce([np.diff(each, prepend=each[:1] - 1) == 0 for each in columns])
