"""Records as numpy columns: the places of their parts in a buffer, for all records at once. Knows
no Arrow, and not the origin of the buffer.
"""

from typing import Any, NamedTuple

import numpy as np

from raftka.limits import HEADERS_OF_RECORD
from raftka.pipeline.records.batches import Portion, append_times
from raftka.wire.errors import ProtocolError

Ints = Any  # a numpy array of int64


class Fields(NamedTuple):
    """Byte strings of a buffer: where they begin and how long they are; below 0 there is none."""

    starts: Ints
    sizes: Ints


class Headers(NamedTuple):
    """The headers of all records, in their order; `counts` has one number for each record."""

    counts: Ints
    names: Fields
    values: Fields


class Columns(NamedTuple):
    keys: Fields
    values: Fields
    offsets: Ints
    timestamps: Ints  # ms
    timestamp_types: Ints  # 1: set by the broker
    headers: Headers


def columns(portion: Portion) -> Columns:
    """Raises ProtocolError or IndexError for records that are none."""
    data = np.frombuffer(portion.data, np.uint8)
    heads = np.array(portion.heads, np.int64)
    sizes, at = varints(data, heads, 32)
    stops = at + sizes
    timestamps, at = varints(data, at + 1, 64)
    offsets, at = varints(data, at, 32)
    keys, at = _fields(data, at)
    values, at = _fields(data, at)
    counts, at = varints(data, at, 32)
    headers, at = _headers(data, counts, at)
    if not np.array_equal(at, stops):
        raise ProtocolError("a record does not end where its size says")
    _of_batches(portion, offsets, timestamps)
    return Columns(
        keys,
        values,
        offsets,
        timestamps,
        _each(portion, append_times(portion.headers)).astype(np.int32),
        headers,
    )


def varints(data: "Ints", at: Ints, bits: int) -> tuple[Ints, Ints]:
    """Zigzag varints at these places, and the places behind them. Raises IndexError at the end of
    the buffer, ProtocolError when one does not end.
    """
    byte = data[at]
    value = (byte & 127).astype(np.uint64)
    after = at + 1
    more = np.flatnonzero(byte > 127)
    shift = 7
    while more.size:
        if shift >= bits:
            raise ProtocolError(f"a varint of more than {shift // 7} bytes")
        places = after[more]
        byte = data[places]
        value[more] |= (byte & 127).astype(np.uint64) << np.uint64(shift)
        after[more] = places + 1
        more = more[byte > 127]
        shift += 7
    if bits == 32:
        value &= np.uint64(0xFFFFFFFF)
    return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(
        np.int64
    ), after


def _fields(data: object, at: Ints) -> tuple[Fields, Ints]:
    sizes, starts = varints(data, at, 32)
    return Fields(starts, sizes), starts + np.maximum(sizes, 0)


def _headers(data: object, counts: Ints, at: Ints) -> tuple[Headers, Ints]:
    """The first header of all records that have one, then the second, ...; put into the records'
    order at the end.
    """
    left = np.flatnonzero(counts)
    if left.size and (counts.min() < 0 or counts.max() > HEADERS_OF_RECORD.value):
        raise ProtocolError(
            f"a record with {counts.min()} to {counts.max()} headers", HEADERS_OF_RECORD
        )
    rows, names, values = [], [], []
    turn = 1
    while left.size:
        name, after = _fields(data, at[left])
        if (name.sizes < 0).any():
            raise ProtocolError("a record header without a name")
        value, at[left] = _fields(data, after)
        rows.append(left)
        names.append(name)
        values.append(value)
        left = left[counts[left] > turn]
        turn += 1
    order = np.argsort(np.concatenate(rows), kind="stable") if rows else np.empty(0, np.int64)
    return Headers(counts, _ordered(names, order), _ordered(values, order)), at


def _ordered(fields: list[Fields], order: Ints) -> Fields:
    if not fields:
        return Fields(order, order)
    return Fields(
        np.concatenate([each.starts for each in fields])[order],
        np.concatenate([each.sizes for each in fields])[order],
    )


def _each(portion: Portion, of_batches: list[Ints]) -> Ints:
    """A value of a batch for each of its records."""
    return np.repeat(np.array(of_batches), [header.count for header in portion.headers])


def _of_batches(portion: Portion, offsets: Ints, timestamps: Ints) -> None:
    """Turn deltas into values. Timestamps overflow as Java's do."""
    offsets += _each(portion, [header.base_offset for header in portion.headers])
    timestamps += _each(portion, [header.base_timestamp for header in portion.headers])
    if any(append_times(portion.headers)):
        set_by_broker = _each(portion, append_times(portion.headers))
        timestamps[set_by_broker] = _each(
            portion, [header.max_timestamp for header in portion.headers]
        )[set_by_broker]
