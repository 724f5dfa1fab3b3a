"""Planted in share groups: partitions without a state, members that are none any more, states that
are reset or left behind.
"""

from typing import Any

from raftka.coordinator.machine import Steps
from raftka.coordinator.share import groups, heartbeat, state_calls
from raftka.coordinator.share.commands import Place
from raftka.coordinator.share.decisions import Asked, ShareDecision
from raftka.coordinator.share.partition_sets import finish
from raftka.coordinator.share.records import Partitions, Topics
from tests.mutants.registry import mutant


@mutant(state_calls, "begin")
def share_partitions_without_a_state_are_assigned(begin: Any) -> Any:
    """A share partition is assigned before the share coordinator has its state: what its members
    acknowledge is refused.
    """

    def bug(partitions: Partitions, topics: Topics) -> Partitions:
        done = {topic_id: topic.partitions for topic_id, topic in topics.items()}
        return finish(begin(partitions, topics), done)

    return bug


@mutant(ShareDecision, "begin_session")
def silent_share_members_stay(_: Any) -> Any:
    """A share member that has died keeps its partitions, which no member reads."""

    def bug(self: ShareDecision, member_id: str) -> None: ...

    return bug


@mutant(heartbeat, "_check_epoch")
def share_members_of_any_epoch_go_on(_: Any) -> Any:
    """A share member goes on with an epoch that it never had, as after its group was made anew."""

    def bug(member: Any, epoch: int) -> None: ...

    return bug


@mutant(state_calls, "_initialize")
def share_partitions_are_initialised_twice_with_one_epoch(initialize: Any) -> Any:
    """A call that is late resets what members have acknowledged since the call after it."""

    def bug(decision: Any, topics: Any, starts: Any, asked: Asked, *, again: bool) -> Any:
        return initialize(decision, topics, starts, asked, again=False)

    return bug


@mutant(state_calls, "_last_calls")
def answers_to_earlier_calls_count(_: Any) -> Any:
    """A share partition is assigned while it is being initialised once more."""

    def bug(decision: Any, asked: Asked, number: int) -> Steps[list[Place]]:
        for place in asked.places:
            decision.soft.last_call.pop(place, None)
        return list(asked.places)
        yield

    return bug


@mutant(groups, "_check_empty")
def offsets_of_share_groups_change_under_their_members(_: Any) -> Any:
    """An administrator takes away the state from which members are reading."""

    def bug(group: Any) -> None: ...

    return bug


@mutant(groups, "delete_group")
def share_groups_leave_their_state_behind(_: Any) -> Any:
    """A share group goes before its state: the next group of that name goes on in it."""

    def bug(decision: Any, ticket: Any) -> Steps[None]:
        decision.base.records += decision.group.tombstones()
        decision.base.reply(ticket, None)
        return
        yield

    return bug


@mutant(ShareDecision, "call")
def calls_for_state_leave_before_their_record(_: Any) -> Any:
    """The share coordinator initialises partitions of which the group's log knows nothing."""

    def bug(self: ShareDecision, call: Any) -> None:
        self._call_state(call, None)

    return bug
