"""The records that compaction leaves: the last value of each key where it was, tombstones for their
time, what producers and readers go by.
"""

from typing import Any

import pytest

from raftka.log.compaction.files import Damaged
from raftka.log.log import Log
from raftka.log.rows import digest
from raftka.wire.records import CONTROL, DELETE_HORIZON, TRANSACTIONAL
from raftka.wire.records import seal as sealed
from tests.log.compacting import DAY, batches, clean, contents, pairs_batch, records, seal
from tests.log.files import MemoryFiles
from tests.log.given import (
    DIRECTORY,
    NOW,
    append,
    disk,
    end_transaction,
    in_transaction,
    offsets,
    open_log,
)

A, B, C = b"a", b"b", b"c"


@pytest.fixture
def files() -> MemoryFiles:
    return disk()


def compacted(files: MemoryFiles, **config: Any) -> Log:
    return open_log(files, **({"cleanup_policy": "compact"} | config))


def names(files: MemoryFiles) -> list[str]:
    return [
        name for name in files.list(DIRECTORY) if not name.endswith((".snapshot", "checkpoint"))
    ]


@pytest.mark.parametrize("codec", range(5))
def test_the_last_value_of_each_key_stays_at_its_offset(files: MemoryFiles, codec: int) -> None:
    log = compacted(files)
    append(
        log,
        pairs_batch((A, b"1"), (B, b"1"), (A, b"2"), compression=codec),
        pairs_batch((C, b"1"), (B, b"2"), compression=codec),
    )
    seal(log)
    append(log, pairs_batch((C, b"2"), timestamp=NOW + 50, compression=codec))

    ended = clean(files, log)

    assert ended is not None
    assert (ended.clean_until, ended.keys) == (5, 3)
    assert contents(log) == [(2, A, b"2"), (3, C, b"1"), (4, B, b"2"), (5, C, b"2")], (
        "what is behind the dirty part is not looked at"
    )
    assert [record.timestamp for record in records(log)] == [NOW + 2, NOW, NOW + 1, NOW + 50]
    assert offsets(log) == [(0, 2), (3, 4), (5, 5)], "a batch keeps its bounds"
    assert batches(log)[0][0].max_timestamp == NOW + 2
    assert (log.start_offset, log.end_offset) == (0, 6)


def test_the_log_is_the_same_when_it_is_opened_again(files: MemoryFiles) -> None:
    log = compacted(files, segment_bytes=400, index_interval_bytes=1)
    for at in range(40):
        append(log, pairs_batch((b"%d" % (at % 7), b"x" * 30), timestamp=NOW + at))
    clean(files, log)
    found = contents(log)
    point = log.durability.recovery_point
    assert len(found) < 20

    for how in {"clean": True}, {"clean": False, "recovery_point": point}:
        log.close(clean=bool(how["clean"]))
        log = compacted(files, segment_bytes=400, index_interval_bytes=1, **how)

        assert contents(log) == found
        assert log.cut is None
    assert append(log, pairs_batch((A, b"new"))) == 41


def test_small_segments_are_joined_and_the_old_files_go(files: MemoryFiles) -> None:
    log = compacted(files, segment_bytes=1000)
    for at in range(12):
        append(log, pairs_batch((b"%d" % at, b"x" * 60)))
        log.roll(NOW)

    clean(files, log)

    assert [segment.base_offset for segment in log.segments] == [0, 7, 12], (
        "seven of 136 bytes are less than a thousand"
    )
    assert {name for name in names(files) if not name.startswith(f"{12:020d}")} == {
        f"{base:020d}{suffix}"
        for base in (0, 7)
        for suffix in (".index", ".log", ".timeindex", ".txnindex")
    }
    assert [offset for offset, *_ in contents(log)] == list(range(12))


def test_a_segment_of_which_everything_stays_is_left_alone(files: MemoryFiles) -> None:
    log = compacted(files, segment_bytes=300)
    append(log, *(pairs_batch((b"%d" % at, b"x" * 100)) for at in range(4)))
    seal(log)
    before = log.segments[0].file

    ended = clean(files, log)

    assert ended is not None
    assert (ended.clean_until, ended.bytes_written) == (4, 0)
    assert log.segments[0].file is before
    assert not [name for name in names(files) if "cleaned" in name]


