"""Commands to share groups (KIP-932), their answers, the groups' settings, and the calls that they
make to the share coordinator. Knows no message and no version.

As in commands.py: refused means a KafkaError.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from raftka.coordinator.consumer.commands import Target
from raftka.wire.errors import Code, KafkaError

Place = tuple[bytes, int]  # topic id, partition
Errors = dict[str | tuple[str, int], KafkaError]  # of topics or partitions, by name


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """Of one group, or of all that have none of their own: the broker's `group.share.*`."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    max_size: int = 200  # members
    # after which the initialisation of share partitions is asked for again
    initialize_retry_ms: int = 30_000


class ShareHeartbeat(NamedTuple):
    """Answered with ShareBeat. Refused. None: as it was."""

    group_id: str
    member_id: str
    epoch: int  # 0 joins, LEFT
    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...] | None


class ShareBeat(NamedTuple):
    member_id: str
    epoch: int
    interval_ms: int = 0
    assignment: Target | None = None  # None: as it was


class DescribeShareGroup(NamedTuple):
    """Answered with DescribedShareGroup. Refused with GROUP_ID_NOT_FOUND."""

    group_id: str


class DescribedShareMember(NamedTuple):
    member_id: str
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    assignment: Target


class DescribedShareGroup(NamedTuple):
    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    members: tuple[DescribedShareMember, ...]
    topics: frozenset[str]  # subscribed to


class ListSharePartitions(NamedTuple):
    """The share partitions that have an offset, perhaps NO_START. Answered with the Topics of
    records.py, deleted ones among them: none for a group that is not there, or of another kind.
    """

    group_id: str


class AlterShareOffsets(NamedTuple):
    """Initialise the share partitions of a group without members anew; a group that is not there is
    made. Answered, when the share coordinator has them, with a dict of the errors of partitions.
    Refused.
    """

    group_id: str
    topics: dict[str, dict[int, int]]  # by name, by partition: the start offset


class DeleteShareOffsets(NamedTuple):
    """Delete the state of all share partitions of these topics. Answered, when the share
    coordinator has done so, with a dict of the errors of topics, by name. Refused.
    """

    group_id: str
    topics: tuple[str, ...]


# calls to the share coordinator


class InitializeState(NamedTuple):
    """The record that announces it is committed. StateInitialized is the answer."""

    group_id: str
    number: int  # of the call
    state_epoch: int
    starts: dict[Place, int]


class StateInitialized(NamedTuple):
    """Answered with None, also when the group knows nothing of the call any more."""

    group_id: str
    number: int
    errors: dict[Place, KafkaError]  # of the partitions that are not initialised


class DeleteState(NamedTuple):
    """The record that announces it is committed. StateDeleted is the answer."""

    group_id: str
    number: int
    places: tuple[Place, ...]


class StateDeleted(NamedTuple):
    """Answered with None, also when the group knows nothing of the call any more."""

    group_id: str
    number: int
    errors: dict[Place, KafkaError]  # of the partitions whose state is there still


# an error: it is not known whether the call was announced; then it is answered as one that failed
CallState = Callable[[InitializeState | DeleteState, KafkaError | None], None]


def drop_call(call: InitializeState | DeleteState, failure: KafkaError | None) -> None:
    """Do nothing: a coordinator that only replays makes no calls."""


def unknown_partition() -> KafkaError:
    return KafkaError(
        Code.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
    )
