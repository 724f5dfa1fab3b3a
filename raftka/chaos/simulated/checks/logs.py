"""One partition's log against a plain scan of its own batches: nothing that is derived may say
anything else.

Offset index, time index, searches by time, leader epochs, the memory of producers and its
snapshots, the bounds of segments. Knows no node, and no history of clients: whether the batches are
the right ones others judge. A log that is looked at must have written all that it staged.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from raftka.chaos.simulated.checks.times import times_of
from raftka.checksum import crc32c
from raftka.log.checkpoints import LEADER_EPOCH_CHECKPOINT, decode_epochs
from raftka.log.delivery.due import DELIVERING
from raftka.log.delivery.scan import HeldScan
from raftka.log.log import Log
from raftka.log.producers.snapshots import ENTRIES_BACK, SUFFIX
from raftka.log.producers.state import BATCHES_REMEMBERED, ProducerState
from raftka.log.segments.scan import Header, headers
from raftka.log.segments.search import at_once
from raftka.log.segments.segment import Segment, segment_path
from raftka.log.segments.times import HELD
from raftka.runtime.interfaces import Files
from raftka.wire.records import CONTROL, LOG_OVERHEAD_BYTES, TRANSACTIONAL, records_of

SEARCHES = 8  # timestamps that are searched for, and read positions that are tried
FEW_SEARCHES = 3  # where many copies of one log are looked at
CRC_FROM = 21  # of a batch
Remembered = tuple[int, int, int, int]  # as producer_state.Batch


class Scanned:
    """One batch as it lies there."""

    __slots__ = ("_timestamp", "base", "data", "header", "last", "position", "segment", "size")

    def __init__(
        self, segment: Segment, position: int, header: Header, content: memoryview
    ) -> None:
        """`content`: of the segment's file."""
        self.segment = segment
        self.position = position
        self.header = header
        self.base = header[0]
        self.size = header[1] + LOG_OVERHEAD_BYTES
        self.last = header[0] + header[6]
        self.data = content[position : position + self.size]
        self._timestamp: int | None = None  # not looked up yet

    @property
    def timestamp(self) -> int:
        """The largest timestamp of its records, -1 if none has one, or they are held."""
        if self.header[5] & HELD:
            return -1
        if self._timestamp is None:
            self._timestamp = times_of(self.segment, self.position, self.header)[0]
        return self._timestamp


@dataclass(slots=True)
class Memory:
    """The state of one producer, computed from the batches."""

    epoch: int
    batches: list[Remembered] = field(default_factory=list)
    transaction: int = -1  # first offset of the open one
    marked: bool = False  # it has markers: a snapshot has their times for those of the batches

    def told(self, batches: Sequence[Remembered]) -> list[tuple[int, ...]]:
        """Batches as far as they can be compared."""
        return [batch[:3] if self.marked else batch for batch in batches]


def scan(log: Log) -> list[Scanned]:
    return scan_of(log.segments)


def scan_of(segments: Sequence[Segment]) -> list[Scanned]:
    found = []
    for segment in segments:
        content = memoryview(segment.file.read(0, segment.size))
        found += [
            Scanned(segment, at, header, content)
            for at, header in headers(segment.file, 0, segment.size)
        ]
    return found


def by_segment(batches: Sequence[Scanned]) -> defaultdict[int, list[Scanned]]:
    """By the base offset of the segment in which they lie."""
    found: defaultdict[int, list[Scanned]] = defaultdict(list)
    for batch in batches:
        found[batch.segment.base_offset].append(batch)
    return found


def wrong_with(log: Log, files: Files, searches: int = SEARCHES) -> list[str]:
    batches = scan(log)
    lying = by_segment(batches)
    found = _bounds(log, batches, lying)
    if not found:  # else everything else is wrong too
        found = (
            _indexes(log, lying) + _times(log, batches, searches) + _reads(log, batches, searches)
        )
        found += (
            remembered(log, batches)
            + _epochs(log, batches, files)
            + _producers(log, batches)
            + _snapshots(log, batches, files)
            + _held(log, batches)
        )
    return [f"{log.directory}: {each}" for each in found]


