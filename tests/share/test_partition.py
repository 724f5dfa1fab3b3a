"""The state of a share partition on its leader, rule by rule; facts A1-A13 of Kafka 4.4."""

from collections.abc import Sequence
from math import inf

import pytest

from raftka.share.partition import (
    ACCEPT,
    ACKNOWLEDGED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    GAP,
    REJECT,
    REJECTED,
    RELEASE,
    RENEW,
    TRANSITIONS,
    UNDELIVERABLE,
    Acquired,
    Batch,
    Change,
    DeadRange,
    RecordState,
    Rules,
    SharePartition,
    Wanted,
)
from raftka.share.state import StateBatch
from raftka.wire.errors import Code, KafkaError

RULES = Rules(count_limit=5, max_locks=2000, renews=True, dead_letters=False)
ALL = Wanted(500, 500, exact=False)
ME, OTHER = "me", "other"


def of(records: int, size: int, first: int = 0) -> list[Batch]:
    """Batches of the log of `size` records each."""
    return [(base, base + size - 1) for base in range(first, first + records, size)]


def acknowledge(
    core: SharePartition,
    *acks: tuple[int, int, Sequence[int]],
    member: str = ME,
    rules: Rules = RULES,
    until: float = 100.0,
) -> Change:
    steps = core.acknowledge(member, acks, until, rules)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            change: Change = stop.value
            return change


def done(core: SharePartition, *acks: tuple[int, int, Sequence[int]], rules: Rules = RULES) -> None:
    core.commit(acknowledge(core, *acks, rules=rules))


def refused(core: SharePartition, *acks: tuple[int, int, Sequence[int]], member: str = ME) -> str:
    with pytest.raises(KafkaError) as error:
        acknowledge(core, *acks, member=member)
    return str(error.value)


def acquired(
    records: int = 40, size: int = 10, wanted: Wanted = ALL, rules: Rules = RULES
) -> SharePartition:
    core = SharePartition(0)
    core.acquire(ME, wanted, of(records, size), 30.0, rules)
    return core


# acquiring


@pytest.mark.parametrize(
    ("batch_size", "ranges"),
    [
        (500, [(0, 19)]),
        (5, [(0, 4), (5, 9), (10, 14), (15, 19)]),
        (7, [(0, 9), (10, 19)]),
        (1, [(0, 4), (5, 9), (10, 14), (15, 19)]),
        (0, [(0, 4), (5, 9), (10, 14), (15, 19)]),
        (-5, [(0, 4), (5, 9), (10, 14), (15, 19)]),
    ],
)
def test_batch_size_cuts_ranges_at_batches(batch_size: int, ranges: list[Batch]) -> None:
    wanted = Wanted(500, batch_size, exact=False)
    found = SharePartition(0).acquire(ME, wanted, of(20, 5), 30.0, RULES)
    assert found == [Acquired(first, last, 1) for first, last in ranges]


def test_whole_batches_may_exceed_max_records() -> None:
    core = SharePartition(0)
    assert core.acquire(ME, Wanted(3, 500, False), of(20, 5), 30.0, RULES) == [(0, 4, 1)]
    assert core.next_offset() == 5
    assert core.acquire(OTHER, Wanted(7, 500, False), of(15, 5, 5), 30.0, RULES) == [(5, 14, 1)]


def test_record_limit_gives_exactly_as_many() -> None:
    core = SharePartition(0)
    log = of(20, 5)
    assert core.acquire(ME, Wanted(3, 500, True), log, 30.0, RULES) == [(0, 2, 1)]
    assert core.acquire(ME, Wanted(4, 500, True), log, 30.0, RULES) == [(3, 4, 1), (5, 6, 1)]
    found = core.acquire(ME, Wanted(5, 2, True), log[1:], 30.0, RULES)
    assert found == [(7, 9, 1), (10, 11, 1)]


