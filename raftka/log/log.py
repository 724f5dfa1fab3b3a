"""One partition's log: which batches may be appended, which producers and leader epochs the log
remembers, and which records are deleted when.

A log has segments (segments/segment_list.py), producers (producers/state.py) and a durability
(durability.py). Its files are Kafka's, through the runtime's Files alone. The log knows no
replication: the caller says up to which offset to read, and when a leader begins. Time and
configuration are arguments.

Batches are *staged* (counted at once), *written* with one call when the turn ends (`write_staged`),
*flushed* when a flush that began after that has come back. So there are three ends: end_offset >=
written_offset >= flushed_offset. A write that fails ends the log: `failed` is set, nothing that was
not written is claimed, every later write raises, and recovery at the next open finds what is there.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from raftka.checksum import crc32c
from raftka.log.client_batches import LEADERS_FIELDS, ClientBatches
from raftka.log.compaction.job import Cleaned
from raftka.log.config import LogConfig
from raftka.log.delivery.held import HeldBatches
from raftka.log.durability import Durability
from raftka.log.leader_epoch import LeaderEpochs
from raftka.log.producers.aborted import AbortedTransactions
from raftka.log.producers.markers import Marker, marker_batch, read_marker
from raftka.log.producers.snapshots import rebuild
from raftka.log.producers.state import ProducerState
from raftka.log.recovery import Cut, Recovered, recover
from raftka.log.retention import outlived
from raftka.log.segments.rolling import BY_AGE, is_late, roll_ms
from raftka.log.segments.scan import Header
from raftka.log.segments.search import Found, Steps, at_once, first_at_or_after, first_of_largest
from raftka.log.segments.segment import Segment
from raftka.log.segments.segment_list import SegmentList
from raftka.log.segments.times import HELD, time_in
from raftka.runtime.interfaces import File, Files, FileSpan
from raftka.wire.errors import Code, KafkaError
from raftka.wire.records import BATCH_HEADER, CONTROL, TRANSACTIONAL

UNKNOWN_HORIZON = -1
# so many offsets, and a snapshot is due even when no idempotent producer wrote: the next open need
# not look for one
PLAIN_OFFSETS = 50_000

_unpack = BATCH_HEADER.unpack_from


class Log:
    __slots__ = (
        "_files",
        "_took_empty",
        "aborted",
        "cleaning",
        "client_batches",
        "config",
        "cut",
        "directory",
        "durability",
        "end_offset",
        "epochs",
        "failed",
        "held",
        "next_horizon_ms",
        "on_rolled",
        "producers",
        "retention_waits",
        "segments",
        "start_offset",
    )

    def __init__(self, files: Files, directory: str, config: LogConfig, found: Recovered) -> None:
        self._files = files
        self.directory = directory
        self.start_offset = found.segments[0].base_offset
        self.end_offset = found.end_offset
        self.cut: Cut | None = found.cut  # what recovery took away
        self.failed: OSError | None = None
        is_new = not found.segments[-1].size
        self.durability = Durability(
            files, directory, found.end_offset, found.snapshots, is_new=is_new
        )
        self.segments = SegmentList(
            found.segments, files, directory, config, found.end_offset, self.durability
        )
        self.producers: ProducerState = found.producers
        self.aborted = AbortedTransactions(self, self.segments, self.durability)
        self.epochs = found.epochs
        # for a checkpoint: a segment has had its time, and what it tells of producers is nowhere
        # else on disk yet
        self.retention_waits = False
        # when the first of the tombstones that a cleaner has left may go; inf: there are none
        self.next_horizon_ms: float = UNKNOWN_HORIZON
        self.cleaning = False  # a cleaner has begun on it: no segment goes meanwhile
        self.on_rolled: Callable[[], None] | None = None  # a segment is complete
        # batches without records, from a leader that has compacted, perhaps before the topic's
        # policy changed
        self._took_empty = False
        # what consumers do not see yet; None: the topic is not delayed
        self.held: HeldBatches | None = None
        self.config = config
        self.client_batches = ClientBatches(self)
        self.configure(config)
        self.segments.reserve_room()

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
        """Return the log of an existing directory; recover what a crash left. `cut` says what that
        took away. Raises OSError.

        `recovery_point`: below it everything is known to be on disk (0: nothing is).
        `start_offset`: what DeleteRecords or the leader had set. `whole`: see recover().
        """
        bounds = {"recovery_point": recovery_point, "start_offset": start_offset}
        found = recover(
            files, directory, config, now_ms, clean=clean_shutdown, whole=whole, **bounds
        )
        log = cls(files, directory, config, found)
        log.durability.recovery_point = min(
            recovery_point if found.cut or not clean_shutdown else found.end_offset,
            found.end_offset,
        )
        if start_offset > log.end_offset:
            log.truncate_fully_and_start_at(start_offset, now_ms)
        log.set_start_offset(start_offset)
        return log

    def configure(self, config: LogConfig) -> None:
        """Take the topic's configuration, the first or another one."""
        self.config = config
        durability, segments = self.durability, self.segments
        durability.syncs = config.flush == "fsync" or config.flush_messages == 1
        if not durability.syncs and self.flushed_offset < segments.written_offset:
            durability.flushes.claim(segments.written_offset)
        segments.configure(config)
        if config.delivery is not None and self.held is None:
            self.held = HeldBatches(self.end_offset)
        self.client_batches.configure(config)

    # appending batches as they are

    def append_marker(self, marker: Marker, leader_epoch: int, now_ms: int) -> int:
        """As leader, stage the end of a transaction; returns the next offset, -1 when there is
        nothing to end.

        Raises KafkaError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED,
        KAFKA_STORAGE_ERROR.
        """
        if self.failed:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR)
        if not self.producers.admit_marker(marker):
            return -1
        batch = memoryview(marker_batch(marker, self.end_offset, leader_epoch, now_ms))
        self._append_given(batch, _unpack(batch), now_ms)
        return self.end_offset

    def append_of_coordinator(self, batch: memoryview, leader_epoch: int) -> int:
        """As leader, stage records of a coordinator's: its own, or those it writes for a producer,
        in its transaction and without a sequence.

        Returns the next offset. Raises KafkaError: INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE,
        KAFKA_STORAGE_ERROR.
        """
        if self.failed:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR)
        header = _unpack(batch)
        if header[9] >= 0:
            self.producers.admit(
                header[9], header[10], header[11], header[12], header[5] & TRANSACTIONAL
            )
        LEADERS_FIELDS.pack_into(batch, 0, self.end_offset, len(batch) - 12, leader_epoch)
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
        if self.failed:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR)
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
        if batch_epoch < self.epochs.latest:
            raise KafkaError(
                Code.INVALID_RECORD,
                f"a batch of epoch {batch_epoch} behind one of {self.epochs.latest}",
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
        size, segments = len(batch), self.segments
        segment = segments.active
        if (
            segment.size + size > segments.roll_size
            or timestamp > segments.roll_timestamp
            or next_offset > segments.roll_offset
        ):
            segment = self.make_room(
                size, timestamp, next_offset, max(timestamp, segment.created_ms, now_ms)
            )
        if batch_epoch != self.epochs.latest:
            self.begin_epoch(batch_epoch, base)
        self._took_empty |= not header[12]
        if attributes & HELD and self.held is not None:
            self.held.note(base, next_offset)
        segments.staged.append(batch)
        self.end_offset = next_offset
        segment.note(segment.size, size, next_offset - 1, timestamp)
        if producer_id >= 0:
            now_ms = max(timestamp, segment.created_ms, now_ms)
            if attributes & CONTROL:
                self._end_transaction(batch, base, timestamp, now_ms)
            elif sequence >= 0 or attributes & TRANSACTIONAL:
                transactional = attributes & TRANSACTIONAL
                written = header[8] if attributes & HELD else timestamp
                self.producers.record(
                    producer_id, epoch, sequence, delta + 1, base, written, now_ms, transactional
                )

    def _end_transaction(self, batch: memoryview, offset: int, timestamp: int, now_ms: int) -> None:
        marker = read_marker(batch)
        aborted = (
            self.producers.end(marker, offset, timestamp, now_ms) if marker is not None else None
        )
        if aborted is not None and (index := self.segments.active.transaction_index) is not None:
            index.append(aborted)

    # rolling

    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the end offset. Raises OSError, and then the log has failed."""
        self.write_staged()
        with self._failing():
            self.segments.roll(self.end_offset, self.producers, now_ms)
        if self.on_rolled is not None:
            self.on_rolled()

    def make_room(self, size: int, timestamp: int, next_offset: int, now_ms: int) -> Segment:
        """Return the active segment, a new one if the batch does not fit. The caller has found that
        some bound is met, or that the segment has no record yet, or that its first batch has no
        timestamp. Raises KAFKA_STORAGE_ERROR.
        """
        segments = self.segments
        segment = segments.active
        if segment.size and (
            segment.size + size > segments.roll_size
            or next_offset > segments.roll_offset
            or is_late(segment, self.config, timestamp, now_ms)
        ):
            try:
                self.roll(now_ms)
            except OSError as error:
                raise KafkaError(Code.KAFKA_STORAGE_ERROR) from error
            segment = segments.active
        if segment.size == 0:
            segment.first_timestamp, segment.timeless = timestamp, timestamp < 0
            segments.roll_timestamp = (
                timestamp + roll_ms(segment, self.config) if timestamp >= 0 else BY_AGE
            )
        return segment

    # writing and flushing

    @property
    def appended_bytes(self) -> int:
        """A number that grows with what is appended, whatever retention takes; only a truncation
        makes a difference of two meaningless.
        """
        return self.segments.appended_before + self.segments.active.size

    def write_staged(self) -> None:
        """Write everything staged with one call. Raises OSError when that fails or the log had
        failed before; then nothing staged is claimed any more.
        """
        segments = self.segments
        if not segments.staged:
            if self.failed:
                raise self.failed
            return
        try:  # not `_failing`: this is the hot path
            segments.write_staged(self.end_offset)
        except OSError as error:
            self._fail(error)
            raise

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._fail(error)
            raise

    def _fail(self, error: OSError) -> None:
        self.failed = error
        segments = self.segments
        segments.staged = []
        self.end_offset = segments.written_offset
        try:
            segments.active.truncate(segments.written_size, segments.written_offset)
        except OSError:
            segments.active.size = segments.written_size  # recovery will cut it

    @property
    def syncs(self) -> bool:
        """Nothing is claimed before the disk has it."""
        return self.durability.syncs

    @property
    def written_offset(self) -> int:
        return self.segments.written_offset

    @property
    def flushed_offset(self) -> int:
        """Everything below it is on disk (with flush=os: in the page cache)."""
        return self.durability.flushes.flushed_offset

    def begin_flush(self) -> tuple[list[File | str], int]:
        """Return the files to flush now, and the offset to give to `flushed` when that has
        succeeded. What is still staged is not in it.
        """
        durability, written = self.durability, self.segments.written_offset
        flushes = durability.flushes
        if not durability.syncs or self.failed or not flushes.dirty:
            return [], flushes.flushed_offset
        return [*flushes.begin(written), *durability.take_names()], written

    def flushed(self, offset: int) -> None:
        """Count a flush that has succeeded."""
        self.durability.flushes.end(offset)

    @property
    def unflushed(self) -> bool:
        """Return whether records are written whose flush has not begun, and for which no answer
        waits (flush=os).
        """
        durability = self.durability
        return not durability.syncs and self.failed is None and bool(durability.flushes.dirty)

    def begin_late_flush(self) -> tuple[list[File | str], Callable[[], None]]:
        """Return the files to flush, and the function to call when they are flushed. Until then no
        checkpoint counts on them.
        """
        segments = self.segments
        active, written = segments.active, segments.written_offset
        files, settle = self.durability.begin_late_flush()

        def settle_flush() -> None:
            again = active.file if segments.written_offset > written else None
            settle(again, segments.active is active)

        return files, settle_flush

    def abandon(self) -> None:
        """Cut what may not be on disk: a flush failed, the process ends, and the next process would
        read it from memory, and claim it.

        A kernel takes pages whose flush failed for clean: it shows them to readers, and does not
        write them again.
        """
        self.segments.staged = []
        self.segments.truncate_files(self.flushed_offset)

    def give_up(self, error: OSError) -> None:
        """Fail, because the directory has failed; leave nothing in memory that the disk may not
        have.
        """
        if self.failed is None:
            self._fail(error)
        self.abandon()

    # checkpoints and the end

    @property
    def checkpoint_due(self) -> bool:
        """Return whether more is on disk than is written down. (An empty log has nothing to write
        down.)
        """
        if self.failed is not None or self.end_offset == 0:
            return False
        return (
            self.durability.recovery_point < self.flushed_offset
            or self.epochs.dirty
            or self.producers.changed
            or self.retention_waits
        )

    def begin_checkpoint(self) -> tuple[list[File | str], Callable[[bool], list[str]]]:
        """Return the files that must be on disk, beside the records, before the recovery point may
        rise, and the function to call then, with whether they are.

        That function returns directories to be flushed before the new `recovery_point` is written
        down.

        The records are flushed on their own way (with flush=os: here). The log may go on meanwhile;
        a truncation leaves the point where it is. Raises OSError, and then the log has failed.
        """
        self.write_staged()
        active, durability = self.segments.active, self.durability
        with self._failing():
            if active.entries_behind:
                active.write_index()
            if (
                self.producers.changed
                or self.retention_waits
                or self.end_offset - durability.snapshots.newest > PLAIN_OFFSETS
            ):
                durability.take_snapshot(self.end_offset, self.producers)
            files, settle = durability.begin_checkpoint(self.segments, self.end_offset, self.epochs)

        def settle_or_fail(flushed: bool) -> list[str]:
            with self._failing():
                return settle(flushed)

        return files, settle_or_fail

    def close(self, clean: bool) -> None:
        """With `clean`, bring everything to the disk and the recovery point to the end, so that the
        next open reads almost nothing. Else what was appended and not written is lost. Raises
        OSError.
        """
        segments, durability = self.segments, self.durability
        if clean and not self.failed:
            with self._failing():
                segments.finish_swap()
            segments.trim()
        if clean and not self.failed and self._has_changed:
            with self._failing():
                segments.active.seal()
                if self.end_offset != durability.snapshots.newest:
                    durability.take_snapshot(self.end_offset, self.producers)
                files, settle = self.begin_checkpoint()
                durability.flush_now(
                    files, segments.from_offset(durability.recovery_point), self.end_offset
                )
                settle(True)
                durability.sync_names()
        durability.close()
        segments.close()

    @property
    def _has_changed(self) -> bool:
        return (
            self.durability.recovery_point < self.end_offset
            or self.checkpoint_due
            or bool(self.end_offset and self.durability.has_unflushed)
        )

    def remove(self) -> None:
        """Remove the directory and all in it."""
        self.close(clean=False)
        self._files.remove(self.directory)

    # leader epochs

    @property
    def latest_epoch(self) -> int:
        """The last leader epoch that wrote here, or began to; -1 when none did."""
        return self.epochs.latest

    def begin_epoch(self, leader_epoch: int, offset: int) -> None:
        """Note that batches of another leader epoch begin at `offset`."""
        assert leader_epoch >= self.epochs.latest, "a leader of the past writes"
        self.epochs.assign(leader_epoch, offset)

    def assign_epoch(self, epoch: int) -> None:
        """This replica leads in `epoch` from the end offset on."""
        self.epochs.assign(epoch, self.end_offset)

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """KIP-320: (largest epoch <= the asked one, where it ends); (-1, -1) when unknown."""
        return self.epochs.end_offset(epoch, self.end_offset)

    def epoch_of(self, offset: int) -> int:
        return self.epochs.of_offset(offset)

    # reading

    def read(
        self, offset: int, max_bytes: int, up_to_offset: int, min_one: bool = True
    ) -> tuple[list[FileSpan], int]:
        """Return whole batches from the one that holds `offset`, all of it before `up_to_offset`:
        where they are, and how many bytes.

        At most `max_bytes`, but one batch always with `min_one`. A read ends at a segment's end.
        Raises OFFSET_OUT_OF_RANGE outside of [start, end].
        """
        if offset < self.start_offset or offset > self.end_offset:
            raise KafkaError(Code.OFFSET_OUT_OF_RANGE)
        segments = self.segments
        if up_to_offset > segments.written_offset:
            up_to_offset = self._written_up_to(up_to_offset)
        if offset >= up_to_offset:
            return [], 0
        segment = segments.active
        if offset < segment.base_offset:
            return segments.read_sealed(offset, max_bytes, up_to_offset, min_one)
        start = segments.positions.get(offset)
        if start is None:
            start = segments.locate(segment, offset)
        end = segments.positions.get(up_to_offset)
        if end is None:
            end = segments.locate(segment, up_to_offset, start)
        if end - start > max_bytes:
            end = segments.cut(segment, start, end, max_bytes, min_one)
        if end <= start:
            return [], 0
        return [FileSpan(segment.file, start, end - start)], end - start

    def _written_up_to(self, offset: int) -> int:
        if self.segments.staged:
            try:
                self.write_staged()
            except OSError as error:
                raise KafkaError(Code.KAFKA_STORAGE_ERROR) from error
        return min(offset, self.segments.written_offset)

    def bound_of(self, offset: int, found: FileSpan) -> int:
        """Return an offset behind all records of the last span that a read from `offset` has found,
        by the index alone.
        """
        segments = self.segments
        at = segments.slot_of_file(offset, found.file)
        following = segments[at + 1].base_offset if at + 1 < len(segments) else self.end_offset
        return segments[at].offset_index.bound(found.position + found.size, following)

    def read_for_consumer(
        self, offset: int, max_bytes: int, up_to_offset: int, min_one: bool = True
    ) -> tuple[list[FileSpan], int]:
        """As `read`, but it begins at a batch with records, if one follows, and passes by held
        batches. Raises OFFSET_NOT_AVAILABLE too, while these are being looked for.

        A compaction leaves batches without records, for producers and followers. Some clients stand
        still where they get nothing else.
        """
        if self.held is not None and self.start_offset <= offset < up_to_offset:
            offset, up_to_offset = self.held.visible_run(offset, up_to_offset)
        may_be_empty = (
            offset < self.segments.active.base_offset
            or self.config.compacted
            or self._took_empty
            or self.segments.cleaned_offset
        )
        if may_be_empty and self.start_offset <= offset < up_to_offset:
            offset = self.segments.next_with_records(offset, up_to_offset)
        return self.read(offset, max_bytes, up_to_offset, min_one)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the offset below which every transaction is over, and its marker committed."""
        producers = self.producers
        if not producers.unstable and high_watermark >= producers.restored_at:
            return high_watermark
        unstable = producers.first_unstable(high_watermark)
        return (
            high_watermark
            if unstable is None
            else min(high_watermark, max(unstable, self.start_offset))
        )

    def visible_end(self, offset: int) -> int:
        """Return the end of what consumers see before `offset`. Raises OFFSET_NOT_AVAILABLE while
        held batches are being looked for.
        """
        if self.held is None:
            return offset
        return max(self.held.visible_end(offset), min(self.start_offset, offset))

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

    # a cleaner's segments

    def begin_swap(self, cleaned: Cleaned) -> None:
        """As `SegmentList.begin_swap`. Raises OSError, and then the log has failed."""
        with self._failing():
            self.segments.begin_swap(cleaned)

    def go_on_swap(self) -> bool:
        """As `SegmentList.go_on_swap`. Raises OSError, and then the log has failed."""
        if self.failed is not None:
            self.segments.give_up_swap()
        with self._failing():
            return self.segments.go_on_swap()

    # truncating

    def truncate_to(self, offset: int) -> int:
        """Cut records at `offset` and beyond. Return the end offset; it is lower when `offset` is
        inside a batch. Raises OSError, and then the log has failed.
        """
        if offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return self.end_offset
        if offset < self.end_offset:
            snapshots = self.durability.snapshots
            snapshots.remove_beyond(offset)
            self.write_staged()
            with self._failing():
                self.end_offset = self.segments.cut_from(offset)
            if self.held is not None:
                self.held.cut(self.end_offset)
            self.start_offset = min(self.start_offset, self.end_offset)
            self.producers = rebuild(
                self.segments, snapshots, self.end_offset, self.segments.active.created_ms
            )
        self.epochs.truncate_from_end(self.end_offset)
        return self.end_offset

    def truncate_fully_and_start_at(self, offset: int, now_ms: int | None = None) -> None:
        """Remove all records and producers; the log is empty at `offset` then. Raises OSError, and
        then the log has failed.
        """
        self.durability.snapshots.remove_beyond(-1)
        self.write_staged()
        created_ms = self.segments.active.created_ms if now_ms is None else now_ms
        with self._failing():
            self.segments.restart_at(offset, created_ms)
        self.start_offset = self.end_offset = offset
        if self.held is not None:
            self.held = HeldBatches(0)
        self.producers = ProducerState()
        self.epochs.truncate_from_end(0)

    # deleting

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
            self.segments.drop(self.segments[0], recycle=self.config.segment_reuse_ms > 0)
            self.durability.snapshots.tidy(self.segments)
        self.segments.forget_positions()
        self.start_offset = max(self.start_offset, self.segments[0].base_offset)
        if self.held is not None:
            self.held.forget_before(self.start_offset)
        self.epochs.truncate_from_start(self.start_offset)
        return count

    def _remembers_without_oldest(self) -> bool:
        """Return whether a recovery after a loss of power would still know every producer, if the
        oldest segment were deleted.
        """
        following = self.segments[1].base_offset
        return not self.producers.producers or self.durability.snapshots.on_disk(
            following, max(following, self.durability.settled_point)
        )

    def delete_old_segments(self, now_ms: int, up_to: int) -> int:
        """Delete all of them, and wait for the disk in between; returns how many."""
        count = 0
        while self.delete_oldest(now_ms, up_to):
            count += 1
            self.durability.sync_names()
        return count

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    def adopt(self, other: "Log") -> None:
        """As the copy of another log: what its batches do not tell, producers whose batches were
        deleted and an epoch that has written none.
        """
        self.producers, self.held = other.producers, other.held
        self.epochs = LeaderEpochs(other.epochs.entries())
        self.epochs.dirty = True
        self.segments.cleaned_offset = other.segments.cleaned_offset
        self.set_start_offset(other.start_offset)