def _bounds(
    log: Log, batches: Sequence[Scanned], lying: Mapping[int, Sequence[Scanned]]
) -> list[str]:
    found = [
        f"the batch at {batch.base} is damaged"
        for batch in batches
        if crc32c(batch.data[CRC_FROM:]) != batch.header[4] & 0xFFFFFFFF
    ]
    for one, other in pairwise(batches):
        if other.base <= one.last:
            found.append(f"the batch at {other.base} follows one that ends at {one.last}")
        if other.header[2] < one.header[2]:
            found.append(
                f"the batch at {other.base} is of epoch {other.header[2]}, the one before it of "
                f"{one.header[2]}"
            )
    for segment, following in pairwise(log.segments):
        if any(batch.last >= following.base_offset for batch in lying[segment.base_offset]):
            found.append(
                f"the segment at {segment.base_offset} reaches into the one at "
                f"{following.base_offset}"
            )
    found += [
        f"the batch at {each.base} lies in the segment at {each.segment.base_offset}"
        for each in batches
        if each.base < each.segment.base_offset
    ]
    for segment in log.segments:
        used = max((batch.position + batch.size for batch in lying[segment.base_offset]), default=0)
        if used != segment.size:
            found.append(
                f"the segment at {segment.base_offset} says {segment.size} bytes, its batches "
                f"have {used}"
            )
    if batches and not batches[-1].last < log.end_offset <= max(
        batches[-1].last + 1, log.segments.active.base_offset
    ):
        found.append(f"the log ends at {log.end_offset}, its last batch at {batches[-1].last}")
    if not log.segments[0].base_offset <= log.start_offset <= log.end_offset:
        found.append(
            f"the log starts at {log.start_offset}, its segments reach from "
            f"{log.segments[0].base_offset} to {log.end_offset}"
        )
    if log.durability.recovery_point > log.end_offset or log.flushed_offset > log.end_offset:
        found.append(
            f"the log ends at {log.end_offset}, recovery point {log.durability.recovery_point}, "
            f"flushed {log.flushed_offset}"
        )
    return found


def _indexes(log: Log, lying: Mapping[int, Sequence[Scanned]]) -> list[str]:
    found = []
    for segment in log.segments:
        mine = lying[segment.base_offset]
        lasts = {batch.position: batch.last for batch in mine}
        index, times = segment.offset_index, segment.time_index
        for relative, position in zip(index.offsets, index.positions, strict=True):
            if lasts.get(position) != segment.base_offset + relative:
                found.append(
                    f"the offset index points from {segment.base_offset + relative} to "
                    f"{position}, there it ends at {lasts.get(position)}"
                )
        ends = [batch.last for batch in mine]
        rising = list(accumulate((batch.timestamp for batch in mine), max))
        for timestamp, relative in zip(times.timestamps, times.offsets, strict=True):
            offset = segment.base_offset + relative
            before = bisect_right(ends, offset)
            largest = rising[before - 1] if before else -1
            if largest != timestamp:
                found.append(
                    f"the time index has {timestamp} at {offset}, the largest up to there is "
                    f"{largest}"
                )
        largest = max((batch.timestamp for batch in mine), default=-1)
        if segment.max_timestamp_known not in (largest, -1):
            found.append(
                f"the segment at {segment.base_offset} knows the largest timestamp "
                f"{segment.max_timestamp_known}, it is {largest}"
            )
        steps = [0, *index.positions, segment.size]
        widest = max((batch.size for batch in mine), default=0)
        most = 2 * widest + max(4096, segment.index_interval_bytes)
        found += [
            f"the offset index has nothing from {one} to {other}"
            for one, other in pairwise(steps)
            if other - one > most
        ]
    return found


def _times(log: Log, batches: Sequence[Scanned], searches: int) -> list[str]:
    found, up_to = [], log.end_offset
    known = sorted({batch.timestamp for batch in batches if batch.timestamp >= 0})
    living = [batch for batch in batches if batch.last >= log.start_offset]
    rising = list(accumulate((batch.timestamp for batch in living), max))
    for timestamp in [each + more for each in _some(known, searches) for more in (0, 1)]:
        first = bisect_left(rising, timestamp)  # all batches before it have earlier records alone
        told = log.offset_for_timestamp(timestamp, up_to)
        there = _first(living[first:], timestamp, log.start_offset)
        if (told and told.offset) != there:
            found.append(f"searched for {timestamp} it tells of {told}, the first is at {there}")
    largest = max(known, default=-1)
    told = log.max_timestamp_offset(up_to)
    if largest < 0 and told:
        found.append(f"no record has a time, it tells of {told}")
    if largest >= 0 and any(batch.timestamp == largest for batch in living):
        there = _first(living, largest, log.start_offset)
        if (told and told.offset) != there:
            found.append(
                f"its largest timestamp is {largest}, first at {there}, it tells of {told}"
            )
    return found


def _first(batches: Sequence[Scanned], timestamp: int, start: int) -> int | None:
    for batch in batches:
        if batch.last < start or batch.timestamp < timestamp:
            continue
        for record in records_of(batch.data):
            if record.offset >= start and record.timestamp >= timestamp:
                return int(record.offset)
    return None


