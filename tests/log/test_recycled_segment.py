"""The file of a deleted segment is written over as the next one: when it may be, and that nothing
of what was in it ever counts again.
"""

import os
import socket
from collections.abc import Callable
from tempfile import TemporaryDirectory

import pytest

from raftka.checksum import crc32c
from raftka.log.config import LogConfig
from raftka.log.log import Log
from raftka.log.segments.recycled_segment import Budget
from raftka.log.segments.segment import segment_path
from raftka.runtime.interfaces import File, pin
from raftka.runtime.real.files import RealFiles
from raftka.runtime.real.sending import READ_BYTES, Sender, Unsent
from raftka.wire.records import build_batch
from tests.log.files import MemoryFiles
from tests.log.given import (
    DIRECTORY,
    NOW,
    append,
    batch,
    checkpoint,
    content,
    disk,
    flush,
    open_log,
    read_all,
)

SIZE = len(batch(1, size=300))


def offsets(log: Log) -> list[int]:
    return [header.base_offset for header in read_all(log)]


def given(files: MemoryFiles, **config: object) -> tuple[Log, list[File]]:
    """Three segments of three batches of one record, and another; and where the files of deleted
    segments are put.
    """
    log = open_log(files, **{"segment_bytes": 3 * SIZE, "retention_ms": -1, **config})  # type: ignore[arg-type]
    retired: list[File] = []
    log.segments.on_retired = retired.append
    append(log, *(batch(1, size=300, seed=at) for at in range(10)))
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6, 9]
    return log, retired


def deleted(files: MemoryFiles, to: int = 3, **config: object) -> tuple[Log, list[File]]:
    """The first segments are deleted, the name of the kept file is on disk, and nobody reads it."""
    log, retired = given(files, **config)
    log.set_start_offset(to)
    log.delete_old_segments(NOW, 10)
    log.segments.recycled.directory_flushed()
    for file in retired:
        log.segments.recycled.release(file, 0.0)
    return log, retired


def write_over(log: Log) -> None:
    """The only segment is full and deleted; the next one is written over its file where that may
    be.
    """
    retired: list[File] = []
    log.segments.on_retired = retired.append
    log.roll(NOW)
    log.set_start_offset(log.end_offset)
    assert log.delete_oldest(NOW, log.end_offset) == 1
    log.segments.recycled.directory_flushed()
    log.segments.recycled.release(retired[0], 0.0)
    log.roll(NOW)


def kept(files: MemoryFiles) -> list[str]:
    return [name for name in files.list(DIRECTORY) if name.endswith(".deleted")]


def roll(log: Log, count: int = 3) -> None:
    """Fill the active segment, and go on in the next."""
    append(log, *(batch(1, size=300, seed=20 + at) for at in range(count)))


def test_the_next_segment_is_written_over_it() -> None:
    files = disk()
    first = files.open(segment_path(DIRECTORY, 0, ".log"), create=True).inode
    log, _ = deleted(files)

    roll(log)

    assert log.segments.active.is_over
    assert files.names[log.segments.active.file.path] is first
    assert (log.segments.active.size, log.segments.active.file.size()) == (SIZE, SIZE)
    assert len(first.data) == 3 * SIZE
    assert kept(files) == []
    assert offsets(log) == list(range(3, 13))


def test_what_is_sealed_or_closed_ends_with_its_records() -> None:
    files = disk()
    log, _ = deleted(files)
    roll(log)
    over, size = files.names[log.segments.active.file.path], log.segments.active.size

    log.roll(NOW)
    assert len(over.data) == size
    flush(log)
    roll(log, 1)
    assert len(over.durable) == size, "the cut is on disk with the next records"

    log, _ = deleted(files := disk())
    roll(log)
    over, size = files.names[log.segments.active.file.path], log.segments.active.size
    point = checkpoint(log)
    log.close(clean=True)
    assert (len(over.data), len(over.durable)) == (size, size)
    assert open_log(files, clean=True, recovery_point=point, segment_bytes=3 * SIZE).cut is None


def test_it_is_not_written_over_while_answers_may_read_it() -> None:
    log, retired = given(disk())
    spans, _ = log.read(0, 10 * SIZE, 3)
    before = content(spans)
    log.set_start_offset(3)
    log.delete_old_segments(NOW, 10)
    log.segments.recycled.directory_flushed()

    roll(log)
    assert content(spans) == before
    log.segments.recycled.release(retired[0], 0.0)
    roll(log)
    assert log.segments.active.is_over


