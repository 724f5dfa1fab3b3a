"""The parts of this room, as the replica manager has them."""

from raftka.broker.logs.backup_stage import BackupStage
from raftka.broker.logs.directories import LogDirectories
from raftka.broker.logs.flush_scheduler import FlushScheduler
from raftka.broker.logs.mover import LogMover
from raftka.broker.logs.retention import LogRetention
from raftka.broker.replica.manager import ReplicaManager


class LogHousekeeping:
    def __init__(self, replicas: ReplicaManager) -> None:
        self.directories = LogDirectories(replicas)
        self.flushes = FlushScheduler(replicas)
        self.mover = LogMover(replicas, self.directories)
        self.retention = LogRetention(replicas)
        self.backup = BackupStage(replicas)
