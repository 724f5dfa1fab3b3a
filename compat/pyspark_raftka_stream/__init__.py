"""`format("raftka_stream")` of Spark, which looks for modules named pyspark_*: a stream that
`streams.yml` declares, for the flows of a project. Its records are fetched and decoded once for all
of them. The code behind it is in raftka/pipeline.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from pyspark_raftka import StreamReader, Task
from raftka.json_values import JsonObject
from raftka.pipeline.errors import OptionRefused
from raftka.pipeline.flows.frames import PACKED
from raftka.pipeline.flows.streams import StreamSpec, decoder_of, digest_of, load
from raftka.pipeline.lake import record_batches
from raftka.pipeline.projects.trucks.library.truck_states import TruckPacking, packing_of
from raftka.pipeline.records.decode import SCHEMA, SCHEMA_WITH_HEADERS
from raftka.pipeline.records.decoding import TEXT
from raftka.pipeline.records.fields import spark_json
from raftka.pipeline.topics.options import source_options, truth
from raftka.pipeline.topics.planning import Range
from raftka.pipeline.topics.shared import (
    BAD,
    RAW,
    RECORD,
    SHARED_BYTES,
    Shared,
    names_of,
    read_shared,
)

if TYPE_CHECKING:
    import pyarrow as pa

OURS = "stream."


class DefaultSource(DataSource):  # type: ignore[misc]
    """Options are those of format("raftka") and these. stream.file, stream.name and stream.digest
    name a stream; stream.rows says which of its rows are wanted. stream.packing, or stream.batches
    with the columns whose largest values stay, put many rows into one.
    """

    @classmethod
    def name(cls) -> str:
        return "raftka_stream"

    def schema(self) -> StructType:
        newest = self._batches()
        return self._rows() if newest is None else record_batches.batch_schema(self._rows(), newest)

    def _rows(self) -> StructType:
        rows = self._own("rows")
        if rows == RAW:
            return from_arrow_schema(
                SCHEMA_WITH_HEADERS if truth(self._options(), "includeHeaders", False) else SCHEMA
            )
        record = from_arrow_schema(SCHEMA_WITH_HEADERS)
        if rows == BAD:
            return StructType([record["key"], record["value"], record["headers"]])
        fields = StructType.fromJson(spark_json(self._stream().fields or TEXT))
        every = StructType(
            [*fields, *(StructField(f"_{name}", record[name].dataType) for name in RECORD)]
        )
        packing = self._packing()
        return every if packing is None else StructType([*PACKED, every[packing.at]])

    def streamReader(self, schema: StructType) -> "SharedReader":
        stream, options = self._stream(), self._options()
        fetched, decoded = names_of(options, self._own("digest"))
        source = source_options(options, streaming=True)
        return SharedReader(
            Shared(source, decoder_of(stream), self._own("rows"), fetched, decoded),
            self._packing(),
            self._batches(),
        )

    def _stream(self) -> StreamSpec:
        """Load the declaration of the stream. Raises OptionRefused when it has changed: the query
        has the columns that were declared before.
        """
        path = Path(self._own("file"))
        stream = load(path).stream(self._own("name"))
        if digest_of(stream) != self._own("digest"):
            raise OptionRefused(
                f"{path} declares {stream.name} otherwise than when this pipeline began. Next "
                "step: start the pipeline anew, or undo the change"
            )
        return stream

    def _packing(self) -> TruckPacking | None:
        return packing_of(self._own("packing")) if OURS + "packing" in self.options else None

    def _batches(self) -> tuple[str, ...] | None:
        """Return the columns whose largest values stay; None: rows come one by one."""
        return tuple(self._own("batches").split()) if OURS + "batches" in self.options else None

    def _own(self, name: str) -> str:
        return str(self.options[OURS + name])

    def _options(self) -> dict[str, str]:
        return {
            name.lower(): value
            for name, value in self.options.items()
            if not name.lower().startswith(OURS)
        }


class SharedReader(StreamReader):
    def __init__(
        self, shared: Shared, packing: TruckPacking | None, newest: tuple[str, ...] | None
    ) -> None:
        """`newest`: columns whose largest value comes with each record batch; None: the rows are
        single.
        """
        super().__init__(shared.source)
        self._shared, self._packing, self._newest = shared, packing, newest

    def __getstate__(self) -> JsonObject:
        return {
            **super().__getstate__(),
            "_shared": self._shared,
            "_packing": self._packing,
            "_newest": self._newest,
        }

    def partitions(self, start: JsonObject, end: JsonObject) -> list[InputPartition]:
        tasks = self._stream.tasks(start, end)
        limit = SHARED_BYTES // max(
            1, len({(each.topic, each.partition) for ranges in tasks for each in ranges})
        )
        return [SharedTask(ranges, limit) for ranges in tasks]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        assert isinstance(partition, SharedTask)
        rows = read_shared(self._shared, partition.ranges, partition.limit)
        if self._newest is not None:
            return record_batches.pack(rows, self._newest)
        return rows if self._packing is None else self._packing.rows(rows, timed=True)


class SharedTask(Task):
    def __init__(self, ranges: tuple[Range, ...], limit: int) -> None:
        super().__init__(ranges)
        self.limit = limit
