"""What /metrics tells of the groups that this broker looks after, as plain values. A lag is told where both offsets are: it is never negative."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from raftka.broker.coordinators.partition import CoordinatorPartition
from raftka.coordinator.consumer.groups import Group
from raftka.coordinator.groups import GroupCoordinator

if TYPE_CHECKING:
    from raftka.broker.node import Node


class GroupOffset(NamedTuple):
    topic: str
    partition: int
    offset: int
    lag: int | None  # None: there is no replica of the partition here, so its end is not known


class GroupNumbers(NamedTuple):
    group_id: str
    state: str
    members: int
    offsets: list[GroupOffset]


def groups_of(node: "Node", shard: CoordinatorPartition) -> list[GroupNumbers]:
    machine = shard.machine
    assert isinstance(machine, GroupCoordinator)
    if not shard.loaded:
        return []
    return [GroupNumbers(group.group_id, group.state, len(group.members), list(_offsets(node, group))) for group in machine.groups.values()]


def _offsets(node: "Node", group: Group) -> Iterator[GroupOffset]:
    hosts = node.replicas.hosts
    for topic, partitions in group.offsets.items():
        for partition, committed in partitions.items():
            host = hosts.get((topic, partition))
            yield GroupOffset(topic, partition, committed.offset, None if host is None else max(0, host.high_watermark - committed.offset))
