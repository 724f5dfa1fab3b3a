"""A backup's names for segments: bytes below a cut stay as they were, whatever happens to the log
afterwards.
"""

import pytest

from raftka.log.backup_cut import COPIED_BYTES, NAMED_AT_ONCE, CutSegment, cut_log
from raftka.log.log import Log
from raftka.log.segments.search import at_once
from raftka.runtime.interfaces import File
from tests.log.files import MemoryFiles
from tests.log.given import DIRECTORY, NOW, append, batch, disk, open_log

BACKUP = "d/backup"


def logged(count: int = 20) -> tuple[MemoryFiles, Log]:
    files = disk()
    files.make_directory(BACKUP)
    log = open_log(files, segment_bytes=700, retention_ms=-1)
    for seed in range(count):
        append(log, batch(3, size=60, seed=seed))
    return files, log


def cut(log: Log, files: MemoryFiles, offset: int) -> list[CutSegment]:
    found = at_once(cut_log(log, files, offset, BACKUP, NOW, pauses=False))
    assert found is not None
    return found


def contents(files: MemoryFiles, cuts: list[CutSegment]) -> list[bytes]:
    return [files.read(each.path)[: each.size] for each in cuts]


def all_bytes(files: MemoryFiles, log: Log) -> bytes:
    return b"".join(segment.file.read(0, segment.size) for segment in log.segments)


def test_a_cut_names_all_bytes_below_it() -> None:
    files, log = logged()
    whole = all_bytes(files, log)

    cuts = cut(log, files, log.end_offset)

    assert b"".join(contents(files, cuts)) == whole
    assert [each.base_offset for each in cuts] == [segment.base_offset for segment in log.segments]


def test_a_cut_inside_a_segment_leaves_out_what_is_behind() -> None:
    files, log = logged()
    at = log.segments[2].base_offset + 3

    cuts = cut(log, files, at)

    assert [each.base_offset for each in cuts][-1] == log.segments[2].base_offset
    assert cuts[-1].size < log.segments[2].size
    assert whole_batches_end(contents(files, cuts)[-1], cuts[-1].base_offset) == at


def whole_batches_end(data: bytes, offset: int) -> int:
    position = 0
    while position < len(data):
        base, size = (
            int.from_bytes(data[position : position + 8]),
            int.from_bytes(data[position + 8 : position + 12]) + 12,
        )
        offset = base + int.from_bytes(data[position + 23 : position + 27]) + 1
        position += size
    assert position == len(data)
    return offset


def test_a_short_active_segment_is_copied_and_goes_on() -> None:
    files, log = logged(1)
    (short,) = cut(log, files, log.end_offset)

    append(log, batch(3, size=60))

    assert len(log.segments) == 1
    assert not log.segments.active.file.is_linked
    assert len(files.read(short.path)) == short.size


def test_a_long_active_segment_is_sealed_and_named() -> None:
    files = disk()
    files.make_directory(BACKUP)
    log = open_log(files)
    append(log, batch(1, size=COPIED_BYTES + 1))
    (only,) = cut(log, files, log.end_offset)

    append(log, batch(3, size=60))

    assert [segment.base_offset for segment in log.segments] == [0, 1]
    assert log.segments[0].file.is_linked
    assert len(files.read(only.path)) == only.size


def test_retention_writes_over_no_file_of_a_backup() -> None:
    files, log = logged()
    cuts = cut(log, files, log.end_offset)
    before, retired = contents(files, cuts), list[File]()
    log.segments.on_retired = retired.append

    log.set_start_offset(log.end_offset)
    assert log.delete_old_segments(NOW, log.end_offset) > 2
    log.segments.recycled.directory_flushed()
    for file in retired:
        log.segments.recycled.release(file, 0.0)
    for seed in range(40):
        append(log, batch(3, size=60, seed=1_000 + seed))

    assert contents(files, cuts) == before


def test_a_cut_of_the_log_leaves_a_backups_bytes() -> None:
    files, log = logged()
    cuts = cut(log, files, log.end_offset)
    before = contents(files, cuts)

    log.truncate_to(log.segments[1].base_offset + 3)
    for seed in range(40):
        append(log, batch(3, size=60, seed=1_000 + seed))

    assert contents(files, cuts) == before
    end, kept = log.end_offset, all_bytes(files, log)
    log.close(clean=True)
    again = open_log(files, clean=True, recovery_point=end, segment_bytes=700)
    assert (again.end_offset, all_bytes(files, again)) == (end, kept)


def test_a_cut_behind_the_backup_goes_on_with_the_same_file() -> None:
    files, log = logged()
    at = log.segments[2].base_offset + 3
    cuts = cut(log, files, at)
    before, inode = contents(files, cuts), files.names[f"{DIRECTORY}/{at - 3:020}.log"]

    log.truncate_to(at)

    assert files.names[f"{DIRECTORY}/{at - 3:020}.log"] is inode
    assert contents(files, cuts) == before


def test_a_log_that_changes_during_a_pause_is_cut_anew() -> None:
    files, log = logged(6 * NAMED_AT_ONCE)
    steps = cut_log(log, files, log.end_offset, BACKUP, NOW, pauses=True)
    next(steps)
    append(log, *(batch(3, size=60, seed=seed) for seed in range(4)))
    next(steps)  # a log may grow

    log.set_start_offset(log.segments[2].base_offset)
    assert log.delete_oldest(NOW, log.end_offset)

    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value is None
