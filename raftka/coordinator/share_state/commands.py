"""Commands to a share coordinator, and its answers. Knows no message.

Every command but FindPrunable names one share partition, which picks the machine. Each may be
refused with a KafkaError.
"""

from dataclasses import dataclass
from typing import NamedTuple

from raftka.share.state import SharePartitionKey, StateBatch


@dataclass(frozen=True, slots=True)
class ShareStateSettings:
    """The broker's settings that the machine goes by."""

    updates_of_snapshot: int = 500  # share.coordinator.snapshot.update.records.per.snapshot
    # share.coordinator.cold.partition.snapshot.interval.ms
    cold_interval_ms: int = 300_000


class InitializeState(NamedTuple):
    """Forget the present state, and begin at `start`. Answered with None."""

    key: SharePartitionKey
    state_epoch: int
    start: int  # or NO_START


class ReadState(NamedTuple):
    """Return the state to the leader of that epoch, and fence the leaders before it. Answered with
    ShareState, whose `complete_count` is NO_COUNT.
    """

    key: SharePartitionKey
    leader_epoch: int


class WriteState(NamedTuple):
    """Add to the state. Answered with None."""

    key: SharePartitionKey
    state_epoch: int
    leader_epoch: int
    start: int  # or NO_START: as before
    complete_count: int
    batches: tuple[StateBatch, ...]  # in any order


class DeleteState(NamedTuple):
    """Answered with None, also when there is no state."""

    key: SharePartitionKey


class SummarizeState(NamedTuple):
    """Answered with ShareSummary; of a partition that is not initialised it has no start and no
    count.
    """

    key: SharePartitionKey


class FindPrunable(NamedTuple):
    """Answered with the offset of the log below which no record is needed any more."""