def test_it_is_not_written_over_while_a_part_of_it_is_being_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, retired = deleted(files := disk())
    monkeypatch.setattr(type(retired[0]), "is_shared", True)
    roll(log)
    assert not log.segments.active.is_over
    assert kept(files) == []

    deleted(files := disk())
    assert kept(files) == [], "its pages may be in a socket for long"


def test_a_client_reads_the_records_that_were_sent_to_it_however_late() -> None:
    """Bytes sent by sendfile lie in the socket as pages of the file until the client reads them, on
    the loopback at least.
    """
    files, unsent = RealFiles(lambda action: None), Unsent()
    with TemporaryDirectory() as home, socket.create_server(("127.0.0.1", 0)) as server:
        log = Log.open(
            files,
            home,
            LogConfig(retention_ms=-1),
            NOW,
            clean_shutdown=False,
            recovery_point=0,
            start_offset=0,
        )
        append(log, batch(1, size=READ_BYTES + 1000))
        spans, size = log.read(0, 1 << 20, 1)
        # where megabytes differ, pytest describes each difference on CI, for hours
        wanted = crc32c(content(spans))
        with socket.create_connection(server.getsockname()) as client, server.accept()[0] as broker:
            broker.setblocking(False)
            pin(spans)
            Sender(os.sendfile).send_new(broker, spans, unsent)
            assert not unsent, "the client's kernel has all of it"
            write_over(log)
            append(log, batch(1, size=READ_BYTES, seed=1))
            found = b""
            while len(found) < size:
                found += client.recv(size)
        log.close(clean=False)
        files.stop()
    assert crc32c(found) == wanted


def test_its_name_is_on_disk_before_it_is_written_over() -> None:
    """Else the first segment could come back after a loss of power, below the recovery point, with
    records that were never in it.
    """
    files = disk()
    log, retired = given(files)
    point = checkpoint(log)
    log.set_start_offset(3)
    log.delete_oldest(NOW, 10)
    log.segments.recycled.release(retired[0], 0.0)

    for at in range(3):
        log.client_batches.append(batch(1, size=300, seed=20 + at), 0, NOW)
    log.write_staged()
    for inode in files.names.values():
        # the kernel has written it, and the power goes before the names are
        inode.durable = bytearray(inode.data)
    left = MemoryFiles()
    left.directories, left.names = files.directories, dict(files.durable_names)

    assert offsets(open_log(left, recovery_point=point, segment_bytes=3 * SIZE))[:4] == [0, 1, 2, 3]


def test_a_truncation_drops_it() -> None:
    """The log may go on with offsets that are in it: one of its batches would be taken for the next
    one where the zeros were not written yet.
    """
    files = disk()
    log, retired = given(files)
    log.set_start_offset(6)
    while log.segments[0].base_offset < 6:
        log.delete_oldest(NOW, 10)
        log.segments.recycled.directory_flushed()
        if log.segments[0].base_offset == 3:
            log.segments.recycled.release(retired[0], 0.0)
            log.segments.recycled.begin_round(1.0)
    log.segments.recycled.release(retired[1], 0.0)
    assert kept(files) == [f"{3:020d}.log.deleted"]
    old = bytes(files.names[f"{DIRECTORY}/{kept(files)[0]}"].data)

    log.truncate_to(2)
    append(log, batch(1, size=300, seed=30), epoch=1)
    over = files.names[log.segments.active.file.path]
    over.data[SIZE:] = old[SIZE:] if log.segments.active.is_over else b""

    assert offsets(open_log(files, segment_bytes=3 * SIZE)) == [2]
    assert kept(files) == []


def forged(offset: int) -> bytes:
    """A batch that claims to be at `offset`."""
    return offset.to_bytes(8) + bytes(build_batch([(b"k", b"forged", [], NOW)]))[8:]


