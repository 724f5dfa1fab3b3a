"""Planted in what readers of what is committed are shown: the last stable offset, aborted
transactions, and what a restart knows of both.
"""

from typing import Any

from raftka.broker.fetch import reading
from raftka.broker.replica.partition import Partition
from raftka.log import log as log_module
from raftka.log import recovery
from raftka.log.compaction.transactions import Transactions
from raftka.log.log import Log
from raftka.log.producers import snapshots
from raftka.log.producers.aborted import AbortedTransactions
from raftka.log.producers.state import ProducerState
from raftka.log.segments.segment import Segment
from raftka.log.segments.transaction_index import AbortedTransaction, TransactionIndex
from tests.mutants.registry import mutant, part_of


@mutant(ProducerState, "first_unstable")
def stable_ahead_of_the_replicated_marker(_: Any) -> Any:
    """T38: readers are shown a transaction whose marker is appended and may be taken back."""

    def bug(self: ProducerState, high_watermark: int) -> int | None:
        return next(iter(self.open), None)

    return bug


@mutant(snapshots, "rebuild")
def snapshot_hides_what_is_not_replicated(rebuild: Any) -> Any:
    """T38: after a restart readers are shown a transaction whose marker is before the snapshot and
    not committed (once real).
    """

    def bug(*given: Any) -> ProducerState:
        state: ProducerState = rebuild(*given)
        state.restored_at = 0
        return state

    return bug


def _rebuild_without(rebuild: Any) -> Any:
    return snapshot_hides_what_is_not_replicated(rebuild)


part_of(snapshot_hides_what_is_not_replicated, recovery, "rebuild")(_rebuild_without)
part_of(snapshot_hides_what_is_not_replicated, log_module, "rebuild")(_rebuild_without)


@mutant(Log, "last_stable_offset")
def stable_is_the_high_watermark(_: Any) -> Any:
    """T38: readers of what is committed are shown what is not decided."""

    def bug(self: Log, high_watermark: int) -> int:
        return high_watermark

    return bug


@mutant(Log, "last_stable_offset")
def stable_beyond_the_high_watermark(_: Any) -> Any:
    """T38: what is not replicated is shown, where the first open transaction begins behind it."""

    def bug(self: Log, high_watermark: int) -> int:
        unstable = self.producers.first_unstable(high_watermark)
        return high_watermark if unstable is None else unstable

    return bug


@mutant(ProducerState, "snapshot")
def snapshot_without_open_transactions(snapshot: Any) -> Any:
    """T50: a snapshot does not tell which transactions are open: after a restart their records are
    shown before they are decided.
    """

    def bug(self: ProducerState) -> bytes:
        starts = {producer: producer.transaction_start for producer in self.producers.values()}
        for producer in starts:
            producer.transaction_start = -1
        try:
            return bytes(snapshot(self))
        finally:
            for producer, start in starts.items():
                producer.transaction_start = start

    return bug


@mutant(Log, "truncate_to")
def transactions_outlive_their_batches(truncate: Any) -> Any:
    """T49: a replica that cuts its log remembers transactions of what is gone: they stay open, and
    readers of what is committed wait for ever.
    """

    def bug(self: Log, offset: int) -> int:
        before = self.producers
        end = int(truncate(self, offset))
        self.producers = before
        return end

    return bug


@mutant(reading, "read_for_consumer", "transactions")
def isolation_is_passed_over(read: Any) -> Any:
    """T39: readers of what is committed get records up to the high watermark, without those that
    are known to be aborted.
    """

    def bug(partition: Partition, offset: int, limit: int, isolated: bool, *given: Any) -> Any:
        return read(partition, offset, limit, isolated and partition.leader is None, *given)

    return bug


@mutant(Partition, "watched_by")
def reader_behind_an_open_transaction_is_not_woken(watched: Any) -> Any:
    """T41: a parked reader of what is committed is not told when the transaction before it ends: it
    waits for all of fetch.max.wait.ms.
    """

    def bug(self: Partition, reader: Any) -> None:
        if reader.follower is not None or self.last_stable_offset >= self.high_watermark:
            watched(self, reader)

    return bug


