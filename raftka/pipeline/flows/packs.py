"""Many positions of a truck as one row, before Spark sends rows from task to task: Python's state costs some 20 us for each row, whatever is in it.

A *pack* has a key and, for each column, its values in one piece of memory, in the order of time. It is made of the rows that a task has at hand, so a
truck may have several packs in a batch: `together` joins them. Knows Arrow and NumPy, and no Spark.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from raftka.pipeline.flows.fences import Fence, Ring
from raftka.pipeline.flows.watch import Reading, Rules, Watched

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

ROWS = 100_000  # of a task at a time


class Packing(NamedTuple):
    """How rows become few. Without `numbers`: the newest row of each key stays as it is."""

    key: str
    at: str
    numbers: tuple[str, ...] = ()
    fences: tuple[Fence, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Of packs, beside the key."""
        return ("at", *self.numbers, *(["inside"] if self.fences else []))

    def rows(self, batches: "Iterable[pa.RecordBatch]", *, timed: bool = False) -> "Iterator[pa.RecordBatch]":
        """`timed`: with the newest time of each pack, under the name that times have."""
        if not self.numbers:
            return newest(batches, self.key, self.at)
        return packed(batches, self.key, self.at, self.numbers, self.fences, timed=timed)

    def as_json(self) -> str:
        return json.dumps([self.key, self.at, self.numbers, [[each.name, each.rings] for each in self.fences]])


def packing_of(text: str) -> Packing:
    key, at, numbers, fences = json.loads(text)
    shapes = tuple(Fence(name, tuple(tuple((x, y) for x, y in ring) for ring in rings)) for name, rings in fences)
    return Packing(key, at, tuple(numbers), shapes)


class Columns(NamedTuple):
    """Rows of one truck, or of one task."""

    at_us: "NDArray[np.int64]"
    others: "tuple[NDArray[np.generic], ...]"  # of any width: an array of two dimensions has several values a row

    def take(self, places: "NDArray[np.generic]") -> "Columns":
        return Columns(self.at_us[places], tuple(each[places] for each in self.others))


# before the shuffle: for tasks


def portions(batches: "Iterable[pa.RecordBatch]", rows: int = ROWS) -> "Iterator[pa.Table]":
    """About so many rows each."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= rows:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def newest(batches: "Iterable[pa.RecordBatch]", key: str, at: str) -> "Iterator[pa.RecordBatch]":
    """The newest row of each key; of rows of one time the first one. Rows without a time are left out."""
    for table in portions(batches):
        there = table.filter(table.column(at).is_valid())
        groups, times = _groups(there.column(key)), microseconds(there.column(at))
        order = np.lexsort((-np.arange(len(times)), times, groups))
        last = np.flatnonzero(np.diff(groups[order], append=-2))
        yield from there.take(order[last]).combine_chunks().to_batches()


def packed(
    batches: "Iterable[pa.RecordBatch]", key: str, at: str, numbers: Sequence[str], fences: Sequence[Fence] = (), *, timed: bool = False
) -> "Iterator[pa.RecordBatch]":
    """A row of each key: the key, times, `numbers`, and where there are fences, which of them each position is in (a bit each). Numbers that are null
    are NaN. Rows without a time, or without one of the first two numbers, which are the place, are left out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for table in portions(batches):
        there = pc.and_(table.column(at).is_valid(), pc.and_(*(table.column(name).is_valid() for name in numbers[:2])))
        rows = table.filter(there)
        values = [rows.column(name).cast(pa.float64()).to_numpy().astype(np.float64) for name in numbers]
        columns: list[NDArray[np.generic]] = [microseconds(rows.column(at)), *values]
        if fences:
            columns.append(np.packbits(inside(fences, values[1], values[0]), axis=1))
        groups = _groups(rows.column(key))
        order = np.lexsort((columns[0], groups))
        first = np.flatnonzero(np.diff(groups[order], prepend=-2))
        keys = rows.column(key).take(order[first]).combine_chunks()
        keys = pa.concat_arrays(keys.chunks) if isinstance(keys, pa.ChunkedArray) else keys
        bounds = np.append(first, len(order))
        arrays = [keys, *(_pieces(each[order], bounds) for each in columns)]
        names = [key, "at", *numbers, *(["inside"] if fences else [])]
        if timed:
            times = rows.column(at).take(order[bounds[1:] - 1]).combine_chunks()
            arrays.append(pa.concat_arrays(times.chunks) if isinstance(times, pa.ChunkedArray) else times)
            names.append(at)
        yield pa.RecordBatch.from_arrays(arrays, names=names)


