"""The part of one log that a backup takes: names for its segments in another directory.

A sealed segment gets another name (a hard link), so a cut takes no time and no room. Its bytes
below the cut never change afterwards: compaction replaces files, retention does not write over a
file that has two names, and a cut of the log there goes on with a copy (Segment.leave_to_backup).
The active segment is sealed first; a short one is copied instead, so that backups of small
partitions leave no rows of small segments. Knows no high watermark: the caller says where to cut.
"""

from typing import NamedTuple

from raftka.limits import KIB
from raftka.log.log import Log
from raftka.log.segments.search import Steps
from raftka.log.segments.segment import Segment, segment_path
from raftka.runtime.interfaces import Files

COPIED_BYTES = 64 * KIB  # at most, of an active segment
NAMED_AT_ONCE = 64  # segments, some 10 us each


class CutSegment(NamedTuple):
    base_offset: int
    size: int  # bytes below the cut
    path: str  # in the backup's directory


def cut_log(
    log: Log, files: Files, offset: int, directory: str, now_ms: int, *, pauses: bool
) -> Steps[list[CutSegment] | None]:
    """Name the segments below `offset` in `directory`, which is there and empty. `offset` is a
    batch's begin or the end, and on disk. Raises OSError; the log may have failed then.

    With `pauses` it yields between some segments, and returns None if the log's segments are others
    then: they were deleted, compacted or cut.
    """
    active = log.segments.active
    if active.base_offset < offset and log.segments.locate(active, offset) > COPIED_BYTES:
        log.roll(now_ms)
    segments = log.segments.copy()
    found: list[CutSegment] = []
    for at, segment in enumerate(segments):
        if segment.base_offset >= offset:
            break
        if pauses and at % NAMED_AT_ONCE == NAMED_AT_ONCE - 1:
            yield
            if log.segments[: len(segments)] != segments:
                return None
        following = segments[at + 1].base_offset if at + 1 < len(segments) else None
        if following is not None and following <= log.start_offset:
            continue  # its records are deleted
        is_whole = following is not None and following <= offset
        size = segment.size if is_whole else log.segments.locate(segment, offset)
        path = segment_path(directory, segment.base_offset, ".log")
        if following is not None:
            segment.link(path, size)
        else:
            _copy(files, segment, path, size)
        found.append(CutSegment(segment.base_offset, size, path))
    return found


def _copy(files: Files, segment: Segment, path: str, size: int) -> None:
    copy = files.open(path, create=True)
    copy.append([segment.file.read(0, size)])
    copy.close()
