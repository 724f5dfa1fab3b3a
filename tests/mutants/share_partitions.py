"""Planted in what leaders give to the members of share groups, and remember of it."""

from typing import Any

from raftka.broker.share.dead_letters import _Lane
from raftka.broker.share.partitions import LedSharePartition, ShareLeader, State
from raftka.broker.share.share_fetch import LogBatches
from raftka.share.partition import (
    ACQUIRED,
    AVAILABLE,
    COMPLETE,
    NOT_ACQUIRED,
    RELEASE,
    Change,
    RecordState,
    Rules,
    Run,
    SharePartition,
)
from raftka.share.state import ShareState
from raftka.wire.errors import Code, KafkaError
from tests.mutants.registry import mutant, part_of


@mutant(Run, "is_free")
def two_members_hold_one_record(_: Any) -> Any:
    """A record that a member holds is given to another one too."""
    return property(lambda run: run.state in (AVAILABLE, ACQUIRED))


def _set_anything(_: Any) -> Any:
    def bug(self: SharePartition, run: Run, state: RecordState) -> None:
        run.state = state
        if state in COMPLETE:
            self.complete_count += run.size

    return bug


part_of(two_members_hold_one_record, SharePartition, "_set")(_set_anything)


@mutant(Run, "is_free")
def released_before_it_is_written(_: Any) -> Any:
    """A released record is given to another member while its release is being written."""
    return property(lambda run: run.state is AVAILABLE)


@mutant(SharePartition, "_take")
def deliveries_are_not_counted(take: Any) -> Any:
    """The store never hears how often a record was delivered: one that kills its members is
    delivered for ever.
    """

    def bug(self: SharePartition, taking: Any, first: int, last: int) -> Any:
        result = take(self, taking, first, last)
        for run in self._between(first, last):
            run.count -= 1
        return result

    return bug


@mutant(ShareLeader, "watch_locks")
def locks_never_end(_: Any) -> Any:
    """Records of a member that has stopped are never given to another one."""
    return lambda self, share: None


@mutant(ShareLeader, "write")
def acknowledged_before_it_is_written(write: Any) -> Any:
    """A member hears that its acknowledgement stands while it may still be lost."""

    def bug(self: ShareLeader, share: LedSharePartition, change: Change, done: Any) -> None:
        write(self, share, change, lambda error: None)
        done(None)

    return bug


@mutant(SharePartition, "rollback")
def a_failed_write_stands(_: Any) -> Any:
    """A change that could not be written stands here, and another leader delivers it again."""
    return SharePartition.commit


@mutant(SharePartition, "rollback")
def a_failed_write_is_not_rolled_back(_: Any) -> Any:
    """A record whose acknowledgement could not be written stays between two states for ever."""

    def bug(self: SharePartition, change: Change) -> None:
        change.runs = []

    return bug


@mutant(SharePartition, "_check_holder")
def strangers_may_acknowledge(_: Any) -> Any:
    """A member whose lock has ended accepts a record that another member has."""

    def bug(self: SharePartition, run: Run, member: str) -> None:
        if run.state is not ACQUIRED or run.before is not None:
            raise KafkaError(Code.INVALID_RECORD_STATE, NOT_ACQUIRED)

    return bug


@mutant(SharePartition, "_following")
def released_at_the_limit_is_delivered_again(following: Any) -> Any:
    """A record that was released as often as it may be is delivered once more, for ever."""

    def bug(run: Run, kind: int, rules: Rules) -> RecordState:
        return AVAILABLE if kind == RELEASE else following(run, kind, rules)

    return staticmethod(bug)


@mutant(SharePartition, "_move_start")
def the_start_moves_over_acquired_records(_: Any) -> Any:
    """The start moves to the last record that is done: those below it are never delivered again."""

    def bug(self: SharePartition) -> None:
        done = [at for at, run in enumerate(self._runs) if run.state in COMPLETE]
        if done and self._runs[done[-1]].before is None:
            for run in self._runs[: done[-1] + 1]:
                self._forget(run, run.size)
            self.start = self._runs[done[-1]].last + 1
            del self._runs[: done[-1] + 1]
            self._free_from = max(self._free_from, self.start)

    return bug


