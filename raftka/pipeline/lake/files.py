"""Parquet files of a Delta table, written and read by tasks, wherever the table is. Knows no log
and no Spark.

A task holds at most 64 MB of rows and a hundred open files; what it could not finish it removes
again.
"""

import logging
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from errno import ENOSPC
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from raftka.pipeline.errors import PipelineError
from raftka.pipeline.lake.dictionaries import repeating
from raftka.pipeline.lake.options import Lake, is_folder
from raftka.pipeline.lake.stats import statistics

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileSystem
    from pyarrow.parquet import FileMetaData, ParquetWriter

# in Arrow, of all files of a task; the largest is written out then, as a row group
BUFFERED_BYTES = 64 << 20
FILE_BYTES = 512 << 20  # about; then another one is begun
OPEN_FILES = 100
NULL = "__HIVE_DEFAULT_PARTITION__"  # as everybody names the folder

log = logging.getLogger(__name__)


class DataFile(NamedTuple):
    path: str  # from the table's root
    size: int
    records: int
    partition: Mapping[str, str | None]
    stats: str  # as the log has them


@contextmanager
def explained(lake: Lake) -> Iterator[None]:
    """Turn errors of the lake into PipelineError, with the next step."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (DeltaError, OSError) as error:
        if "no space left" in str(error).lower() or getattr(error, "errno", None) == ENOSPC:
            raise PipelineError(
                f"there is no space left for the lake {lake.url}. Nothing of this batch counts, "
                "and the checkpoint stays before it. Next step: make "
                "room, then start the query again"
            ) from error
        raise PipelineError(
            f"the lake {lake.url}: {error}. A batch that was to be written does not count; it is "
            "done again when the query is started again"
        ) from error


def files_of(lake: Lake) -> "FileSystem":
    """The table's root as a file system of Arrow's."""
    from deltalake.fs import DeltaStorageHandler
    from pyarrow.fs import PyFileSystem

    return PyFileSystem(DeltaStorageHandler(lake.url, dict(lake.storage) or None))


def plain_files_of(lake: Lake) -> "FileSystem":
    """Return the file system with the files that deltalake hides in folders: those that it was
    writing when it was killed (named `...#1`).
    """
    from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

    return SubTreeFileSystem(lake.url, LocalFileSystem()) if is_folder(lake) else files_of(lake)


def names_in(lake: Lake, folder: str) -> list[str]:
    from pyarrow.fs import FileSelector, FileType

    return [
        each.path
        for each in plain_files_of(lake).get_file_info(FileSelector(folder))
        if each.type == FileType.File
    ]


def remove(lake: Lake, paths: Collection[str]) -> None:
    """Files that are not in the log. That they can not be removed harms nothing."""
    files = plain_files_of(lake)
    for path in paths:
        try:
            files.delete_file(path)
        except Exception as error:
            log.warning(
                "%s in the lake %s, which is not in its log, could not be removed: %s",
                path,
                lake.url,
                error,
            )


def write_files(
    lake: Lake,
    schema: "pa.Schema",
    partition_by: Sequence[str],
    batches: "Iterable[pa.RecordBatch]",
    stem: str,
) -> tuple[DataFile, ...]:
    """Write rows into Parquet files, whose names begin with `stem`. Raise PipelineError."""
    if is_folder(lake) and not Path(lake.url).is_dir():  # the driver has made the table
        raise PipelineError(
            f"there is no folder {lake.url} on {gethostname()}, where a task is to write to it, "
            "and the driver has made the lake there. Nothing was "
            "added. Next step: a path that driver and all executors share, or an object store"
        )
    with explained(lake):
        writing = _Writing(lake, schema, partition_by, stem)
        try:
            for batch in batches:
                if batch.num_rows:
                    writing.add(batch.cast(schema))
            return writing.finish()
        except BaseException:
            writing.discard()
            raise


class _Writing:
    def __init__(
        self, lake: Lake, schema: "pa.Schema", partition_by: Sequence[str], stem: str
    ) -> None:
        import pyarrow as pa

        self._root = files_of(lake)
        self._partition_by, self._stem = list(partition_by), stem
        self._schema = pa.schema([each for each in schema if each.name not in partition_by])
        self._open: dict[tuple[str | None, ...], _File] = {}
        self._done: list[DataFile] = []

    def add(self, batch: object) -> None:
        for values, rows in split(batch, self._partition_by):
            if values not in self._open:
                if len(self._open) >= OPEN_FILES:
                    self._end(max(self._open, key=lambda each: self._open[each].records))
                self._open[values] = _File(
                    self._root,
                    self._schema,
                    dict(zip(self._partition_by, values, strict=True)),
                    self._stem,
                )
            self._open[values].add(rows.select(self._schema.names))
        while sum(each.buffered for each in self._open.values()) > BUFFERED_BYTES:
            largest = max(self._open, key=lambda each: self._open[each].buffered)
            self._open[largest].write_out()
            if self._open[largest].size > FILE_BYTES:
                self._end(largest)

    def finish(self) -> tuple[DataFile, ...]:
        for values in list(self._open):
            self._end(values)
        return tuple(self._done)

    def discard(self) -> None:
        paths = [each.close_quietly() for each in self._open.values()] + [
            each.path for each in self._done
        ]
        for path in paths:
            try:
                self._root.delete_file(path)
            except Exception:
                pass  # it may never have come to be; what stays is not in the log

    def _end(self, values: tuple[str | None, ...]) -> None:
        self._done.append(self._open[values].finish())
        del self._open[values]


class _File:
    def __init__(
        self,
        root: "FileSystem",
        schema: "pa.Schema",
        partition: Mapping[str, str | None],
        stem: str,
    ) -> None:
        folders = [
            f"{quote(name, safe='')}={NULL if value is None else quote(value, safe='')}/"
            for name, value in partition.items()
        ]
        self.path = f"{''.join(folders)}{stem}{secrets.token_hex(8)}.parquet"
        self.records = self.buffered = 0
        self._root, self._partition = root, partition
        self._waiting: list[pa.RecordBatch] = []
        self._finite = True
        self._footers: list[FileMetaData] = []
        self._schema = schema
        self._stream = root.open_output_stream(self.path)
        self._writer: ParquetWriter | None = None

    @property
    def size(self) -> int:
        return int(self._stream.tell())

    def add(self, rows: "pa.RecordBatch") -> None:
        self._waiting.append(rows)
        self.records += rows.num_rows
        self.buffered += rows.nbytes
        self._finite = self._finite and is_finite(rows)

    def write_out(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._waiting:
            if self._writer is None:
                self._writer = pq.ParquetWriter(
                    self._stream,
                    self._schema,
                    metadata_collector=self._footers,
                    use_dictionary=repeating(self._waiting),
                )
            rows = pa.Table.from_batches(self._waiting)
            self._waiting, self.buffered = [], 0
            self._writer.write_table(rows, row_group_size=rows.num_rows)

    def finish(self) -> DataFile:
        self.write_out()
        assert self._writer is not None, "a file without rows"
        self._writer.close()
        size = self.size
        self._stream.close()
        return DataFile(
            self.path,
            size,
            self.records,
            self._partition,
            statistics(self.records, self._footers[0], finite=self._finite),
        )

    def close_quietly(self) -> str:
        for end in (*([] if self._writer is None else [self._writer.close]), self._stream.close):
            try:
                end()
            except Exception:
                pass  # it is thrown away
        return self.path


def is_finite(batch: "pa.RecordBatch") -> bool:
    """Return whether no floating point number in the batch is NaN or infinite."""
    import pyarrow.compute as pc
    from pyarrow import types

    columns = [
        batch.column(name)
        for name in batch.schema.names
        if types.is_floating(batch.schema.field(name).type)
    ]
    return all(pc.all(pc.is_finite(each), min_count=0).as_py() is not False for each in columns)


def split(
    batch: "pa.RecordBatch", partition_by: Sequence[str]
) -> "Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]":
    """By partition: its values as Delta's log writes them, and its rows."""
    import numpy as np
    import pyarrow as pa

    if not partition_by:
        yield (), batch
        return
    columns = [batch.column(name).dictionary_encode("encode") for name in partition_by]
    codes = np.stack([each.indices.to_numpy(zero_copy_only=False) for each in columns])
    uniques, where = np.unique(codes, axis=1, return_inverse=True)
    for at in range(uniques.shape[1]):
        values = tuple(
            _text(each.dictionary[int(code)].as_py())
            for each, code in zip(columns, uniques[:, at], strict=True)
        )
        yield (
            values,
            batch
            if uniques.shape[1] == 1
            else batch.take(pa.array(np.flatnonzero(where.ravel() == at))),
        )


def _text(value: object) -> str | None:
    """A partition's value in the log; an empty string is none there."""
    if value is None or value == "":
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)
