"""The dirty part of a log, and the size from which it is worth a round."""

import pytest

from raftka.log.compaction.dirt import Dirt, dirt_of, is_worth_it
from raftka.log.log import Log
from tests.log.compacting import clean, pairs_batch
from tests.log.given import NOW, append, checkpoint, disk, flush, open_log

SIZE = len(pairs_batch((b"k", b"x")))


def five(**config: object) -> Log:
    """Five segments of one record each, a second apart; the last is the active one."""
    log = open_log(cleanup_policy="compact", segment_bytes=SIZE, **config)  # type: ignore[arg-type]
    append(
        log,
        *(pairs_batch((b"k", b"x"), timestamp=NOW + 1000 * at) for at in range(5)),
        now=NOW + 5000,
    )
    log.durability.settled_point = checkpoint(log)
    return log


def test_all_but_the_active_segment() -> None:
    assert dirt_of(five(), 5, NOW) == Dirt(0, 4, 4 * SIZE, 1.0, overdue=False)
    assert dirt_of(open_log(cleanup_policy="compact"), 0, NOW) is None


def test_what_is_not_committed_is_left_alone() -> None:
    log = five()

    assert [dirt.end if (dirt := dirt_of(log, up_to, NOW)) else None for up_to in range(6)] == [
        None,
        1,
        2,
        3,
        4,
        4,
    ]


def test_what_is_above_the_recovery_point_on_disk_is_left_alone() -> None:
    """A gap there is damage; one that is not written down yet does not count."""
    log = open_log(cleanup_policy="compact", segment_bytes=SIZE)
    for at in range(5):
        append(log, pairs_batch((b"k", b"x")))
        if at == 2:
            log.durability.settled_point = checkpoint(log)
    flush(log)
    assert checkpoint(log) == 5

    assert dirt_of(log, 5, NOW) == Dirt(0, 3, 3 * SIZE, 1.0, overdue=False)


def test_the_ratio_counts_what_is_clean() -> None:
    log = five(min_cleanable_dirty_ratio=0.5)
    log.segments.cleaned_offset = 2
    dirt = dirt_of(log, 5, NOW)

    assert dirt == Dirt(2, 4, 2 * SIZE, 0.5, overdue=False)
    assert not is_worth_it(log, dirt), "Kafka asks for more than the ratio"
    log.segments.cleaned_offset = 1
    dirt = dirt_of(log, 5, NOW)
    assert dirt is not None
    assert is_worth_it(log, dirt)


def test_a_segment_that_is_half_clean_is_dirty() -> None:
    log = open_log(cleanup_policy="compact")
    append(log, pairs_batch((b"a", b"")), pairs_batch((b"a", b"")))
    log.roll(NOW)
    append(log)
    log.durability.settled_point = checkpoint(log)
    log.segments.cleaned_offset = 1

    assert dirt_of(log, 2, NOW) == Dirt(1, 2, log.segments[0].size, 1.0, overdue=False)


@pytest.mark.parametrize(("cleaned", "begins"), [(3, 3), (1, 2), (9, 2)])
def test_a_checkpoint_that_cannot_be_is_none(cleaned: int, begins: int) -> None:
    log = five()
    log.set_start_offset(2)
    log.segments.cleaned_offset = cleaned

    dirt = dirt_of(log, 5, NOW)

    assert dirt is not None
    assert dirt.first_dirty == begins


def test_records_younger_than_the_lag_are_left_alone() -> None:
    log = five(min_compaction_lag_ms=1000)

    assert [
        dirt.end if (dirt := dirt_of(log, 5, NOW + now)) else None
        for now in (0, 999, 1000, 2500, 9000)
    ] == [None, None, 1, 2, 4]


def test_a_record_that_waited_too_long_makes_it_urgent() -> None:
    log = five(max_compaction_lag_ms=10_000, min_cleanable_dirty_ratio=1.0)
    log.segments.cleaned_offset = 2
    for now, urgent in (12_000, False), (12_001, True):
        dirt = dirt_of(log, 5, NOW + now)
        assert dirt is not None
        assert dirt.overdue is urgent
        assert is_worth_it(log, dirt) is urgent


def test_a_topic_with_a_largest_lag_rolls_in_time() -> None:
    log = open_log(cleanup_policy="compact", max_compaction_lag_ms=1000)

    append(log, *(pairs_batch((b"k", b"x"), timestamp=NOW + at) for at in (0, 1000, 1001)))

    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_nothing_is_dirty_behind_a_round() -> None:
    files = disk()
    log = open_log(files, cleanup_policy="compact", segment_bytes=3 * SIZE)
    append(log, *(pairs_batch((b"k", b"x")) for at in range(5)))

    assert clean(files, log) is not None
    assert clean(files, log) is None
