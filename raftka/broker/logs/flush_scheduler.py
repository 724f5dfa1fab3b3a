"""Flushes by time, for logs whose answers do not wait for the disk (raftka.log.flush=os): flush.ms
after a write, all that is written is on its way.

Kafka looks every log.flush.scheduler.interval.ms, which is for ever until somebody sets it; here
flush.ms alone is enough. Knows no answer.
"""

from math import inf

from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.replica.partition import Partition

FLUSHED_IN_A_TURN = 200


class FlushScheduler:
    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas
        self._clock = replicas.clock
        self._due: dict[Partition, float] = {}  # since its first write that is not flushed
        self._scheduled_at = inf

    def written(self, partition: Partition) -> None:
        if partition not in self._due and partition.log.unflushed:
            due = self._due[partition] = self._clock.now() + partition.log.config.flush_ms / 1000
            self._schedule(due)

    def _schedule(self, when: float) -> None:
        if when < self._scheduled_at:
            self._scheduled_at = when
            self._clock.call_at(when, self._flush_due)

    def _flush_due(self) -> None:
        now, self._scheduled_at = self._clock.now(), inf
        for partition in [partition for partition, due in self._due.items() if due <= now][
            :FLUSHED_IN_A_TURN
        ]:
            del self._due[partition]
            self._flush(partition)
        if self._due:
            self._schedule(max(now, min(self._due.values())))

    def _flush(self, partition: Partition) -> None:
        log = partition.log
        if (
            self._replicas.partitions.get((partition.topic, partition.index)) is not partition
            or not log.unflushed
        ):
            return
        files, settle = log.begin_late_flush()

        def flushed(error: OSError | None) -> None:
            if log.failed is not None or partition.log is not log:
                return  # nobody asks any more
            if error is not None:
                self._replicas.failures.flush_failed(partition, error)
            else:
                settle()

        self._replicas.flush(partition.home, files, flushed)
