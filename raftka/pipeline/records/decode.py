"""Record batches to Arrow: the columns of Spark's Kafka source, a million rows a second on one
core. Knows no connection and no Spark.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from raftka.pipeline.errors import CorruptBatch
from raftka.pipeline.records.batches import AbortedTransaction, Fetched
from raftka.pipeline.records.columns import Columns, Fields, Headers, columns
from raftka.runtime.interfaces import Buffer
from raftka.wire.errors import ProtocolError

HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
    ]
)
SCHEMA_WITH_HEADERS = SCHEMA.append(pa.field("headers", pa.list_(HEADER)))
US_OF_MS = 1000
LARGEST_MS = (2**63 - 1) // US_OF_MS  # in Spark's timestamps


class Decoder:
    """Decodes one partition. Offsets below `start`, or not below `stop`, give no row; `next_offset`
    is the offset of the next fetch.
    """

    def __init__(
        self,
        records: Buffer,
        topic: str,
        partition: int,
        start: int,
        stop: int,
        *,
        aborted: Iterable[AbortedTransaction] | None = None,
        headers: bool = False,
    ) -> None:
        """Decode the batches of a fetch answer. `aborted`: the transactions of a read_committed
        answer; None reads uncommitted records too. Raise CorruptBatch.
        """
        self._topic, self._partition, self._start, self._stop = topic, partition, start, stop
        self._with_headers = headers
        self._fetched = Fetched(records, f"{topic}-{partition}", start, stop, aborted)
        self.next_offset = min(self._fetched.next_offset, stop)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Arrow batches with rows. Raises CorruptBatch."""
        for portion in self._fetched.portions():
            if not portion.heads:
                continue
            try:
                found = columns(portion)
            except (ProtocolError, IndexError):
                raise self._fetched.explain() from None
            batch = self._arrow(pa.py_buffer(portion.data), found)
            inside = (found.offsets >= self._start) & (found.offsets < self._stop)
            if not inside.all():
                batch = batch.filter(pa.array(inside))
            if batch.num_rows:
                yield batch

    def _arrow(self, data: object, found: Columns) -> pa.Array:
        count = len(found.offsets)
        arrays = [
            byte_strings(data, found.keys),
            byte_strings(data, found.values),
            repeated(self._topic.encode(), count),
            pa.array(np.full(count, self._partition, np.int32)),
            pa.array(found.offsets),
            self._timestamps(found),
            pa.array(found.timestamp_types),
        ]
        if self._with_headers:
            arrays.append(header_lists(data, found.headers))
        return pa.RecordBatch.from_arrays(
            arrays, schema=SCHEMA_WITH_HEADERS if self._with_headers else SCHEMA
        )

    def _timestamps(self, found: Columns) -> pa.Array:
        wrong = np.flatnonzero((found.timestamps > LARGEST_MS) | (found.timestamps < -LARGEST_MS))
        if wrong.size:
            offset, timestamp = int(found.offsets[wrong[0]]), int(found.timestamps[wrong[0]])
            raise CorruptBatch(
                f"{self._topic}-{self._partition}: the record at offset {offset} has the "
                f"timestamp {timestamp} ms, which Spark has none for. "
                f"To give it up, start from offset {offset + 1}"
            )
        return pa.array(found.timestamps * US_OF_MS).cast(pa.timestamp("us", "UTC"))


def byte_strings(data: object, fields: Fields) -> pa.Array:
    """Return fields of a buffer, in ascending order, as Arrow strings: first with the bytes between
    them, without a copy; `take` copies.
    """
    starts, sizes = fields
    count = len(starts)
    if not count:
        return pa.array([], pa.binary())
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = starts
    bounds[1::2] = starts + np.maximum(sizes, 0)
    everything = pa.Array.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), data]
    )
    missing = sizes < 0
    return everything.take(
        pa.array(np.arange(0, 2 * count, 2, np.int32), mask=missing if missing.any() else None)
    )


def repeated(text: bytes, count: int) -> pa.Array:
    bounds = (
        np.arange(0, (count + 1) * len(text), len(text), np.int32)
        if text
        else np.zeros(count + 1, np.int32)
    )
    return pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(bounds), pa.py_buffer(text * count)]
    )


def header_lists(data: object, headers: Headers) -> pa.Array:
    """As Spark's Kafka source has them: null for a record without any."""
    names = as_text(byte_strings(data, headers.names))
    items = pa.StructArray.from_arrays(
        [names, byte_strings(data, headers.values)], fields=list(HEADER)
    )
    bounds = np.zeros(len(headers.counts) + 1, np.int32)
    np.cumsum(headers.counts, out=bounds[1:])
    return pa.ListArray.from_arrays(pa.array(bounds), items, mask=pa.array(headers.counts == 0))


def as_text(names: pa.Array) -> pa.Array:
    """Replace invalid UTF-8 by U+FFFD, as Java does."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.as_py().decode("utf-8", "replace") for name in names], pa.string())
