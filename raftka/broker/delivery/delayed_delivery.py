"""Delivers held records: follows the replicas of delayed topics, finds out what is pending, and
appends what is due. raftka/log/delivery/ knows what the batches mean.

A delivering batch is appended with acks=all's rules: with fewer replicas in sync than
min.insync.replicas the records stay held. Else consumers could see them, the batch could be lost
with its replica, and the next leader would deliver them again.
"""

from functools import partial

from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.replica.partition import Partition
from raftka.broker.work.long_work import LongWork, Steps
from raftka.log.delivery.delivering import HeldReader, HeldRecord, make_batch
from raftka.log.delivery.held import NEVER, DueRecord, Pending
from raftka.log.delivery.scan import HeldScan, Outdated, distance_to
from raftka.log.log import Log
from raftka.runtime.interfaces import Timer
from raftka.wire.errors import KafkaError, ProtocolError

TICK_S = 0.02  # between two deliveries of a partition: many records share a batch
LONGEST_S = 10.0  # until the wall clock is looked at again: it may be set
RETRY_S = 0.1  # with too few replicas in sync
RECORDS_OF_BATCH, BYTES_OF_BATCH = 500, 128 * 1024


class DelayedDelivery:
    def __init__(self, replicas: ReplicaManager, long_work: LongWork) -> None:
        self._replicas = replicas
        self._context, self._clock = replicas.context, replicas.clock
        self._long_work = long_work
        self._reader = HeldReader()
        self._scanned: dict[Partition, Log] = {}  # logs that are being read
        self._timers: dict[Partition, tuple[float, Timer]] = {}
        self._delivering: set[Partition] = set()

    def follow(self, partition: Partition) -> None:
        """Do what the role of a replica of a delayed topic asks for, which may have changed."""
        held = partition.log.held
        if held is None or partition in self._scanned:
            return
        if partition.leader is None:
            needed = held.known_from > 0 and self._replicas.prefers_racks
        else:
            needed = held.pending is None or held.known_from > 0
        if needed and partition.log.failed is None:
            log = self._scanned[partition] = partition.log
            self._long_work.resume(
                "finding held records",
                self._scan(partition, log),
                partial(self._on_scanned, partition, log),
                lambda: self._is_here(partition, log),
            )

    def _is_here(self, partition: Partition, log: Log) -> bool:
        """Return whether this is still the partition's log; forget the scan if it is not."""
        here = self._replicas.partitions.get((partition.topic, partition.index))
        if here is partition and partition.log is log and log.failed is None:
            return True
        if self._scanned.get(partition) is log:
            del self._scanned[partition]
            if here is partition:
                self._context.later(partial(self.follow, partition))
        return False

    def _scan(self, partition: Partition, log: Log) -> Steps[None]:
        scan = HeldScan(log)
        if partition.leader is not None and log.held is not None and log.held.pending is None:
            yield from scan.find_pending()
            self._on_pending(partition, log)
        for _ in scan.find_ranges():
            if partition.leader is not None and log.held is not None and log.held.pending is None:
                return  # it has begun to lead
            yield

    def _on_pending(self, partition: Partition, log: Log) -> None:
        """Begin to deliver; let consumers read."""
        assert log.held is not None
        pending = log.held.pending
        if partition.leader is None or pending is None:
            log.held.pending = None  # it leads no more
            return
        self._reader.forget(log)
        pending.on_sooner = partial(self._schedule, partition)
        self._context.events.debug(
            "held_records_found", partition=partition.name, pending=len(pending)
        )
        partition.wake_all()
        self._schedule(partition)

    def _on_scanned(self, partition: Partition, log: Log, result: Exception | None) -> None:
        del self._scanned[partition]
        if isinstance(result, Outdated):
            self._context.later(partial(self.follow, partition))
        elif isinstance(result, OSError):
            self._replicas.housekeeping.directories.failed(partition.home, result)
        elif isinstance(result, Exception):
            raise result
        else:
            partition.wake_all()
            self.follow(partition)  # it may lead since then

    # delivering

    def _pending(self, partition: Partition) -> Pending | None:
        """Return the pending records of a partition that this broker leads."""
        held = partition.log.held
        return None if partition.leader is None or held is None else held.pending

    def _schedule(self, partition: Partition, least_s: float = 0.0) -> None:
        """Deliver when the next record is due, not before `least_s` seconds from now."""
        pending = self._pending(partition)
        if pending is None or partition in self._delivering or pending.next_ms == NEVER:
            return
        wait_s = (pending.next_ms - self._clock.wall_ms()) / 1000
        when = self._clock.now() + min(max(wait_s, least_s), LONGEST_S)
        known = self._timers.get(partition)
        if known is not None:
            if known[0] <= when:
                return
            known[1].cancel()
        timer = self._clock.call_at(when, partial(self._deliver, partition))
        self._timers[partition] = when, timer

    def _deliver(self, partition: Partition) -> None:
        self._timers.pop(partition, None)
        pending, log = self._pending(partition), partition.log
        if pending is None or self._context.stopped:
            return
        if pending.next_ms > self._clock.wall_ms():
            self._schedule(partition)
            return
        self._delivering.add(partition)
        self._long_work.resume(
            "delayed delivery",
            self._deliver_due(partition, log, pending),
            partial(self._on_delivered, partition, log, pending),
            lambda: self._is_current(partition, log, pending),
        )

    def _is_current(self, partition: Partition, log: Log, pending: Pending) -> bool:
        """Return whether what was taken from `pending` may still be appended."""
        if partition.log is log and log.failed is None and self._pending(partition) is pending:
            return True
        self._delivering.discard(partition)
        self._reader.forget(log)
        self._schedule(partition)
        return False

    def _deliver_due(self, partition: Partition, log: Log, pending: Pending) -> Steps[None]:
        """Append batch after batch while records are due. Raises KafkaError, OSError."""
        while taken := self._take(partition, pending):
            batch: list[HeldRecord] = []
            times: list[int] = []
            size = 0
            for due in taken:
                try:
                    found = self._reader.read(log, due)
                except ProtocolError as error:
                    self._context.events.error(
                        "held_record_unreadable",
                        partition=partition.name,
                        offset=due.offset,
                        error=str(error),
                    )
                    continue
                if batch and size + found.size > BYTES_OF_BATCH:
                    self._append(partition, pending, batch, times)
                    batch, times, size = [], [], 0
                batch.append(found)
                times.append(due.at_ms)
                size += found.size
                yield
            if batch:
                self._append(partition, pending, batch, times)

    def _take(self, partition: Partition, pending: Pending) -> list[DueRecord]:
        leader = partition.leading()
        if leader.under_min_isr:
            return []
        return pending.take(self._clock.wall_ms(), RECORDS_OF_BATCH)

    def _append(
        self, partition: Partition, pending: Pending, batch: list[HeldRecord], times: list[int]
    ) -> None:
        log, now_ms = partition.log, self._clock.wall_ms()
        for each in batch:
            pending.delivered(each.base)
        distance = distance_to(pending.first(log.end_offset), log.end_offset)
        partition.append_of_coordinator(make_batch(batch, log.config, now_ms, distance), self)
        metrics = self._context.metrics
        metrics.count("raftka_delayed_records_delivered_total", len(batch))
        for at_ms in times:
            metrics.lateness.add(max(0, now_ms - at_ms) / 1000 if at_ms else 0.0)

    def abort(self, reason: str) -> None:
        """A delivering batch could not be written. The log has failed with it: the next leader
        delivers its records.
        """

    def _on_delivered(
        self, partition: Partition, log: Log, pending: Pending, result: Exception | None
    ) -> None:
        self._delivering.discard(partition)
        if isinstance(result, Exception):
            # what was taken is pending in the log alone
            assert log.held is not None
            log.held.pending = None
            if isinstance(result, OSError):
                self._replicas.housekeeping.directories.failed(partition.home, result)
            elif not isinstance(result, KafkaError):
                raise result
            self._retry_later(partition)
        else:
            leader = partition.leader
            waits = leader is not None and leader.under_min_isr
            self._schedule(partition, RETRY_S if waits else TICK_S)

    def _retry_later(self, partition: Partition) -> None:
        self._clock.call_at(self._clock.now() + RETRY_S, partial(self.follow, partition))