def test_what_is_the_same_up_to_some_point_is_copied_from_there(files: MemoryFiles) -> None:
    log = compacted(files, index_interval_bytes=1)
    append(
        log,
        *(pairs_batch((b"%d" % at, b"x" * 50)) for at in range(9)),
        pairs_batch((b"8", b"again"), (b"9", b"")),
    )
    seal(log)

    clean(files, log)

    assert [offset for offset, *_ in contents(log)] == [0, 1, 2, 3, 4, 5, 6, 7, 9, 10]
    assert len(log.segments[0].offset_index) == 8
    size = batches(log)[0][0].size_bytes
    assert [log.read(at, 1, 11)[0][0].position for at in range(8)] == [size * at for at in range(8)]


def test_a_tombstone_waits_and_then_goes(files: MemoryFiles) -> None:
    log = compacted(files, delete_retention_ms=DAY)
    append(
        log,
        pairs_batch((A, b"1"), (B, b"1")),
        pairs_batch((A, None), (C, b"1"), timestamp=NOW + 70),
    )
    seal(log)
    clean(files, log, NOW + 1000)

    assert contents(log) == [(1, B, b"1"), (2, A, None), (3, C, b"1")]
    header = batches(log)[1][0]
    assert header.attributes & DELETE_HORIZON
    assert header.base_timestamp == NOW + 1000 + DAY, "KIP-534"
    assert [record.timestamp for record in records(log)] == [NOW + 1, NOW + 70, NOW + 71]

    for now, left in (NOW + 999 + DAY, [1, 2, 3]), (NOW + 1000 + DAY, [1, 3]):
        append(log, pairs_batch((B, b"2")))
        seal(log)
        clean(files, log, now)
        left = [*left[1:], log.end_offset - 1]
        assert [offset for offset, *_ in contents(log)] == left
    assert [record.timestamp for record in records(log)] == [NOW + 71, NOW]


def test_a_horizon_is_set_once(files: MemoryFiles) -> None:
    log = compacted(files)
    append(log, pairs_batch((A, None)))
    seal(log)
    clean(files, log, NOW)
    append(log, pairs_batch((B, b"1")))
    seal(log)

    clean(files, log, NOW + DAY - 1)

    assert batches(log)[0][0].base_timestamp == NOW + DAY


def test_records_without_a_key_from_before_the_topic_was_compacted_go(files: MemoryFiles) -> None:
    log = compacted(files, cleanup_policy="delete")
    append(
        log, pairs_batch((None, b"1"), (A, b"1")), pairs_batch((None, b"2")), pairs_batch((B, b"1"))
    )
    seal(log)

    clean(files, log)

    assert contents(log) == [(1, A, b"1"), (3, B, b"1")]


def test_the_last_batch_of_a_producer_stays_without_its_records(files: MemoryFiles) -> None:
    log = compacted(files)
    append(
        log,
        *(
            pairs_batch((A, b"%d" % at), producer=7, epoch=2, sequence=at, compression=1)
            for at in range(3)
        ),
        pairs_batch((A, b"x")),
    )
    seal(log)

    clean(files, log)

    assert contents(log) == [(3, A, b"x")]
    empty = batches(log)[0][0]
    assert (empty.base_offset, empty.count, empty.length, empty.compression) == (2, 0, 49, 0)
    assert (empty.producer_id, empty.producer_epoch, empty.base_sequence, empty.max_timestamp) == (
        7,
        2,
        2,
        NOW,
    )

    log.close(clean=False)
    for name in [name for name in files.names if name.endswith(".snapshot")]:
        files.remove(name)
    log = compacted(files, recovery_point=4)
    assert log.producers.producers[7].next_sequence == 3
    assert append(log, pairs_batch((A, b"y"), producer=7, epoch=2, sequence=3)) == 5


def test_a_producer_that_is_forgotten_leaves_no_empty_batch(files: MemoryFiles) -> None:
    log = compacted(files)
    append(log, pairs_batch((A, b"1"), producer=7), pairs_batch((A, b"x")))
    log.producers.expire(NOW + DAY, DAY)
    seal(log)

    clean(files, log)

    assert offsets(log) == [(1, 1)]


def test_the_last_batch_of_a_round_stays_for_those_who_read_there(files: MemoryFiles) -> None:
    log = compacted(files, cleanup_policy="delete")
    append(log, pairs_batch((A, b"1")), pairs_batch((None, b"1")))
    seal(log)
    clean(files, log)

    assert [(header.base_offset, header.count) for header, _ in batches(log)] == [(0, 1), (1, 0)]

    append(log, pairs_batch((A, b"2")))
    seal(log)
    clean(files, log)

    assert offsets(log) == [(2, 2)], "it is not the last any more"