@pytest.mark.parametrize("filler", [b"x", b"\0"])
def test_no_batch_in_a_deleted_record_is_taken_for_the_next_one(filler: bytes) -> None:
    """A record may hold anything: also batches, one just where the records of the segment that is
    written over it end, and one further behind.
    """
    files = disk()
    log = open_log(files, retention_ms=-1)
    hidden = memoryview(
        build_batch(
            [(b"k", bytes(300) + forged(2) + filler * 5000 + forged(3) + filler * 3000, [], NOW)]
        )
    )
    append(log, hidden)
    write_over(log)
    assert log.segments.active.is_over
    at = bytes(hidden).index(forged(2))
    append(
        log,
        memoryview(
            build_batch([(b"k", bytes(at - len(build_batch([(b"k", b"", [], NOW)])) - 2), [], NOW)])
        ),
    )
    assert log.segments.active.size == at, "the records end where the forged batch begins"

    found = Log.open(
        files,
        DIRECTORY,
        log.config,
        NOW,
        clean_shutdown=False,
        recovery_point=0,
        start_offset=0,
        whole=2,
    )  # a batch further behind is no sign of damage

    assert offsets(found) == [1]
    assert found.cut is not None
    assert (found.cut.bytes, found.cut.segments) == (0, 0), (
        "nothing that belonged to the log was taken"
    )
    assert len(files.names[found.segments.active.file.path].data) == at


@pytest.mark.parametrize("rotten", [1, 2])
def test_zeros_in_the_midst_of_what_was_committed_are_damage(rotten: int) -> None:
    """They look like the end of what was written over something, but sound batches of this segment
    come behind them.
    """
    files = disk()
    log = open_log(files)
    append(log, *(batch(1, size=300, seed=at) for at in range(40)))  # some pages
    files.names[log.segments.active.file.path].data[rotten * SIZE : rotten * SIZE + 128] = bytes(
        128
    )

    with pytest.raises(Exception, match="is damaged at offset"):
        Log.open(
            files,
            DIRECTORY,
            log.config,
            NOW,
            clean_shutdown=False,
            recovery_point=0,
            start_offset=0,
            whole=0,
        )


@pytest.mark.parametrize(
    "end",
    [
        lambda log: log.segments.recycled.begin_round(1.0),
        lambda log: log.close(clean=True),
        lambda log: log.close(clean=False),
    ],
)
def test_it_goes_after_its_time_and_with_its_log(end: Callable[[Log], None]) -> None:
    files = disk()
    log, retired = deleted(files)
    log.segments.recycled.begin_round(0.0)
    assert kept(files) == [f"{0:020d}.log.deleted"]

    end(log)

    assert kept(files) == []
    assert not log.segments.recycled.release(retired[0], 0.0)


def test_a_crash_leaves_nothing_of_it() -> None:
    files = disk()
    deleted(files)
    open_log(files, segment_bytes=3 * SIZE)
    assert kept(files) == []


def test_as_many_files_are_kept_as_a_round_deletes_the_oldest_first() -> None:
    log, _ = deleted(files := disk(), to=9)
    assert kept(files) == [f"{base:020d}.log.deleted" for base in (0, 3, 6)]
    assert [segment.base_offset for segment in log.segments] == [9]

    for left in ([3, 6], [6], [], []):
        append(log, *(batch(1, size=300, seed=at) for at in range(3)))
        assert kept(files) == [f"{base:020d}.log.deleted" for base in left]
    assert [segment.base_offset for segment in log.segments] == [9, 12, 15, 18, 21]
    assert [segment.is_over for segment in log.segments] == [False] * 5, (
        "each is cut to its records when it is full, and the last is a new file"
    )

    deleted(files := disk(), to=9, segment_reuse_ms=0)
    assert kept(files) == []


def test_a_round_that_deletes_less_leaves_fewer() -> None:
    log, retired = deleted(files := disk(), to=9)
    for _ in range(2):
        log.segments.recycled.begin_round(-1.0)
        append(log, *(batch(1, size=300, seed=at) for at in range(3)))
        log.set_start_offset(log.segments[0].base_offset + 3)
        assert log.delete_old_segments(NOW, log.end_offset) == 1
        log.segments.recycled.directory_flushed()
        for file in retired:
            log.segments.recycled.release(file, 0.0)

    assert len(kept(files)) == 2, (
        "three were kept, two were taken, and one came: the last round has deleted one"
    )


def test_files_are_kept_within_the_budget_of_all_logs() -> None:
    log, _ = given(files := disk())
    log.segments.recycled.begin_round(-1.0, budget := Budget(7 * SIZE))
    log.set_start_offset(9)
    log.delete_old_segments(NOW, 10)
    assert (len(kept(files)), budget.used_bytes) == (2, 6 * SIZE)

    budget.limit_bytes = 5 * SIZE
    log.segments.recycled.begin_round(-1.0)
    assert (kept(files), budget.used_bytes) == ([f"{3:020d}.log.deleted"], 3 * SIZE)

    log.close(clean=False)
    assert (kept(files), budget.used_bytes) == ([], 0)