@mutant(Partition, "readable_end", "transactions")
def offsets_are_listed_up_to_the_high_watermark(_: Any) -> Any:
    """T42: readers of what is committed are told an end that is not theirs."""

    def bug(self: Partition, *, is_isolated: bool) -> int:
        return self.high_watermark

    return bug


@mutant(AbortedTransactions, "find")
def aborted_of_the_first_segment_alone(aborted: Any) -> Any:
    """T48: a transaction whose abort lies in a later segment than its records is shown."""

    def bug(self: AbortedTransactions, offset: int, end: int) -> Any:
        found_from = self._segments.from_offset(offset)
        bound = found_from[1].base_offset if len(found_from) > 1 else self._log.end_offset
        return [each for each in aborted(self, offset, end) if each.last_offset < bound]

    return bug


@mutant(TransactionIndex, "find")
def aborts_behind_the_data_are_left_out(find: Any) -> Any:
    """T40: an abort whose marker lies behind the data of the answer is not named: its records are
    shown.
    """

    def bug(self: TransactionIndex, offset: int, end: int, found: list[AbortedTransaction]) -> bool:
        mine: list[AbortedTransaction] = []
        is_last = bool(find(self, offset, end, mine))
        found += [each for each in mine if each.last_offset < end]
        return is_last

    return bug


@mutant(Log, "last_stable_offset", "transactions")
def stable_before_the_log(_: Any) -> Any:
    """T43: what DeleteRecords takes of an open transaction still says what is stable: an offset
    before the log, which no one can read.
    """

    def bug(self: Log, high_watermark: int) -> int:
        unstable = self.producers.first_unstable(high_watermark)
        return high_watermark if unstable is None else min(high_watermark, unstable)

    return bug


@mutant(TransactionIndex, "append")
def search_for_aborts_stops_early(append: Any) -> Any:
    """T48: an entry says that no earlier transaction is open, and one is: its abort is not looked
    for.
    """

    def bug(self: TransactionIndex, entry: Any) -> None:
        append(self, entry._replace(last_stable_offset=entry.last_offset + 1))

    return bug


@mutant(TransactionIndex, "__init__")
def aborts_are_lost_at_a_restart(_: Any) -> Any:
    """T49: what the file says of aborted transactions is not read back: they are shown as
    committed.
    """

    def bug(self: TransactionIndex, data: bytes = b"") -> None:
        self.entries, self._lowest, self.written = [], [], 0

    return bug


@mutant(TransactionIndex, "truncate")
def aborts_outlive_their_markers(_: Any) -> Any:
    """T49: an abort that was cut off stays in the index: what is committed there afterwards is not
    shown.
    """

    def bug(self: TransactionIndex, offset: int) -> None: ...

    return bug


@mutant(Segment, "take_aborted", "transactions")
def an_index_made_again_is_only_appended_to(take: Any) -> Any:
    """B7: the entries of a lost index are below the recovery point: a loss of power leaves an empty
    file, which says that nothing was aborted.
    """

    def bug(self: Segment, entries: Any, *, durable: bool) -> None:
        take(self, entries, durable=False)

    return bug


@mutant(Segment, "_distrust_positions")
def aborts_go_with_the_offset_index(_: Any) -> Any:
    """B7: a loss of power takes the offset index of a segment, and the entries of its transaction
    index are thrown away with it.
    """

    def bug(self: Segment) -> None:
        self._keep_entries_below(self.base_offset)

    return bug


@mutant(Transactions, "_enter", "transactions")
def aborts_reach_into_the_dirty_part(_: Any) -> Any:
    """T52: in the cleaner's first pass an abort before the dirty part hides the next transaction of
    its producer: committed records are lost.
    """

    def bug(self: Transactions, header: Any) -> None:
        last_offset = header[0] + header[6]
        while self._aborts and self._aborts[-1].first_offset <= last_offset:
            aborted = self._aborts.pop()
            self._aborting[aborted.producer_id] = aborted

    return bug
