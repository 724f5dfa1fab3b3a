"""One partition's log, as Kafka's rules have it: who may append what, which producers and leader
epochs it remembers, what is forgotten when.

Kafka's files underneath, through the runtime's Files alone. The log knows no replication: which
offset may be shown to whom (`up_to_offset`), and when a leader begins, are told to it. Time and
configuration are arguments.
"""

from collections.abc import Callable, Sequence
from operator import eq, le
from struct import Struct

from raftka.checksum import crc32c
from raftka.log.config import LogConfig
from raftka.log.leader_epoch import LeaderEpochs
from raftka.log.producers.markers import Marker, marker_batch, read_marker
from raftka.log.producers.snapshots import rebuild
from raftka.log.producers.state import ProducerState
from raftka.log.producers.transactional_log import TransactionalLog
from raftka.log.recovery import Cut, Recovered, recover
from raftka.log.retention import outlived
from raftka.log.segments.scan import READ_BYTES, Header, first_with_records
from raftka.log.segments.search import Found, Steps, at_once, first_at_or_after, first_of_largest
from raftka.log.segments.times import time_in
from raftka.log.validation import Prepared, one_batch, repair, restamp
from raftka.runtime.interfaces import Files, FileSpan
from raftka.wire.errors import Code, KafkaError
from raftka.wire.records import (
    ATTRIBUTES_POSITION,
    BATCH_HEADER,
    BATCH_REST,
    BATCH_START,
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
)

# base offset, length, leader epoch: what a leader sets, none of it under the CRC
LEADERS_FIELDS = Struct(">qii")
ATTENTION = CONTROL | LOG_APPEND_TIME
# of batches without records that one read passes by: some 4,000, which take half a millisecond
EMPTY_BYTES = 256 * 1024
RUNS_KEPT = 8  # for readers that stand at different places

_unpack = BATCH_HEADER.unpack_from
_pack = LEADERS_FIELDS.pack_into
_unpack_start, _unpack_rest = BATCH_START.unpack, BATCH_REST.unpack
# of a batch's header from the attributes on: its two timestamps, and the bytes around them
_times_in = Struct(">6sqq18s")
_pack_given = Struct(">iib").pack  # length, leader epoch, magic