def test_no_records_are_wanted() -> None:
    assert SharePartition(0).acquire(ME, Wanted(0, 500, False), of(5, 5), 30.0, RULES) == []
    assert SharePartition(0).acquire(ME, ALL, [], 30.0, RULES) == []


def test_records_in_flight_are_bounded() -> None:
    rules, core = RULES._replace(max_locks=100), SharePartition(0)
    log = of(180, 30)
    assert core.acquire(ME, ALL, log, 30.0, rules) == [(0, 119, 1)]
    assert not core.has_room(rules)
    done(core, (0, 29, [ACCEPT]))
    assert core.acquire(ME, ALL, log[4:], 30.0, rules) == [(120, 149, 1)]
    done(core, (60, 89, [ACCEPT]))
    assert not core.has_room(rules)
    assert core.acquire(ME, ALL, log[5:], 30.0, rules) == []


def test_released_records_are_acquired_though_there_is_no_room() -> None:
    rules, core = RULES._replace(max_locks=100), SharePartition(0)
    core.acquire(ME, ALL, of(180, 30), 30.0, rules)
    done(core, (40, 49, [RELEASE]))
    assert core.has_room(rules)
    assert core.next_offset() == 40
    assert core.acquire(OTHER, ALL, of(150, 30, 30), 30.0, rules) == [(40, 49, 2)]


def test_two_members_never_hold_one_record() -> None:
    core = acquired()
    assert core.acquire(OTHER, ALL, of(40, 10), 30.0, RULES) == []


def test_offsets_that_the_log_has_no_more_are_passed_over() -> None:
    core = SharePartition(0)
    assert core.acquire(ME, ALL, [(5, 9)], 30.0, RULES) == [(5, 9, 1)]
    done(core, (5, 9, [ACCEPT]))
    assert (core.start, core.complete_count) == (10, 0)


def test_released_offsets_that_the_log_has_no_more_are_archived() -> None:
    core = acquired(20, 10)
    done(core, (0, 19, [RELEASE]))
    assert core.acquire(ME, ALL, [(10, 19)], 30.0, RULES) == [(10, 19, 2)]
    assert core.start == 10


def test_aborted_records_are_archived_and_not_persisted() -> None:
    core = SharePartition(0)
    log = [(0, 1), (2, 2), (3, 4), (5, 5), (6, 6)]
    assert core.acquire(ME, ALL, log, 30.0, RULES, [(3, 4)]) == [(0, 2, 1), (5, 6, 1)]
    change = acknowledge(core, (0, 1, [ACCEPT]), (2, 2, [GAP]), (6, 6, [ACCEPT]))
    assert change.batches == [
        StateBatch(0, 1, 2, 1),
        StateBatch(2, 2, 4, 1),
        StateBatch(6, 6, 2, 1),
    ]
    assert (change.start, change.complete_count) == (0, 6)
    core.commit(change)
    assert core.start == 5


# deliveries that fail


def test_a_record_on_its_last_try_is_alone() -> None:
    rules, core = RULES._replace(count_limit=3), SharePartition(0)
    log = of(4, 4)
    for count in (1, 2):
        assert core.acquire(ME, ALL, log, 30.0, rules) == [(0, 3, count)]
        done(core, (0, 3, [RELEASE]), rules=rules)
    for offset in range(4):
        assert core.acquire(ME, ALL, log, 30.0, rules) == [(offset, offset, 3)]
        done(core, (offset, offset, [RELEASE]), rules=rules)
    assert (core.start, core.end) == (4, 4)


def test_doubtful_batches_are_halved() -> None:
    core = SharePartition(0)
    for count in (1, 2, 3):
        assert core.acquire(ME, ALL, of(40, 40), 30.0, RULES) == [(0, 39, count)]
        done(core, (0, 39, [RELEASE]))
    assert core.acquire(ME, ALL, of(80, 40), 30.0, RULES) == [(0, 19, 4)]
    assert core.acquire(OTHER, ALL, of(80, 40), 30.0, RULES) == [(20, 39, 4)]


