"""A backup as of an earlier moment: its manifest with shorter partitions.

A partition ends before the first batch that has a record later than the moment. A transaction that
would be committed in one partition and not in another moves the moment back, to before the first
of its markers, at most BACK_MS. The restore aborts transactions that are open then, and sets
offsets behind an end to it. Metadata stay those of the cut.

The markers of one transaction have the same producer and epoch, in each partition one. Producers
before transaction version 2 have one epoch for many transactions: there a marker belongs to the
transaction whose marker in the other partition is nearest in time.
"""

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from raftka.backup.contents import batches_of
from raftka.backup.errors import BackupError
from raftka.backup.manifest import Manifest, Partition, Segment
from raftka.backup.places import Place
from raftka.log.producers.markers import read_marker
from raftka.wire.records import CONTROL

BACK_MS = 60_000
Producer = tuple[int, int]  # id, epoch


class Bound(NamedTuple):
    """From here on a partition has a record as late as that."""

    largest_ms: int  # of all batches up to this one
    segment: int  # index
    position: int  # in its file: the batch's begin
    offset: int  # where the batch before ends


@dataclass(slots=True)
class Timeline:
    """The times of one partition, as far as they can be a moment of the restore."""

    partition: Partition
    bounds: list[Bound] = field(default_factory=list)
    # of commits, in order: offset and time
    commits: dict[Producer, list[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def end_at(self, ms: int) -> Bound | None:
        """Return where the partition ends at that moment; None: at the cut."""
        at = bisect_right(self.bounds, ms, key=lambda bound: bound.largest_ms)
        return self.bounds[at] if at < len(self.bounds) else None

    def end_offset(self, ms: int) -> int:
        bound = self.end_at(ms)
        return self.partition.end_offset if bound is None else bound.offset

    def as_of(self, ms: int) -> Partition:
        bound = self.end_at(ms)
        if bound is None:
            return self.partition
        segments: list[Segment] = list(self.partition.segments[: bound.segment])
        if bound.position:
            last = self.partition.segments[bound.segment]
            segments.append(replace(last, size=bound.position, crc=None))
        start = min(self.partition.start_offset, bound.offset)
        return replace(
            self.partition,
            start_offset=start,
            end_offset=bound.offset,
            segments=tuple(segments),
        )


def as_of(place: Place, manifest: Manifest, to_ms: int) -> Manifest:
    """Return the backup as of the moment (ms since the epoch), or one before it: `cut_ms` tells.
    Reads all batches. Raises BackupError when no moment near it leaves all transactions whole.
    """
    if to_ms >= manifest.cut_ms:
        raise BackupError(f"the backup {manifest.name} was cut before that: leave out --to")
    timelines = [_timeline(place, each, to_ms - BACK_MS) for each in manifest.partitions]
    moment = to_ms
    while (torn_ms := _first_torn(timelines, moment)) is not None:
        moment = torn_ms - 1
        if moment < to_ms - BACK_MS:
            raise BackupError(
                f"within {BACK_MS // 1000} s before that there is no moment between two "
                "transactions: give another --to"
            )
    partitions = tuple([timeline.as_of(moment) for timeline in timelines])
    return replace(manifest, cut_ms=moment, partitions=partitions)


def _timeline(place: Place, partition: Partition, since_ms: int) -> Timeline:
    made, largest, segment_at, position, end = Timeline(partition), -1, 0, 0, -1
    indexes = {id(segment): at for at, segment in enumerate(partition.segments)}
    for segment, header, batch in batches_of(place, partition):
        if indexes[id(segment)] != segment_at:
            segment_at, position = indexes[id(segment)], 0
        if header[8] > largest:
            largest = header[8]
            if largest > since_ms:
                before = header[0] if end < 0 else end
                made.bounds.append(Bound(largest, segment_at, position, before))
        if header[5] & CONTROL and header[8] > since_ms - BACK_MS:
            marker = read_marker(batch)
            if marker is not None and marker.commit:
                key = (marker.producer_id, marker.epoch)
                made.commits[key].append((header[0], header[8]))
        position, end = position + len(batch), header[0] + header[6] + 1
    return made


def _first_torn(timelines: list[Timeline], ms: int) -> int | None:
    """Return the earliest time of a marker of a transaction that is committed in one partition and
    not in another at that moment; None: there is no such transaction.
    """
    ends = [timeline.end_offset(ms) for timeline in timelines]
    inside: dict[Producer, list[int]] = defaultdict(list)  # times of the last commits
    for timeline, end in zip(timelines, ends, strict=True):
        for producer, commits in timeline.commits.items():
            times = [time for offset, time in commits if offset < end]
            if times:
                inside[producer].append(times[-1])
    torn: list[int] = []
    for timeline, end in zip(timelines, ends, strict=True):
        for producer, commits in timeline.commits.items():
            times = [time for offset, time in commits if offset < end]
            if len(times) < len(commits):
                before, after = times[-1] if times else -inf, commits[len(times)][1]
                torn += [time for time in inside[producer] if after - time < time - before]
    return min(torn) if torn else None