def _groups(keys: "pa.ChunkedArray") -> "NDArray[np.int64]":
    """A number for each key, -1 for null."""
    import pyarrow as pa

    found = keys.combine_chunks()
    found = pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
    return found.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)


def microseconds(times: "pa.ChunkedArray") -> "NDArray[np.int64]":
    import pyarrow as pa

    return times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64()).to_numpy()


def _pieces(values: "NDArray[np.generic]", bounds: "NDArray[np.int64]") -> "pa.Array":
    """The rows between these bounds as bytes."""
    import pyarrow as pa

    memory = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    width = len(memory) // max(1, len(values))
    offsets = pa.py_buffer((bounds * width).astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, offsets, pa.py_buffer(memory)])


def inside(fences: Sequence[Fence], longitudes: "NDArray[np.float64]", latitudes: "NDArray[np.float64]") -> "NDArray[np.bool_]":
    """As `Fence.holds`, a row for each position and a column for each fence."""
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


# behind it: for the state of one truck


def together(packs: Iterable[Mapping[str, bytes]], numbers: Sequence[str], after_us: int, width: int = 0) -> Columns:
    """All rows of a truck by time, those later than `after_us`; of rows of one time the first one. `width`: bytes of `inside` of a position."""
    found = list(packs)
    columns = [np.frombuffer(b"".join(bytes(each[name]) for each in found), np.float64) for name in numbers]
    at_us = np.frombuffer(b"".join(bytes(each["at"]) for each in found), np.int64)
    others: tuple[NDArray[np.generic], ...] = tuple(columns)
    if width:
        others = (*others, np.frombuffer(b"".join(bytes(each["inside"]) for each in found), np.uint8).reshape(-1, width))
    order = np.lexsort((*reversed(columns[:2]), at_us)) if width else np.argsort(at_us, kind="stable")
    rows = Columns(at_us, others).take(order)
    later = rows.at_us > after_us
    later[1:] &= rows.at_us[1:] > rows.at_us[:-1]
    return rows.take(later)


def turns(rows: Columns) -> "NDArray[np.int64]":
    """The first row, the last one, and those that are in other fences than the row before: no other one says anything."""
    masks = rows.others[-1]
    changed = np.ones(len(masks), np.bool_)
    changed[1:-1] = (masks[1:-1] != masks[:-2]).any(axis=1)
    return np.flatnonzero(changed)


def readings(rules: Rules, known: Watched | None, rows: Columns) -> list[Reading]:
    """Those that say something: the first and the last one, those where a truck becomes fast or slow, and so many others that no silence is between
    two of them unless it is one: the first and last one of each half of a silence's length."""
    latitudes, longitudes, speeds = rows.others
    kept = np.zeros(len(rows.at_us), np.bool_)
    kept[:1] = kept[-1:] = True
    if rules.speed_kmh is not None:
        fast = _filled(speeds > rules.speed_kmh, ~np.isnan(speeds), known is not None and known.is_fast)
        kept[1:] |= fast[1:] != fast[:-1]
    if rules.silent_us is not None:
        halves = rows.at_us // max(1, rules.silent_us // 2)
        edges = halves[1:] != halves[:-1]
        kept[1:] |= edges
        kept[:-1] |= edges
    places = np.flatnonzero(kept)
    columns = (each[places].tolist() for each in (rows.at_us, latitudes, longitudes, speeds))
    return [Reading(at_us, latitude, longitude, None if isnan(speed) else speed) for at_us, latitude, longitude, speed in zip(*columns, strict=True)]


def _filled(values: "NDArray[np.bool_]", known: "NDArray[np.bool_]", before: bool) -> "NDArray[np.bool_]":
    """The last known value at each place."""
    last = np.maximum.accumulate(np.where(known, np.arange(len(values)), -1)) if len(values) else np.zeros(0, np.int64)
    return np.where(last >= 0, values[last], before)
