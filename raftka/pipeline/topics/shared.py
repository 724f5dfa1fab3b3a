"""A declared stream as several flows read it: its records are fetched once and decoded once on a
machine, and each flow takes its rows of them. Knows Arrow, and no Spark.

    fetched    the records as they are          files, by the source's options
    decoded    their fields, or the error      files, by the stream's declaration too
    rows       RAW: the first ones. GOOD: those with fields. BAD: the others, as dead letters

Offsets, checkpoints and batches are each flow's own: only the work is shared.
"""

import hashlib
import json
import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raftka.pipeline.records.arrow_types import ERROR
from raftka.pipeline.records.decode import HEADER
from raftka.pipeline.records.decoding import Decoder
from raftka.pipeline.topics.brokers import Brokers
from raftka.pipeline.topics.options import SourceOptions
from raftka.pipeline.topics.planning import Range
from raftka.pipeline.topics.reader import read
from raftka.pipeline.topics.shared_columns import Make, SharedColumns
from raftka.pipeline.topics.source import brokers_of

RAW, GOOD, BAD = "raw", "good", "bad"
# of each record, with _ before it beside its fields
RECORD = ("topic", "partition", "offset", "timestamp", "key")
SHARED_BYTES = 256 << 20  # of fetched records, and of decoded ones, of all partitions
# Spark's folders for files of its workers; they are removed with the executor
FOLDERS = "SPARK_LOCAL_DIRS"
# options that change records or leave some out, beside all of kafka.*
PLANS = ("includeheaders", "failondataloss")


@dataclass(frozen=True, slots=True)
class Shared:
    source: SourceOptions
    decoder: Decoder
    rows: str  # RAW, GOOD or BAD
    fetched: str  # names of shared columns
    decoded: str


def names_of(options: Mapping[str, str], declaration: str) -> tuple[str, str]:
    """Return the names of records fetched with these options, and of records decoded as declared.
    They are hashes: they show no secret of the options.
    """
    told = sorted(
        (name.lower(), value)
        for name, value in options.items()
        if name.lower().startswith("kafka.") or name.lower() in PLANS
    )
    fetched = hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]
    return fetched, hashlib.sha256(f"{fetched} {declaration}".encode()).hexdigest()[:32]


def read_shared(shared: Shared, ranges: Iterable[Range], limit: int) -> Iterator[pa.RecordBatch]:
    """Return the Arrow batches of one task. `limit`: bytes that a partition's shared rows may take.
    Raise PipelineError.
    """
    brokers, gone = brokers_of(shared.source), set[str]()
    for each in ranges:
        for batch in _Reading(shared, brokers, each, limit, gone).rows():
            rows = shape(batch, shared.rows)
            if rows.num_rows:
                yield rows


class _Reading:
    def __init__(
        self, shared: Shared, brokers: Brokers, wanted: Range, limit: int, gone: set[str]
    ) -> None:
        self._shared, self._brokers, self._wanted, self._limit = shared, brokers, wanted, limit
        self._gone = gone

    def rows(self) -> Iterator[pa.RecordBatch]:
        fetched = self._columns(self._shared.fetched)
        if self._shared.rows == RAW:
            return self._from(fetched, self._fetch)

        def decode(start: int, stop: int) -> Generator[pa.RecordBatch]:
            source = (
                self._fetch(start, stop)
                if fetched is None
                else fetched.rows(start, stop, self._fetch)
            )
            return (decoded(batch, self._shared.decoder) for batch in source)

        return self._from(self._columns(self._shared.decoded), decode)

    def _from(self, columns: SharedColumns | None, make: Make) -> Iterator[pa.RecordBatch]:
        start, stop = self._wanted.start, self._wanted.stop
        return make(start, stop) if columns is None else columns.rows(start, stop, make)

    def _fetch(self, start: int, stop: int) -> Generator[pa.RecordBatch]:
        yield from read(
            self._brokers,
            self._wanted._replace(start=start, stop=stop),
            self._shared.source,
            self._gone,
        )

    def _columns(self, name: str) -> SharedColumns | None:
        """Return the shared columns of the partition. None: there is no folder for them, or no
        topic id, without which they could be those of an older topic of the same name.
        """
        folders = os.environ.get(FOLDERS, "").split(",")
        if not folders[0] or not self._wanted.topic_id:
            return None
        return SharedColumns(
            Path(folders[0])
            / "raftka"
            / name
            / f"{self._wanted.topic_id}-{self._wanted.partition}",
            self._limit,
        )


def decoded(batch: pa.RecordBatch, decoder: Decoder) -> pa.RecordBatch:
    """Return the records with their fields, and with the values of those that do not fit."""
    fields = decoder.columns(decoder.input_of(batch))
    errors = fields.field(ERROR)
    values = batch.column("value")
    if errors.null_count:
        empty = pa.nulls(batch.num_rows, pa.binary())
        values = (
            empty
            if errors.null_count == batch.num_rows
            else pc.if_else(errors.is_valid(), values, empty)
        )
    names = ["value", *RECORD, "_decoded"]
    return pa.RecordBatch.from_arrays(
        [values, *(batch.column(name) for name in RECORD), fields], names=names
    )


def shape(batch: pa.RecordBatch, rows: str) -> pa.RecordBatch:
    if rows == RAW:
        return batch
    fits = batch.column("_decoded").field(ERROR).is_null()
    if rows == GOOD:
        return _good(batch if fits.true_count == batch.num_rows else batch.filter(fits))
    return _bad(batch.filter(pc.invert(fits)))


def _good(batch: pa.RecordBatch) -> pa.RecordBatch:
    fields = batch.column("_decoded")
    names = [field.name for field in fields.type if field.name != ERROR]
    arrays = [*(fields.field(name) for name in names), *(batch.column(name) for name in RECORD)]
    return pa.RecordBatch.from_arrays(arrays, names=[*names, *(f"_{name}" for name in RECORD)])


def _bad(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return dead letters: the records as they were, with headers for the place and the error."""
    texts = {
        "topic": batch.column("topic"),
        "partition": batch.column("partition"),
        "offset": batch.column("offset"),
        "timestamp": batch.column("timestamp").cast(pa.int64()),
        "error": batch.column("_decoded").field(ERROR),
    }
    texts["timestamp"] = pc.floor(pc.divide(texts["timestamp"].cast(pa.float64()), 1000.0)).cast(
        pa.int64()
    )
    count, width = batch.num_rows, len(texts)
    values = pa.concat_arrays([each.cast(pa.string()).cast(pa.binary()) for each in texts.values()])
    in_turns = pa.array(np.arange(count * width).reshape(width, count).T.ravel())
    items = pa.StructArray.from_arrays(
        [pa.array(list(texts) * count, pa.string()), values.take(in_turns)], fields=list(HEADER)
    )
    headers = pa.ListArray.from_arrays(
        pa.array(np.arange(0, (count + 1) * width, width, np.int32)), items
    )
    return pa.RecordBatch.from_arrays(
        [batch.column("key"), batch.column("value"), headers], names=["key", "value", "headers"]
    )
