"""Logs of replicas in small lives: a list in memory, or, in lives that have transactions, the
broker's own log on files in memory that lose what was not flushed.

In these each batch has one record, so that entries have the offsets of their batches.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from raftka.chaos.small.memory_files import MemoryFiles
from raftka.log.config import LogConfig
from raftka.log.leader_epoch import LeaderEpochs
from raftka.log.log import Log as BrokerLog
from raftka.log.producers.markers import Marker, read_marker
from raftka.runtime.interfaces import File
from raftka.wire.records import CONTROL, TRANSACTIONAL, build_batch, iterate, records_of

FETCHED = 5  # records of an answer
DIRECTORY = "t-0"
ALL_BYTES = 1 << 30
FETCHED_BYTES = 500  # of an answer to a follower: some five batches
# chances: that a process ends in good order, and that files are lost which can be made again
CLEAN, LOSES_FILES = 0.3, 0.4
MADE_AGAIN = (".snapshot", ".txnindex", ".index")


class Entry(NamedTuple):
    epoch: int
    value: str


class Log:
    """A log's entries, and the part of them that is on the platter."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.epochs = LeaderEpochs()
        self.flushed = 0
        self._platter: tuple[list[Entry], list[tuple[int, int]]] = ([], [])

    @property
    def end(self) -> int:
        return len(self.entries)

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest

    def assign_epoch(self, epoch: int) -> None:
        self.epochs.assign(epoch, self.end)

    def append(self, entries: Sequence[Entry], epoch: int) -> None:
        """None of a later epoch."""
        for entry in entries:
            if entry.epoch > epoch:
                return
            self.assign_epoch(entry.epoch)
            self.entries.append(entry)

    def append_fetched(self, records: Sequence[Entry], epoch: int) -> None:
        """As follower. Raises KafkaError."""
        self.append(records, epoch)

    def read(self, offset: int) -> Sequence[Entry]:
        """Return the entries that a follower is sent."""
        return self.entries[offset : offset + FETCHED]

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset(epoch, self.end)

    def truncate(self, offset: int) -> None:
        del self.entries[offset:]
        self.epochs.truncate_from_end(offset)
        self.flushed = min(self.flushed, offset)

    def begin_flush(self) -> int:
        """Return the argument for `flush`, which is called when the disk has had its time."""
        return self.end

    def flush(self, end: int) -> None:
        """Entries below `end` when the flush began are on the platter, if they are still in the
        log.
        """
        self.flushed = max(self.flushed, min(end, self.end))
        self._platter = (
            self.entries[: self.flushed],
            [each for each in self.epochs.entries() if each[1] <= self.flushed],
        )

    def restart(self, random: Random, *, power: bool) -> None:
        """Another process begins with what the one before, or the disk, has left."""
        if power:
            self.lose_power(random)

    def lose_power(self, random: Random) -> None:
        """A random part of the unflushed entries stays; a cut that was not flushed may come
        undone.
        """
        kept, epochs = self._platter
        if len(kept) <= self.end and self.entries[: len(kept)] == kept:
            end = random.randint(len(kept), self.end)
            self.entries, epochs = (
                self.entries[:end],
                [each for each in self.epochs.entries() if each[1] < end or each in epochs],
            )
        else:
            self.entries = list(kept)
        self.epochs = LeaderEpochs(epochs)
        self.flushed = self.end
        self.flush(self.end)


class UnflushedLog(Log):
    """With raftka.log.flush=os: written records are claimed, and the disk has them later. A power
    loss takes all that it does not have.
    """

    def flush(self, end: int) -> None:
        self.flushed = max(self.flushed, min(end, self.end))

    def write_back(self) -> None:
        """The disk has everything."""
        super().flush(self.end)

    def lose_power(self, random: Random) -> None:
        kept, epochs = self._platter
        self.entries, self.epochs = list(kept), LeaderEpochs(epochs)
        self.flushed = self.end


class Batch(NamedTuple):
    """The producer of a batch, as the batch tells it."""

    producer_id: int
    epoch: int
    sequence: int
    transactional: bool
    marker: Marker | None


