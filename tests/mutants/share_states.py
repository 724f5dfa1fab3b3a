"""Planted in the share coordinator and its persister: leaders and states that are not fenced,
deliveries that are forgotten, and logs that lose what is needed.
"""

from collections.abc import Sequence
from typing import Any

from raftka.broker.coordinators import share_persister
from raftka.broker.coordinators.share_persister import SharePersister
from raftka.broker.coordinators.share_state_service import ShareStateService
from raftka.coordinator.machine import Outcome
from raftka.coordinator.share_state import coordinator
from raftka.coordinator.share_state.coordinator import ShareStateCoordinator, StoredState
from raftka.share.state import StateBatch
from raftka.wire.errors import Code
from tests.mutants.registry import mutant


@mutant(ShareStateCoordinator, "_checked")
def older_leaders_of_a_share_partition_go_on(checked: Any) -> Any:
    """A leader that another one has replaced writes into the state, and two members get the same
    records.
    """

    def bug(self: ShareStateCoordinator, command: Any, *more: Any) -> Any:
        state = self.states.get(command.key)
        if state is not None and 0 <= command.leader_epoch < state.leader_epoch:
            command = command._replace(leader_epoch=state.leader_epoch)
        return checked(self, command, *more)

    return bug


@mutant(ShareStateCoordinator, "_checked")
def writes_to_an_older_state_count(checked: Any) -> Any:
    """A leader that has not heard of altered offsets marks records of the new state as done."""

    def bug(self: ShareStateCoordinator, command: Any, state_epoch: int | None, *more: Any) -> Any:
        if state_epoch is not None:
            state_epoch = max(state_epoch, 1 << 30)
        return checked(self, command, state_epoch, *more)

    return bug


@mutant(StoredState, "snapshot")
def a_snapshot_forgets_a_batch(snapshot: Any) -> Any:
    """Off by one: the last records of a state are not in its snapshot, and are delivered again."""

    def bug(self: StoredState, now_ms: int) -> Any:
        found = snapshot(self, now_ms)
        return found._replace(batches=found.batches[:-1])

    return bug


@mutant(ShareStateCoordinator, "_read")
def a_new_leader_fences_no_older_one(read: Any) -> Any:
    """A state is read without a note of the leader epoch: the leader before goes on writing."""

    def bug(self: ShareStateCoordinator, command: Any, context: Any) -> Any:
        _, answer = read(self, command, context)
        return (), answer

    return bug


@mutant(coordinator, "merge")
def the_last_write_of_a_record_wins(_: Any) -> Any:
    """A late write of an earlier delivery makes a record available that is done."""

    def bug(stored: list[StateBatch], batches: Sequence[StateBatch]) -> None:
        by_offset = {
            offset: batch[2:]
            for each in (stored, batches)
            for batch in each
            for offset in range(batch.first, batch.last + 1)
        }
        stored[:] = [StateBatch(offset, offset, *by_offset[offset]) for offset in sorted(by_offset)]

    return bug


@mutant(ShareStateCoordinator, "_update")
def the_start_of_a_share_partition_goes_back(update: Any) -> Any:
    """A write with an older start makes records available that were done."""

    def bug(self: ShareStateCoordinator, where: Any, written: Any) -> None:
        update(self, where, written)
        if written.start >= 0:
            self.states[where].start = written.start

    return bug


@mutant(ShareStateCoordinator, "_update")
def updates_of_an_earlier_snapshot_count(update: Any) -> Any:
    """An update that belongs to another snapshot changes the state of the last one."""

    def bug(self: ShareStateCoordinator, where: Any, written: Any) -> None:
        state = self.states.get(where)
        if state is not None:
            written = written._replace(snapshot_epoch=state.snapshot_epoch)
        update(self, where, written)

    return bug


@mutant(ShareStateCoordinator, "_without_topics")
def states_outlive_their_topic(_: Any) -> Any:
    """The states of deleted topics stay in the log and in memory for ever."""

    def bug(self: ShareStateCoordinator, topics: Any) -> Any:
        return Outcome()
        yield

    return bug


@mutant(ShareStateCoordinator, "prunable_below")
def the_log_is_pruned_up_to_its_end(_: Any) -> Any:
    """Snapshots are deleted that nothing has replaced: the next coordinator has no state."""
    return lambda self: self.position


@mutant(ShareStateService, "_prune")
def the_log_is_pruned_before_the_commit(_: Any) -> Any:
    """Records are deleted while the snapshots that replace them are not committed: when these are
    lost, so is the state.
    """

    def bug(self: ShareStateService) -> None:
        self._pruning = None
        for each in self.runtime.partitions.values():
            assert isinstance(each.machine, ShareStateCoordinator)
            before = each.machine.prunable_below()
            each.partition.log.set_start_offset(min(before, each.partition.high_watermark))
        self.on_image()

    return bug


@mutant(ShareStateCoordinator, "_write_cold")
def a_young_state_never_becomes_cold(write: Any) -> Any:
    """A look that finds states too young to be written anew is the last one: their records keep the
    log from being pruned.
    """

    def bug(self: ShareStateCoordinator, context: Any) -> Any:
        outcome = yield from write(self, context)
        self._written = False
        return outcome

    return bug


@mutant(ShareStateCoordinator, "_decide")
def a_replaced_share_coordinator_answers(decide: Any) -> Any:
    """A coordinator that another one has replaced answers reads with an old state."""

    def bug(self: ShareStateCoordinator, *given: Any) -> Any:
        outcome = yield from decide(self, *given)
        outcome.confirm = None
        return outcome

    return bug


@mutant(SharePersister, "_settle")
def a_repeated_write_comes_behind_the_next(settle: Any) -> Any:
    """A write that a coordinator refuses for a time goes to the end of the line: an older state is
    written after a newer one.
    """

    def bug(self: SharePersister, call: Any, result: Any) -> None:
        line = self._lines.get(call.command.key)
        is_repeated = getattr(result, "code", None) in share_persister.REPEATED
        if line is not None and len(line) > 1 and is_repeated:
            line.rotate(-1)
            self._start(line[0])
        else:
            settle(self, call, result)

    return bug


@mutant(share_persister, "REPEATED")
def a_lost_write_is_given_up(repeated: Any) -> Any:
    """A write whose answer was lost fails, though it may count: the leader takes the records for
    undelivered.
    """
    return repeated - {Code.NETWORK_EXCEPTION}