def _reads(log: Log, batches: Sequence[Scanned], searches: int) -> list[str]:
    """A read begins with the batch that holds the offset, or with the next one."""
    found = []
    for batch in _some([batch for batch in batches if batch.base >= log.start_offset], searches):
        for offset in {batch.base, batch.last}:
            spans, _ = log.read(offset, 1, log.end_offset)
            first = spans[0].file.read(spans[0].position, 8) if spans else b""
            if int.from_bytes(first, "big") != batch.base or not spans:
                found.append(
                    f"read from {offset} it gives "
                    f"{int.from_bytes(first, 'big') if first else 'nothing'}, not the batch at "
                    f"{batch.base}"
                )
    return found


def _held(log: Log, batches: Sequence[Scanned]) -> list[str]:
    """Compare a scan of the log, as a new leader makes it, with all of its batches."""
    held = log.held
    if held is None or held.pending is not None:
        return []
    pending: dict[int, None] = {}
    for batch in batches:
        for record in records_of(batch.data) if batch.header[5] & (HELD | DELIVERING) else ():
            if batch.header[5] & HELD:
                pending[record.offset] = None
            else:
                pending.pop(int(record.headers[-1][1] or -1), None)
    at_once(HeldScan(log).find_pending())
    told: list[int] = held.pending.offsets if held.pending else []
    held.pending = None
    at_once(HeldScan(log).find_ranges())
    found = []
    if sorted(told) != list(pending):
        found.append(f"{sorted(told)} are pending, by all batches it is {list(pending)}")
    for batch in [each for each in batches if each.base >= log.start_offset]:
        is_hidden = held.visible_run(batch.base, log.end_offset)[0] > batch.base
        if is_hidden != bool(batch.header[5] & HELD):
            found.append(f"the batch at {batch.base} is hidden: {is_hidden}")
    return found


def remembered(log: Log, batches: Sequence[Scanned]) -> list[str]:
    """Positions that the log keeps in memory: where the first batch begins that reaches the offset,
    in the segment that holds it.
    """
    found, lying = [], by_segment(batches)
    for offset, position in log.segments.positions.items():
        segment = next(
            (each for each in reversed(log.segments) if each.base_offset <= offset), log.segments[0]
        )
        mine = lying[segment.base_offset]
        at = bisect_left(mine, offset, key=_last)
        there = mine[at].position if at < len(mine) else segment.size
        if position != there:
            found.append(
                f"it remembers {offset} at {position} of the segment at {segment.base_offset}, it "
                f"is at {there}"
            )
    return found


def _last(batch: Scanned) -> int:
    return batch.last


def _epochs(log: Log, batches: Sequence[Scanned], files: Files) -> list[str]:
    entries = log.epochs.entries()
    found = [
        f"leader epochs {entries} do not rise"
        for one, other in pairwise(entries)
        if one[0] >= other[0] or one[1] > other[1]
    ]
    for batch in batches:
        if batch.base >= log.start_offset and log.epoch_of(batch.base) != batch.header[2]:
            return [
                *found,
                f"leader epochs {entries} say {log.epoch_of(batch.base)} of {batch.base}, whose "
                f"batch has {batch.header[2]}",
            ]
    starts: dict[int, int] = {}
    for batch in batches:
        starts.setdefault(batch.header[2], batch.base)
    for epoch, start in entries:
        if (
            not log.config.compacted
            and start > log.start_offset
            and starts.get(epoch, start) != start
        ):
            found.append(
                f"leader epoch {epoch} begins at {start}, its first batch is at {starts[epoch]}"
            )
    if entries and entries[-1][1] > log.end_offset:
        found.append(f"leader epochs {entries} begin behind the end {log.end_offset}")
    path = f"{log.directory}/{LEADER_EPOCH_CHECKPOINT}"
    # a checkpoint has written them, and has not renamed the file
    under_way = files.exists(f"{path}.tmp")
    if (
        not log.epochs.dirty
        and not under_way
        and (stored := decode_epochs(files.read(path)) if files.exists(path) else []) != entries
    ):
        found.append(f"the file has the leader epochs {stored}, the log {entries}")
    return found


def memories(batches: Sequence[Scanned], below: int) -> dict[int, Memory]:
    """The producers that a broker must remember before that offset."""
    found: dict[int, Memory] = {}
    for batch in batches:
        if batch.base < below:
            _learn(found, batch.header)
    return found


