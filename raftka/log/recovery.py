"""Open a partition's directory: decide which data may be believed, find the end of the sound part,
and rebuild the state that follows from the batches.

Knows no appends and no clients.

One number decides what is believed: the *recovery point*. Everything below it was on disk when it
was written down: records, indexes, leader epochs, and producer snapshots up to it. Everything at or
above it is read again with its CRC, and the first damage ends the log: records behind it were never
acknowledged, or a disk has lied. After a clean shutdown the recovery point is the end.

Between batches below the recovery point there may be gaps (a cleaner made them); above it a gap
between segments is damage: a tail that never reached the disk. So a cleaner must keep below the
recovery point.

Not every damage is a torn tail. Records that were flushed and acknowledged can rot. Then sound
batches lie behind the damage, or the log ends before the offset that is known to be committed. A
caller that must not forget such records asks for `whole`, and gets Damaged instead of a shorter
log.
"""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from raftka.log.checkpoints import LEADER_EPOCH_CHECKPOINT, CheckpointError, decode_epochs
from raftka.log.compaction.job import SWAP
from raftka.log.config import FOREVER, LogConfig
from raftka.log.leader_epoch import LeaderEpochs
from raftka.log.producers.snapshots import SUFFIX, Snapshots, rebuild
from raftka.log.producers.state import ProducerState
from raftka.log.segments.scan import (
    WALK_BYTES,
    Header,
    checked,
    ends_here,
    has_sound_batch,
    headers,
)
from raftka.log.segments.segment import Segment, segment_path
from raftka.runtime.interfaces import File, Files
from raftka.wire.records import BATCH_HEADER_BYTES, LOG_OVERHEAD_BYTES

OFFSET_DIGITS = 20
OF_SEGMENT = {"log", "index", "timeindex", "txnindex"}
# last suffixes of names that are on their way in or out
LEFTOVERS = {"deleted", "cleaned", "swap", "tmp", "gone"}


class Damaged(Exception):
    """Records that were on disk are lost. The log was not cut."""


@dataclass(slots=True)
class Cut:
    """Records that recovery has cut off."""

    offset: int  # the log ends here now
    bytes: int
    segments: int  # that were removed behind the end


@dataclass(slots=True)
class Recovered:
    segments: list[Segment]  # at least one
    end_offset: int
    epochs: LeaderEpochs
    snapshots: Snapshots
    producers: ProducerState
    cut: Cut | None


def recover(
    files: Files,
    directory: str,
    config: LogConfig,
    now_ms: int,
    *,
    clean: bool,
    recovery_point: int,
    start_offset: int,
    whole: int | None = None,
) -> Recovered:
    """Open the directory, and leave it with sound segments, in order, all of it on disk. Raises
    OSError, and NewerFormat before anything has changed.

    `whole`: raise Damaged if the log ends before that offset, or sound batches lie behind damage.
    """
    stored = _stored_epochs(files, directory)
    _finish_swaps(files, directory)
    bases, snapshot_offsets = _sweep(files, directory)
    segments = [
        Segment(files, directory, base, now_ms, config.index_interval_bytes)
        for base in bases or [start_offset]
    ]
    if segments[-1].size:  # appends continue in it, so it keeps its age
        segments[-1].created_ms = min(
            now_ms, segments[-2 if len(segments) > 1 else -1].file.modified_ms()
        )
    cut = None
    for believed_below in [FOREVER, recovery_point] if clean else [recovery_point]:
        epochs = LeaderEpochs([entry for entry in stored or [] if entry[1] < believed_below])
        end, found = _check(segments, epochs, believed_below, whole)
        cut = found or cut
        if found is None:
            break  # else the shutdown was not clean: check again from the recovery point
    # appends continue in it, and its earlier batches may lack timestamps
    if segments[-1].size:
        segments[-1].timeless = True
    if believed_below > segments[0].base_offset and (
        stored is None or not _agree(segments, epochs, end)
    ):
        epochs = _epochs_of(segments)
    epochs.truncate_from_end(end + 1)
    epochs.dirty = epochs.entries() != (stored or [])
    snapshots = Snapshots(files, directory, snapshot_offsets)
    # one at the log's start stays: nothing else tells of producers whose records were deleted
    snapshots.remove_beyond(min(end, max(believed_below, segments[0].base_offset)))
    producers = rebuild(segments, snapshots, end, now_ms)
    if believed_below != FOREVER:
        snapshots.sync(believed_below)  # a killed process may have left them in memory alone
        for file in segments[-1].forget_stale_entries():
            file.sync()
    if believed_below != FOREVER and any(segment.size for segment in segments):
        _make_durable(files, directory, segments, believed_below)
    elif cut is not None and cut.segments:
        # else the removed segments could come back, among those that are appended next
        files.sync_directory(directory)
    return Recovered(segments, end, epochs, snapshots, producers, cut)


