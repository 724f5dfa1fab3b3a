"""Directed simulations of leaders of share partitions: see directed.py."""

from raftka.wire.errors import Code
from tests.broker import test_share_dead_letters, test_share_fetch, test_share_leaders
from tests.broker.stage import Stage
from tests.kit.broker.share import ShareMember, configure, persisted, set_up, shares
from tests.mutants.directed import finds

SHORT = "1000"  # least group.share.record.lock.duration.ms


def stage() -> Stage:
    return Stage(group_share_min_record_lock_duration_ms=SHORT)


@finds
def two_members_hold_one_record() -> None:
    """Two members fetch one after the other."""
    with shares(), stage() as one:
        place = set_up(one)
        assert ShareMember(one, "g").acquire(place) == [(0, 9, 1)]
        assert ShareMember(one, "g", "B").acquire(place) == []


@finds
def released_before_it_is_written() -> None:
    """The write of a release is held back."""
    with shares(), stage() as one:
        test_share_leaders.test_released_records_are_delivered_when_that_is_written(one)


@finds
def deliveries_are_not_counted() -> None:
    """A record is released again and again."""
    with shares(), stage() as one:
        test_share_leaders.test_records_are_delivered_no_more_often_than_the_limit(one)


@finds
def locks_never_end() -> None:
    """A member acquires records, and is silent."""
    with shares(), stage() as one:
        place = set_up(one)
        configure(one, "g", share_record_lock_duration_ms=SHORT)
        ShareMember(one, "g").acquire(place)
        assert ShareMember(one, "g", "B").acquire(place, max_wait_ms=3000) == [(0, 9, 2)]


@finds
def acknowledged_before_it_is_written() -> None:
    """The write of an acknowledgement is held back."""
    with shares(), stage() as one:
        test_share_leaders.test_an_acknowledgement_is_answered_when_it_is_written(one)


@finds
def a_failed_write_stands() -> None:
    """The write of an acknowledgement fails, and the member repeats it."""
    with shares(), stage() as one:
        test_share_leaders.test_a_write_that_fails_leaves_the_records_acquired(
            one, Code.COORDINATOR_NOT_AVAILABLE, Code.COORDINATOR_NOT_AVAILABLE
        )


@finds
def released_at_the_limit_is_delivered_again() -> None:
    """A record is released as often as it may be delivered."""
    with shares(), stage() as one:
        test_share_leaders.test_records_are_delivered_no_more_often_than_the_limit(one)


@finds
def the_start_moves_over_acquired_records() -> None:
    """The last records of a batch are done first."""
    with shares(), stage() as one:
        test_share_leaders.test_the_start_moves_over_no_acquired_record(one)


@finds
def a_new_leader_forgets_what_is_persisted() -> None:
    """The leader changes when some records are done."""
    test_share_leaders.test_another_leader_goes_on_with_what_is_persisted()


@finds
def a_leader_that_comes_back_goes_on_as_before() -> None:
    """The leader changes and comes back."""
    test_share_leaders.test_a_leader_that_comes_back_reads_the_state_anew()


@finds
def a_fetch_that_does_not_look_stops_watching() -> None:
    """Records come while none may be acquired; then the log begins behind all that is held."""
    with shares(), stage() as one:
        test_share_fetch.test_a_parked_fetch_that_did_not_look_hears_of_the_next_change(one)


@finds
def a_closed_session_keeps_its_records() -> None:
    """A member closes its connection."""
    with shares(), stage() as one:
        place, member = set_up(one), ShareMember(one, "g")
        member.acquire(place)
        member.close()
        one.wait(lambda: not one.nodes[1].share_sessions.by_key)
        assert ShareMember(one, "g", "B").acquire(place) == [(0, 9, 2)]


@finds
def aborted_records_are_delivered() -> None:
    """A transaction is aborted."""
    with shares(), stage() as one:
        test_share_fetch.test_read_committed_gives_no_aborted_and_no_open_records(one)


@finds
def expired_at_the_limit_is_delivered_again() -> None:
    """A member dies of a record, again and again."""
    with shares(), stage() as one:
        place = set_up(one)
        configure(one, "g", share_record_lock_duration_ms=SHORT, share_delivery_count_limit="2")
        for number in range(2):
            member = ShareMember(one, "g", f"m{number}")
            assert member.acquire(place, max_wait_ms=3000) == [(0, 9, number + 1)]
        assert ShareMember(one, "g").acquire(place, max_wait_ms=3000) == []
        assert persisted(one, "g", place).batches == ((0, 9, 4, 2),)


@finds
def archived_before_the_letter_is_written() -> None:
    """A letter is held back."""
    with shares(), stage() as one:
        test_share_dead_letters.test_a_record_is_archived_when_its_letter_is_written(one)


@finds
def unsent_letters_are_forgotten() -> None:
    """The leader changes before it has written the letters."""
    test_share_dead_letters.test_a_new_leader_sends_letters_that_may_not_have_been_written()


@finds
def held_records_are_forgotten() -> None:
    """The last session of a group ends, and the write of what it releases is held back."""
    with shares(), stage() as one:
        test_share_leaders.test_share_partitions_end_with_the_last_session_of_their_group(one)


@finds
def a_start_at_the_end_is_forgotten() -> None:
    """A group begins at the end, and its only member goes and comes back."""
    with shares(), stage() as one:
        test_share_leaders.test_a_share_partition_that_began_at_the_end_keeps_its_start(one)


@finds
def given_up_records_are_forgotten_when_a_write_fails() -> None:
    """The write of a record's last state fails twice."""
    with shares(), stage() as one:
        one.create("dlq.g", 2, configs=test_share_dead_letters.TAKES)
        place = set_up(one)
        configure(one, "g", errors_deadletterqueue_topic_name="dlq.g")
        test_share_dead_letters.test_records_at_the_limit_become_letters_although_a_write_fails(
            one, place
        )
