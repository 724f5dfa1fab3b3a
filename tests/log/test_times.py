"""The largest timestamps that a log knows: whatever a client has written into a header, and where
records have no time.
"""

from struct import pack_into
from typing import Any

import pytest

from raftka.chaos.simulated.checks.retained import watched
from raftka.log.log import Log
from raftka.log.segments.segment import Segment
from raftka.log.validation import RefusedRecords, TakesLong
from raftka.wire.records import DELETE_HORIZON, build_batch, read_header
from raftka.wire.records import seal as sealed
from tests.log.compacting import clean as compacted
from tests.log.compacting import pairs_batch, seal
from tests.log.files import MemoryFiles
from tests.log.given import DIRECTORY, NOW, append, batch, content, disk, open_log, read_all

HOUR = 3_600_000
CODECS = [0, 1, 2, 3, 4]
BASE, LARGEST, ATTRIBUTES = 27, 35, 21  # positions in a header
AS_SARAMA = -1


def said(view: memoryview, largest: int, at: int = LARGEST) -> memoryview:
    """The batch with another largest timestamp (or another timestamp) in its header."""
    pack_into(">q", view, at, largest)
    sealed(view)
    return view


def timeless(count: int = 1, **more: Any) -> memoryview:
    """Records without a time."""
    records = [(b"k", b"v", (), -1)] * count
    return memoryview(build_batch(records, **more))


def found(log: Log, timestamp: int) -> int | None:
    first = log.offset_for_timestamp(timestamp, log.end_offset)
    return first.offset if first else None


def largest(log: Log) -> tuple[int, int] | None:
    last = log.max_timestamp_offset(log.end_offset)
    return last[:2] if last else None


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("wrong", [AS_SARAMA, 0, NOW - 1, -(1 << 63)])
def test_a_largest_timestamp_that_cannot_be_right_is_repaired(wrong: int, codec: int) -> None:
    log = open_log()

    append(log, said(batch(3, compression=codec), wrong))

    assert read_all(log)[0].max_timestamp == NOW + 2
    assert log.segments.active.max_timestamp == NOW + 2
    assert (found(log, NOW + 1), largest(log)) == (1, (NOW + 2, 2))


def test_one_record_has_the_base_timestamp() -> None:
    log = open_log()

    append(log, said(batch(1), NOW + 5000))

    assert read_all(log)[0].max_timestamp == NOW


def test_records_before_the_base_timestamp_are_seen_as_they_are() -> None:
    log, sent = open_log(), batch(3, timestamp=NOW)
    pack_into(">q", sent, BASE, NOW - 1000)

    append(log, said(sent, NOW - 2000))

    assert read_all(log)[0].max_timestamp == NOW - 998


@pytest.mark.parametrize("codec", CODECS)
def test_a_wrong_header_does_not_hide_a_record_from_the_bounds(codec: int) -> None:
    log = open_log(message_timestamp_before_max_ms=HOUR, message_timestamp_after_max_ms=HOUR)

    for timestamp in NOW + HOUR - 1, NOW - HOUR - 1:
        with pytest.raises(RefusedRecords, match="INVALID_TIMESTAMP"):
            append(log, said(batch(3, timestamp=timestamp, compression=codec), AS_SARAMA))

    append(
        log,
        said(batch(3, timestamp=NOW + HOUR - 2, compression=codec), AS_SARAMA),
        timeless(2, compression=codec),
    )
    assert log.end_offset == 5


def test_a_long_batch_is_walked_beside_the_loop() -> None:
    log = open_log()
    sent = said(batch(600, compression=1), AS_SARAMA)

    with pytest.raises(TakesLong) as much:
        log.client_batches.append(sent, 0, NOW)
    log.client_batches.append_prepared(much.value.prepared(), 0, NOW)
    log.write_staged()

    assert read_all(log)[0].max_timestamp == NOW + 599


@pytest.mark.parametrize("wrong", [AS_SARAMA, NOW - 1])
def test_the_brokers_time_counts_where_the_topic_says_so(wrong: int) -> None:
    log = open_log(message_timestamp_type="LogAppendTime")

    append(log, said(batch(3), wrong), timeless())

    assert [header.max_timestamp for header in read_all(log)] == [NOW, NOW]
    assert largest(log) == (NOW, 0)