class Log(TransactionalLog):
    __slots__ = (
        "_after_ms",
        "_as_made",
        "_before_ms",
        "_epoch",
        "_index_interval",
        "_log_append_time",
        "_max_batch_bytes",
        "_prepared",
        "_segment_bytes",
        "_special",
        "_took_empty",
        "cut",
    )

    def __init__(self, files: Files, directory: str, config: LogConfig, found: Recovered) -> None:
        super().__init__(files, directory, config, found)
        self.cut: Cut | None = found.cut  # what recovery took away
        self._epoch = found.epochs.latest
        self._prepared: Prepared | None = None
        # batches without records, from a leader that has compacted, perhaps before the topic's
        # policy changed
        self._took_empty = False

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        config: LogConfig,
        now_ms: int,
        *,
        clean_shutdown: bool,
        recovery_point: int = 0,
        start_offset: int = 0,
        whole: int | None = None,
    ) -> "Log":
        """The log of an existing directory; recovers what a crash left, `cut` tells what that took
        away. Raises OSError.

        `recovery_point`: below it everything is known to be on disk (0: nothing is).
        `start_offset`: what DeleteRecords or the leader had set. `whole`: see recover().
        """
        bounds = {"recovery_point": recovery_point, "start_offset": start_offset}
        found = recover(
            files, directory, config, now_ms, clean=clean_shutdown, whole=whole, **bounds
        )
        log = cls(files, directory, config, found)
        log.recovery_point = min(
            recovery_point if found.cut or not clean_shutdown else found.end_offset,
            found.end_offset,
        )
        if start_offset > log.end_offset:
            log.truncate_fully_and_start_at(start_offset, now_ms)
        log.set_start_offset(start_offset)
        return log

    def configure(self, config: LogConfig) -> None:
        super().configure(config)
        self._log_append_time = config.message_timestamp_type == "LogAppendTime"
        self._as_made = (
            not self._log_append_time
            and config.compression_type == "producer"
            and config.schemas is None
        )
        self._special = not self._as_made or config.compacted or config.validation == "records"
        self._after_ms = config.message_timestamp_after_max_ms
        self._before_ms = config.message_timestamp_before_max_ms
        self._max_batch_bytes = -1 if self.failed else config.max_message_bytes
        self._segment_bytes = config.segment_bytes
        self._index_interval = config.index_interval_bytes

    # appending

    # one function, because it is the hot path: what is not a plain batch leaves it at `one_batch`,
    # `_repair`, `admit` and `_make_room`
    def append_as_leader(
        self, batch: memoryview, leader_epoch: int, now_ms: int
    ) -> tuple[int, int, int, bool]:
        """Stage a client's batch: (base offset, next offset, log append time or -1, it was a
        duplicate). Raises KafkaError, TakesLong, NeedsSchemas.

        The view must be writable and stay valid until `write_staged`. Everything is checked before
        anything is changed, in the batch too.
        """
        size = len(batch)
        if size < 61:
            one_batch(batch)
        (base, length, _, magic, crc, attributes, delta, base_timestamp, timestamp,
         producer_id, epoch, sequence, count) = _unpack(batch)  # fmt: skip
        if length + 12 != size or magic != 2:
            batch = one_batch(batch)
            size = len(batch)
        if size > self._max_batch_bytes:
            self._refuse_size()
        if crc32c(batch[21:]) != crc:
            raise KafkaError(Code.CORRUPT_MESSAGE)
        again = None
        if (
            self._special
            or base
            or not 0 < count < size >> 2
            or delta != count - 1
            or (attributes and (attributes & ATTENTION or attributes & 7 > 4))
            or timestamp - now_ms > self._after_ms
            or now_ms - base_timestamp > self._before_ms
            or not 0 <= base_timestamp <= timestamp <= (base_timestamp if count == 1 else timestamp)
            or size > self._segment_bytes
            or (epoch < 0 or sequence < 0 if producer_id >= 0 else attributes & TRANSACTIONAL)
        ):
            batch, size, timestamp, again, count = self._repair(batch, now_ms)
        if producer_id >= 0:
            known, mode = self.producers.producers.get(producer_id), attributes & TRANSACTIONAL
            if mode if known is None else (
                known.next_sequence != sequence or known.epoch != epoch
                or known.transactional != mode
            ):  # fmt: skip
                duplicate = self.producers.admit(producer_id, epoch, sequence, count, mode)
                if duplicate is not None:
                    return duplicate[2], duplicate[2] + count, duplicate[3], True

        next_offset = (offset := self.end_offset) + count
        segment = self.active
        full = segment.size + size > self._roll_size
        if full or timestamp > self._roll_timestamp or next_offset > self._roll_offset:
            segment = self._make_room(size, timestamp, next_offset, now_ms)
        if again is not None:
            restamp(batch, again, timestamp)
        _pack(batch, 0, offset, size - 12, leader_epoch)
        if leader_epoch != self._epoch:
            self._note_epoch(leader_epoch, offset)
        self._staged.append(batch)
        self.end_offset = next_offset

        if timestamp > segment.max_timestamp:
            segment.max_timestamp, segment.max_timestamp_offset = timestamp, next_offset - 1
        if segment.since_index > self._index_interval:
            segment.index(segment.size, next_offset - 1)
        segment.since_index += size
        segment.size += size
        if producer_id >= 0:
            record = self.producers.record
            record(producer_id, epoch, sequence, count, offset, timestamp, now_ms, mode)
        return offset, next_offset, now_ms if self._log_append_time else -1, False

    def append_alike(
        self,
        start: bytes,
        headers: Sequence[bytes],
        crcs: tuple[int, ...],
        bodies: Sequence[bytes],
        pack: Callable[..., bytes],
        leader_epoch: int,
        now_ms: int,
    ) -> list[int] | None:
        """As `append_as_leader`, of plain batches of one size: their base offsets. None: nothing
        was done, one by one they may be appended.

        `start`: the bytes of each in front of its CRC; `headers`: from the attributes to the count;
        `bodies`: what the CRC covers; `pack` makes the batches of base offset, the bytes between it
        and the CRC, CRC and body of each.
        """
        base, length, _, magic = _unpack_start(start)
        attributes, delta, base_timestamp, timestamp, producer_id, _, _, count = _unpack_rest(
            headers[0]
        )
        number, size = len(bodies), len(bodies[0]) + ATTRIBUTES_POSITION
        offset, segment = self.end_offset, self.active
        next_offset = offset + number * count
        times: tuple[int, ...] = (timestamp,) * number
        oldest: tuple[int, ...] = (base_timestamp,)
        if headers.count(headers[0]) != number:
            firsts, oldest, times, lasts = zip(
                *_times_in.iter_unpack(b"".join(headers)), strict=True
            )
            if firsts.count(firsts[0]) != number or lasts.count(lasts[0]) != number:
                return None  # more differs than timestamps
            base_timestamp, timestamp = min(oldest), max(times)
        if (
            base
            or length + 12 != size
            or magic != 2
            or attributes
            or producer_id >= 0
            or not 0 < delta + 1 == count < size >> 2
            or size > self._max_batch_bytes
            or self._special
            or timestamp - now_ms > self._after_ms
            or now_ms - base_timestamp > self._before_ms
            or not (base_timestamp >= 0 and all(map(le if count > 1 else eq, oldest, times)))
            or leader_epoch != self._epoch
            or segment.size + number * size > self._roll_size
            or timestamp > self._roll_timestamp
            or next_offset > self._roll_offset
            or tuple(map(crc32c, bodies)) != crcs
        ):
            return None
        bases = list(range(offset, next_offset, count))
        fields: list[object] = [0, _pack_given(size - 12, leader_epoch, 2), 0, 0] * number
        fields[0::4], fields[2::4], fields[3::4] = bases, crcs, bodies
        self._staged.append(pack(*fields))
        self.end_offset = next_offset
        # no index entry is due
        if segment.since_index + (number - 1) * size <= self._index_interval:
            if timestamp > segment.max_timestamp:
                segment.max_timestamp, segment.max_timestamp_offset = (
                    timestamp,
                    bases[times.index(timestamp)] + count - 1,
                )
            segment.since_index += number * size
            segment.size += number * size
        else:
            for base, each in zip(bases, times, strict=True):
                segment.note(segment.size, size, base + count - 1, each)
        return bases

    def append_prepared(
        self, prepared: Prepared, leader_epoch: int, now_ms: int
    ) -> tuple[int, int, int, bool]:
        """As `append_as_leader`, of what a TakesLong has prepared: its records are not looked at
        again.
        """
        self._prepared = prepared
        try:
            return self.append_as_leader(prepared.batch, leader_epoch, now_ms)
        finally:
            self._prepared = None

    def append_marker(self, marker: Marker, leader_epoch: int, now_ms: int) -> int:
        """As leader, stage the end of a transaction; returns the next offset, -1 when there is
        nothing to end.

        Raises KafkaError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED,
        KAFKA_STORAGE_ERROR.
        """
        if self._max_batch_bytes < 0:
            self._refuse_size()
        if not self.producers.admit_marker(marker):
            return -1
        batch = memoryview(marker_batch(marker, self.end_offset, leader_epoch, now_ms))
        self._append_given(batch, _unpack(batch), now_ms)
        return self.end_offset

    def takes_as_made(self, size: int) -> bool:
        """Whether a coordinator's batch of so many bytes needs neither checks nor changes."""
        return self._as_made and size <= self._max_batch_bytes and size <= self._segment_bytes

    def append_of_coordinator(self, batch: memoryview, leader_epoch: int) -> int:
        """As leader, stage records of a coordinator's: its own, or those it writes for a producer,
        in its transaction and without a sequence.

        Returns the next offset. Raises KafkaError: INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE,
        KAFKA_STORAGE_ERROR.
        """
        if self._max_batch_bytes < 0:
            self._refuse_size()
        header = _unpack(batch)
        if header[9] >= 0:
            self.producers.admit(
                header[9], header[10], header[11], header[12], header[5] & TRANSACTIONAL
            )
        _pack(batch, 0, self.end_offset, len(batch) - 12, leader_epoch)
        self._append_given(batch, _unpack(batch))
        return self.end_offset

    def append_as_follower(self, records: memoryview, leader_epoch: int, now_ms: int = -1) -> int:
        """Stage whole batches of a leader as they are; returns the next offset. A cut batch at the
        end is left out.

        `now_ms`: for batches without a timestamp, to roll segments and to remember producers; -1:
        the time at which the active segment began.

        Raises CORRUPT_MESSAGE for damage, INVALID_RECORD for batches that do not follow the log.
        Batches of an epoch above `leader_epoch` are left out with all behind them (KAFKA-18723):
        whoever wrote them is not the leader this replica follows.
        """
        if self._max_batch_bytes < 0:
            self._refuse_size()
        position = 0
        while len(records) - position >= 61:
            header = _unpack(records, position)
            size = header[1] + 12
            if size < 61 or header[3] != 2:
                raise KafkaError(Code.CORRUPT_MESSAGE, f"no batch at offset {self.end_offset}")
            if position + size > len(records) or header[2] > leader_epoch:
                break
            batch = records[position : position + size]
            if crc32c(batch[21:]) != header[4]:
                raise KafkaError(
                    Code.CORRUPT_MESSAGE, f"the CRC of the batch at offset {header[0]} is wrong"
                )
            self._append_given(batch, header, now_ms)
            position += size
        return self.end_offset

    def _append_given(self, batch: memoryview, header: Header, now_ms: int = -1) -> None:
        base, _, batch_epoch, _, _, attributes, delta, _, _, producer_id, epoch, sequence, _ = (
            header
        )
        timestamp = time_in(batch, 0, header)
        next_offset = base + delta + 1
        if batch_epoch < self._epoch:
            raise KafkaError(
                Code.INVALID_RECORD, f"a batch of epoch {batch_epoch} behind one of {self._epoch}"
            )
        if base < self.end_offset < next_offset and self.start_offset == self.end_offset:
            # the leader's log starts inside this batch, and this log is empty: it begins where the
            # batch does
            start = self.start_offset
            self.truncate_fully_and_start_at(base)
            self.start_offset = start
        # a gap is sound: a cleaner of the leader's, also when the topic is not compacted any more
        if base < self.end_offset or delta < 0:
            raise KafkaError(
                Code.INVALID_RECORD,
                f"a batch of offsets {base} to {next_offset - 1}, the log ends at "
                f"{self.end_offset}",
            )
        size = len(batch)
        if (
            self.active.size + size > self._roll_size
            or timestamp > self._roll_timestamp
            or next_offset > self._roll_offset
        ):
            self._make_room(
                size, timestamp, next_offset, max(timestamp, self.active.created_ms, now_ms)
            )
        if batch_epoch != self._epoch:
            self._note_epoch(batch_epoch, base)
        self._took_empty |= not header[12]
        self._staged.append(batch)
        self.end_offset = next_offset
        self.active.note(self.active.size, size, next_offset - 1, timestamp)
        if producer_id >= 0:
            now_ms = max(timestamp, self.active.created_ms, now_ms)
            if attributes & CONTROL:
                self._end_transaction(batch, base, timestamp, now_ms)
            elif sequence >= 0 or attributes & TRANSACTIONAL:
                transactional = attributes & TRANSACTIONAL
                self.producers.record(
                    producer_id, epoch, sequence, delta + 1, base, timestamp, now_ms, transactional
                )

    def _end_transaction(self, batch: memoryview, offset: int, timestamp: int, now_ms: int) -> None:
        marker = read_marker(batch)
        aborted = (
            self.producers.end(marker, offset, timestamp, now_ms) if marker is not None else None
        )
        if aborted is not None and (index := self.active.transaction_index) is not None:
            index.append(aborted)

    def _refuse_size(self) -> None:
        if self.failed:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR)
        raise KafkaError(Code.MESSAGE_TOO_LARGE)

    def _repair(
        self, batch: memoryview, now_ms: int
    ) -> tuple[memoryview, int, int, int | None, int]:
        """As `repair`, with the size and the number of offsets: records may have been taken out."""
        batch, timestamp, again = repair(
            batch, now_ms, self.config, self.directory.rpartition("/")[2], self._prepared
        )
        self.active.timeless |= timestamp < 0
        return batch, len(batch), timestamp, again, _unpack(batch)[6] + 1

    def _note_epoch(self, leader_epoch: int, offset: int) -> None:
        assert leader_epoch >= self._epoch, "a leader of the past writes"
        self.epochs.assign(leader_epoch, offset)
        self._epoch = leader_epoch

    def _fail(self, error: OSError) -> None:
        self._max_batch_bytes = -1  # so every append goes to _refuse_size
        super()._fail(error)

    # leader epochs

    @property
    def latest_epoch(self) -> int:
        """The last leader epoch that wrote here, or began to; -1 when none did."""
        return self._epoch

    def assign_epoch(self, epoch: int) -> None:
        """This replica leads in `epoch` from the end offset on."""
        self.epochs.assign(epoch, self.end_offset)
        self._epoch = self.epochs.latest

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """KIP-320: (largest epoch <= the asked one, where it ends); (-1, -1) when unknown."""
        return self.epochs.end_offset(epoch, self.end_offset)

    def epoch_of(self, offset: int) -> int:
        return self.epochs.of_offset(offset)

    # for consumers

    def read_for_consumer(
        self, offset: int, max_bytes: int, up_to_offset: int, min_one: bool = True
    ) -> tuple[list[FileSpan], int]:
        """As `read`, but it begins at a batch with records, if one follows.

        A compaction leaves batches without records, for producers and followers. Some clients stand
        still where they get nothing else.
        """
        may_be_empty = (
            offset < self.active.base_offset
            or self.config.compacted
            or self._took_empty
            or self.cleaned_offset
        )
        if may_be_empty and self.start_offset <= offset < up_to_offset:
            offset = self._next_with_records(offset, up_to_offset)
        return self.read(offset, max_bytes, up_to_offset, min_one)

    def _next_with_records(self, offset: int, up_to_offset: int) -> int:
        """Where to begin: at `offset` if its batch has records, or none follows. Each read passes
        by EMPTY_BYTES at the most; the next goes on.
        """
        runs, first, begin, left = self._empty_runs, offset, offset, EMPTY_BYTES
        if (
            runs
            and (known := next((run for run in runs.items() if run[0] <= offset < run[1]), None))
            is not None
        ):
            first, begin = known
        for at in range(max(0, self._slot_of(begin)), len(self.segments)):
            segment = self.segments[at]
            start = self._locate(segment, max(begin, segment.base_offset))
            end = self._written_size if segment is self.active else segment.size
            found = first_with_records(segment.file, start, end, left)
            if found is not None:
                self._remember(found[1], found[0])
                if found[1] <= offset:
                    return offset
                begin = found[1]
                break
            left -= max(end - start, READ_BYTES)
        else:
            begin = self.written_offset
        if first not in runs and len(runs) >= RUNS_KEPT:
            del runs[next(iter(runs))]
        runs[first] = begin
        return begin if begin < up_to_offset else offset

    # by time

    def offset_for_timestamp(self, timestamp: int, up_to: int) -> Found | None:
        """As `search_time`, at once."""
        return at_once(self.search_time(timestamp, up_to))

    def max_timestamp_offset(self, up_to: int) -> Found | None:
        """As `search_largest`, at once."""
        return at_once(self.search_largest(up_to))

    def search_time(self, timestamp: int, up_to: int) -> Steps[Found | None]:
        """The first record before the offset `up_to` that is not older (ms). Looks into the batch
        that has it. Raises OSError.
        """
        return (
            yield from first_at_or_after(
                self.segments, timestamp, self.start_offset, self._written_up_to(up_to)
            )
        )

    def search_largest(self, up_to: int) -> Steps[Found | None]:
        """The first record that has the largest timestamp; None when no record has one, or it is
        not before the offset `up_to`. Raises OSError.
        """
        return (
            yield from first_of_largest(
                self.segments, self.start_offset, self._written_up_to(up_to)
            )
        )

    # forgetting

    def truncate_to(self, offset: int) -> int:
        """Records at `offset` and beyond go; returns the end offset (lower, when `offset` is inside
        a batch).

        Raises OSError, and then the log has failed.
        """
        if offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return self.end_offset
        if offset < self.end_offset:
            self._snapshots.remove_beyond(offset)
            self._cut_from(offset)
            self.producers = rebuild(
                self.segments, self._snapshots, self.end_offset, self.active.created_ms
            )
        self.epochs.truncate_from_end(self.end_offset)
        self._epoch = self.epochs.latest
        return self.end_offset

    def truncate_fully_and_start_at(self, offset: int, now_ms: int | None = None) -> None:
        """Every record and every producer is forgotten, the log is empty at `offset`. Raises
        OSError, and then the log has failed.
        """
        self._snapshots.remove_beyond(-1)
        self._restart_at(offset, self.active.created_ms if now_ms is None else now_ms)
        self.producers = ProducerState()
        self.epochs.truncate_from_end(0)
        self._epoch = -1

    def set_start_offset(self, offset: int) -> bool:
        """Records before `offset` are not to be read any more (DeleteRecords, or the leader's
        start); their segments go with the next retention.
        """
        if offset <= self.start_offset:
            return False
        if offset > self.end_offset:
            raise KafkaError(Code.OFFSET_OUT_OF_RANGE)
        self.start_offset = offset
        self.epochs.truncate_from_start(offset)
        return True

    def delete_oldest(self, now_ms: int, up_to: int) -> int:
        """Retention below `up_to`, the high watermark: how many segments have had their time, of
        which the oldest goes. Raises OSError.

        The directory must be on disk before the next goes: no crash may leave a hole between those
        that stay. Forgets silent producers too. 0 too while `retention_waits`.
        """
        self.producers.expire(now_ms, self.config.producer_id_expiration_ms)
        count = (
            0
            if self.cleaning
            else outlived(
                self.segments, self.config, now_ms, self.start_offset, self.end_offset, up_to
            )
        )
        if count == len(self.segments):
            self.roll(now_ms)
        self.retention_waits = count > 0 and not self._remembers_without_oldest()
        if count == 0 or self.retention_waits:
            return 0
        with self._failing():
            self._drop(self.segments[0], to_spare=True)
            self._snapshots.tidy(self.segments)
        self._positions = {self.written_offset: self._written_size}
        self.start_offset = max(self.start_offset, self.segments[0].base_offset)
        self.epochs.truncate_from_start(self.start_offset)
        return count

    def _remembers_without_oldest(self) -> bool:
        """Whether a recovery after a loss of power would still know every producer, if the oldest
        segment were gone.
        """
        following = self.segments[1].base_offset
        return not self.producers.producers or self._snapshots.on_disk(
            following, max(following, self.settled_point)
        )

    def delete_old_segments(self, now_ms: int, up_to: int) -> int:
        """All of them, waiting for the disk in between; returns how many."""
        count = 0
        while self.delete_oldest(now_ms, up_to):
            count += 1
            self._sync_names()
        return count

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    def adopt(self, other: "Log") -> None:
        """As the copy of another log: what its batches do not tell, producers whose batches were
        deleted and an epoch that has written none.
        """
        self.producers = other.producers
        self.epochs = LeaderEpochs(other.epochs.entries())
        self.epochs.dirty = True
        self._epoch = self.epochs.latest
        self.cleaned_offset = other.cleaned_offset
        self.set_start_offset(other.start_offset)