def test_a_map_that_is_full_ends_the_round_and_the_next_goes_on(files: MemoryFiles) -> None:
    log = compacted(files)
    append(log, *(pairs_batch((b"%03d" % (at % 50), b"x")) for at in range(100)))
    seal(log)
    rounds = []

    while (ended := clean(files, log, map_bytes=203 * 30)) is not None:
        rounds.append(ended.clean_until)
        assert ended.keys <= 31

    assert rounds == [30, 60, 90, 100]
    assert [offset for offset, *_ in contents(log)] == list(range(50, 100))


def test_at_least_one_batch_a_round(files: MemoryFiles) -> None:
    log = compacted(files)
    append(log, *(pairs_batch((A, b"x"), (B, b"x")) for _ in range(3)))
    seal(log)

    assert clean(files, log, map_bytes=1).clean_until == 2  # type: ignore[union-attr]


def test_long_keys_are_distinguished_by_their_digest(files: MemoryFiles) -> None:
    log = compacted(files)
    long, other = b"k" * 64, b"k" * 63 + b"l"
    imposter = digest(long).to_bytes(16)
    append(
        log,
        pairs_batch((long, b"1"), (other, b"1"), (long, b"2"), (imposter, b"1"), (b"k" * 63, b"1")),
    )
    seal(log)

    clean(files, log)

    assert [offset for offset, *_ in contents(log)] == [1, 2, 3, 4]


def test_the_time_a_topic_stamps_stays(files: MemoryFiles) -> None:
    log = compacted(files, message_timestamp_type="LogAppendTime")
    append(
        log,
        pairs_batch((A, b"1"), (B, None), (C, b"2"), timestamp=NOW - 500),
        pairs_batch((C, b"3")),
        now=NOW + 7,
    )
    seal(log)

    clean(files, log)

    assert [(record.offset, record.timestamp) for record in records(log)] == [
        (0, NOW + 7),
        (1, NOW + 7),
        (3, NOW + 7),
    ]


def test_a_payload_that_cannot_be_read_stays(files: MemoryFiles) -> None:
    log = compacted(files, cleanup_policy="delete")
    bad = bytearray(pairs_batch((A, b"1"), compression=1))
    bad[61] ^= 255
    sealed(bad)
    append(log, pairs_batch((B, b"1")), memoryview(bad), pairs_batch((B, b"2")))
    seal(log)

    ended = clean(files, log)

    assert ended is not None
    assert ended.unreadable == 1
    assert offsets(log) == [(1, 1), (2, 2)]