class StoredLog(Log):
    def __init__(self, config: LogConfig, now_ms: Callable[[], int]) -> None:
        super().__init__()
        self.batches: list[Batch] = []  # one for each entry
        self._files = MemoryFiles()
        self._config, self._now_ms = config, now_ms
        self._recovery_point = 0  # as it is written down
        self._flushing: list[File | str] = []
        self._checkpointing = False
        self._open(clean=True)

    def _open(self, *, clean: bool) -> None:
        point = self._recovery_point
        self.broker_log = BrokerLog.open(
            self._files,
            DIRECTORY,
            self._config,
            self._now_ms(),
            clean_shutdown=clean,
            recovery_point=point,
        )
        self.broker_log.durability.on_recovery_point_lowered = self._point_changed
        self._point_changed()
        self._checkpointing = False
        self.entries.clear()
        self.batches.clear()
        self._written()

    def _point_changed(self) -> None:
        self._recovery_point = self.broker_log.durability.settled_point = (
            self.broker_log.durability.recovery_point
        )

    def _written(self) -> None:
        log = self.broker_log
        log.write_staged()
        while self.end < log.end_offset:
            for span in log.read(self.end, ALL_BYTES, log.end_offset)[0]:
                for header, batch in iterate(memoryview(span.file.read(span.position, span.size))):
                    marker = read_marker(batch) if header.attributes & CONTROL else None
                    value = (
                        told(marker)
                        if marker is not None
                        else (next(iter(records_of(batch))).value or b"").decode()
                    )
                    self.entries.append(Entry(header.leader_epoch, value))
                    transactional = bool(header.attributes & TRANSACTIONAL)
                    self.batches.append(
                        Batch(
                            header.producer_id,
                            header.producer_epoch,
                            header.base_sequence,
                            transactional,
                            marker,
                        )
                    )
        self.flushed = log.flushed_offset

    # writing

    @property
    def latest_epoch(self) -> int:
        return self.broker_log.latest_epoch

    def assign_epoch(self, epoch: int) -> None:
        self.broker_log.assign_epoch(epoch)

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        return self.broker_log.epoch_end(epoch)

    def append(self, entries: Sequence[Entry], epoch: int) -> None:
        """As leader, without a producer id."""
        for entry in entries:
            self.append_batch(
                build_batch([(None, entry.value.encode(), (), self._now_ms())]), epoch
            )

    def append_batch(self, batch: bytearray, epoch: int) -> int:
        """As leader; returns the offset behind it, also of one that is there. Raises KafkaError."""
        end = self.broker_log.client_batches.append(memoryview(batch), epoch, self._now_ms())[1]
        self._written()
        return end

    def append_marker(self, marker: Marker, epoch: int) -> int:
        """As leader; returns the offset behind it, -1: there is nothing to end. Raises
        KafkaError.
        """
        end = self.broker_log.append_marker(marker, epoch, self._now_ms())
        self._written()
        return end

    def append_fetched(self, records: Sequence[object], epoch: int) -> None:
        self.broker_log.append_as_follower(memoryview(records), epoch)  # type: ignore[arg-type]
        self._written()

    def truncate(self, offset: int) -> None:
        self.broker_log.truncate_to(offset)
        del self.entries[offset:], self.batches[offset:]
        self._written()

    # reading

    def read(self, offset: int) -> bytes:  # type: ignore[override]
        return self._read(offset, FETCHED_BYTES, self.end)

    def _read(self, offset: int, size: int, up_to: int) -> bytes:
        spans, _ = self.broker_log.read(offset, size, up_to)
        return b"".join([span.file.read(span.position, span.size) for span in spans])

    def read_committed(
        self, offset: int, size: int, stable: int
    ) -> tuple[int, list[tuple[int, str]]]:
        """As a client at that isolation level gets it: where its read ends, and the offsets and
        values that it shows.
        """
        spans, _ = self.broker_log.read(offset, size, stable)
        if not spans:
            return offset, []
        aborted = sorted(
            self.broker_log.aborted.find(offset, self.broker_log.bound_of(offset, spans[-1])),
            key=lambda each: -each.first_offset,
        )
        leaving_out: set[int] = set()
        shown = []
        for header, batch in iterate(memoryview(self._read(offset, size, stable))):
            while aborted and aborted[-1].first_offset <= header.last_offset:
                leaving_out.add(aborted.pop().producer_id)
            if header.attributes & CONTROL:
                leaving_out.discard(header.producer_id)
            elif not (header.attributes & TRANSACTIONAL and header.producer_id in leaving_out):
                shown += [(each.offset, (each.value or b"").decode()) for each in records_of(batch)]
            offset = header.last_offset + 1
        return offset, shown

    # its disk

    def begin_flush(self) -> int:
        self._flushing, offset = self.broker_log.begin_flush()
        return offset

    def flush(self, end: int) -> None:
        self._files.flush(self._flushing, _flushed)
        self.broker_log.flushed(end)
        self.flushed = self.broker_log.flushed_offset

    def begin_checkpoint(self) -> Callable[[], None] | None:
        """Returns what to call when the disk has had its time; None: there is nothing to write
        down, or an earlier one is under way.
        """
        log = self.broker_log
        if self._checkpointing or not log.checkpoint_due:
            return None
        self._checkpointing = True
        files, settle = log.begin_checkpoint()

        def done() -> None:
            if log is self.broker_log:
                self._checkpointing = False
                self._files.flush(files, _flushed)
                self._files.flush(settle(True), _flushed)
                self._point_changed()

        return done

    def restart(self, random: Random, *, power: bool) -> None:
        """Another process opens it. What was flushed must be there."""
        flushed, clean = self.entries[: self.flushed], not power and random.random() < CLEAN
        if clean:
            self.broker_log.close(clean=True)
            self._point_changed()
        elif power:
            self._files.power_lost(random)
        if random.random() < LOSES_FILES:
            suffix = random.choice(MADE_AGAIN)
            for name in self._files.list(DIRECTORY):
                if name.endswith(suffix) and random.random() < 0.7:
                    self._files.remove(f"{DIRECTORY}/{name}")
        self._open(clean=clean)
        assert self.entries[: len(flushed)] == flushed, (
            f"{len(flushed)} entries were flushed, {self.end} are there"
        )


def _flushed(error: OSError | None) -> None:
    """These disks do not fail."""


def told(marker: Marker) -> str:
    return (
        f"{'commit' if marker.commit else 'abort'} {marker.producer_id}.{marker.epoch} of "
        f"{marker.coordinator_epoch}"
    )
