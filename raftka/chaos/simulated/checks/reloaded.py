"""Compare the memory of coordinators with the state that another one would load from the same
log.
"""

from typing import Any

from raftka.broker.coordinators.partition import ACTIVE, CoordinatorPartition
from raftka.chaos.simulated.cluster import Cluster
from raftka.coordinator.classic.group import ClassicGroup, State
from raftka.coordinator.groups import GroupCoordinator
from raftka.coordinator.machine import Record
from raftka.coordinator.share.group import ShareGroup
from raftka.coordinator.streams.group import StreamsGroup
from raftka.log.producers.markers import read_marker
from raftka.wire.records import CONTROL, TRANSACTIONAL, iterate, records_of

READ_BYTES = 1 << 30


def wrong_with(cluster: Cluster) -> list[str]:
    """Return a sentence for each difference. Only coordinators that have decided and written all
    commands are compared.
    """
    found = []
    for node_id, node in sorted(cluster.judged.items()):
        for coordinator in (
            node.groups.runtime.partitions.values() if hasattr(node, "groups") else ()
        ):
            at_rest = (
                coordinator.state is ACTIVE
                and not coordinator._records
                and coordinator.partition.leader is not None
            )
            if (
                at_rest
                and coordinator.partition.log.failed is None
                and not cluster.disk(node_id).broken
            ):
                found += [
                    f"n{node_id} {coordinator.partition.name}: {each}"
                    for each in _differ(coordinator)
                ]
    return found


def _differ(coordinator: CoordinatorPartition) -> list[str]:
    living, other = coordinator.machine, GroupCoordinator(coordinator.machine.settings)  # type: ignore[attr-defined]
    assert isinstance(living, GroupCoordinator)
    log, offset = coordinator.partition.log, coordinator.partition.log.start_offset
    while offset < log.written_offset:
        spans, _ = log.read(offset, READ_BYTES, log.written_offset)
        if not spans:
            break
        for header, batch in iterate(
            memoryview(b"".join(span.file.read(span.position, span.size) for span in spans))
        ):
            marker = read_marker(batch) if header.attributes & CONTROL else None
            if marker is not None:
                other.end_transaction(marker.producer_id, commit=marker.commit)
            for each in records_of(batch) if not header.attributes & CONTROL else ():
                if each.offset >= offset and each.key is not None:
                    record = Record(each.key, each.value)
                    if header.attributes & TRANSACTIONAL:
                        other.replay_pending(header.producer_id, record)
                    else:
                        other.replay(record)
            offset = header.last_offset + 1
    now = {name: _hard(group) for name, group in living.groups.items() if group.in_log}
    then = {name: _hard(group) for name, group in other.groups.items() if group.in_log}
    now |= {name: _of_share_group(group) for name, group in living.shares.groups.items()}
    then |= {name: _of_share_group(group) for name, group in other.shares.groups.items()}
    soft = {
        name
        for name, group in living.groups.items()
        if isinstance(group, ClassicGroup) and group.state not in (State.STABLE, State.EMPTY)
    }
    return [
        f"{name} is {now.get(name)}, the log says {then.get(name)}"
        for name in sorted(now.keys() | then.keys())
        if name not in soft and now.get(name) != then.get(name)
    ][:3]


def _of_share_group(group: ShareGroup) -> tuple[object, ...]:
    members = {each.member_id: (each.said, each.current) for each in group.members.values()}
    return group.epoch, group.targets, dict(group.target), members, group.partitions


def _hard(group: Any) -> tuple[object, ...]:
    """The state that the group's records define."""
    offsets = {
        (topic, index): each.offset
        for topic, partitions in group.offsets.items()
        for index, each in partitions.items()
    }
    if isinstance(group, ClassicGroup):
        members = {
            each.member_id: (each.instance_id, each.assignment) for each in group.members.values()
        }
        return (
            offsets,
            group.generation_id,
            group.protocol_name,
            group.leader,
            members,
            group.static,
        )
    members = {each.member_id: (each.said, each.current) for each in group.members.values()}
    return (
        offsets,
        group.epoch,
        group.targets,
        dict(group.target),
        members,
        dict(group.static),
        dict(group.owners),
        *(
            (group.topology, dict(group.copies))
            if isinstance(group, StreamsGroup)
            else (dict(group.regexes),)
        ),
    )
