"""Common helpers of tests of compaction: a topic as a table of keys, a whole compaction as the
broker runs it, the records of a log one by one.
"""

from collections.abc import Iterator
from typing import Any

from raftka.log.compaction.compaction import compact
from raftka.log.compaction.dirt import Dirt, cleaned, dirt_of, job_for
from raftka.log.compaction.job import Cleaned, Ended
from raftka.log.log import Log
from raftka.runtime.interfaces import Files
from raftka.wire.records import BatchHeader, Record, build_batch, crc_matches, iterate, records_of
from tests.log.given import NOW, append, checkpoint, content

DAY = 86_400_000
Pair = tuple[bytes | None, bytes | None]


def pairs_batch(
    *pairs: Pair,
    timestamp: int = NOW,
    producer: int = -1,
    epoch: int = 0,
    sequence: int = 0,
    **more: Any,
) -> memoryview:
    """Keys and values, a millisecond apart."""
    if producer >= 0:
        more |= {"producer_id": producer, "producer_epoch": epoch, "base_sequence": sequence}
    return memoryview(
        build_batch(
            [(key, value, [], timestamp + at) for at, (key, value) in enumerate(pairs)], **more
        )
    )


def steps(
    files: Files,
    log: Log,
    now: int = NOW,
    up_to: int | None = None,
    dirt: Dirt | None = None,
    **job: int,
) -> Iterator[Ended | None]:
    """A round, step by step: None between the calls, in the end what it tells. Nothing when there
    is nothing to do.
    """
    dirt = dirt or dirt_of(log, log.end_offset if up_to is None else up_to, now)
    if dirt is None:
        return
    log.cleaning = True
    fields = job_for(log, dirt, now, **({"map_bytes": 1 << 20, "read_bytes": 4096} | job))
    for result in compact(files, *fields):
        if len(result) == len(Ended._fields):
            ended = Ended(*result)
            cleaned(log, ended)
            log.cleaning = False
            yield ended
            return
        yield None
        log.begin_swap(Cleaned(*result))
        yield None
        files.sync_directory(log.directory)
        while log.go_on_swap():
            yield None
            files.sync_directory(log.directory)


def clean(
    files: Files, log: Log, now: int = NOW, up_to: int | None = None, **job: int
) -> Ended | None:
    """A checkpoint, and a whole round; None when nothing is dirty."""
    log.write_staged()
    log.durability.settled_point = checkpoint(log)
    return next(
        (ended for ended in steps(files, log, now, up_to, None, **job) if ended is not None), None
    )


def seal(log: Log, now: int = NOW) -> None:
    """Close the active segment, so that it may be compacted."""
    log.roll(now)
    append(log)


def batches(log: Log) -> list[tuple[BatchHeader, memoryview]]:
    """All of the log, read as a client would; CRCs and order are right."""
    found: list[tuple[BatchHeader, memoryview]] = []
    offset = log.start_offset
    while offset < log.end_offset:
        spans, size = log.read(offset, 1 << 20, log.end_offset)
        data = content(spans)
        if not data:
            break
        assert len(data) == size
        for header, view in iterate(memoryview(data)):
            assert crc_matches(view, header)
            assert not found or found[-1][0].last_offset < header.base_offset
            found.append((header, view))
        offset = found[-1][0].last_offset + 1
    return found


def records(log: Log) -> list[Record]:
    return [record for _, view in batches(log) for record in records_of(view)]


def contents(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records(log)]