def test_doubtful_records_stop_an_acquisition_that_has_others() -> None:
    core = SharePartition(0, [StateBatch(0, 4, 0, 1), StateBatch(5, 9, 0, 3)])
    assert core.acquire(ME, ALL, of(20, 5), 30.0, RULES) == [(0, 4, 2)]


def test_release_at_the_limit_archives() -> None:
    rules = RULES._replace(count_limit=2)
    core = SharePartition(0)
    core.acquire(ME, ALL, of(5, 5), 30.0, rules)
    done(core, (0, 4, [RELEASE]), rules=rules)
    assert core.acquire(ME, ALL, of(5, 5), 30.0, rules) == [(0, 4, 2)]
    change = acknowledge(core, (0, 4, [RELEASE]), rules=rules)
    assert change.batches == [StateBatch(0, 4, int(ARCHIVED), 2)]
    core.commit(change)
    assert core.next_offset() == core.end == 5


# acknowledging


def test_each_type_has_its_state() -> None:
    core = acquired()
    change = acknowledge(core, (30, 33, [ACCEPT, RELEASE, REJECT, GAP]))
    assert change.batches == [
        StateBatch(30, 30, int(ACKNOWLEDGED), 1),
        StateBatch(31, 31, int(AVAILABLE), 1),
        StateBatch(32, 33, int(ARCHIVED), 1),
    ]


def test_the_write_has_the_start_of_before() -> None:
    core = acquired()
    change = acknowledge(core, (0, 9, [ACCEPT]))
    assert (change.start, change.complete_count) == (0, 10)
    core.commit(change)
    change = acknowledge(core, (5, 12, [ACCEPT]))
    assert (change.start, change.complete_count) == (10, 3)
    core.commit(change)
    change = acknowledge(core, (20, 24, [ACCEPT]))
    assert (change.start, change.complete_count, core.start) == (13, 5, 13)


@pytest.mark.parametrize(
    "acks",
    [
        [(34, 36, [1, 1])],
        [(34, 36, [1, 1, 1, 1])],
        [(34, 36, [])],
        [(34, 36, [5])],
        [(34, 36, [-1])],
        [(36, 34, [1])],
        [(36, 36, [1]), (34, 34, [1])],
        [(-5, -1, [1])],
    ],
)
def test_malformed_batches_are_refused(acks: list[tuple[int, int, list[int]]]) -> None:
    assert refused(acquired(), *acks) == "INVALID_REQUEST"


def test_batches_past_the_end_are_refused() -> None:
    text = (
        "INVALID_REQUEST: Batch record not found. "
        "The {} offset in request is past acquired records."
    )
    assert refused(acquired(), (39, 45, [1])) == text.format("last")
    assert refused(acquired(), (100, 110, [1])) == text.format("first")


def test_records_that_are_not_acquired_are_refused() -> None:
    core, text = (
        acquired(),
        "INVALID_RECORD_STATE: The offset cannot be acknowledged. The offset is not acquired.",
    )
    done(core, (20, 24, [ACCEPT]))
    assert refused(core, (20, 24, [ACCEPT])) == text
    assert refused(core, (24, 26, [ACCEPT])) == text
    assert refused(core, (34, 36, [ACCEPT]), (36, 37, [ACCEPT])) == text


def test_records_of_another_member_are_refused() -> None:
    core = acquired(4, 4)
    text = "INVALID_RECORD_STATE: Member is not the owner of "
    assert refused(core, (0, 3, [1]), member=OTHER) == text + "batch record"
    done(core, (0, 0, [1]))
    assert refused(core, (2, 2, [1]), member=OTHER) == text + "offset"


def test_one_bad_batch_undoes_all() -> None:
    core = acquired()
    refused(core, (34, 34, [ACCEPT]), (39, 60, [ACCEPT]))
    assert acknowledge(core, (34, 34, [ACCEPT])).batches == [StateBatch(34, 34, 2, 1)]


