"""What a partition remembers of idempotent producers: epoch, next sequence, the last five batches (KIP-98, KIP-360). Derived from the log alone.

`ProducerState.admit` is the rule; the log takes the commonest case, the next batch in order, before it asks. Knows no files: snapshots are bytes in
Kafka's format, which has only the last batch of each producer; `remember_older` gives the other four back from the log.
"""

from collections.abc import Iterable
from struct import Struct, error

from crc32c import crc32c

from raftka.limits import PRODUCERS_OF_PARTITION
from raftka.wire.errors import Code, KafkaError

BATCHES_REMEMBERED = 5
SEQUENCES = 1 << 31  # sequences run from 0 to 2^31-1 and begin again

VERSION = 1
SNAPSHOT_HEAD = Struct(">hIi")  # version, CRC32C of all that follows it, count
CRC_END = 6
ENTRY = Struct(
    ">qhiqiqiq"
)  # producer id, epoch, last sequence, last offset, sequence delta, timestamp, coordinator epoch, first offset of the transaction

Batch = tuple[int, int, int, int]  # first sequence, last sequence, base offset, largest timestamp


class Producer:
    __slots__ = ("batches", "coordinator_epoch", "epoch", "next_sequence", "seen_ms", "transaction_start")

    def __init__(self, epoch: int, seen_ms: int) -> None:
        self.epoch = epoch
        self.next_sequence = 0
        self.batches: list[Batch] = []  # the oldest first
        self.seen_ms = seen_ms
        self.coordinator_epoch = -1
        self.transaction_start = -1

    @property
    def last_offset(self) -> int:
        first, last, base, _ = self.batches[-1]
        return base + (last - first) % SEQUENCES

    def add(self, sequence: int, count: int, base_offset: int, timestamp: int) -> None:
        last = (sequence + count - 1) % SEQUENCES
        self.batches.append((sequence, last, base_offset, timestamp))
        if len(self.batches) > BATCHES_REMEMBERED:
            del self.batches[0]
        self.next_sequence = (last + 1) % SEQUENCES


class ProducerState:
    __slots__ = ("changed", "forgotten", "producers")

    def __init__(self) -> None:
        self.producers: dict[int, Producer] = {}
        self.changed = False  # since the last snapshot
        self.forgotten = 0  # because there were too many

    def admit(self, producer: Producer, epoch: int, sequence: int, count: int) -> Batch | None:
        """The remembered batch if this is a duplicate, None if it may be appended; raises OUT_OF_ORDER_SEQUENCE_NUMBER or INVALID_PRODUCER_EPOCH.

        A duplicate has exactly the first and the last sequence of one of the last five: other boundaries are out of order. A new epoch begins at 0.
        """
        if epoch == producer.epoch:
            last = (sequence + count - 1) % SEQUENCES
            for batch in producer.batches:
                if batch[0] == sequence and batch[1] == last:
                    return batch
            if sequence != producer.next_sequence and epoch >= 0:  # a producer without an epoch has no order: Kafka's own hole
                raise KafkaError(Code.OUT_OF_ORDER_SEQUENCE_NUMBER)
        elif epoch < producer.epoch:
            raise KafkaError(Code.INVALID_PRODUCER_EPOCH)
        elif sequence != 0:
            raise KafkaError(Code.OUT_OF_ORDER_SEQUENCE_NUMBER)
        return None

    def record(self, producer_id: int, epoch: int, sequence: int, count: int, base_offset: int, timestamp: int, now_ms: int) -> None:
        """The batch is in the log: from a leader that admitted it, a follower's fetch, or recovery. Never refuses."""
        producer = self.producers.get(producer_id)
        if producer is None:
            if len(self.producers) >= PRODUCERS_OF_PARTITION.value:
                self._make_room()
            producer = self.producers[producer_id] = Producer(epoch, now_ms)
        elif epoch != producer.epoch:
            producer.epoch = epoch
            producer.batches.clear()
        producer.add(sequence, count, base_offset, timestamp)
        producer.seen_ms = now_ms
        self.changed = True

    def _make_room(self) -> None:
        """A tenth goes at once, those that wrote longest ago: the search is not paid for every newcomer."""
        oldest = sorted(self.producers, key=lambda producer_id: self.producers[producer_id].last_offset)
        leaving = oldest[: max(1, len(oldest) // 10)]
        for producer_id in leaving:
            del self.producers[producer_id]
        self.forgotten += len(leaving)

    def expire(self, now_ms: int, idle_ms: int) -> None:
        silent = [producer_id for producer_id, producer in self.producers.items() if now_ms - producer.seen_ms >= idle_ms]
        for producer_id in silent:
            del self.producers[producer_id]
            self.changed = True

    def remember_older(self, batches: Iterable[tuple[int, int, int, int, int, int]]) -> None:
        """Batches of the log before the snapshot, in order: (producer id, epoch, first sequence, count, base offset, timestamp)."""
        history: dict[int, Producer] = {}
        for producer_id, epoch, sequence, count, base_offset, timestamp in batches:
            known = self.producers.get(producer_id)
            if known is not None and known.epoch == epoch:
                history.setdefault(producer_id, Producer(epoch, known.seen_ms)).add(sequence, count, base_offset, timestamp)
        for producer_id, older in history.items():
            known = self.producers[producer_id]
            if known.batches and known.batches[0] in older.batches:
                known.batches[:1] = older.batches[: older.batches.index(known.batches[0]) + 1]
                del known.batches[:-BATCHES_REMEMBERED]

    def snapshot(self) -> bytes:
        entries = [
            ENTRY.pack(
                pid,
                p.epoch,
                p.batches[-1][1],
                p.last_offset,
                p.last_offset - p.batches[-1][2],
                p.batches[-1][3],
                p.coordinator_epoch,
                p.transaction_start,
            )
            for pid, p in self.producers.items()
            if p.batches
        ]
        body = len(entries).to_bytes(4, "big") + b"".join(entries)
        return SNAPSHOT_HEAD.pack(VERSION, crc32c(body), len(entries)) + body[4:]

    @classmethod
    def from_snapshot(cls, data: bytes, now_ms: int) -> "ProducerState | None":
        """None when the bytes are not a whole snapshot: then an older one and more of the log serve."""
        try:
            version, crc, count = SNAPSHOT_HEAD.unpack_from(data)
        except error:
            return None
        if version != VERSION or crc32c(data[CRC_END:]) != crc or len(data) != SNAPSHOT_HEAD.size + count * ENTRY.size:
            return None
        state = cls()
        for fields in ENTRY.iter_unpack(data[SNAPSHOT_HEAD.size :]):
            state._restore(fields, now_ms)
        return state

    def _restore(self, fields: tuple[int, ...], now_ms: int) -> None:
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, transaction_start = fields
        producer = self.producers[producer_id] = Producer(epoch, now_ms)
        producer.coordinator_epoch, producer.transaction_start = coordinator_epoch, transaction_start
        if last_sequence >= 0:  # a producer of which only a transaction marker is left has no sequence
            producer.add((last_sequence - delta) % SEQUENCES, delta + 1, last_offset - delta, timestamp)
