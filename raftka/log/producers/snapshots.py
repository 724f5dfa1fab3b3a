"""The snapshot files of producer state in a partition's directory, and rebuilding that state from
them and the log. Knows no rule of idempotence.

A snapshot tells of everything before the offset in its name. It is written without waiting for the
disk: its CRC tells a torn one, and then an older one and more of the log serve. So losing one costs
time, never knowledge, while the log has the batches: retention must ask `on_disk` first.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from raftka.log.producers.markers import read_marker
from raftka.log.producers.state import ProducerState
from raftka.log.segments.scan import Header, headers
from raftka.log.segments.segment import Segment, segment_path
from raftka.log.segments.transaction_index import AbortedTransaction
from raftka.runtime.interfaces import File, Files
from raftka.wire.records import CONTROL, LOG_OVERHEAD_BYTES, TRANSACTIONAL

SUFFIX = ".snapshot"
LOOSE_KEPT = 2  # newest snapshots that are at no segment's beginning
BATCHES_AT_ONCE = 100  # that are walked between two pauses, some 0.1 ms
# index entries before a snapshot that are read again for the batches a snapshot does not tell: some
# 32 to 2,000
ENTRIES_BACK = 32


class Snapshots:
    __slots__ = ("_directory", "_files", "offsets", "unflushed")

    def __init__(self, files: Files, directory: str, offsets: Sequence[int]) -> None:
        self._files = files
        self._directory = directory
        self.offsets = sorted(offsets)
        # by offset, those that were written and are not known to be on disk
        self.unflushed: dict[int, File] = {}

    @property
    def newest(self) -> int:
        return self.offsets[-1] if self.offsets else -1

    def take(self, offset: int, state: ProducerState) -> File:
        """Write the state as of `offset`; returns the file, to be flushed and closed.

        One that is on disk stays as it is, because a loss of power could tear it: the log before
        its offset has not changed since, a cut removes those beyond it.
        """
        if offset in self.offsets and offset not in self.unflushed:
            state.changed = False
            return self._files.open(self._path(offset))
        file = self._files.open(self._path(offset), create=True)
        file.truncate(0)
        file.append([state.snapshot()])
        if offset not in self.offsets:
            self.offsets = sorted([*self.offsets, offset])
        self.unflushed[offset] = file
        state.changed = False
        return file

    def flushed(self, taken: Mapping[int, File]) -> None:
        """Note that what `unflushed` was when the flush began is on disk; one that was written
        again meanwhile may not be.
        """
        for offset, file in taken.items():
            if self.unflushed.get(offset) is file:
                del self.unflushed[offset]

    def on_disk(self, since: int, up_to: int) -> bool:
        """Return whether one in [since, up_to] is known to be on disk."""
        return any(
            since <= offset <= up_to and offset not in self.unflushed for offset in self.offsets
        )

    def load(self, since: int, up_to: int, now_ms: int) -> tuple[int, ProducerState] | None:
        """The newest whole snapshot in [since, up_to]; damaged ones on the way are removed."""
        for offset in reversed(self.offsets.copy()):
            if since <= offset <= up_to:
                state = ProducerState.from_snapshot(self._files.read(self._path(offset)), now_ms)
                if state is not None:
                    return offset, state
                self._remove(offset)
        return None

    def sync(self, since: int) -> None:
        """Flush the snapshots that were found, from the offset `since` on. Raises OSError.

        The recovery point passes a snapshot only when the disk has it, so `since` is that point: a
        log of a thousand segments has one or two to flush.
        """
        for offset in self.offsets[bisect_left(self.offsets, since) :]:
            file = self._files.open(self._path(offset))
            try:
                file.sync()
            finally:
                file.close()

    def remove_beyond(self, offset: int) -> None:
        for known in [known for known in self.offsets if known > offset]:
            self._remove(known)

    def tidy(self, segments: Sequence[Segment]) -> None:
        """One for each segment that is there, and the newest loose ones."""
        bases = {segment.base_offset for segment in segments}
        loose = [offset for offset in self.offsets if offset not in bases]
        for offset in loose[:-LOOSE_KEPT]:
            self._remove(offset)

    def _remove(self, offset: int) -> None:
        self._files.remove(self._path(offset))
        self.offsets.remove(offset)
        self.unflushed.pop(offset, None)

    def _path(self, offset: int) -> str:
        return segment_path(self._directory, offset, SUFFIX)


def rebuild(
    segments: Sequence[Segment], snapshots: Snapshots, trusted_up_to: int, now_ms: int
) -> ProducerState:
    """The state at the end of the segments: the newest snapshot at or before `trusted_up_to`, and
    every batch behind it.

    Transactions that are found aborted come into the indexes of their segments.

    A snapshot from before the first segment would tell a producer's past without what was deleted
    since: better none, which refuses nothing.
    """
    start, state = snapshots.load(segments[0].base_offset, trusted_up_to, now_ms) or (
        segments[0].base_offset,
        ProducerState(),
    )
    if any(producer.coordinator_epoch >= 0 for producer in state.producers.values()):
        state.restored_at = start
    if state.producers:
        state.remember_older(_idempotent(segments, _some_way_back(segments, start), start))
    for segment, aborted in replayed(segments, start, state, now_ms):
        index = segment.transaction_index
        if aborted is not None and index is not None and index.last_offset < aborted.last_offset:
            index.append(aborted)
    return state


def replayed(
    segments: Sequence[Segment], start: int, state: ProducerState, now_ms: int
) -> Iterator[tuple[Segment, AbortedTransaction | None]]:
    """Bring the state from `start` to the end of the segments; yields the aborted transactions that
    end on the way, and None now and then.
    """
    walked = 0
    for segment, position, header in _all_from(segments, start):
        walked += 1
        if walked % BATCHES_AT_ONCE == 0:
            yield segment, None
        if header[9] < 0:
            continue
        base, length, _, _, _, attributes, delta, _, timestamp, producer_id, epoch, sequence, _ = (
            header
        )
        if attributes & CONTROL:
            marker = read_marker(segment.file.read(position, length + LOG_OVERHEAD_BYTES))
            aborted = state.end(marker, base, timestamp, now_ms) if marker is not None else None
            if aborted is not None:
                yield segment, aborted
        elif sequence >= 0 or attributes & TRANSACTIONAL:
            state.record(
                producer_id,
                epoch,
                sequence,
                delta + 1,
                base,
                timestamp,
                now_ms,
                attributes & TRANSACTIONAL,
            )


def _some_way_back(segments: Sequence[Segment], offset: int) -> int:
    """Over as many segments as it takes: a producer that waits for its answers may be the one that
    wrote least.
    """
    left, start = ENTRIES_BACK, offset
    for segment in reversed(segments):
        if segment.base_offset < offset and left > 0:
            relative = segment.offset_index.offsets
            before = bisect_left(relative, offset - segment.base_offset)
            start = segment.base_offset + (relative[before - left] if before > left else 0)
            left -= before + 1
    return start


def _idempotent(
    segments: Sequence[Segment], start: int, end: int | None = None
) -> Iterator[tuple[int, int, int, int, int, int]]:
    """(producer id, epoch, first sequence, count, base offset, timestamp) of every batch of an
    idempotent producer in [start, end).
    """
    for header in _of_producers(segments, start):
        base, _, _, _, _, attributes, delta, _, timestamp, producer_id, epoch, sequence, _ = header
        if end is not None and base >= end:
            return
        if sequence >= 0 and not attributes & CONTROL:
            yield producer_id, epoch, sequence, delta + 1, base, timestamp


def _of_producers(segments: Sequence[Segment], start: int) -> Iterator[Header]:
    """The headers of all batches of producers with an id from the offset `start` on."""
    return (header for _, _, header in _all_from(segments, start) if header[9] >= 0)


def _all_from(segments: Sequence[Segment], start: int) -> Iterator[tuple[Segment, int, Header]]:
    """Every batch from the offset `start` on: its segment, position and header."""
    for at, segment in enumerate(segments):
        if at + 1 < len(segments) and segments[at + 1].base_offset <= start:
            continue
        for position, header in headers(
            segment.file, segment.offset_index.lookup(start), segment.size
        ):
            if header[0] >= start:
                yield segment, position, header
