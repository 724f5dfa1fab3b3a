"""The metrics of groups that this broker coordinates, as plain values. A lag is shown where both
offsets are known: it is never negative.
"""

from collections.abc import Iterator
from typing import NamedTuple

from raftka.broker.coordinators.partition import LOADED, CoordinatorPartition
from raftka.broker.handlers.services import Services
from raftka.broker.replica.partition import Partition
from raftka.coordinator.consumer.groups import Group
from raftka.coordinator.groups import GroupCoordinator
from raftka.wire.errors import KafkaError


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
    if coordinator.state not in LOADED:
        return []
    return [
        *[
            GroupNumbers(
                group.group_id, group.state, len(group.members), list(_offsets(services, group))
            )
            for group in machine.groups.values()
        ],
        # the share coordinator knows their offsets
        *[
            GroupNumbers(group.group_id, group.state, len(group.members), [])
            for group in machine.shares.groups.values()
        ],
    ]


def _offsets(services: Services, group: Group) -> Iterator[GroupOffset]:
    for topic, partitions in group.offsets.items():
        for index, committed in partitions.items():
            partition = services.replicas.partitions.get((topic, index))
            yield GroupOffset(
                topic,
                index,
                committed.offset,
                None if partition is None else max(0, _readable_end(partition) - committed.offset),
            )


def _readable_end(partition: Partition) -> int:
    """Return the end of what consumers see, or the high watermark where it is not known yet."""
    try:
        return partition.readable_end(is_isolated=False)
    except KafkaError:
        return partition.high_watermark