@mutant(ShareLeader, "_on_read")
def a_new_leader_forgets_what_is_persisted(on_read: Any) -> Any:
    """A new leader begins at the persisted start, and delivers what is done above it again."""

    def bug(self: ShareLeader, share: LedSharePartition, result: Any) -> None:
        if isinstance(result, ShareState):
            result = result._replace(batches=())
        on_read(self, share, result)

    return bug


@mutant(LedSharePartition, "is_current")
def a_leader_that_comes_back_goes_on_as_before(_: Any) -> Any:
    """A leader goes on with the records of its last leadership: it does not know what another
    leader has delivered since.
    """
    return property(lambda share: True)


@mutant(LedSharePartition, "records_arrived")
def a_fetch_that_does_not_look_stops_watching(_: Any) -> Any:
    """A fetch that waits while no record may be acquired does not hear that its log begins later:
    it waits until its time is up, beside records that it could have.
    """

    def bug(self: LedSharePartition) -> None:
        for fetch in tuple(self.waiting):
            if self.state is State.ACTIVE and self.is_current and not self.has_records():
                break
            fetch.records_arrived()

    return bug


def _hears_nothing(_: Any) -> Any:
    return lambda self, image, delta: None


part_of(a_leader_that_comes_back_goes_on_as_before, ShareLeader, "on_image")(_hears_nothing)


@mutant(ShareLeader, "release")
def a_closed_session_keeps_its_records(_: Any) -> Any:
    """Records of a member that has closed its session waits until its locks end."""
    return lambda self, key, member_id, done: False


@mutant(LogBatches, "__init__")
def aborted_records_are_delivered(init: Any) -> Any:
    """A group that reads what is committed is given records of aborted transactions."""

    def bug(self: LogBatches, found: Any, needed: int, aborted: Any) -> None:
        init(self, found, needed, {})

    return bug


@mutant(LedSharePartition, "readable_end")
def records_are_delivered_before_their_commit(_: Any) -> Any:
    """A group that reads what is committed is given records of open transactions."""
    return property(lambda self: self.partition.high_watermark)


@mutant(SharePartition, "expire")
def expired_at_the_limit_is_delivered_again(expire: Any) -> Any:
    """A record whose lock ends on its last delivery is delivered once more."""

    def bug(self: SharePartition, now: float, rules: Rules) -> Change:
        return expire(self, now, rules._replace(count_limit=int(1e9)))  # type: ignore[no-any-return]

    return bug


@mutant(ShareLeader, "_give_up")
def archived_before_the_letter_is_written(_: Any) -> Any:
    """A record is given up while its dead letter may still be lost."""

    def bug(self: ShareLeader, share: LedSharePartition, records: Any) -> None:
        if records:
            self._dead_letters.send(share.key, records, lambda: None)  # type: ignore[union-attr]
            self._on_given_up(share, records)

    return bug


@mutant(SharePartition, "archiving")
def unsent_letters_are_forgotten(_: Any) -> Any:
    """A leader loads records that wait for their dead letters, and sends none."""
    return lambda self: []


@mutant(SharePartition, "is_idle")
def held_records_are_forgotten(_: Any) -> Any:
    """The records of a group's last session are given away before their release is written."""
    return property(lambda core: True)


@mutant(ShareLeader, "_forget_if_idle")
def a_start_at_the_end_is_forgotten(forget: Any) -> Any:
    """A group that began at the end of a log misses what comes while no member is there."""

    def bug(self: ShareLeader, share: LedSharePartition) -> None:
        share.is_persisted = True
        forget(self, share)

    return bug


@mutant(_Lane, "_on_written")
def letters_that_failed_count_as_written(on_written: Any) -> Any:
    """A dead letter is tried once: when its partition has no leader, its record is lost."""

    def bug(self: _Lane, batch: bytes, records: int, error: KafkaError | None) -> None:
        on_written(self, batch, records, None)

    return bug


@mutant(SharePartition, "again")
def given_up_records_are_forgotten_when_a_write_fails(_: Any) -> Any:
    """A record at its limit gets no dead letter when the write of its state fails: no member gets
    it any more, and the group never comes to its end.
    """

    def bug(self: SharePartition, change: Change) -> Change:
        return Change()

    return bug
