"""Judge each retention of each log: it removes whole segments, from the oldest on, below the high
watermark, each for a reason; and none stays for which there is a reason, unless it waits for a
checkpoint.

The judge derives Kafka's rules from the batches themselves. It does not disturb the log.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from raftka.chaos.simulated.checks.times import times_of
from raftka.json_values import JsonObject
from raftka.log.config import LogConfig
from raftka.log.log import Log
from raftka.log.recovery import Recovered
from raftka.log.segments.scan import headers
from raftka.log.segments.segment import Segment
from raftka.runtime.interfaces import Files


@contextmanager
def watched(wrong: list[str]) -> Iterator[None]:
    """While it holds, every retention of every log is judged."""
    beginning, deleting = Log.__init__, Log.delete_oldest
    # from which offset on a log, by its id, remembers that records have no time
    noted: dict[int, int] = {}

    def begin(log: Log, files: Files, directory: str, config: LogConfig, found: Recovered) -> None:
        beginning(log, files, directory, config, found)
        noted[id(log)] = log.segments.active.base_offset

    def delete_oldest(log: Log, now_ms: int, up_to: int) -> int:
        may, must = _due(log, now_ms, up_to, noted.get(id(log), 0))
        before, start, why = log.segments[0], log.start_offset, _told(log, now_ms, up_to)
        count = deleting(log, now_ms, up_to)
        gone = log.segments[0] is not before
        # for the snapshot that tells of them
        waits = log.retention_waits and bool(log.producers.producers)
        is_wrong = not may if gone else must and not waits
        # else batches that the file does not have yet count too
        if is_wrong and log.written_offset == log.end_offset:
            wrong.append(
                f"retention of {log.directory} {'took' if gone else 'left'} the segment at "
                f"{before.base_offset}: {why}"
            )
        if log.start_offset != max(start, log.segments[0].base_offset):
            wrong.append(
                f"retention of {log.directory} left the start at {log.start_offset}, it was "
                f"{start}: {why}"
            )
        return count

    setattr(Log, "__init__", begin)  # noqa: B010
    setattr(Log, "delete_oldest", delete_oldest)  # noqa: B010
    try:
        yield
    finally:
        setattr(Log, "__init__", beginning)  # noqa: B010
        setattr(Log, "delete_oldest", deleting)  # noqa: B010


def _due(log: Log, now_ms: int, up_to: int, noted: int) -> tuple[bool, bool]:
    """Return whether the oldest segment may go now, and whether it must."""
    oldest, last = log.segments[0], len(log.segments) == 1
    following = log.end_offset if last else log.segments[1].base_offset
    if log.cleaning or following > up_to or (last and not oldest.size):
        return False, False
    if not last and following <= log.start_offset:
        return True, True
    config = log.config
    if not config.deleted_by_age:
        return False, False
    if (
        config.retention_bytes >= 0
        and sum(segment.size for segment in log.segments[1:]) >= config.retention_bytes
    ):
        return True, True
    youngest = _youngest(oldest, noted)
    too_old = 0 <= config.retention_ms < now_ms - youngest
    return too_old, too_old and (
        not oldest.timeless
        or config.retention_ms < now_ms - max(youngest, oldest.file.modified_ms())
    )


def _youngest(segment: Segment, noted: int) -> int:
    """The largest timestamp of its records; the last write to the file where some from the offset
    `noted` on have none, or no record has one.

    What was in sealed segments when the log was opened goes by the times that there are, as in
    Kafka.
    """
    batches = [
        (header[0], *times_of(segment, position, header))
        for position, header in headers(segment.file, 0, segment.size)
        if header[12]
    ]
    largest = max((time for _, time, _ in batches), default=-1)
    is_mixed = any(timeless and offset >= noted for offset, _, timeless in batches)
    return max(largest, segment.file.modified_ms()) if largest < 0 or is_mixed else largest


def _told(log: Log, now_ms: int, up_to: int) -> JsonObject:
    segments = [(segment.base_offset, segment.size) for segment in log.segments[:3]]
    bounds = {
        "ms": log.config.retention_ms,
        "bytes": log.config.retention_bytes,
        "committed": up_to,
        "start": log.start_offset,
    }
    return {"segments": segments, "end": log.end_offset, "now": now_ms, **bounds}
