"""The durability of one log: which records and files of it are on disk, and how that is written
down, in checkpoints and when the log is closed. Knows no rule of appending.

`recovery_point`: everything below it is on disk, records, indexes, leader epochs and a producer
snapshot. Records are flushed on their own way (flushes.py).
"""

from collections.abc import Callable, Iterable, Sequence

from raftka.log.checkpoints import LEADER_EPOCH_CHECKPOINT, encode_epochs
from raftka.log.flushes import Flushes
from raftka.log.leader_epoch import LeaderEpochs
from raftka.log.producers.snapshots import Snapshots
from raftka.log.producers.state import ProducerState
from raftka.log.segments.segment import Segment
from raftka.runtime.interfaces import File, Files


class Durability:
    __slots__ = (
        "_behind",
        "_checkpointed",
        "_directory",
        "_files",
        "_names",
        "flushes",
        "on_recovery_point_lowered",
        "recovery_point",
        "settled_point",
        "snapshots",
        "syncs",
        "truncations",
    )

    def __init__(
        self, files: Files, directory: str, end_offset: int, snapshots: Snapshots, *, is_new: bool
    ) -> None:
        self._files = files
        self._directory = directory
        self.flushes = Flushes(end_offset)
        self.snapshots = snapshots
        self.syncs = True  # records count as durable only when the disk has them
        self.recovery_point = 0
        # the recovery point that is written down, on disk: whatever happens, recovery begins there
        # or behind it
        self.settled_point = 0
        # writes the lower point down, before the log is cut
        self.on_recovery_point_lowered: Callable[[], None] | None = None
        # how often the log was cut: work beside the log compares it with what it was
        self.truncations = 0
        # indexes and snapshots: to be on disk before the recovery point passes them, then closed
        self._behind: list[File] = []
        # paths to be flushed with the next records: where a file is new
        self._names = [directory] if is_new else []
        # files of the checkpoint under way, which the next one would not flush
        self._checkpointed: list[File | str] = []

    # names

    def flush_with_next(self, path: str) -> None:
        """Flush a path with the next records, before they count: a directory in which a name is
        new, or a file.
        """
        if path not in self._names:
            self._names.append(path)

    def take_names(self) -> list[str]:
        """Return the paths to flush; the caller flushes them."""
        names, self._names = self._names, []
        return names

    def sync_names(self) -> None:
        """Flush the directory now, and names that wait for the first records, as a new log's own
        name does.
        """
        for path in dict.fromkeys([*self.take_names(), self._directory]) if self.syncs else ():
            self._files.sync_directory(path)

    # flushing

    def begin_late_flush(self) -> tuple[list[File | str], Callable[[File | None, bool], None]]:
        """Return the files to flush, and the function to call then: with the file that was written
        again meanwhile, and with whether the active segment is the same.
        """
        flushes, truncations = self.flushes, self.truncations
        dirty, names = flushes.dirty.copy(), self._names.copy()

        def settle(again: File | None, same: bool) -> None:
            if self.truncations != truncations:
                return
            flushes.dirty = [file for file in flushes.dirty if file not in dirty or file is again]
            if same:
                self._names = [name for name in self._names if name not in names]

        return [*dirty, *names], settle

    def flush_cut(self, file: File) -> None:
        """Flush a file that was cut, now or before a checkpoint believes what is left of it:
        nothing may ever be appended to it again. Raises OSError.
        """
        if self.syncs:
            # else pages of the old tail could come back among those that are written over it
            file.sync()
        else:
            self.flushes.dirty = list(dict.fromkeys([*self.flushes.dirty, file]))
            self.flush_with_next(self._directory)

    # checkpoints

    def take_snapshot(self, offset: int, producers: ProducerState) -> None:
        """Write the producers as of `offset`; the next checkpoint flushes the file."""
        self._behind.append(self.snapshots.take(offset, producers))

    def flush_before_point(self, files: Iterable[File]) -> None:
        """Flush these files before the recovery point passes the present end; close them then."""
        self._behind.extend(files)

    def begin_checkpoint(
        self, segments: Sequence[Segment], written_offset: int, epochs: LeaderEpochs
    ) -> tuple[list[File | str], Callable[[bool], list[str]]]:
        """As `Log.begin_checkpoint`; index entries and the snapshot are written."""
        flushes = self.flushes
        epoch_files = self._write_epochs(epochs)
        behind, self._behind = self._behind, []
        snapshots = self.snapshots.unflushed.copy()
        files: list[File | str] = [*behind, *(segments[-1].index_files or ()), *epoch_files]
        # also with flush=fsync: perhaps no answer has waited for these files
        files += flushes.unflushed
        self._checkpointed += behind
        if not self.syncs:
            names = self.take_names()
            files += names
            self._checkpointed += names
            flushes.dirty = []
        truncations = self.truncations

        def settle(flushed: bool) -> list[str]:
            self._checkpointed = []
            for file in (*behind, *epoch_files):
                file.close()
            if flushed:
                self.snapshots.flushed(snapshots)
            if self.truncations != truncations or not flushed:
                epochs.dirty |= bool(epoch_files)
                return []
            for file in epoch_files:
                self._files.rename(file.path, f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}")
            self.recovery_point = max(
                self.recovery_point, min(written_offset, flushes.flushed_offset)
            )
            self.snapshots.tidy(segments)
            return [self._directory] if epoch_files else []

        return files, settle

    def _write_epochs(self, epochs: LeaderEpochs) -> list[File]:
        """Write the epochs under a temporary name, if the file does not have them."""
        if not epochs.dirty:
            return []
        file = self._files.open(f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}.tmp", create=True)
        file.truncate(0)
        file.append([encode_epochs(epochs.entries())])
        epochs.dirty = False
        return [file]

    def lower_recovery_point(self, offset: int) -> None:
        """Write a lower recovery point down: the log is about to be cut at `offset`."""
        self.recovery_point = min(self.recovery_point, offset)
        self.settled_point = min(self.settled_point, offset)
        if self.on_recovery_point_lowered:
            self.on_recovery_point_lowered()

    # the end

    @property
    def has_unflushed(self) -> bool:
        return bool(self._names or self.flushes.dirty)

    def flush_now(
        self, files: list[File | str], segments: Iterable[Segment], end_offset: int
    ) -> None:
        """Flush the files of a checkpoint and of these segments, and wait until the disk has all
        records up to the end offset. Raises OSError.
        """
        # a checkpoint under way may flush its files too late
        files += [each for each in self._checkpointed if each not in files]
        files += [segment.file for segment in segments]
        for file in files:
            if isinstance(file, str):
                self._files.sync_directory(file)
            else:
                file.sync()
        self.flushes.restart(end_offset)

    def close(self) -> None:
        self.flushes.dirty, self._names = [], []  # closed files must not be flushed
        for file in self._behind:
            file.close()