def _learn(found: dict[int, Memory], header: Header) -> None:
    base, _, _, _, _, attributes, delta, _, timestamp, producer_id, epoch, sequence, _ = header
    if producer_id < 0 or (sequence < 0 and not attributes & TRANSACTIONAL):
        return
    known = found.get(producer_id)
    if known is None:
        known = found[producer_id] = Memory(epoch)
    if known.epoch != epoch:
        known.epoch = epoch
        known.batches.clear()
    if attributes & CONTROL:
        known.transaction, known.marked = -1, True
        return
    if attributes & TRANSACTIONAL and known.transaction < 0:
        known.transaction = base
    if sequence >= 0:
        known.batches.append((sequence, sequence + delta, base, timestamp))
        del known.batches[:-BATCHES_REMEMBERED]


def _producers(log: Log, batches: Sequence[Scanned]) -> list[str]:
    if log.config.compacted:
        return []  # of a compacted batch the sequences may have gone
    found = []
    there = memories(batches, log.end_offset)
    for producer_id, memory in there.items():
        known = log.producers.producers.get(producer_id)
        if known is None:
            found.append(f"producer {producer_id} is forgotten, its batches say {memory}")
            continue
        least = (
            max(
                1,
                sum(
                    not far_back(log.segments, batch[2], log.end_offset) for batch in memory.batches
                ),
            )
            if memory.batches
            else 0
        )
        if known.epoch != memory.epoch or not _ends_alike(
            memory.told(known.batches), memory.told(memory.batches), least
        ):
            found.append(
                f"of producer {producer_id} the log remembers {known.epoch} {known.batches}, its "
                f"batches say {memory}"
            )
        elif known.next_sequence != (known.batches[-1][1] + 1 if known.batches else 0):
            found.append(
                f"of producer {producer_id} the log expects {known.next_sequence} after "
                f"{known.batches[-1:]}"
            )
    begun = sorted(memory.transaction for memory in there.values() if memory.transaction >= 0)
    if list(log.producers.open) != begun:
        found.append(
            f"the log knows open transactions at {list(log.producers.open)}, its batches say "
            f"{begun}"
        )
    return found


def far_back(segments: Sequence[Segment], offset: int, end: int) -> bool:
    """Return whether a broker that gets a producer's last batch from a snapshot at `end` may have
    forgotten the producer's batch at `offset`.

    It reads the log again over so many index entries before the snapshot; the beginning of each
    segment counts as one.
    """
    left = ENTRIES_BACK
    for segment in reversed(segments):
        if segment.base_offset < end:
            entries = [
                indexed
                for relative in segment.offset_index.offsets
                if (indexed := segment.base_offset + relative) < end
            ]
            if segment.base_offset <= offset:
                return left <= 0 or (
                    len(entries) > left and sum(indexed > offset for indexed in entries) >= left
                )
            left -= len(entries) + 1
    return False


def _ends_alike(
    known: Sequence[tuple[int, ...]], there: Sequence[tuple[int, ...]], least: int
) -> bool:
    common = min(len(known), len(there))
    if not there:
        return not known
    return (
        least <= len(known) <= BATCHES_REMEMBERED
        and common > 0
        and list(known[-common:]) == list(there[-common:])
    )


def _snapshots(log: Log, batches: Sequence[Scanned], files: Files) -> list[str]:
    found = []
    there = sorted(
        int(name.removesuffix(SUFFIX))
        for name in files.list(log.directory)
        if name.endswith(SUFFIX)
    )
    if there != (listed := log.durability.snapshots.offsets):
        found.append(f"there are snapshots at {there}, the log knows those at {listed}")
    memory_of: dict[int, Memory] = {}
    coming = iter(batches)
    batch = next(coming, None)
    for offset in there:
        while batch is not None and batch.base < offset:
            _learn(memory_of, batch.header)
            batch = next(coming, None)
        if offset > log.end_offset:
            found.append(f"there is a snapshot at {offset}, the log ends at {log.end_offset}")
        state = ProducerState.from_snapshot(
            files.read(segment_path(log.directory, offset, SUFFIX)), 0
        )
        if state is None or log.config.compacted:
            continue  # torn: an older one serves
        for producer_id, memory in memory_of.items():
            known = state.producers.get(producer_id)
            if (
                known is None
                or (known.epoch, known.transaction_start) != (memory.epoch, memory.transaction)
                or memory.told(known.batches[-1:]) != memory.told(memory.batches[-1:])
            ):
                found.append(
                    f"the snapshot at {offset} has {known and known.batches} of producer "
                    f"{producer_id}, its batches say {memory}"
                )
    return found


def _some(found: Sequence[object], searches: int) -> list[Any]:
    """Spread over all, with the first and the last."""
    step = max(1, len(found) // searches)
    return list(dict.fromkeys([*found[::step], *found[-1:]]))
