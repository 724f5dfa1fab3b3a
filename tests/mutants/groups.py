"""Planted in the group coordinator: offsets that go back, coordinators that are none any more,
members that are two.
"""

from collections.abc import Sequence
from typing import Any

from raftka.broker.controller.broker_lifecycle import BrokerLifecycle
from raftka.broker.coordinators.partition import ACTIVE, BUSY, LOADING, CoordinatorPartition
from raftka.broker.coordinators.runtime import CoordinatorRuntime
from raftka.coordinator import groups, offsets
from raftka.coordinator.classic import rebalance as classic_rebalance
from raftka.coordinator.classic import sync as classic_sync
from raftka.coordinator.classic.group import ClassicGroup, Member
from raftka.coordinator.consumer.group import ConsumerGroup
from raftka.coordinator.consumer.groups import ConsumerGroups
from raftka.coordinator.consumer.visible_topics import VisibleTopics
from raftka.coordinator.groups import GroupCoordinator
from raftka.coordinator.modern.soft import SESSION
from raftka.coordinator.records import read_offset_key
from raftka.wire.errors import Code, KafkaError
from tests.mutants.registry import mutant, part_of


@mutant(CoordinatorPartition, "_hold_replies")
def coordinator_answers_before_commit(_: Any) -> Any:
    """A commit is answered before its record is: the next coordinator has never seen it."""

    def bug(self: CoordinatorPartition) -> None:
        replies, self._replies = self._replies, []
        for ticket, answer in replies:
            ticket(answer)

    return bug


@mutant(CoordinatorPartition, "_reply")
def coordinator_answers_before_earlier_turns_are_committed(_: Any) -> Any:
    """A reply waits for the records of its own turn alone: a read shows an offset of an earlier
    turn that the next coordinator has never seen.
    """

    def bug(self: CoordinatorPartition, ticket: Any, answer: Any) -> None:
        self.waiting.pop(ticket, None)
        if self._records:
            self._replies.append((ticket, answer))
        else:
            ticket(answer)

    return bug


@mutant(CoordinatorPartition, "load")
def coordinator_loads_to_its_high_watermark(load: Any) -> Any:
    """A new coordinator begins with what it knows to be committed: a group's offset goes back."""

    def bug(self: CoordinatorPartition) -> bool:
        log = self.partition.log
        end, log.end_offset = log.end_offset, self.partition.high_watermark
        try:
            return bool(load(self))
        finally:
            log.end_offset = end

    return bug


@mutant(CoordinatorPartition, "submit")
def coordinator_answers_while_it_loads(submit: Any) -> Any:
    """Groups are answered with what has been read so far."""

    def bug(self: CoordinatorPartition, command: Any, ticket: Any) -> None:
        state = self.state
        if state is LOADING:
            self.state = ACTIVE
        try:
            submit(self, command, ticket)
        finally:
            if state is LOADING:
                self.state = LOADING

    return bug


@mutant(CoordinatorPartition, "_begin")
def coordinator_decides_between_two_steps(begin: Any) -> Any:
    """A group is deleted in many steps, and commits to it come in between: what was acknowledged is
    deleted, too.
    """

    def bug(self: CoordinatorPartition, steps: Any) -> None:
        busy = self.state is BUSY
        if busy:
            self.state = ACTIVE
        begin(self, steps)
        if busy:
            self.state = BUSY

    return bug


@mutant(CoordinatorRuntime, "_leadership_changed")
def coordinator_survives_its_leadership(_: Any) -> Any:
    """A broker that coordinates again after another one goes on with its old knowledge."""

    def bug(self: CoordinatorRuntime, partition: Any) -> None:
        coordinator = self.partitions.get(partition.index)
        if partition.leader is None:
            return
        if coordinator is not None and coordinator.partition is partition:
            coordinator.epoch = partition.leader.leader_epoch
        else:
            self._load(partition, partition.leader.leader_epoch)

    return bug


@mutant(BrokerLifecycle, "vouched_for")
def coordinator_tells_what_it_remembers(_: Any) -> Any:
    """A broker that does not know of the new coordinator answers with an offset that the new one
    has replaced (once real).
    """
    return True


@mutant(CoordinatorPartition, "load")
def coordinator_misses_the_last_batch(load: Any) -> Any:
    """Off by one: what was committed last before a coordinator died is not read by the next."""

    def bug(self: CoordinatorPartition) -> bool:
        log = self.partition.log
        end, log.end_offset = log.end_offset, max(log.start_offset, log.end_offset - 1)
        try:
            return bool(load(self))
        finally:
            log.end_offset = end

    return bug


@mutant(GroupCoordinator, "_replay_offset")
def first_commit_wins(replay: Any) -> Any:
    """Of two commits of a partition the earlier one is kept when the log is read back."""

    def bug(self: GroupCoordinator, key: bytes, value: bytes | None) -> None:
        group_id, topic, partition = read_offset_key(key)
        group = self.groups.get(group_id)
        if (
            self._sweep_at == float("inf")
            and group is not None
            and partition in group.offsets.get(topic, {})
            and value is not None
        ):
            return
        replay(self, key, value)

    return bug