def _finish_swaps(files: Files, directory: str) -> None:
    """Put each new segment of a cleaner in the place of the segments in its range: under this name
    it is whole and on disk.

    One of the old segments may lie behind the last batch of the new one, and stay. That does no
    harm: later records replace all records in it.
    """
    for name in files.list(directory):
        if not name.endswith(f".log{SWAP}") or not _is_offset(name[:OFFSET_DIGITS]):
            continue
        base = int(name[:OFFSET_DIGITS])
        end, whole = _extent(files, f"{directory}/{name}", base)
        if not whole and files.exists(segment_path(directory, base, ".log")):
            continue  # no cleaner leaves such a file; the sweep removes it
        for other in files.list(directory):
            stem, _, suffix = other.partition(".")
            if (
                _is_offset(stem)
                and base <= int(stem) < max(end, base + 1)
                and suffix in OF_SEGMENT
                and (suffix != "log" or int(stem) != base)
            ):
                files.remove(f"{directory}/{other}")
        files.sync_directory(directory)
        files.rename(f"{directory}/{name}", segment_path(directory, base, ".log"))
        files.sync_directory(directory)


def _extent(files: Files, path: str, base: int) -> tuple[int, bool]:
    """Return the offset at which batches in the file end, and whether the file ends there."""
    file = files.open(path)
    end, stop = base, 0
    for position, header in checked(file, 0, file.size(), base, base + (1 << 31) - 1):
        end, stop = header[0] + header[6] + 1, position + header[1] + LOG_OVERHEAD_BYTES
    whole = stop == file.size()
    file.close()
    return end, whole


def _sweep(files: Files, directory: str) -> tuple[list[int], list[int]]:
    """Remove files that a crash left half removed or half made. Return the base offsets of segments
    and the offsets of snapshots, in order.
    """
    names = files.list(directory)
    segments = {name[:-4] for name in names if name.endswith(".log") and _is_offset(name[:-4])}
    for name in names:
        stem, dot, suffix = name.partition(".")
        half_done = suffix.rpartition(".")[2] in LEFTOVERS
        orphan = (
            suffix in {"index", "timeindex", "txnindex"}
            and _is_offset(stem)
            and stem not in segments
        )
        if dot and (half_done or orphan):
            files.remove(f"{directory}/{name}")
    snapshots = [
        int(name[:OFFSET_DIGITS])
        for name in names
        if name[OFFSET_DIGITS:] == SUFFIX and _is_offset(name[:OFFSET_DIGITS])
    ]
    return sorted(map(int, segments)), snapshots


def _is_offset(text: str) -> bool:
    return len(text) == OFFSET_DIGITS and text.isascii() and text.isdigit()


def _stored_epochs(files: Files, directory: str) -> list[tuple[int, int]] | None:
    path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
    try:
        return decode_epochs(files.read(path)) if files.exists(path) else None
    except CheckpointError:
        return None


def _check(
    segments: list[Segment], epochs: LeaderEpochs, believed_below: int, whole: int | None
) -> tuple[int, Cut | None]:
    """Read again all data that is not believed, and cut the log at the first damage. Return the end
    offset, and the cut if there was one. Raises Damaged.
    """
    end = segments[0].base_offset
    for at, segment in enumerate(segments):
        following = segments[at + 1].base_offset if at + 1 < len(segments) else None
        if following is not None and _is_sealed(following, believed_below):
            continue
        torn = segment.file.size()
        end = segment.resume(_with_epochs(segment.check(believed_below), epochs))
        torn -= segment.size
        if torn or (
            following is not None and (end > following or believed_below <= end < following)
        ):
            # in a reused file old records follow, with any bytes that a client has sent
            is_over = following is None and ends_here(segment.file, segment.size)
            if whole is not None and (end < whole or (not is_over and _is_rotten(segments, at))):
                raise _damaged(segments, f"is damaged at offset {end}, and that was no crash")
            return end, _cut(
                segments,
                at,
                end,
                0 if is_over and any(segment.file.read(segment.size, WALK_BYTES)) else torn,
            )
    if whole is not None:
        _check_reach(segments, end, whole)
    return end, None


