"""The care of a broker's logs: what its replica manager tells of them, handed to the parts of this
room.
"""

from raftka.broker.logs.directories import LogDirectories
from raftka.broker.logs.flush_scheduler import FlushScheduler
from raftka.broker.logs.mover import LogMover
from raftka.broker.logs.retention import LogRetention
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.replica.partition import Partition
from raftka.log.directory import LogDirectory


class LogCare:
    def __init__(self, replicas: ReplicaManager) -> None:
        self.directories = LogDirectories(replicas)
        self.flushes = FlushScheduler(replicas)
        self.mover = LogMover(replicas, self.directories)
        self.retention = LogRetention(replicas)
        self.checkpointed = self.retention.checkpointed

    def start(self) -> None:
        self.retention.start()

    def close(self) -> None:
        self.retention.close()
        self.mover.close()

    def opened(self, partition: Partition) -> None:
        self.mover.opened(partition)

    def stopped(self, partition: Partition) -> None:
        self.mover.stop(partition)

    def written(self, partition: Partition) -> None:
        self.flushes.written(partition)

    def directory_failed(self, home: LogDirectory, error: OSError) -> bool:
        return self.directories.failed(home, error)
