"""What of a log is on disk, and how that is written down: checkpoints of it while it runs, and its
end.

The records are flushed on their own way (segments/storage.py). Knows no rule of appending.
"""

from collections.abc import Callable

from raftka.log.checkpoints import LEADER_EPOCH_CHECKPOINT, encode_epochs
from raftka.log.config import LogConfig
from raftka.log.producers.state import ProducerState
from raftka.log.recovery import Recovered
from raftka.log.segments.storage import Storage
from raftka.runtime.interfaces import File, Files

# so many offsets, and a snapshot is due even when no idempotent producer wrote: the next open need
# not look for one
PLAIN_OFFSETS = 50_000


class DurableLog(Storage):
    __slots__ = ("_checkpointed", "_snapshots", "epochs", "producers", "retention_waits")

    def __init__(self, files: Files, directory: str, config: LogConfig, found: Recovered) -> None:
        super().__init__(files, directory, config, found.segments, found.end_offset)
        self.epochs = found.epochs
        self.producers: ProducerState = found.producers
        self._snapshots = found.snapshots
        # what the checkpoint under way flushes, and the next one would not
        self._checkpointed: list[File | str] = []
        # for a checkpoint: a segment has had its time, and what it tells of producers is nowhere
        # else on disk yet
        self.retention_waits = False

    def _sealed(self) -> None:
        self._take_snapshot()

    @property
    def unflushed(self) -> bool:
        """Return whether records are written whose flush has not begun, and for which no answer
        waits (flush=os).
        """
        return not self._sync and self.failed is None and bool(self._flushes.dirty)

    def begin_late_flush(self) -> tuple[list[File | str], Callable[[], None]]:
        """Return the files to flush, and the function to call when they are flushed. Until then no
        checkpoint counts on them.
        """
        dirty, names, active = self._flushes.dirty.copy(), self._names.copy(), self.active
        offset, truncations = self.written_offset, self._truncations

        def settle() -> None:
            if self._truncations == truncations:
                again = active.file if self.written_offset > offset else None
                self._flushes.dirty = [
                    file for file in self._flushes.dirty if file not in dirty or file is again
                ]
                if self.active is active:
                    self._names = [name for name in self._names if name not in names]

        return [*dirty, *names], settle

    def begin_checkpoint(self) -> tuple[list[File | str], Callable[[bool], list[str]]]:
        """What must be on disk, beside the records, before the recovery point may rise: files to
        flush, and what to call then, with whether they are.

        That gives directories to be flushed before the new `recovery_point` is written down.

        The records are flushed on their own way (with flush=os: here). The log may go on meanwhile;
        a truncation leaves the point where it is. Raises OSError, and then the log has failed.
        """
        self.write_staged()
        with self._failing():
            if self.active.entries_behind:
                self.active.write_index()
            if (
                self.producers.changed
                or self.retention_waits
                or self.end_offset - self._snapshots.newest > PLAIN_OFFSETS
            ):
                self._take_snapshot()
            epochs = self._write_epochs()
        behind, self._behind = self._behind, []
        snapshots = self._snapshots.unflushed.copy()
        files: list[File | str] = [*behind, *(self.active.index_files or ()), *epochs]
        # also where answers wait for the disk: they may not have waited for what lies there
        files += self._flushes.unflushed
        self._checkpointed += behind
        if not self._sync:
            names = self._take_names()
            files += names
            self._checkpointed += names
            self._flushes.dirty = []
        offset, truncations = self.written_offset, self._truncations

        def settle(flushed: bool) -> list[str]:
            self._checkpointed = []
            for file in (*behind, *epochs):
                file.close()
            if flushed:
                self._snapshots.flushed(snapshots)
            if self._truncations != truncations or not flushed:
                self.epochs.dirty |= bool(epochs)
                return []
            with self._failing():
                for file in epochs:
                    self._files.rename(file.path, f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}")
            self.recovery_point = max(self.recovery_point, min(offset, self.flushed_offset))
            self._snapshots.tidy(self.segments)
            return [self.directory] if epochs else []

        return files, settle

    def _take_snapshot(self) -> None:
        self._behind.append(self._snapshots.take(self.end_offset, self.producers))

    def _write_epochs(self) -> list[File]:
        """Under a temporary name, if they are not what the file says."""
        if not self.epochs.dirty:
            return []
        file = self._files.open(f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}.tmp", create=True)
        file.truncate(0)
        file.append([encode_epochs(self.epochs.entries())])
        self.epochs.dirty = False
        return [file]

    def close(self, clean: bool) -> None:
        """With `clean`, everything is on disk and the recovery point is the end, so the next open
        reads almost nothing. Else what was appended and not written is gone. Raises OSError.
        """
        if clean and not self.failed:
            self._finish_swap()
            self.trim()
        if clean and not self.failed and self._changed:
            with self._failing():
                self.active.seal()
                if self.end_offset != self._snapshots.newest:
                    self._take_snapshot()
                files, settle = self.begin_checkpoint()
                # a checkpoint under way may flush them too late
                files += [each for each in self._checkpointed if each not in files]
                for segment in self.segments[max(0, self._slot_of(self.recovery_point)) :]:
                    files.append(segment.file)
                for file in files:
                    if isinstance(file, str):
                        self._files.sync_directory(file)
                    else:
                        file.sync()
                self._flushes.restarted(self.end_offset)
                settle(True)
                self._sync_names()
        self.spare.drop()
        # nobody is to write or flush what is closed
        self._swap, self._staged, self._flushes.dirty, self._names = None, [], [], []
        for file in self._retired:
            self._files.discard(file)
        for file in [*self._behind, *(segment.file for segment in self.segments)]:
            file.close()
        self.active.close_index()

    @property
    def checkpoint_due(self) -> bool:
        """More is on disk than is known to be. (What an empty log is not told again it does not
        miss.)
        """
        if self.failed is not None or self.end_offset == 0:
            return False
        return (
            self.recovery_point < self.flushed_offset
            or self.epochs.dirty
            or self.producers.changed
            or self.retention_waits
        )

    @property
    def _changed(self) -> bool:
        return (
            self.recovery_point < self.end_offset
            or self.checkpoint_due
            or bool(self.end_offset and (self._names or self._flushes.dirty))
        )

    def remove(self) -> None:
        """The directory and all in it."""
        self.close(clean=False)
        self._files.remove(self.directory)
