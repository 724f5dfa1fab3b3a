"""A partition's log on its way to another of the node's directories: copied beside the present one
until it takes its place (KIP-113).

The *future* log lies in the other directory as `topic-partition.<topic id>-future`. When it has all
records of the present log, the names change. After a power loss at any moment of that, the next
start finds one log under the partition's name, and that one is whole: the present log is first
named `-moved`, then the future one gets its name, then the moved one is removed. Nothing is
appended before all of this is on disk. Knows no role and no time.
"""

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from raftka.log.checkpoints import (
    HIGH_WATERMARKS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    START_OFFSETS,
    encode_partition_metadata,
)
from raftka.log.config import LogConfig
from raftka.log.directory import NAME_BYTES, DirectoryFailure, Key, LogDirectory, failing
from raftka.log.log import Log
from raftka.log.segments.segment import segment_path
from raftka.runtime.interfaces import Files, FileSpan

FUTURE, MOVED = "-future", "-moved"
ANY_EPOCH = 2**31 - 1


class Leftover(NamedTuple):
    """A log that a node has left when it ended in the middle of a move."""

    key: Key
    topic_id: bytes
    path: str


def future_path(home: LogDirectory, key: Key, topic_id: bytes, suffix: str = FUTURE) -> str:
    return f"{home.place(key)}.{topic_id.hex()}{suffix}"


def fits(key: Key) -> bool:
    return len(f"{key[0]}-{key[1]}.{'0' * 32}{FUTURE}") <= NAME_BYTES


def leftovers(files: Files, home: LogDirectory, suffix: str) -> Iterator[Leftover]:
    for name in files.list(home.path):
        partition, _, rest = name.rpartition(".")
        topic, _, number = partition.rpartition("-")
        if rest.endswith(suffix) and number.isascii() and number.isdigit():
            yield Leftover(
                (topic, int(number)),
                bytes.fromhex(rest.removesuffix(suffix)),
                f"{home.path}/{name}",
            )


def finish_moves(files: Files, homes: dict[Key, LogDirectory], home: LogDirectory) -> None:
    """Finish changes of names that the last process did not end. `homes`: where each partition was
    found. Nothing was appended since it was moved.
    """
    for left in list(leftovers(files, home, MOVED)):
        if left.key in homes:
            files.remove(left.path)
        else:
            files.rename(left.path, home.place(left.key))
            files.sync_directory(home.path)
            homes[left.key] = home


def open_future(
    files: Files, home: LogDirectory, key: Key, topic_id: bytes, config: LogConfig, now_ms: int
) -> Log:
    """Open a new future log, or the one that an earlier process has begun. Raises OSError."""
    path = future_path(home, key, topic_id)
    if not files.exists(f"{path}/{PARTITION_METADATA}"):
        if files.exists(path):
            files.remove(path)
        files.make_directory(path)
        files.open(segment_path(path, 0, ".log"), create=True).close()
        files.replace(f"{path}/{PARTITION_METADATA}", encode_partition_metadata(topic_id))
    return Log.open(files, path, config, now_ms, clean_shutdown=False)


def align(future: Log, present: Log) -> None:
    """Cut records from the future log that the present one does not have (any more), by leader
    epochs as a follower would (KIP-320). Raises OSError.
    """
    if future.end_offset > future.start_offset:
        epoch, end = present.epoch_end(future.latest_epoch)
        if epoch != future.latest_epoch or epoch < 0:
            future.truncate_fully_and_start_at(present.start_offset)
        elif end < future.end_offset:
            future.truncate_to(end)
    if future.end_offset < present.start_offset:
        future.truncate_fully_and_start_at(present.start_offset)


def next_spans(future: Log, present: Log, max_bytes: int) -> list[FileSpan]:
    """Return the bytes to copy next; none: there are no more."""
    spans, _ = present.read(future.end_offset, max_bytes, present.written_offset)
    return spans


def append_copy(future: Log, data: bytes) -> None:
    """Append copied bytes to the future log. Raises KafkaError if they are damaged, and OSError."""
    future.append_as_follower(memoryview(data), ANY_EPOCH)
    future.write_staged()


def change_names(
    files: Files, future: Log, key: Key, topic_id: bytes, old: LogDirectory, new: LogDirectory
) -> tuple[str, OSError | None]:
    """Put the future log, which was closed, in the place of the present one. Return the path under
    which the old log waits to be removed, and an error or None.

    Raises DirectoryFailure; then all is as it was before, as far as the disks allow. A returned
    error means that the names have changed but may not be on disk. The old log could come back, so
    nothing may be appended before its directory is given up.
    """
    moved = future_path(old, key, topic_id, MOVED)
    with failing(old):
        files.rename(old.place(key), moved)
    try:
        with failing(old):
            files.sync_directory(old.path)
        with failing(new):
            files.rename(future.directory, new.place(key))
            files.sync_directory(new.path)
    except DirectoryFailure:
        files.rename(moved, old.place(key))
        raise
    try:
        doomed = next(
            path
            for path in (old.doomed(key, number.to_bytes(16)) for number in count())
            if not files.exists(path)
        )
        files.rename(moved, doomed)
        files.sync_directory(old.path)
    except OSError as error:
        return moved, error
    return doomed, None


def note_offsets(present: Log, key: Key, old: LogDirectory, new: LogDirectory) -> None:
    """Write the log's offsets to the new directory, before the log has its name there. Raises
    OSError.
    """
    new.clear_offsets(key)
    new.write(RECOVERY_POINTS, {**new.offsets[RECOVERY_POINTS], key: present.end_offset})
    new.write(
        HIGH_WATERMARKS,
        {**new.offsets[HIGH_WATERMARKS], key: old.offsets[HIGH_WATERMARKS].get(key, 0)},
    )
    if present.start_offset > 0:
        new.write(START_OFFSETS, {**new.offsets[START_OFFSETS], key: present.start_offset})