@mutant(offsets, "check_commit")
def generation_is_not_fenced(check: Any) -> Any:
    """A member of an earlier generation still commits, over what its successor has committed."""

    def bug(group: Any, command: Any, *rest: Any) -> None:
        if isinstance(group, ClassicGroup) and 0 <= command.generation_id < group.generation_id:
            return
        check(group, command, *rest)

    return bug


@mutant(offsets, "check_commit")
def stranger_may_commit(check: Any) -> Any:
    """A client that was put out of the group commits as if it were a member still."""

    def bug(group: Any, command: Any, *rest: Any) -> None:
        try:
            check(group, command, *rest)
        except KafkaError as error:
            if error.code is not Code.UNKNOWN_MEMBER_ID:
                raise

    return bug


@mutant(classic_rebalance, "_next_generation")
def generation_stays(begin: Any) -> Any:
    """A rebalance ends in the generation in which it began: who missed it is not told apart."""

    def bug(group: ClassicGroup, decision: Any) -> None:
        group.generation_id -= group.generation_id > 1
        begin(group, decision)

    return bug


@mutant(GroupCoordinator, "loaded")
def generation_begins_anew(loaded: Any) -> Any:
    """A new coordinator counts a group's generations from the beginning."""

    def bug(self: GroupCoordinator, context: Any) -> Any:
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                group.generation_id = min(group.generation_id, 1)
        return loaded(self, context)

    return bug


@mutant(groups, "begin_session")
def loaded_members_never_expire(_: Any) -> Any:
    """A new coordinator begins no sessions: a member that has died with the old coordinator keeps
    its partitions, which nobody reads.
    """

    def bug(group: ClassicGroup, member: Any, decision: Any) -> None: ...

    return bug


@mutant(ConsumerGroups, "loaded", "consumer-groups")
def loaded_classic_members_never_expire(loaded: Any) -> Any:
    """A new coordinator begins no sessions of the classic members of a consumer group: one that has
    died keeps its partitions for ever.
    """

    def bug(self: ConsumerGroups, group: ConsumerGroup, decision: Any) -> None:
        loaded(self, group, decision)
        for member in group.members.values():
            if member.said.classic is not None:
                self.soft[group.group_id].off(SESSION, member.member_id, decision.timers)

    return bug


def _whoever_is_this_instance(check: Any) -> Any:
    def bug(group: ClassicGroup, member_id: str, instance_id: str | None) -> Any:
        if instance_id is not None and instance_id in group.static:
            return group.members[group.static[instance_id]]
        return check(group, member_id, instance_id)

    return bug


@mutant(classic_sync, "check_member")
def static_member_is_not_fenced(check: Any) -> Any:
    """Two processes with one instance id are both the member."""
    return _whoever_is_this_instance(check)


part_of(static_member_is_not_fenced, offsets, "check_member")(_whoever_is_this_instance)


@mutant(classic_sync, "assign")
def everybody_gets_the_leaders_share(assign: Any) -> Any:
    """Assignments are mixed up: two members are given the same partitions."""

    def bug(group: ClassicGroup, assignments: dict[str, bytes], decision: Any) -> None:
        share = assignments.get(group.leader or "", b"")
        assign(group, dict.fromkeys(assignments, share), decision)

    return bug


@mutant(classic_rebalance, "_wait_again")
def only_the_leader_is_waited_for_again(wait_again: Any) -> Any:
    """The log has refused a group's assignments: nothing counts the time of members that do not ask
    again, and their shares lie idle (once real).
    """

    def bug(group: ClassicGroup, answered: Sequence[Member], decision: Any) -> None:
        wait_again(
            group, [member for member in answered if member.member_id == group.leader], decision
        )

    return bug


@mutant(groups, "expired")
def offsets_expire_early(expired: Any) -> Any:
    """Committed offsets are forgotten long before offsets.retention.minutes."""

    def bug(group: Any, settings: Any, wall_ms: int) -> Any:
        return expired(group, settings, wall_ms + settings.offsets_retention_ms)

    return bug


@mutant(offsets, "check_consumer_commit", "consumer-groups")
def commits_of_any_member_epoch(_: Any) -> Any:
    """Zombie: a consumer that is none any more commits offsets of partitions that another one
    reads.
    """

    def bug(group: Any, command: Any, topics: Any) -> None: ...

    return bug


@mutant(ConsumerGroup, "owner", "consumer-groups")
def gives_what_is_not_released(_: Any) -> Any:
    """A partition is given to its next consumer while the one before has not given it up."""

    def bug(self: ConsumerGroup, topic_id: bytes, partition: int) -> str | None:
        return None

    return bug


@mutant(VisibleTopics, "partition_count")
def partitions_are_assigned_before_members_hear_of_them(_: Any) -> Any:
    """A member whose heartbeats come sooner is assigned partitions that its metadata do not have
    yet, and ends.
    """
    return lambda self, name: self._topics.partition_count(name)