def test_records_without_a_time_have_none() -> None:
    log = open_log()

    append(log, timeless(2), timeless(2, compression=1))

    assert [header.max_timestamp for header in read_all(log)] == [-1, -1]
    assert (found(log, 0), largest(log)) == (None, None)


@pytest.mark.parametrize("order", [(AS_SARAMA, None), (None, AS_SARAMA)])
def test_a_search_finds_records_of_both_kinds_of_clients(
    order: tuple[int | None, int | None],
) -> None:
    log = open_log()
    for at in range(200):
        wrong = order[at // 100]
        sent = batch(1, timestamp=NOW + 10 * at)
        append(log, sent if wrong is None else said(sent, wrong))

    assert [found(log, NOW + 10 * at) for at in (0, 50, 99, 100, 150, 199)] == [
        0,
        50,
        99,
        100,
        150,
        199,
    ]
    assert largest(log) == (NOW + 1990, 199)


# what an older raftka has stored


def old_log(codec: int = 0, *, sealed: bool, reverse: bool = False) -> MemoryFiles:
    """Batches with and without right headers, as they came, with the time index that an older
    raftka has made of the headers.
    """
    files = disk()
    leader = open_log(flush="os")
    log = open_log(files, index_interval_bytes=300)
    for at in range(40):
        sent = batch(2, timestamp=NOW + 10 * at, size=40, compression=codec)
        leader.client_batches.append(sent, 0, NOW)
        if (at < 20) != reverse:
            said(sent, AS_SARAMA)
        log.append_as_follower(sent, 0)
        log.write_staged()
    if sealed:
        log.roll(NOW)
        log.append_as_follower(with_base(batch(1, timestamp=NOW + 400), 80), 0)
        log.write_staged()
    right = log.segments[0].time_index
    old = [
        (t, o)
        for t, o in zip(right.timestamps, right.offsets, strict=True)
        if (t < NOW + 200) == reverse
    ]
    log.close(clean=True)
    index = bytearray(12 * len(old))
    for number, (timestamp, offset) in enumerate(old):
        pack_into(">qi", index, 12 * number, timestamp, offset)
    files.names[f"{DIRECTORY}/{0:020d}.timeindex"].data[:] = index
    return files


def with_base(view: memoryview, offset: int) -> memoryview:
    """As a leader of epoch 0 has stored it."""
    pack_into(">q", view, 0, offset)
    pack_into(">i", view, 12, 0)
    return view


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("codec", [0, 1])
def test_the_times_of_an_older_log_are_found_anew(
    codec: int, clean: bool, sealed: bool, reverse: bool
) -> None:
    files = old_log(codec, sealed=sealed, reverse=reverse)
    end = 81 if sealed else 80

    log = open_log(files, clean=clean, recovery_point=end if clean else 0, index_interval_bytes=300)

    assert log.end_offset == end
    assert [found(log, NOW + at) for at in (0, 101, 190, 200, 391)] == [0, 21, 38, 40, 79]
    assert log.segments[0].max_timestamp_known == NOW + 391
    assert largest(log) == ((NOW + 400, 80) if sealed else (NOW + 391, 79))


def test_the_time_index_that_was_made_anew_is_kept() -> None:
    files = old_log(sealed=True)
    log = open_log(files, clean=True, recovery_point=81, index_interval_bytes=300)
    assert found(log, NOW) == 0
    log.close(clean=True)
    writes = files.calls

    log = open_log(files, clean=True, recovery_point=81, index_interval_bytes=300)
    assert found(log, NOW + 101) == 21
    assert files.calls == writes


def test_a_follower_knows_the_times_that_an_older_leader_has_not_repaired() -> None:
    log = open_log()

    log.append_as_follower(said(batch(3), AS_SARAMA), 0)
    log.write_staged()

    assert log.segments.active.max_timestamp == NOW + 2
    assert largest(log) == (NOW + 2, 2)
    assert found(log, NOW + 1) == 1


def test_a_base_timestamp_that_is_a_horizon_is_no_mistake() -> None:
    log, sent = open_log(), batch(2)
    pack_into(">h", sent, ATTRIBUTES, DELETE_HORIZON)
    said(sent, NOW + HOUR, BASE)
    said(sent, NOW + 1)

    log.append_as_follower(sent, 0)

    assert log.segments.active.max_timestamp == NOW + 1


def test_an_unreadable_payload_counts_by_its_header() -> None:
    log, sent = open_log(), memoryview(bytearray(batch(3, compression=1)))
    sent[61:70] = bytes(9)
    said(sent, AS_SARAMA)

    log.append_as_follower(sent, 0)

    assert log.segments.active.max_timestamp == NOW


# retention and rolling where records have no time


RETENTION: dict[str, Any] = {"retention_ms": 60_000}


@pytest.mark.parametrize(
    "sent",
    [lambda now: timeless(), lambda now: said(batch(1, timestamp=now), AS_SARAMA)],
    ids=["timeless", "sarama"],
)
def test_what_is_still_written_to_is_not_deleted(sent: Any) -> None:
    files = disk()
    log = open_log(files, **RETENTION)
    for second in range(0, 600, 10):
        now = files.wall_ms = NOW + 1000 * second
        append(log, sent(now), now=now)
        assert log.delete_old_segments(now + 5000, log.end_offset) == 0, f"after {second} s"
    assert log.start_offset == 0

    files.wall_ms += 60_001
    assert log.delete_old_segments(files.wall_ms, log.end_offset) == 1


def test_a_restart_does_not_begin_the_clock_anew() -> None:
    files = disk()
    log = open_log(files, **RETENTION)
    append(log, timeless())
    for clean in True, False, True:
        files.wall_ms += 20_000
        log.close(clean=clean)
        log = open_log(files, clean=clean, recovery_point=1 if clean else 0, **RETENTION)
        assert log.delete_old_segments(files.wall_ms, 1) == 0

    files.wall_ms = NOW + 60_001
    assert log.delete_old_segments(files.wall_ms, 1) == 1


@pytest.mark.parametrize("config", [{"preallocate": True}, {"segment_reuse_ms": 1000}])
def test_cutting_what_was_reserved_is_no_write(config: dict[str, Any]) -> None:
    files = disk()
    log = open_log(files, segment_bytes=1000, **RETENTION, **config)
    append(log, timeless())
    log.segments.active.is_over = "segment_reuse_ms" in config

    files.wall_ms += 30_000
    log.close(clean=True)

    assert open_log(files, clean=True, recovery_point=1).segments[0].largest_timestamp == NOW


def test_a_segment_with_records_of_both_kinds_is_kept_as_long_as_the_younger() -> None:
    files = disk()
    log = open_log(files, **RETENTION)
    append(log, batch(1))
    files.wall_ms = NOW + 50_000
    append(log, timeless(), now=files.wall_ms)

    assert log.delete_old_segments(NOW + 100_000, 2) == 0
    log.close(clean=True)
    log = open_log(files, clean=True, recovery_point=2, **RETENTION)
    assert log.delete_old_segments(NOW + 100_000, 2) == 0
    assert log.delete_old_segments(NOW + 110_001, 2) == 1


def mixed_and_sealed(files: MemoryFiles) -> Log:
    """A segment with a late record without a time, and one behind it."""
    log = open_log(files, index_interval_bytes=1, **RETENTION)
    append(log, batch(1))
    files.wall_ms = NOW + 50_000
    append(log, timeless(), batch(1), batch(1), now=files.wall_ms)
    log.roll(files.wall_ms)
    append(log, batch(1, timestamp=files.wall_ms), now=files.wall_ms)
    assert [segment.base_offset for segment in log.segments] == [0, 4]
    return log


def test_a_sealed_segment_goes_by_the_times_that_there_are_once_its_log_was_opened_again() -> None:
    files = disk()
    wrong: list[str] = []
    with watched(wrong):
        log = mixed_and_sealed(files)
        assert log.delete_old_segments(NOW + 100_000, 5) == 0
        log.close(clean=True)
        log = open_log(files, clean=True, recovery_point=5, **RETENTION)
        assert log.delete_old_segments(NOW + 100_000, 5) == 1
    assert wrong == []


def test_the_judge_knows_which_records_without_a_time_a_log_must_remember(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong: list[str] = []
    with watched(wrong):
        log = mixed_and_sealed(disk())
        monkeypatch.setattr(
            Segment, "largest_timestamp", property(lambda self: self.max_timestamp_known)
        )
        assert log.delete_old_segments(NOW + 100_000, 5) == 1
    assert len(wrong) == 1


def test_a_sealed_segment_that_a_crash_makes_the_last_keeps_its_records_without_a_time() -> None:
    files = disk()
    log = mixed_and_sealed(files)
    path, size = log.segments[0].file.path, log.segments[0].size
    log.close(clean=False)
    file = files.open(path)
    file.truncate(size - 1)
    files.wall_ms = NOW + 50_000

    log = open_log(files, recovery_point=3, **RETENTION)

    assert (log.end_offset, len(log.segments)) == (3, 1)
    assert log.delete_old_segments(NOW + 100_000, 3) == 0
    assert log.delete_old_segments(NOW + 110_001, 3) == 1


def test_records_with_old_times_go_by_their_times() -> None:
    files = disk()
    log = open_log(files, **RETENTION)
    append(log, batch(1, timestamp=NOW - 100_000))

    assert log.delete_old_segments(NOW, 1) == 1


def test_a_segment_whose_first_batch_has_no_time_rolls_by_its_age() -> None:
    log = open_log(segment_ms=1000)
    append(log, timeless(), now=NOW)
    append(log, timeless(), batch(1, timestamp=NOW + 9000), now=NOW + 1000)
    append(log, timeless(), now=NOW + 1001)

    assert [segment.base_offset for segment in log.segments] == [0, 3]


def test_the_age_of_a_segment_outlives_a_restart() -> None:
    files = disk()
    log = open_log(files, segment_ms=1000)
    append(log, timeless())
    files.wall_ms = NOW + 1500
    log.close(clean=True)
    log = Log.open(files, DIRECTORY, log.config, NOW + 1500, clean_shutdown=True, recovery_point=1)

    append(log, timeless(), now=NOW + 1500)

    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_a_follower_rolls_by_age_and_remembers_producers_as_its_leader_does() -> None:
    log = open_log(segment_ms=1000, producer_id_expiration_ms=1000)

    for number, now in enumerate((NOW, NOW + 900, NOW + 1100)):
        sent = timeless(producer_id=7, producer_epoch=0, base_sequence=number)
        log.append_as_follower(with_base(sent, number), 0, now)
    log.producers.expire(NOW + 2000, 1000)

    assert [segment.base_offset for segment in log.segments] == [0, 2]
    assert 7 in log.producers.producers


def test_the_stored_batch_is_what_was_sent_but_for_its_time() -> None:
    log, sent = open_log(), batch(3, producer=7)
    wanted = bytes(with_base(sent, 0))

    append(log, said(sent, AS_SARAMA))

    stored = memoryview(content(log.read(0, 1000, 3)[0]))
    assert bytes(stored) == wanted
    assert read_header(stored).max_timestamp == NOW + 2


# a log that begins within a batch


@pytest.mark.parametrize("stamped", [True, False])
def test_a_search_begins_within_a_batch_where_the_log_does(stamped: bool) -> None:
    log = open_log(message_timestamp_type="LogAppendTime" if stamped else "CreateTime")
    append(log, batch(10, timestamp=NOW))
    append(log, batch(10, timestamp=NOW - HOUR), now=NOW - HOUR)
    log.set_start_offset(5)

    assert found(log, 0) == 5
    assert largest(log) == ((NOW, 5) if stamped else (NOW + 9, 9))


@pytest.mark.parametrize("codec", CODECS)
def test_a_search_within_a_stamped_batch_passes_by_what_a_cleaner_took(codec: int) -> None:
    files = disk()
    log = open_log(
        files,
        cleanup_policy="compact",
        min_cleanable_dirty_ratio=0.01,
        message_timestamp_type="LogAppendTime",
    )
    append(
        log, pairs_batch((b"a", b"1"), (b"b", b"1"), (b"c", b"1"), (b"a", b"2"), compression=codec)
    )
    append(log, pairs_batch((b"b", b"2"), compression=codec))
    seal(log)
    compacted(files, log)

    assert found(log, 0) == 2
    assert largest(log) == (NOW, 2)


def test_an_unreadable_payload_counts_from_where_the_log_begins() -> None:
    log = open_log()
    broken = batch(10, compression=1)
    broken[61:63] = b"no"
    append(log, said(broken, NOW + 9))
    log.set_start_offset(5)

    assert found(log, NOW) == 5
