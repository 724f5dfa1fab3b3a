"""StreamsGroupHeartbeat: which member may come, which epoch it may have, and which tasks it is told
(KIP-1071). Knows no version but by the command.
"""

from raftka.coordinator.machine import Steps
from raftka.coordinator.modern.admission import (
    NAME_LENGTH,
    check_size,
    fenced,
    named_member,
    refuse,
    unreleased,
)
from raftka.coordinator.streams.commands import (
    AWAY,
    LEFT,
    StreamsBeat,
    StreamsHeartbeat,
)
from raftka.coordinator.streams.configured import Configured, Status, StatusCode
from raftka.coordinator.streams.decisions import StreamsDecision
from raftka.coordinator.streams.draft import without_assignment_epochs
from raftka.coordinator.streams.endpoints import list_endpoints
from raftka.coordinator.streams.group import NOBODY, Member, StreamsGroup
from raftka.coordinator.streams.records import Current
from raftka.coordinator.streams.settings import StreamsSettings
from raftka.coordinator.streams.tasks import NOTHING_HELD, Tasks, has_no_more
from raftka.coordinator.streams.topology import check_topology
from raftka.wire.errors import Code, KafkaError


def check(command: StreamsHeartbeat) -> None:
    """Raises INVALID_REQUEST and the errors of check_topology; in Kafka's order and words."""
    refuse(not command.member_id, "MemberId can't be empty.")
    refuse(not command.group_id, "GroupId can't be empty.")
    refuse(command.instance_id == "", "InstanceId can't be empty.")
    refuse(command.rack_id == "", "RackId can't be empty.")
    if command.epoch == 0:
        refuse(
            command.rebalance_timeout_ms == -1,
            "RebalanceTimeoutMs must be provided in first request.",
        )
        names = ("ActiveTasks", "StandbyTasks", "WarmupTasks")
        for name, tasks in zip(names, command.owned or Tasks(), strict=True):
            missing = command.owned is None or bool(tasks)
            refuse(missing, f"{name} must be empty when (re-)joining.")
        refuse(command.topology is None, "Topology must be non-null when (re-)joining.")
    elif command.epoch == AWAY:
        refuse(command.instance_id is None, "InstanceId can't be null.")
    else:
        refuse(
            command.epoch < AWAY,
            f"MemberEpoch is {command.epoch}, but must be greater than or equal to -2.",
        )
    refuse(
        command.epoch != 0 and command.topology is not None,
        "Topology can only be provided when (re-)joining.",
    )
    if command.topology is not None:
        check_topology(command.topology)


def beat(
    decision: StreamsDecision, command: StreamsHeartbeat, *, is_new_group: bool
) -> Steps[StreamsBeat]:
    """Raises KafkaError."""
    check_room(decision.group, decision.settings, command)
    was_empty = not decision.group.members
    before = _place(decision, command)
    changed = _say(decision, command, before)
    _take_topology(decision, command)
    configured = decision.configured()
    if configured.ready:
        _check_owned(configured, command.owned)
    decision.move_epoch(needed=changed)
    if was_empty:
        decision.delay_first_assignment()
    _note_offsets(decision, configured, command)
    yield from decision.aim()
    after = yield from decision.reconcile(command.member_id, command.owned)
    decision.begin_session(command.member_id)
    if command.shutdown:
        decision.soft.shutdown_by = command.member_id
    has_before, has = before.current.assigned.tasks(), after.current.assigned.tasks()
    shown = command.epoch == 0 or has_before != has
    reached_elsewhere = before.said.endpoint != after.said.endpoint
    moved = after.said.endpoint is not None and (has_before != has or reached_elsewhere)
    if moved and not is_new_group:
        decision.soft.endpoint_epoch += 1
    endpoint_epoch = decision.soft.endpoint_epoch
    endpoints = None
    if endpoint_epoch != command.endpoint_epoch or (moved and is_new_group):
        endpoints = yield from list_endpoints(decision.group, after, decision.topics)
    return StreamsBeat(
        command.member_id,
        after.current.epoch,
        decision.settings.heartbeat_interval_ms,
        decision.settings.task_offset_interval_ms,
        decision.settings.acceptable_recovery_lag,
        _status(decision, command, configured, after),
        has if shown else None,
        endpoint_epoch,
        endpoints,
        configured.missing,
    )


def check_room(group: StreamsGroup, settings: StreamsSettings, command: StreamsHeartbeat) -> None:
    """Raises GROUP_MAX_SIZE_REACHED for a member that is new."""
    if (
        command.epoch == 0
        and command.member_id not in group.members
        and command.instance_id not in group.static
    ):
        check_size(group.members, settings.max_size, "streams")


# whose place it is


def _place(decision: StreamsDecision, command: StreamsHeartbeat) -> Member:
    """Return the member that the heartbeat is of, as it was, after its epoch was checked. Raises
    KafkaError.
    """
    member_id, instance_id = command.member_id, command.instance_id
    if command.epoch == 0:
        return _joining(decision, member_id, instance_id)
    return _at_its_epoch(named_member(decision.group, member_id, instance_id), command)


