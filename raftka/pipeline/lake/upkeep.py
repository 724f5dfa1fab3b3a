"""Upkeep of a Delta table beside its batches: remove files of killed tries, merge small files.
Knows no batch's rows and no Spark.
"""

import json
import logging
import re
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from raftka.pipeline.errors import PipelineError
from raftka.pipeline.lake.files import DataFile, files_of, names_in, remove
from raftka.pipeline.lake.options import Lake, is_folder

if TYPE_CHECKING:
    from deltalake import DeltaTable

TARGET_BYTES = 128 << 20  # of a compacted file, about
LOOKED_BACK = 1000  # entries of the log, for the one that a killed driver has written
LOG = "_delta_log"

log = logging.getLogger(__name__)


def check_there(lake: Lake, files: Sequence[DataFile]) -> None:
    """Compare the files that tasks report with the files that the driver sees. Raise
    PipelineError.
    """
    found = (
        {each.path: each for each in files_of(lake).get_file_info([each.path for each in files])}
        if files
        else {}
    )
    for each in files:
        if (size := found[each.path].size) != each.size:
            seen = "no such file" if size is None else f"one of {size} bytes"
            raise PipelineError(
                f"a task wrote {each.path} with {each.size} bytes to the lake {lake.url}, and the "
                f"driver sees {seen} there. "
                "Nothing was added. Next step: a path that driver and all executors share; if "
                "something else removes files there, stop it"
            )


def batch_in_log(lake: Lake, table: "DeltaTable", query: str, batch: int) -> frozenset[str] | None:
    """The files that the log's entry of this batch added; None when the entry is not found. Looks
    at the newest entries first.
    """
    root = files_of(lake)
    for version in range(table.version(), max(-1, table.version() - LOOKED_BACK), -1):
        try:
            with root.open_input_stream(f"{LOG}/{version:020}.json") as stream:
                actions = [json.loads(line) for line in stream.read().splitlines() if line]
        except FileNotFoundError:
            return None  # a checkpoint stands for it
        numbers = [each["txn"] for each in actions if "txn" in each]
        if any(each["appId"] == query and each["version"] == batch for each in numbers):
            return frozenset(unquote(each["add"]["path"]) for each in actions if "add" in each)
    return None


def remove_tries(lake: Lake, stem: str, added: Collection[str], version: int) -> None:
    """Remove the files of earlier tries of a batch, whose names begin with `stem`, in the folders
    of the added files. The same rows went to the same partitions before. Files that cannot be
    removed harm nothing.
    """
    try:
        found = [
            path
            for folder in {path.rpartition("/")[0] for path in added}
            for path in names_in(lake, folder)
        ]
        remove(
            lake,
            [
                path
                for path in found
                if path.rpartition("/")[2].startswith(stem) and path not in added
            ],
        )
        _remove_half_entries(lake, version)
    except Exception as error:
        log.warning(
            "the lake %s could not be searched for files of killed tries: %s", lake.url, error
        )


def _remove_half_entries(lake: Lake, version: int) -> None:
    """Remove half-written entries of the log, which a kill leaves: in a folder an entry is written
    beside its place, then linked to it. No process uses those up to this version any more.
    """
    if is_folder(lake):
        for path in Path(lake.url, LOG).iterdir():
            match = re.fullmatch(r"(\d{20})\.json#\d+", path.name)
            if match and int(match[1]) <= version:
                path.unlink(missing_ok=True)


def compact(lake: Lake, table: "DeltaTable") -> None:
    """Make large files of small ones, and remove files that were replaced a week ago. This is no
    part of a batch: after a failure it is tried at the next time.
    """
    try:
        if lake.z_order_by:
            _sort(lake, table)
        else:
            table.optimize.compact(target_size=TARGET_BYTES, max_concurrent_tasks=1)
        table.vacuum(dry_run=False)  # only files that the log has removed: it knows no others
    except Exception as error:
        log.warning("the lake %s could not be compacted: %s", lake.url, error)


def _sort(lake: Lake, table: "DeltaTable") -> None:
    """Sort the rows of each partition that has new files along a Z-curve of the columns: then the
    bounds of a file are narrow in all of them. A partition has new files where more than one is
    below half of the target: sorted files are large, but for the last one.

    A partition is new where it has more than one file below half of the target: what was sorted
    before is large, but for the last file.
    """
    import pyarrow as pa

    own = [f"partition.{name}" for name in table.metadata().partition_columns]
    small: Counter[tuple[str | None, ...]] = Counter()
    for each in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        if each["size_bytes"] < TARGET_BYTES // 2:
            small[tuple(each[name] for name in own)] += 1
    for values, files in small.items():
        if files > 1:
            filters = [
                (name.removeprefix("partition."), "=", "" if value is None else value)
                for name, value in zip(own, values, strict=True)
            ]
            table.optimize.z_order(
                lake.z_order_by,
                partition_filters=filters or None,
                target_size=TARGET_BYTES,
                max_concurrent_tasks=1,
            )