def _check_reach(segments: list[Segment], end: int, whole: int) -> None:
    """Raise Damaged when committed batches are gone and no part of them is left."""
    if end < whole:
        raise _damaged(segments, f"ends at offset {end}, but all below {whole} was committed")


def _damaged(segments: list[Segment], why: str) -> Damaged:
    for each in segments:
        each.file.close()
    return Damaged(f"{segments[-1].file.path} {why}")


def _is_sealed(end: int, believed_below: int) -> bool:
    """Return whether a segment that ends at `end` is on disk whole. One that ends right at the
    recovery point may have been sealed later, so the last entry of its time index may be missing.
    """
    return end < believed_below


def _is_rotten(segments: list[Segment], at: int) -> bool:
    """Return whether a sound batch lies behind the damage: a torn tail has none."""
    places = [
        (segments[at], segments[at].size + 1),
        *[(segment, 0) for segment in segments[at + 1 :]],
    ]
    return any(
        has_sound_batch(segment.file, position, segment.base_offset, segment.highest_offset)
        for segment, position in places
    )


def _with_epochs(
    batches: Iterator[tuple[int, Header]], epochs: LeaderEpochs
) -> Iterator[tuple[int, Header]]:
    latest = epochs.latest
    for batch in batches:
        header = batch[1]
        if header[2] > latest:
            epochs.assign(header[2], header[0])
            latest = header[2]
        yield batch


def _cut(segments: list[Segment], at: int, end: int, torn: int) -> Cut:
    """Cut the log in `segments[at]`, and remove the segments behind it. The last ones are removed
    first, so a crash in between leaves no hole. `torn`: bytes of batches behind the end, in the
    segment that stays.
    """
    doomed = segments[at + 1 :]
    cut = Cut(end, torn + sum(segment.size for segment in doomed), len(doomed))
    for segment in reversed(doomed):
        segment.remove()
        segment.file.close()
    del segments[at + 1 :]
    with kept_time(segments[at].file):
        segments[at].file.truncate(segments[at].size)
    return cut


@contextmanager
def kept_time(file: File) -> Iterator[None]:
    """Keep the time of the file's last write while the file is changed: retention may go by it."""
    modified_ms = file.modified_ms()
    yield
    file.set_modified(modified_ms)


def _agree(segments: list[Segment], epochs: LeaderEpochs, end: int) -> bool:
    """Return whether the epochs agree with the batches on both sides of the start of each, and with
    the last batch. The file has no checksum, and replicas are cut by it.
    """
    places = {offset for _, start in epochs.entries() for offset in (start - 1, start)} | {end - 1}
    found = [
        _header_at(segments, offset)
        for offset in sorted(places)
        if segments[0].base_offset <= offset < end
    ]
    return all(header is None or header[2] == epochs.of_offset(header[0]) for header in found)


def _header_at(segments: list[Segment], offset: int) -> Header | None:
    """Return the header of the first batch that reaches `offset`; None if there is none."""
    for segment in segments[max(0, bisect_right(segments, offset, key=_base_offset) - 1) :]:
        if (found := segment.locate(offset, segment.size)) is not None:
            return next(
                (
                    header
                    for _, header in headers(
                        segment.file, found[0], segment.size, BATCH_HEADER_BYTES
                    )
                ),
                None,
            )
    return None


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def _epochs_of(segments: list[Segment]) -> LeaderEpochs:
    """Read the epochs from the batches, when the checkpoint is lost or wrong."""
    epochs = LeaderEpochs()
    for segment in segments:
        for _ in _with_epochs(headers(segment.file, 0, segment.size), epochs):
            pass
    return epochs


def _make_durable(
    files: Files, directory: str, segments: list[Segment], believed_below: int
) -> None:
    """Flush the data that was found: it counts as durable from now on, and after a crash of the
    process alone it may be only in the page cache.

    A kernel marks pages as clean although their flush failed: this process can read them, but
    another flush would not write them. So they are written again.
    """
    for at, segment in enumerate(segments):
        is_last = at + 1 == len(segments)
        if not is_last and _is_sealed(segments[at + 1].base_offset, believed_below):
            continue
        with kept_time(segment.file):
            segment.write_again(believed_below)
        if is_last:
            segment.file.sync()
        else:
            for file in segment.seal():
                file.sync()
            segment.close_index()
    files.sync_directory(directory)