def _joining(decision: StreamsDecision, member_id: str, instance_id: str | None) -> Member:
    """Return the member as it was, or a new one. A fenced member joins again under its own id: it
    keeps its epoch and its tasks.

    A static member takes the place of its instance, once the member that had it has gone away.
    Raises UNRELEASED_INSTANCE_ID.
    """
    held = decision.group.static_member(instance_id)
    if held is None:
        return decision.group.members.get(member_id) or Member(member_id, NOBODY, Current())
    if held.current.epoch != AWAY and held.member_id != member_id:
        raise unreleased(member_id, instance_id, held.member_id)
    if held.current.epoch == AWAY:
        decision.draft.replace(held, member_id)
    return decision.group.members[member_id]


def _at_its_epoch(member: Member, command: StreamsHeartbeat) -> Member:
    """The epoch before is good too, of a member that has nothing that it should not have: it may
    not have heard our answer. Raises FENCED_MEMBER_EPOCH.
    """
    now, owned = member.current.epoch, command.owned
    if command.epoch == now or (
        command.epoch < now
        and command.epoch == member.current.previous_epoch
        and owned is not None
        and has_no_more(owned, member.current.assigned)
    ):
        return member
    raise fenced("streams", command.epoch, now)


# its words


def _say(decision: StreamsDecision, command: StreamsHeartbeat, before: Member) -> bool:
    """Take the member's words; return whether they are other words than before."""
    was = before.said
    said = was._replace(
        instance_id=command.instance_id if command.instance_id is not None else was.instance_id,
        rack_id=command.rack_id if command.rack_id is not None else was.rack_id,
        client_id=command.client_id[:NAME_LENGTH],
        client_host=command.client_host,
        rebalance_timeout_ms=command.rebalance_timeout_ms
        if command.rebalance_timeout_ms != -1
        else was.rebalance_timeout_ms,
        topology_epoch=command.topology.epoch if command.topology else was.topology_epoch,
        process_id=command.process_id if command.process_id is not None else was.process_id,
        endpoint=command.endpoint if command.endpoint is not None else was.endpoint,
        tags=command.tags if command.tags is not None else was.tags,
    )
    decision.draft.say(command.member_id, said)
    return was != said


def _take_topology(decision: StreamsDecision, command: StreamsHeartbeat) -> None:
    """The first member brings the topology of the group; a member with an older one may stay, and
    is told that it is old. Raises INVALID_REQUEST for another topology.
    """
    known, said = decision.group.topology, command.topology
    if said is None:
        return
    if known is None:
        decision.draft.set_topology(said)
    elif said.epoch >= known.epoch and said != known:
        raise KafkaError(Code.INVALID_REQUEST, "Topology updates are not supported yet.")


def _check_owned(configured: Configured, owned: Tasks | None) -> None:
    """Raises INVALID_REQUEST for a task that there is not."""
    for name, partitions in [each for tasks in owned or () for each in tasks.items()]:
        count = configured.tasks.get(name)
        if count is None:
            raise KafkaError(
                Code.INVALID_REQUEST, f"Subtopology {name} does not exist in the topology."
            )
        for partition in partitions:
            if not 0 <= partition < count:
                raise KafkaError(
                    Code.INVALID_REQUEST,
                    f"Task {partition} for subtopology {name} is invalid. Number of tasks for this "
                    f"subtopology: {count}",
                )


def _note_offsets(
    decision: StreamsDecision, configured: Configured, command: StreamsHeartbeat
) -> None:
    """Keep the offsets of tasks that there are: of other tasks they are of no use."""
    if command.offsets is not None:
        decision.soft.offsets[command.member_id] = {
            task: offset
            for task, offset in command.offsets.items()
            if 0 <= task[1] < configured.tasks.get(task[0], 0)
        }


def _status(
    decision: StreamsDecision, command: StreamsHeartbeat, configured: Configured, member: Member
) -> tuple[Status, ...]:
    found, topology = [], decision.topology
    if member.said.topology_epoch < topology.epoch:
        found.append(
            Status(
                StatusCode.STALE_TOPOLOGY,
                f"The member's topology epoch {member.said.topology_epoch} is behind the group's "
                f"topology epoch {topology.epoch}.",
            )
        )
    found += [each for each in (decision.delay, configured.fault) if each is not None]
    tags = {name for name, _ in member.said.tags}
    missing = [name for name in decision.settings.rack_aware_tags if name not in tags]
    if missing and command.knows_missing_tags:
        found.append(
            Status(
                StatusCode.MISSING_CLIENT_TAGS,
                "Missing required client tags for rack-aware standby assignment: "
                f"[{', '.join(missing)}]. Configure them via 'client.tag.<tagKey>' in your Streams "
                "config.",
            )
        )
    if decision.soft.shutdown_by is not None:
        found.append(
            Status(
                StatusCode.SHUTDOWN_APPLICATION,
                f"Streams group member {decision.soft.shutdown_by} encountered a fatal error and "
                "requested a shutdown for the entire application.",
            )
        )
    return tuple(found)


# members that go


def leave(decision: StreamsDecision, command: StreamsHeartbeat) -> Member | None:
    """Return the member to remove; None: a static member that will be back, whose tasks stay its
    own until its session ends. Raises KafkaError.
    """
    member = named_member(decision.group, command.member_id, command.instance_id)
    if command.epoch == LEFT:
        return member
    assigned = without_assignment_epochs(member.current.assigned)
    decision.draft.have(
        member.member_id,
        member.current._replace(epoch=AWAY, assigned=assigned, revoking=NOTHING_HELD),
    )
    return None
