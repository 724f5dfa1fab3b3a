"""Planted in delayed delivery: in what is pending, in times, and in what consumers see before."""

from collections import OrderedDict
from typing import Any

from raftka.broker.delivery.delayed_delivery import DelayedDelivery
from raftka.broker.replica.partition import Partition
from raftka.log import validation
from raftka.log.delivery import scan
from raftka.log.delivery.due import DELIVERING
from raftka.log.delivery.held import HeldBatches, Pending
from raftka.log.delivery.scan import HeldScan
from raftka.log.segments.scan import headers
from tests.mutants.registry import mutant, part_of


@mutant(HeldScan, "_find_records")
def pending_records_are_not_rebuilt(_: Any) -> Any:
    """A new leader does not read its log: records that the leader before it held are never
    delivered.
    """

    def bug(self: HeldScan, first: int) -> Any:
        yield
        self._held.pending = Pending(OrderedDict())

    return bug


@mutant(scan, "_held_offset")
def a_new_leader_delivers_again(_: Any) -> Any:
    """A new leader does not look at what was delivered before."""

    def bug(record: Any) -> int:
        return -1

    return bug


@mutant(HeldBatches, "visible_run")
def held_records_are_shown(_: Any) -> Any:
    """Consumers read held batches like all others, before their time."""

    def bug(self: HeldBatches, offset: int, up_to: int) -> tuple[int, int]:
        return offset, up_to

    return bug


@mutant(Pending, "take")
def delivered_before_its_time(take: Any) -> Any:
    """Records are delivered a second too early."""

    def bug(self: Pending, now_ms: int, at_most: int) -> Any:
        return take(self, now_ms + 1000, at_most)

    return bug


part_of(delivered_before_its_time, Pending, "next_ms")(
    lambda next_ms: property(lambda self: next_ms.fget(self) - 1000)
)


@mutant(Partition, "deletable_end")
def retention_deletes_pending_records(_: Any) -> Any:
    """Retention and DeleteRecords look at the high watermark alone."""
    return property(lambda partition: partition.high_watermark)


@mutant(HeldScan, "_find_first")
def a_new_leader_begins_at_the_last_delivery(_: Any) -> Any:
    """A new leader looks for pending records behind the last delivering batch alone."""

    def bug(self: HeldScan) -> Any:
        yield
        return max(
            header[0]
            for segment in self._log.segments
            for _, header in headers(segment.file, 0, self._size_of(segment))
            if header[5] & DELIVERING or header[0] == 0
        )

    return bug


@mutant(DelayedDelivery, "_take")
def delivered_with_too_few_replicas(_: Any) -> Any:
    """A leader delivers although fewer replicas are in sync than min.insync.replicas: consumers
    read a record that is lost with it, and the next leader delivers it again.
    """

    def bug(self: DelayedDelivery, partition: Any, pending: Pending) -> Any:
        return pending.take(self._clock.wall_ms(), 500)

    return bug


def _append_anyway(_: Any) -> Any:
    def bug(self: Partition, append: Any, connection: object) -> int:
        end: int = append(self.leading().leader_epoch)
        self.appended(0, end, connection)
        return end

    return bug


part_of(delivered_with_too_few_replicas, Partition, "_append_own")(_append_anyway)


@mutant(HeldBatches, "cut")
def ranges_outlive_a_truncation(_: Any) -> Any:
    """A follower that cuts its log goes on to hide the offsets that were held there."""

    def bug(self: HeldBatches, end: int) -> None:
        self.pending = None

    return bug


@mutant(validation, "MARKS")
def clients_may_hold_batches(_: Any) -> Any:
    """The marks of held and delivering batches are taken from clients as they come."""
    return 0
