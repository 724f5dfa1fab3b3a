"""Common beginnings of tests of the log: a log on a disk in memory, batches, and the log's
contents.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from raftka.log.config import LogConfig
from raftka.log.log import Log
from raftka.log.producers.markers import Marker
from raftka.log.validation import TakesLong
from raftka.runtime.interfaces import File, Files, FileSpan
from raftka.wire.records import BatchHeader, NewRecord, build_batch, iterate, read_header
from tests.log.files import MemoryFiles

NOW = 1_700_000_000_000
DIRECTORY = "d/t-0"


def disk() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory(DIRECTORY)
    return files


def open_log(
    files: Files | None = None,
    *,
    clean: bool = False,
    recovery_point: int = 0,
    start_offset: int = 0,
    **config: Any,
) -> Log:
    return Log.open(
        files or disk(),
        DIRECTORY,
        LogConfig(**config),
        NOW,
        clean_shutdown=clean,
        recovery_point=recovery_point,
        start_offset=start_offset,
    )


def batch(
    count: int = 1,
    *,
    producer: int = -1,
    epoch: int = 0,
    sequence: int = 0,
    timestamp: int = NOW,
    size: int = 10,
    seed: int = 0,
    **more: Any,
) -> memoryview:
    """`count` records of `size` random bytes, a millisecond apart."""
    random = Random(seed)
    records: list[NewRecord] = [
        (b"k", random.randbytes(size), [], timestamp + at) for at in range(count)
    ]
    if producer >= 0:
        more |= {"producer_id": producer, "producer_epoch": epoch, "base_sequence": sequence}
    return memoryview(build_batch(records, **more))


def append(log: Log, *batches: memoryview, epoch: int = 0, now: int = NOW) -> int:
    """As leader, written and flushed; returns the end offset."""
    for each in batches:
        try:
            log.client_batches.append(each, epoch, now)
        except TakesLong as much:
            log.client_batches.append_prepared(much.prepared(), epoch, now)
    log.write_staged()
    flush(log)
    return log.end_offset


def in_transaction(log: Log, *batches: memoryview, version: int = 1) -> int:
    """Append transactional batches as a leader whose coordinator knows of their transaction;
    returns the end offset.
    """
    for each in batches:
        header = read_header(each)
        producer = header.producer_id, header.producer_epoch
        if log.producers.must_verify(*producer):
            guard = log.producers.guard(*producer, header.base_sequence, version, NOW)
            log.producers.verified(header.producer_id, guard, known=True)
        append(log, each)
    return log.end_offset


def end_transaction(
    log: Log,
    producer: int,
    *,
    commit: bool,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    version: int = 1,
    now: int = NOW,
) -> int:
    """Append the marker; returns the end offset, -1 when there was nothing to end."""
    end = log.append_marker(
        Marker(producer, epoch, coordinator_epoch, commit, version),
        log.latest_epoch if log.end_offset else 0,
        now,
    )
    log.write_staged()
    flush(log)
    return end


def sync(log: Log, files: Sequence[File | str]) -> None:
    for file in files:
        if isinstance(file, str):
            log._files.sync_directory(file)
        else:
            file.sync()


def flush(log: Log) -> None:
    files, offset = log.begin_flush()
    sync(log, files)
    log.flushed(offset)


def checkpoint(log: Log) -> int:
    files, settle = log.begin_checkpoint()
    sync(log, files)
    sync(log, settle(True))
    return log.durability.recovery_point


def content(spans: list[FileSpan]) -> bytes:
    return b"".join(span.file.read(span.position, span.size) for span in spans)


def read_all(log: Log, offset: int | None = None) -> list[BatchHeader]:
    """The headers of every batch from `offset` to the end, read as a client would."""
    offset = log.start_offset if offset is None else offset
    found: list[BatchHeader] = []
    while offset < log.end_offset:
        spans, size = log.read(offset, 1 << 20, log.end_offset)
        data = content(spans)
        assert len(data) == size > 0
        headers = [header for header, _ in iterate(memoryview(data))]
        assert sum(header.size_bytes for header in headers) == size, "not whole batches"
        found += headers
        offset = headers[-1].last_offset + 1
    return found


def offsets(log: Log) -> list[tuple[int, int]]:
    return [(header.base_offset, header.last_offset) for header in read_all(log)]
