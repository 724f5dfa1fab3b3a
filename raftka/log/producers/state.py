"""A partition's memory of idempotent producers: epoch, next sequence, the last five batches
(KIP-98, KIP-360), and the transaction that each has open here. Derived from the log alone, but for
the guards of transactions that are about to begin (KIP-890).

`ProducerState.admit` is the rule; the log takes the commonest case, the next batch in order, before
it asks. Knows no files: snapshots are bytes in Kafka's format, which has only the last batch of
each producer; `remember_older` gives the other four back from the log.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from struct import Struct, error

from raftka.checksum import crc32c
from raftka.limits import GUARDS_OF_PARTITION, PRODUCERS_OF_PARTITION
from raftka.log.producers.markers import VERSION_2, Marker
from raftka.log.segments.transaction_index import AbortedTransaction
from raftka.versions import PRODUCER_SNAPSHOT
from raftka.wire.errors import Code, KafkaError
from raftka.wire.records import TRANSACTIONAL

BATCHES_REMEMBERED = 5
SEQUENCES = 1 << 31  # sequences run from 0 to 2^31-1 and begin again

VERSION = 1
SNAPSHOT_HEAD = Struct(">hIi")  # version, CRC32C of all that follows it, count
CRC_END = 6
ENTRY = Struct(
    ">qhiqiqiq"
    # producer id, epoch, last sequence, last offset, sequence delta, timestamp, coordinator epoch,
    # first offset of the transaction
)

Batch = tuple[int, int, int, int]  # first sequence, last sequence, base offset, largest timestamp


LAST_EPOCH = 32767  # in markers alone: a producer whose epochs have run out goes on with another id


class Producer:
    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "next_sequence",
        "seen_ms",
        "timestamp",
        "transaction_start",
        "transactional",
    )

    def __init__(self, epoch: int, seen_ms: int) -> None:
        self.epoch = epoch
        self.next_sequence = 0
        # the oldest first; none when the last thing was a marker that raised the epoch
        self.batches: list[Batch] = []
        self.seen_ms = seen_ms  # by this broker's clock
        self.timestamp = -1  # of the last batch or marker
        self.coordinator_epoch = -1
        self.transaction_start = -1  # offset of the first batch of the open transaction
        # TRANSACTIONAL while a transaction is open: the attribute that its batches have
        self.transactional = 0

    @property
    def last_offset(self) -> int:
        """-1: it has no batch."""
        if not self.batches:
            return -1
        first, last, base, _ = self.batches[-1]
        return base + (last - first) % SEQUENCES

    def add(self, sequence: int, count: int, base_offset: int, timestamp: int) -> None:
        last = (sequence + count - 1) % SEQUENCES
        self.batches.append((sequence, last, base_offset, timestamp))
        if len(self.batches) > BATCHES_REMEMBERED:
            del self.batches[0]
        self.next_sequence = (last + 1) % SEQUENCES


class Guard:
    """A transaction is about to begin in the partition: its coordinator was asked whether it knows
    of it.

    A marker that is written between the question and the batch takes the guard away, so that no
    transaction begins which nobody would end.
    """

    __slots__ = ("epoch", "lowest_sequence", "seen_ms", "verified", "version")

    def __init__(self, epoch: int, sequence: int, version: int, now_ms: int) -> None:
        self.epoch = epoch
        # of the batches that wait for the answer: none of a higher one may come first
        self.lowest_sequence = sequence
        self.version = version
        self.verified = False
        self.seen_ms = now_ms


class ProducerState:
    __slots__ = (
        "changed",
        "ended",
        "forgotten",
        "guards",
        "guards_dropped",
        "open",
        "producers",
        "restored_at",
        "unstable",
    )

    def __init__(self) -> None:
        self.producers: dict[int, Producer] = {}
        self.changed = False  # since the last snapshot
        self.forgotten = 0  # because there were too many
        # by producer id, in the order in which they asked last
        self.guards: OrderedDict[int, Guard] = OrderedDict()
        self.guards_dropped = 0  # because there were too many
        # first offset of each open transaction, in order: since when (ms), by this broker's clock
        self.open: OrderedDict[int, int] = OrderedDict()
        # first offsets of these, and of those whose markers may not be committed
        self.unstable: OrderedDict[int, None] = OrderedDict()
        # of the latter: offset of the marker, first offset
        self.ended: deque[tuple[int, int]] = deque()
        # offset of the snapshot: it does not tell which markers before it end which transactions
        self.restored_at = 0

    def admit(
        self, producer_id: int, epoch: int, sequence: int, count: int, transactional: int = 0
    ) -> Batch | None:
        """The remembered batch if this is a duplicate, None if it may be appended. Raises
        KafkaError:

        INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER; INVALID_TXN_STATE for a transactional
        batch without a transaction (`guard`), and for a plain one within one. A duplicate has
        exactly the first and the last sequence of one of the last five: other boundaries are out of
        order. A new epoch begins at 0.
        """
        producer = self.producers.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            raise KafkaError(Code.INVALID_PRODUCER_EPOCH)
        if transactional and self.must_verify(producer_id, epoch):
            self._check_guard(producer, producer_id, epoch, sequence)
        elif not transactional and producer is not None and producer.transactional:
            raise KafkaError(Code.INVALID_TXN_STATE)
        if producer is None or sequence < 0:  # the records of a coordinator have no sequence
            return None
        if epoch == producer.epoch:
            last = (sequence + count - 1) % SEQUENCES
            for batch in producer.batches:
                if batch[0] == sequence and batch[1] == last:
                    return batch
            # a producer without an epoch has no order: Kafka's own hole
            if sequence != producer.next_sequence and epoch >= 0:
                raise KafkaError(Code.OUT_OF_ORDER_SEQUENCE_NUMBER)
        elif sequence != 0:
            raise KafkaError(Code.OUT_OF_ORDER_SEQUENCE_NUMBER)
        return None

    def record(
        self,
        producer_id: int,
        epoch: int,
        sequence: int,
        count: int,
        base_offset: int,
        timestamp: int,
        now_ms: int,
        transactional: int = 0,
    ) -> None:
        """The batch is in the log: from a leader that admitted it, a follower's fetch, or recovery.
        Never refuses.
        """
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self._new_producer(producer_id, epoch, now_ms)
        elif epoch != producer.epoch:
            producer.epoch = epoch
            producer.batches.clear()
        if sequence >= 0:
            producer.add(sequence, count, base_offset, timestamp)
        producer.timestamp, producer.seen_ms = timestamp, now_ms
        if transactional and not producer.transactional:
            self._begin_transaction(producer, base_offset, now_ms)
            self.guards.pop(producer_id, None)
        self.changed = True

    def _new_producer(self, producer_id: int, epoch: int, now_ms: int) -> Producer:
        if len(self.producers) >= PRODUCERS_OF_PARTITION.value:
            self._make_room()
        producer = self.producers[producer_id] = Producer(epoch, now_ms)
        return producer

    def _make_room(self) -> None:
        """A tenth goes at once, those that wrote longest ago: the search is not paid for every
        newcomer. Those within a transaction stay.
        """
        idle = [
            producer_id
            for producer_id, producer in self.producers.items()
            if not producer.transactional
        ]
        idle.sort(
            key=lambda producer_id: (
                self.producers[producer_id].seen_ms,
                self.producers[producer_id].last_offset,
            )
        )
        leaving = idle[: max(1, len(idle) // 10)]
        for producer_id in leaving:
            del self.producers[producer_id]
        self.forgotten += len(leaving)

    def expire(self, now_ms: int, idle_ms: int) -> None:
        for producer_id, producer in list(self.producers.items()):
            if now_ms - producer.seen_ms >= idle_ms and not producer.transactional:
                del self.producers[producer_id]
                self.changed = True
        for producer_id, guard in list(self.guards.items()):
            if now_ms - guard.seen_ms >= idle_ms:
                del self.guards[producer_id]

    # transactions

    def must_verify(self, producer_id: int, epoch: int) -> bool:
        """Return whether a transactional batch would begin a transaction: then its coordinator is
        to be asked first.
        """
        producer = self.producers.get(producer_id)
        return producer is None or not producer.transactional or producer.epoch != epoch

    def guard(
        self, producer_id: int, epoch: int, sequence: int, version: int, now_ms: int
    ) -> Guard:
        """The coordinator is about to be asked. Raises INVALID_PRODUCER_EPOCH.

        The question of an earlier epoch leaves the guard of a later one, which may have its answer
        first, and gets one that lets nothing in.
        """
        producer = self.producers.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            raise KafkaError(Code.INVALID_PRODUCER_EPOCH)
        guard = self.guards.get(producer_id)
        if guard is not None and epoch < guard.epoch:
            return Guard(epoch, sequence, version, now_ms)
        if guard is None or guard.epoch != epoch or guard.version != version:
            if guard is None and len(self.guards) >= GUARDS_OF_PARTITION.value:
                # whoever asked longest ago: its batch is refused, if it still comes
                self.guards.popitem(last=False)
                self.guards_dropped += 1
            guard = self.guards[producer_id] = Guard(epoch, sequence, version, now_ms)
        self.guards.move_to_end(producer_id)
        guard.lowest_sequence = min(guard.lowest_sequence, sequence)
        guard.seen_ms = now_ms
        return guard

    def verified(self, producer_id: int, guard: Guard, known: bool) -> None:
        """The coordinator has answered. A guard that a marker has taken away since stays away."""
        if self.guards.get(producer_id) is guard:
            if known:
                guard.verified = True
            elif not guard.verified:
                del self.guards[producer_id]

    def _check_guard(
        self, producer: Producer | None, producer_id: int, epoch: int, sequence: int
    ) -> None:
        guard = self.guards.get(producer_id)
        if guard is None or not guard.verified or guard.epoch != epoch:
            raise KafkaError(Code.INVALID_TXN_STATE)
        begins_at_0 = producer is None and guard.version >= VERSION_2
        if sequence > guard.lowest_sequence or (begins_at_0 and sequence > 0):
            raise KafkaError(Code.OUT_OF_ORDER_SEQUENCE_NUMBER)

    def _begin_transaction(self, producer: Producer, offset: int, now_ms: int) -> None:
        producer.transaction_start, producer.transactional = offset, TRANSACTIONAL
        self.open[offset] = now_ms
        self.unstable[offset] = None

    def admit_marker(self, marker: Marker) -> bool:
        """Return whether to write it: False when all that it would end is over. Raises
        INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED.

        A marker of version 2 has the epoch that the end of the transaction has raised: the same
        epoch with a transaction open is the next one's.
        """
        producer = self.producers.get(marker.producer_id)
        if producer is None:
            return True
        if marker.epoch < producer.epoch:
            # Kafka says INVALID_PRODUCER_EPOCH, and its coordinator then leaves the other
            # partitions without markers
            return False
        if (
            marker.version >= VERSION_2
            and marker.epoch == producer.epoch != LAST_EPOCH
            and producer.transactional
        ):
            raise KafkaError(Code.INVALID_PRODUCER_EPOCH)
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise KafkaError(Code.TRANSACTION_COORDINATOR_FENCED)
        return True

    def end(
        self, marker: Marker, offset: int, timestamp: int, now_ms: int
    ) -> AbortedTransaction | None:
        """The marker is in the log, at `offset`. Returns the entry for the transaction index when
        it aborts a transaction that has batches here.
        """
        producer = self.producers.get(marker.producer_id) or self._new_producer(
            marker.producer_id, marker.epoch, now_ms
        )
        if producer.epoch != marker.epoch:
            producer.epoch, producer.next_sequence = marker.epoch, 0
            producer.batches.clear()
        producer.coordinator_epoch, producer.timestamp = marker.coordinator_epoch, timestamp
        producer.seen_ms = now_ms
        self.changed = True
        guard = self.guards.get(marker.producer_id)
        if guard is not None and not (guard.version >= VERSION_2 and guard.epoch == marker.epoch):
            del self.guards[marker.producer_id]
        first = producer.transaction_start
        if first < 0:
            return None
        producer.transaction_start, producer.transactional = -1, 0
        del self.open[first]
        self.ended.append((offset, first))
        if marker.commit:
            return None
        return AbortedTransaction(
            marker.producer_id, first, offset, next(iter(self.open), offset + 1)
        )

    def first_unstable(self, high_watermark: int) -> int | None:
        """The lowest offset of an open transaction, or of one whose marker is not below the high
        watermark; None: there is no such transaction.

        0 while the high watermark is before the snapshot that this state comes from: any
        transaction may have its marker between them.
        """
        if high_watermark < self.restored_at:
            return 0
        ended, unstable = self.ended, self.unstable
        while ended and ended[0][0] < high_watermark:
            del unstable[ended.popleft()[1]]
        return next(iter(unstable), None)

    def open_since(self, before_ms: int) -> bool:
        """Return whether a transaction is open that this broker saw first before that time; a
        restarted broker counts from its start.

        Not the producers' timestamps: those of old data would show every transaction as late.
        """
        return next(iter(self.open.values()), before_ms) < before_ms

    # snapshots

    def remember_older(self, batches: Iterable[tuple[int, int, int, int, int, int]]) -> None:
        """Batches of the log before the snapshot, in order: (producer id, epoch, first sequence,
        count, base offset, timestamp).
        """
        history: dict[int, Producer] = {}
        for producer_id, epoch, sequence, count, base_offset, timestamp in batches:
            known = self.producers.get(producer_id)
            if known is not None and known.epoch == epoch:
                history.setdefault(producer_id, Producer(epoch, known.seen_ms)).add(
                    sequence, count, base_offset, timestamp
                )
        for producer_id, older in history.items():
            known = self.producers[producer_id]
            # its time may be that of a marker
            first = known.batches[0][:3] if known.batches else None
            place = next(
                (place for place, batch in enumerate(older.batches) if batch[:3] == first), None
            )
            if place is not None:
                known.batches[:1] = older.batches[: place + 1]
                del known.batches[:-BATCHES_REMEMBERED]

    def snapshot(self) -> bytes:
        entries = []
        for producer_id, p in self.producers.items():
            _, sequence, base, _ = p.batches[-1] if p.batches else (-1, -1, -1, -1)
            end = p.last_offset
            entries.append(
                ENTRY.pack(
                    producer_id,
                    p.epoch,
                    sequence,
                    end,
                    end - base,
                    p.timestamp,
                    p.coordinator_epoch,
                    p.transaction_start,
                )
            )
        body = len(entries).to_bytes(4, "big") + b"".join(entries)
        return SNAPSHOT_HEAD.pack(VERSION, crc32c(body), len(entries)) + body[4:]

    @classmethod
    def from_snapshot(cls, data: bytes, now_ms: int) -> "ProducerState | None":
        """None when the bytes are not a whole snapshot: then an older one and more of the log
        serve. Raises NewerFormat for a whole one of a later version: version and CRC stay where
        they are in all of them.
        """
        try:
            version, crc, count = SNAPSHOT_HEAD.unpack_from(data)
        except error:
            return None
        if crc32c(data[CRC_END:]) != crc:
            return None
        PRODUCER_SNAPSHOT.check(version, "a producer snapshot")
        if version != VERSION or len(data) != SNAPSHOT_HEAD.size + count * ENTRY.size:
            return None
        state = cls()
        for fields in ENTRY.iter_unpack(data[SNAPSHOT_HEAD.size :]):
            state._restore(fields, now_ms)
        open_now = [
            producer for producer in state.producers.values() if producer.transaction_start >= 0
        ]
        for producer in sorted(open_now, key=lambda producer: producer.transaction_start):
            state._begin_transaction(producer, producer.transaction_start, now_ms)
        return state

    def _restore(self, fields: tuple[int, ...], now_ms: int) -> None:
        (
            producer_id,
            epoch,
            last_sequence,
            last_offset,
            delta,
            timestamp,
            coordinator_epoch,
            transaction_start,
        ) = fields
        producer = self.producers[producer_id] = Producer(epoch, now_ms)
        producer.coordinator_epoch = coordinator_epoch
        producer.transaction_start = transaction_start
        # a producer of which only a transaction marker is left has no sequence
        if last_sequence >= 0:
            producer.add(
                (last_sequence - delta) % SEQUENCES, delta + 1, last_offset - delta, timestamp
            )
        producer.timestamp = timestamp