# the end of the first batch, the length and the body of the second
@pytest.mark.parametrize("byte", [-1, 8, 11, 30])
def test_damage_ends_the_round_and_the_log_stays_as_it_is(files: MemoryFiles, byte: int) -> None:
    log = compacted(files)
    append(log, pairs_batch((A, b"1")), pairs_batch((A, b"2")))
    seal(log)
    first = files.names[log.segments[0].file.path].data
    first[len(first) // 2 + byte] ^= 64
    before = bytes(first)

    with pytest.raises(Damaged):
        clean(files, log)

    assert bytes(first) == before
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_committed_marker_stays_while_it_has_records_and_then_waits_as_a_tombstone_does(
    files: MemoryFiles,
) -> None:
    log = compacted(files)
    in_transaction(log, pairs_batch((A, b"1"), producer=7, transactional=True))
    end_transaction(log, 7, commit=True)
    append(log, pairs_batch((B, b"1")))
    log.producers.producers.clear()
    seal(log)
    clean(files, log)
    assert [(h.base_offset, h.attributes) for h, _ in batches(log)] == [
        (0, TRANSACTIONAL),
        (1, TRANSACTIONAL | CONTROL),
        (2, 0),
    ]

    seen = []
    for now in NOW, NOW, NOW + DAY - 1, NOW + DAY:
        append(log, pairs_batch((A, b"2")))
        seal(log)
        clean(files, log, now)
        seen.append([(h.attributes, h.base_timestamp) for h, _ in batches(log) if h.attributes])

    waiting = [(TRANSACTIONAL | CONTROL | DELETE_HORIZON, NOW + DAY)]
    assert seen == [[(TRANSACTIONAL | CONTROL, NOW)], waiting, waiting, []] or seen == [
        waiting,
        waiting,
        waiting,
        [],
    ]


def test_what_was_aborted_goes_whatever_its_keys(files: MemoryFiles) -> None:
    log = compacted(files)
    append(log, pairs_batch((A, b"before")))
    in_transaction(
        log, pairs_batch((A, b"aborted"), (B, b"aborted"), producer=7, transactional=True)
    )
    end_transaction(log, 7, commit=False)
    in_transaction(log, pairs_batch((B, b"committed"), producer=8, transactional=True))
    end_transaction(log, 8, commit=True)
    seal(log)
    clean(files, log)
    assert [(each.key, each.value) for each in records(log) if each.key in (A, B)] == [
        (A, b"before"),
        (B, b"committed"),
    ]
    assert [entry[:3] for entry in log.aborted.find(0, log.end_offset)] == [(7, 1, 3)]


def test_an_abort_before_the_dirty_part_says_nothing_of_the_next_transaction_of_its_producer(
    files: MemoryFiles,
) -> None:
    log = compacted(files)
    append(log, pairs_batch((A, b"before")))
    in_transaction(log, pairs_batch((B, b"aborted"), producer=7, transactional=True))
    end_transaction(log, 7, commit=False)
    seal(log)
    clean(files, log)
    in_transaction(log, pairs_batch((A, b"committed"), producer=7, sequence=1, transactional=True))
    end_transaction(log, 7, commit=True)
    seal(log)
    clean(files, log)
    assert [(each.key, each.value) for each in records(log) if each.key in (A, B)] == [
        (A, b"committed")
    ]


def test_offsets_and_times_are_found_in_what_is_left(files: MemoryFiles) -> None:
    log = compacted(files, index_interval_bytes=1, segment_bytes=600)
    for at in range(30):
        append(log, pairs_batch((b"%d" % (at % 9), b"x" * 20), timestamp=NOW + 10 * at))
    seal(log)
    clean(files, log)
    left = records(log)

    for offset in range(30):
        first = next(record for record in left if record.offset >= offset)
        spans, _ = log.read(offset, 1, 30)
        assert int.from_bytes(spans[0].file.read(spans[0].position, 8)) == first.offset
        found = log.offset_for_timestamp(NOW + 10 * offset - 5, 30)
        assert found is not None
        assert found[:2] == (first.timestamp, first.offset)
    assert log.max_timestamp_offset(30)[1] == 29  # type: ignore[index]


def test_no_segment_goes_during_a_round(files: MemoryFiles) -> None:
    log = compacted(files, cleanup_policy="compact,delete", segment_bytes=200, retention_ms=1)
    append(log, *(pairs_batch((b"%d" % at, b"x" * 30)) for at in range(10)))
    log.cleaning = True
    assert log.delete_oldest(NOW + DAY, 10) == 0
    log.cleaning = False

    assert log.delete_oldest(NOW + DAY, 10) == 5


def test_truncation_into_what_was_compacted(files: MemoryFiles) -> None:
    log = compacted(files, segment_bytes=400)
    for at in range(20):
        append(log, pairs_batch((b"%d" % (at % 4), b"x" * 30)))
    clean(files, log)
    assert log.segments.cleaned_offset > 15

    end = log.truncate_to(15)

    assert (log.segments.cleaned_offset, log.end_offset) == (end, end)
    assert log.durability.recovery_point <= end
    append(log, pairs_batch((A, b"new")), epoch=1)
    assert contents(log)[-1] == (end, A, b"new")


def test_a_file_that_is_cut_meanwhile_is_damage(files: MemoryFiles) -> None:
    log = compacted(files)
    append(log, pairs_batch((A, b"1")), pairs_batch((A, b"2")))
    seal(log)
    del files.names[log.segments[0].file.path].data[-20:]

    with pytest.raises(Damaged):
        clean(files, log)


@pytest.mark.parametrize("read_bytes", [61, 100, 5000])
def test_batches_of_any_size_in_pieces_of_any_size(files: MemoryFiles, read_bytes: int) -> None:
    log = compacted(files)
    append(
        log,
        *(
            pairs_batch((b"%d" % at, b"x" * size), (A, b""))
            for at, size in enumerate([10, 900, 10, 30_000, 100, 3000])
        ),
    )
    seal(log)

    clean(files, log, read_bytes=read_bytes)

    assert [offset for offset, *_ in contents(log)] == [0, 2, 4, 6, 8, 10, 11]


def test_offsets_that_are_not_the_batchs_make_it_unreadable(files: MemoryFiles) -> None:
    """Else they would point into the batches of others."""
    log = compacted(files, cleanup_policy="delete")
    bad = bytearray(pairs_batch((A, b"1"), (B, b"1")))
    assert bad[61 + 3] == 0
    bad[61 + 3] = 6  # the first record's offset delta: 3 of 2
    sealed(bad)
    append(log, memoryview(bad), *(pairs_batch((C, b"%d" % at)) for at in range(4)))
    seal(log)

    ended = clean(files, log)

    assert ended is not None
    assert ended.unreadable == 1
    assert offsets(log) == [(0, 1), (5, 5)]
