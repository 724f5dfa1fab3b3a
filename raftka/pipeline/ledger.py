"""Ledgers: what producers know of their records, JSON lines, read by many tasks at once. Knows no
Spark and no topic.

    {"producer": "truck-7", "seq": 41, "acked": true}

`seq` counts a producer's records in the order it sent them. Without `acked` a record is
acknowledged. False means "not known", and counts only if no other line of the record says true: so
a producer may write a line before it sends, and another one when it has the answer.
"""

import json
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from raftka.pipeline.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa

SPLIT_BYTES = 64 << 20  # of a task
LOOK_BYTES = 1 << 20  # for the end of the line that a split ends in


class Split(NamedTuple):
    """The lines of a file that begin in a range of bytes."""

    url: str
    start: int
    stop: int


def splits(places: Sequence[str], size: int = SPLIT_BYTES) -> list[Split]:
    """Split files and folders, without hidden files (.name, _name); URLs as pyarrow takes them, or
    paths that all executors see. Raises PipelineError.
    """
    from pyarrow.fs import FileSelector, FileSystem, FileType

    found = []
    for place in places:
        try:
            files, path = FileSystem.from_uri(_url(place))
            info = files.get_file_info(path)
            each_of = (
                [info]
                if info.type != FileType.Directory
                else files.get_file_info(FileSelector(path, recursive=True))
            )
        except (OSError, ValueError) as error:
            raise PipelineError(f"the ledger {place}: {error}") from None
        if info.type == FileType.NotFound:
            raise PipelineError(f"there is no ledger {place}")
        prefix = _url(place).removesuffix(path)
        for one in each_of:
            if one.type == FileType.File and not _is_hidden(one.path.removeprefix(path)):
                found += [
                    Split(prefix + one.path, start, min(start + size, one.size))
                    for start in range(0, one.size, size)
                ]
    return found


def _is_hidden(path: str) -> bool:
    """Return whether Spark or Hadoop has put the file beside those of a folder: checksums, marks of
    success, unfinished files.
    """
    return any(part.startswith((".", "_")) for part in path.split("/"))


def _url(place: str) -> str:
    return place if "://" in place else f"file://{os.path.abspath(place)}"


def read_split(split: Split) -> "Iterator[pa.RecordBatch]":
    """Yield Arrow batches of producer, seq and acked. Raises PipelineError."""
    import pyarrow as pa
    from pyarrow import json as arrow_json
    from pyarrow.fs import FileSystem

    files, path = FileSystem.from_uri(split.url)
    with files.open_input_file(path) as file:
        lines, is_last = _lines(file, split)
    if is_last:
        lines = _without_torn(lines)
    if not lines.strip():
        return
    names = [("producer", pa.string()), ("seq", pa.int64()), ("acked", pa.bool_())]
    try:
        table = arrow_json.read_json(
            pa.BufferReader(lines),
            arrow_json.ReadOptions(use_threads=False, block_size=16 << 20),
            arrow_json.ParseOptions(pa.schema(names), unexpected_field_behavior="ignore"),
        ).select([name for name, _ in names])
    except pa.ArrowInvalid as error:
        raise PipelineError(
            f"the ledger {split.url} has a line behind byte {split.start} that is none: {error}. "
            f"{_HOW}"
        ) from None
    if table["producer"].null_count or table["seq"].null_count:
        raise PipelineError(
            f"the ledger {split.url} has a line behind byte {split.start} without producer or "
            f"seq. {_HOW}"
        )
    yield from table.set_column(2, "acked", table["acked"].fill_null(True)).to_batches()


_HOW = 'Lines are to be like {"producer": "truck-7", "seq": 41, "acked": true}'


def _lines(file: "pa.NativeFile", split: Split) -> tuple[bytes, bool]:
    """Return the whole lines of a part of a file, and True at the end of the file. The task with
    the first byte of a line reads it.
    """
    start = max(split.start - 1, 0)  # a line that begins exactly here has a line feed before it
    file.seek(start)
    data = file.read(split.stop - start)
    if split.start:
        first = data.find(b"\n")
        data = b"" if first < 0 else data[first + 1 :]
    while data and not data.endswith(b"\n"):
        more = file.read(LOOK_BYTES)
        if not more:
            return data, True
        end = more.find(b"\n")
        data += more if end < 0 else more[: end + 1]
    return data, False


def _without_torn(lines: bytes) -> bytes:
    """Leave out a last line without an end: a killed producer left it, and it acknowledges
    nothing.
    """
    whole, _, last = lines.rpartition(b"\n")
    try:
        json.loads(last)
    except ValueError:
        return whole
    return lines
