"""The records of a partition that a group has not committed yet. Called where the nodes run."""

from collections.abc import Mapping

from raftka.broker.replica.partition import Partition
from raftka.testing.views import Where, committed_records

COUNTED = 1_000  # offsets; of a longer distance each offset counts as a record


def read_lag(partition: Partition, committed: int | None) -> int:
    """Count the records from the committed offset on, or all of them when there is none.

    Offsets would not do: a client commits the offset behind its last record, and the marker of a
    transaction behind that would be a lag that never ends.
    """
    start = max(committed or 0, partition.log.start_offset)
    distance = partition.last_stable_offset - start
    if distance > COUNTED:
        return distance
    return sum(1 for _ in committed_records(partition, start, read_committed=True))


def describe_lag(lag: Mapping[Where, int]) -> str:
    return (
        ", ".join(f"{topic}-{partition}: {left}" for (topic, partition), left in lag.items())
        or "no partition, neither committed nor given to a member"
    )
