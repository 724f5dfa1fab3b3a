"""Retention, and closing of deleted segments, beside the data path: a slice at a time, the disk off
the loop.

Compaction stands in cleaner.py. Knows no role of a replica: leaders and followers forget by
themselves, each below its own high watermark.
"""

from contextlib import suppress
from math import inf

from raftka.broker.logs.cleaner import LogCleaner
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.replica.partition import Partition
from raftka.log.log import Log
from raftka.log.segments.recycled_segment import Budget
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
        # for a checkpoint, before more of their segments may go
        self._waiting: dict[Partition, None] = {}
        self._deleted = 0
        self._more = False  # segments of the log to delete, without waiting
        self._budget = Budget()
        self._closed = False
        replicas.logs.on_retired = self._close_later

    def start(self) -> None:
        self._retain_later(RETENTION_FIRST_S)
        self.cleaner.start()

    def close(self) -> None:
        """Delete nothing from now on: the logs will be closed, and the next start may have the
        directory before the last timer fires.
        """
        self._closed = True
        self._round, self._waiting = [], {}
        self.cleaner.close()

    def _close_later(self, log: Log, file: File) -> None:
        """The segment is gone: its file is closed after file.delete.delay.ms. One that is kept may
        be written over in a later turn.

        Answers have what they read in the turn that made them, or have it pinned until it has left.
        So no delay would make reuse safer.
        """
        delay_s = 0.0 if log.segments.recycled.has(file) else log.config.file_delete_delay_ms / 1000
        self.clock.call_at(self.clock.now() + delay_s, lambda: self._release(log, file))

    def _release(self, log: Log, file: File) -> None:
        if not log.segments.recycled.release(file, self.clock.now()):
            self.context.runtime.files.discard(file)

    def _set_budget(self) -> None:
        """Files are kept up to raftka.log.segment.reuse.bytes, and to half of what is free on the
        fullest volume.
        """
        free = []
        for home in self.replicas.logs.usable:
            with suppress(OSError):  # its next write says what is wrong
                free.append(self.context.runtime.files.space(home.path)[1])
        setting = self.context.metadata.settings["raftka.log.segment.reuse.bytes"]
        used = self._budget.used_bytes
        self._budget.limit_bytes = min(setting, (min(free, default=0) + used) // 2)

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
            self._set_budget()
            for partition in self._round:
                partition.log.segments.recycled.begin_round(
                    self.clock.now() - partition.log.config.segment_reuse_ms / 1000, self._budget
                )
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
            if self._more:
                break
            self._round.pop()
        self.clock.call_at(self.clock.now(), self._delete_some)

    def _delete_oldest(self, partition: Partition) -> bool:
        """Return whether the rest waits for the disk. `_more` is set where it does not, and another
        segment may follow.
        """
        log, self._more = partition.log, False
        if (
            log.failed is not None
            or self.replicas.partitions.get((partition.topic, partition.index)) is not partition
        ):
            return False
        try:
            outlived = log.delete_oldest(self.clock.wall_ms(), partition.deletable_end)
        except OSError as error:
            self.context.events.error(
                "retention_failed", partition=partition.name, error=str(error)
            )
            self.replicas.failures.log_failed(partition, error)
            return False
        if log.retention_waits:
            self._waiting[partition] = None
        if outlived:
            self._deleted += 1
            self.context.metrics.count("raftka_segments_deleted_total")
            partition.start_moved()
            # no crash may leave a hole between those that stay, where answers promise what is on
            # disk
            self._more = not log.syncs
        if (outlived and log.syncs) or (not outlived and log.segments.recycled.needs_flush):
            self.context.runtime.files.flush(
                [log.directory], lambda error: self._flushed(partition, log, error)
            )
            return True
        return False

    def _flushed(self, partition: Partition, log: Log, error: OSError | None) -> None:
        if error is not None:
            self.replicas.failures.flush_failed(partition, error)
        else:
            log.segments.recycled.directory_flushed()
        self._delete_some()

    def _log_deleted(self) -> None:
        if self._deleted:
            self.context.events.info("segments_deleted", count=self._deleted)
            self._deleted = 0
