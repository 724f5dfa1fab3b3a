"""Commands to streams groups (KIP-1071) and their answers. Knows no message and no version.

As in commands.py of all groups: refused means a KafkaError.
"""

from typing import NamedTuple

from raftka.coordinator.streams.configured import Counts, MissingTopic, Status
from raftka.coordinator.streams.records import Endpoint
from raftka.coordinator.streams.tasks import Task, Tasks
from raftka.coordinator.streams.topology import Topology

LEFT = -1  # epochs of members that go for good
AWAY = -2  # and of a static member that will be back


class StreamsHeartbeat(NamedTuple):
    """Answered with StreamsBeat. Refused with words for a human. None, or -1: as it was."""

    group_id: str
    member_id: str
    epoch: int  # 0 joins, LEFT, AWAY
    endpoint_epoch: int
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topology: Topology | None
    owned: Tasks | None
    process_id: str | None
    endpoint: Endpoint | None
    tags: tuple[tuple[str, str], ...] | None
    offsets: dict[Task, int] | None  # of tasks whose state the member has on its disk
    shutdown: bool = False
    # from version 1 on: understands MISSING_CLIENT_TAGS
    knows_missing_tags: bool = True
    may_be_asked: bool = True  # for a description of its topology


class EndpointPartitions(NamedTuple):
    """The partitions that one member reads, by topic, for interactive queries."""

    endpoint: Endpoint
    active: dict[str, tuple[int, ...]]
    standby: dict[str, tuple[int, ...]]


class StreamsBeat(NamedTuple):
    member_id: str
    epoch: int
    interval_ms: int = 0
    task_offset_interval_ms: int = 0
    acceptable_recovery_lag: int = -1
    status: tuple[Status, ...] = ()
    tasks: Tasks | None = None  # None: as it was
    endpoint_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None  # None: as the member knows them
    missing: tuple[MissingTopic, ...] = ()  # to be created
    asks_for_description: bool = False


class DescribeTopology(NamedTuple):
    """The description of a topology, by a member. Answered with None; refused with words for a
    human.
    """

    group_id: str
    member_id: str
    topology_epoch: int
    description: object
    size: int  # bytes, about


class DescribeStreamsGroup(NamedTuple):
    """Answered with DescribedStreamsGroup. Refused with GROUP_ID_NOT_FOUND."""

    group_id: str


class DescribedStreamsMember(NamedTuple):
    member_id: str
    instance_id: str | None
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    topology_epoch: int
    process_id: str
    endpoint: Endpoint | None
    tags: tuple[tuple[str, str], ...]
    assignment: Tasks
    target: Tasks


class DescribedStreamsGroup(NamedTuple):
    """`counts`: partitions of internal topics, when all topics are there."""

    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    topology: Topology | None
    counts: Counts
    members: tuple[DescribedStreamsMember, ...]
    description: object = None  # of the topology; None: there is none
