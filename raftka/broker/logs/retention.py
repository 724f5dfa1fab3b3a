"""Retention, and closing of deleted segments, beside the data path: a slice at a time, the disk off the loop.

Compaction stands in cleaner.py. Knows no role of a replica: leaders and followers forget by themselves, each below its own high watermark.
"""

from math import inf

from raftka.broker.logs.cleaner import LogCleaner
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.replica.partition import Partition
from raftka.log.log import Log
from raftka.runtime.interfaces import File

RETENTION_FIRST_S = 30.0  # as Kafka after its start
LOGS_OF_SLICE = 200


class LogRetention:
    def __init__(self, replicas: ReplicaManager) -> None:
        self.replicas = replicas
        self.context = replicas.context
        self.clock = replicas.clock
        self.cleaner = LogCleaner(replicas)
        self._round: list[Partition] = []
        self._waiting: dict[Partition, None] = {}  # for a checkpoint, before more of their segments may go
        self._deleted = 0
        self._closed = False
        replicas.logs.on_retired = self._close_later

    def start(self) -> None:
        self._retain_later(RETENTION_FIRST_S)
        self.cleaner.start()

    def close(self) -> None:
        """Delete nothing from now on: the logs will be closed, and the next start may have the directory before the last timer fires."""
        self._closed = True
        self._round, self._waiting = [], {}
        self.cleaner.close()

    def _close_later(self, log: Log, file: File) -> None:
        """The segment is gone. Answers under way may read its file a while longer; then the next segment may be written over it, or it is closed."""
        self.clock.call_at(self.clock.now() + log.config.file_delete_delay_ms / 1000, lambda: self._release(log, file))

    def _release(self, log: Log, file: File) -> None:
        if not log.spare.release(file, self.clock.now()):
            self.context.runtime.files.discard(file)

    # retention

    def _retain_later(self, at_most_s: float = inf) -> None:
        interval = self.context.metadata.settings.seconds("log.retention.check.interval.ms")
        self.clock.call_at(self.clock.now() + min(interval, at_most_s), self._retain)

    def _retain(self) -> None:
        if self._closed:
            return
        self._retain_later()
        if not self._round:  # else the last one is not through: it goes on
            self._round = list(self.replicas.partitions.values())
            self._delete_some()

    def checkpointed(self) -> None:
        """A checkpoint is through: what waited for it is tried again."""
        if self._waiting and not self._round:
            self._round, self._waiting = list(self._waiting), {}
            self._delete_some()

    def _delete_some(self) -> None:
        for _ in range(LOGS_OF_SLICE):
            if not self._round:
                self._log_deleted()
                if self._waiting:
                    self.replicas.checkpoint_later()
                return
            if self._delete_oldest(self._round[-1]):
                return
            self._round.pop()
        self.clock.call_at(self.clock.now(), self._delete_some)

    def _delete_oldest(self, partition: Partition) -> bool:
        """Return whether a segment was deleted; the rest waits for the disk."""
        log = partition.log
        log.spare.expire(self.clock.now() - log.config.segment_reuse_ms / 1000)
        if log.failed is not None or self.replicas.partitions.get((partition.topic, partition.index)) is not partition:
            return False
        try:
            outlived = log.delete_oldest(self.clock.wall_ms(), partition.high_watermark)
        except OSError as error:
            self.context.events.error("retention_failed", partition=partition.name, error=str(error))
            self.replicas.log_failed(partition, error)
            return False
        if log.retention_waits:
            self._waiting[partition] = None
        if not outlived:
            return False
        self._deleted += 1
        self.context.metrics.count("raftka_segments_deleted_total")
        partition.start_moved()
        to_flush = [log.directory] if log.syncs or log.spare.needs_flush else []
        self.context.runtime.files.flush(to_flush, lambda error: self._flushed(partition, log, error))
        return True

    def _flushed(self, partition: Partition, log: Log, error: OSError | None) -> None:
        if error is not None:
            self.replicas.flush_failed(partition, error)
        else:
            log.spare.directory_flushed()
        self._delete_some()

    def _log_deleted(self) -> None:
        if self._deleted:
            self.context.events.info("segments_deleted", count=self._deleted)
            self._deleted = 0
