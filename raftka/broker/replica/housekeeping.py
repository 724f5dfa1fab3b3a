"""What the replica manager tells whoever takes care of the logs beside the data path:
raftka/broker/logs/housekeeping.py, a room above.
"""

from typing import Protocol

from raftka.broker.replica.partition import Partition
from raftka.log.directory import LogDirectory


class Care(Protocol):
    def start(self) -> None: ...

    def close(self) -> None: ...

    def opened(self, partition: Partition) -> None: ...

    def stopped(self, partition: Partition) -> None:
        """The replica goes, or its log has failed."""

    def written(self, partition: Partition) -> None:
        """Its log has bytes that are not flushed, and no answer waits for a flush."""

    def checkpointed(self) -> None:
        """A checkpoint of all logs is on disk."""

    def directory_failed(self, home: LogDirectory, error: OSError) -> bool:
        """Whether the broker goes on without that directory."""
