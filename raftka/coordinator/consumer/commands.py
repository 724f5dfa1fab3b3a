"""Commands to consumer groups of the new protocol (KIP-848), their answers, and the groups'
settings. Knows no message and no version.

As in commands.py: refused means a KafkaError.
"""

from dataclasses import dataclass
from typing import NamedTuple

HIDDEN_AT_MOST_MS = 30_000
Target = dict[bytes, tuple[int, ...]]  # topic id: partitions, in order


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """Of one group, or of all that have none of their own: the broker's `group.consumer.*`."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    # between heartbeats of a group in which something has just happened; 0: as ever
    busy_interval_ms: int = 0
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    # a classic group becomes one of these when a consumer of the new protocol joins
    upgrades: bool = True
    downgrades: bool = True  # and a classic one again when the last of them has gone

    @property
    def visible_after_s(self) -> float:
        """Return the seconds for which the new partitions of a topic are hidden: a beat as ever, in
        which members hear of them, and one for brokers that lag.
        """
        return (
            min(self.heartbeat_interval_ms + self.busy_interval_ms, HIDDEN_AT_MOST_MS) / 1000
            if self.busy_interval_ms
            else 0.0
        )


class ConsumerHeartbeat(NamedTuple):
    """Answered with ConsumerBeat. Refused with words for a human. None, or -1: as it was."""

    group_id: str
    member_id: str
    epoch: int  # 0 joins, LEFT, AWAY
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topics: tuple[str, ...] | None
    regex: str | None
    assignor: str | None
    owned: dict[bytes, frozenset[int]] | None
    needs_member_id: bool = True  # from version 1 on; before, the coordinator makes one


class ConsumerBeat(NamedTuple):
    member_id: str
    epoch: int
    interval_ms: int = 0
    assignment: Target | None = None  # None: as it was


class SetTargets(NamedTuple):
    """Give the named members these targets, in an epoch of their own, until the group changes; for
    tests of clients. Answered with None. Refused for a group or a member that there is not.
    """

    group_id: str
    targets: dict[str, Target]  # by member id


class DescribeConsumerGroup(NamedTuple):
    """Answered with DescribedConsumerGroup. Refused with GROUP_ID_NOT_FOUND."""

    group_id: str


class DescribedConsumer(NamedTuple):
    member_id: str
    instance_id: str | None
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    regex: str
    assignment: Target
    target: Target
    is_classic: bool


class DescribedConsumerGroup(NamedTuple):
    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[DescribedConsumer, ...]
    topics: frozenset[str]  # subscribed to, by name or by a regular expression