def test_a_write_error_takes_the_change_back() -> None:
    core = acquired()
    change = acknowledge(core, (0, 9, [ACCEPT]), (10, 19, [RELEASE]))
    refused(core, (0, 9, [ACCEPT]))
    assert core.acquire(OTHER, ALL, of(40, 10), 30.0, RULES) == []
    core.rollback(change)
    assert (core.start, core.complete_count, core.next_offset()) == (0, 0, 40)
    assert core.expires_at == 30.0
    done(core, (0, 19, [ACCEPT]))
    assert core.start == 20


def test_records_are_released_when_that_is_written_and_not_before() -> None:
    core = acquired()
    change = acknowledge(core, (0, 9, [RELEASE]))
    assert core.next_offset() == 40
    core.commit(change)
    assert core.next_offset() == 0


def test_acknowledging_offset_by_offset_leaves_no_run_for_each() -> None:
    core = acquired(1000, 1000)
    change = acknowledge(core, *((offset, offset, [ACCEPT]) for offset in range(500, 900)))
    assert change.batches == [StateBatch(500, 899, 2, 1)]
    assert len(change.runs) == 1
    core.rollback(change)
    assert core.complete_count == 0
    core.commit(acknowledge(core, (0, 999, [ACCEPT])))
    assert core.start == 1000


# renewing


def test_a_renewed_lock_ends_later() -> None:
    core = acquired(6, 6)
    assert not acknowledge(core, (0, 2, [RENEW]), until=50.0).batches
    assert core.expire(40.0, RULES).batches == [StateBatch(3, 5, 0, 1)]
    assert core.expires_at == 50.0
    done(core, (0, 0, [ACCEPT]))


def test_renewal_is_refused_where_it_is_switched_off() -> None:
    core = acquired(6, 6)
    with pytest.raises(KafkaError) as error:
        acknowledge(core, (0, 2, [RENEW]), rules=RULES._replace(renews=False))
    assert error.value.code is Code.INVALID_RECORD_STATE
    assert error.value.message == "Renewing acquisition locks is not enabled for the group."


def test_nothing_is_renewed_when_another_batch_is_bad() -> None:
    core = acquired(6, 6)
    refused(core, (0, 2, [RENEW]), (3, 9, [ACCEPT]))
    core.expire(31.0, RULES)
    assert core.next_offset() == 0


# locks and sessions


def test_an_expired_lock_gives_the_record_back() -> None:
    core = acquired(4, 4)
    assert not core.expire(29.9, RULES).batches
    change = core.expire(30.0, RULES)
    assert change.batches == [StateBatch(0, 3, int(AVAILABLE), 1)]
    assert core.expires_at == inf
    assert core.acquire(OTHER, ALL, of(4, 4), 60.0, RULES) == [(0, 3, 2)]
    assert "owner" in refused(core, (0, 3, [ACCEPT]))


def test_a_change_under_way_does_not_expire() -> None:
    core = acquired(4, 4)
    change = acknowledge(core, (0, 3, [ACCEPT]))
    assert not core.expire(31.0, RULES).batches
    core.rollback(change)
    assert core.expires_at == 30.0
    assert core.expire(31.0, RULES).batches == [StateBatch(0, 3, 0, 1)]


def test_the_end_of_a_session_releases_what_its_member_holds() -> None:
    core = acquired(20, 10, Wanted(10, 500, False))
    core.acquire(OTHER, ALL, of(20, 10), 30.0, RULES)
    change = core.release(ME, RULES)
    assert change.batches == [StateBatch(0, 9, 0, 1)]
    core.commit(change)
    assert core.acquire(OTHER, ALL, of(20, 10), 30.0, RULES) == [(0, 9, 2)]


# the log's start


