"""The parts that look after the logs beside the data path, as the replica manager uses them. They
are in raftka/broker/logs/, a room above.
"""

from typing import Protocol

from raftka.broker.replica.partition import Partition, Writes
from raftka.log.directory import LogDirectory


class Directories(Protocol):
    def failed(self, home: LogDirectory, error: OSError) -> bool:
        """Give the directory up; return whether the broker goes on without it."""


class Moves(Protocol):
    """Logs that move to another directory."""

    def opened(self, partition: Partition) -> None: ...

    def stop(self, partition: Partition) -> None:
        """End the move of a replica that goes, or whose log has failed."""

    def close(self) -> None: ...


class Retention(Protocol):
    def start(self) -> None: ...

    def close(self) -> None: ...

    def checkpointed(self) -> None:
        """Go on after a checkpoint of all logs is on disk."""


class Housekeeping(Protocol):
    @property
    def directories(self) -> Directories: ...

    @property
    def flushes(self) -> Writes: ...

    @property
    def mover(self) -> Moves: ...

    @property
    def retention(self) -> Retention: ...
