"""What /metrics tells of the groups that this broker looks after, as plain values. A lag is told where both offsets are: it is never negative."""

from collections.abc import Iterator
from typing import NamedTuple

from raftka.broker.coordinators.partition import CoordinatorPartition
from raftka.broker.handlers.services import Services
from raftka.coordinator.consumer.groups import Group
from raftka.coordinator.groups import GroupCoordinator


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


def groups_of(services: Services, coordinator: CoordinatorPartition) -> list[GroupNumbers]:
    machine = coordinator.machine
    assert isinstance(machine, GroupCoordinator)
    if not coordinator.loaded:
        return []
    return [GroupNumbers(group.group_id, group.state, len(group.members), list(_offsets(services, group))) for group in machine.groups.values()]


def _offsets(services: Services, group: Group) -> Iterator[GroupOffset]:
    hosts = services.replicas.hosts
    for topic, partitions in group.offsets.items():
        for partition, committed in partitions.items():
            host = hosts.get((topic, partition))
            yield GroupOffset(topic, partition, committed.offset, None if host is None else max(0, host.high_watermark - committed.offset))
