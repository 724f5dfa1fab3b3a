"""Planted in streams groups: tasks with two owners, tasks without topics, zombies that commit."""

from typing import Any

from raftka.coordinator import offsets
from raftka.coordinator.streams import heartbeat
from raftka.coordinator.streams.configured import Configured
from raftka.coordinator.streams.decisions import StreamsDecision
from raftka.coordinator.streams.groups import StreamsGroups
from raftka.coordinator.streams.reconciliation import _Step
from tests.mutants.registry import mutant


@mutant(_Step, "is_free")
def streams_task_has_two_owners(_: Any) -> Any:
    """A task is given to its next member while the one before has not given it up: both write."""
    return lambda self, name, partition: True


@mutant(_Step, "_has_another_copy")
def streams_process_has_a_task_twice(_: Any) -> Any:
    """Two members of one process get the same task, in two roles: both use one directory."""
    return lambda self, name, partition: False


@mutant(_Step, "promoted")
def streams_copy_is_forgotten_while_tasks_are_revoked(_: Any) -> Any:
    """A copy that is about to become active is in no list of its member meanwhile."""
    return lambda self, copies, free: frozenset()


@mutant(offsets, "check_streams_commit")
def streams_zombie_commits(_: Any) -> Any:
    """A member that is none any more commits offsets of tasks that another one has by now."""
    return lambda group, command: None


@mutant(heartbeat, "has_no_more")
def streams_member_keeps_tasks_that_it_lost(_: Any) -> Any:
    """A member of the epoch before goes on with tasks that it was told to give up."""
    return lambda owned, held: True


@mutant(StreamsDecision, "watch_revoking")
def streams_member_revokes_for_ever(_: Any) -> Any:
    """A member that does not give its tasks up stays, and no member gets them."""
    return lambda self, member: None


@mutant(StreamsGroups, "loaded")
def streams_new_coordinator_forgets_sessions(_: Any) -> Any:
    """After a failover a dead member keeps its tasks for ever."""
    return lambda self, group, decision: None


@mutant(Configured, "ready")
def streams_tasks_are_assigned_without_their_topics(_: Any) -> Any:
    """Tasks are assigned before their changelogs are there: members lose their state."""
    return property(lambda self: True)