def test_records_deleted_from_the_log_are_forgotten() -> None:
    core = acquired(5, 5)
    assert core.on_log_start(2)
    assert not core.on_log_start(2)
    change = acknowledge(core, (0, 4, [ACCEPT]))
    assert change.batches == [StateBatch(2, 4, 2, 1)]
    core.commit(change)
    assert (core.start, core.complete_count) == (5, 0)


def test_the_log_may_start_behind_all_records_in_flight() -> None:
    core = acquired(5, 5)
    change = acknowledge(core, (0, 4, [ACCEPT]))
    core.on_log_start(10)
    core.commit(change)
    assert (core.start, core.end, core.complete_count, core.next_offset()) == (10, 10, 0, 10)


# the persisted state


def test_persisted_records_and_gaps_between_them_are_delivered_again() -> None:
    core = SharePartition(0, [StateBatch(0, 2, 2, 1), StateBatch(5, 5, 0, 1)])
    assert (core.start, core.end) == (3, 6)
    assert core.acquire(ME, ALL, of(10, 10), 30.0, RULES) == [(3, 4, 1), (5, 5, 2), (6, 9, 1)]
    change = acknowledge(core, (3, 9, [ACCEPT]))
    assert change.batches == [
        StateBatch(3, 4, 2, 1),
        StateBatch(5, 5, 2, 2),
        StateBatch(6, 9, 2, 1),
    ]
    assert (change.start, change.complete_count) == (3, 7)


def test_unknown_states_and_counts_of_the_store_are_delivered_again() -> None:
    core = SharePartition(3, [StateBatch(0, 2, 2, 1), StateBatch(3, 5, 9, -1)])
    assert core.acquire(ME, ALL, of(6, 6), 30.0, RULES) == [(3, 5, 1)]


# dead letters


def test_records_for_the_dead_letter_topic_are_archived_when_they_are_there() -> None:
    rules, core = RULES._replace(dead_letters=True, count_limit=2), SharePartition(0)
    core.acquire(ME, ALL, of(4, 4), 30.0, rules)
    change = acknowledge(core, (0, 1, [REJECT]), rules=rules)
    assert change.batches == [StateBatch(0, 1, int(ARCHIVING), 1)]
    assert change.dead == [DeadRange(0, 1, 1, REJECTED)]
    core.commit(change)
    assert (core.start, core.archiving()) == (0, [DeadRange(0, 1, 1, UNDELIVERABLE)])
    change = core.archive(0, 1)
    assert change.batches == [StateBatch(0, 1, int(ARCHIVED), 1)]
    assert core.start == 2


def test_the_count_limit_sends_records_to_the_dead_letter_topic() -> None:
    rules, core = RULES._replace(dead_letters=True, count_limit=2), SharePartition(0)
    for _ in range(2):
        core.acquire(ME, ALL, of(4, 4), 30.0, rules)
        change = core.expire(31.0, rules)
    assert change.dead == [DeadRange(0, 3, 2, UNDELIVERABLE)]


def test_records_that_are_given_up_are_written_again() -> None:
    rules, core = RULES._replace(dead_letters=True, count_limit=2), SharePartition(0)
    core.acquire(ME, ALL, of(2, 2), 30.0, rules)
    released = core.expire(31.0, rules)
    core.acquire(ME, ALL, of(4, 4), 30.0, rules)
    given_up = core.expire(31.0, rules)

    assert core.again(released).batches == []
    again = core.again(given_up)
    assert again.batches == [StateBatch(0, 1, int(ARCHIVING), 2)]
    assert again.dead == given_up.dead
    archived = core.archive(0, 1)
    assert core.again(given_up).batches == []
    assert core.again(archived).batches == [StateBatch(0, 1, int(ARCHIVED), 2)]
    assert core.again(archived).start == core.start == 2


def test_each_state_has_a_row_and_complete_ones_are_final() -> None:
    assert set(TRANSITIONS) == set(RecordState)
    assert not TRANSITIONS[ACKNOWLEDGED]
    assert not TRANSITIONS[ARCHIVED]
    assert all(state not in following for state, following in TRANSITIONS.items())
