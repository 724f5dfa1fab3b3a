"""Write Kafka's checkpoint files while the node runs: for each log the offset up to which it is on
disk, its start, its high watermark, and the offset up to which it was compacted.

One directory after the other is written, and in each some logs at a time; flushes run off the loop.
Knows no records and no replication.
"""

from collections.abc import Callable, Mapping, Sequence

from raftka.log.checkpoints import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    START_OFFSETS,
    Offsets,
)
from raftka.log.directory import Key, LogDirectory
from raftka.log.log import Log
from raftka.runtime.interfaces import File, Files

CHECKPOINTED_AT_ONCE = 25  # logs: 1 to 2 ms
# logs that perhaps have nothing to be checkpointed, and offsets that are gathered
LOOKED_AT_ONCE = 500
COLUMNS = {RECOVERY_POINTS: 2, START_OFFSETS: 3, HIGH_WATERMARKS: 4, CLEANED_OFFSETS: 5}
# the others name only partitions that have such an offset
OF_EACH = (RECOVERY_POINTS, HIGH_WATERMARKS)

Done = Callable[[OSError | None], None]
Failed = Callable[[LogDirectory, OSError], bool]  # True: the node goes on without it
Later = Callable[[Callable[[], None]], None]  # call it in another turn


def ignore_end(error: OSError | None) -> None:
    """Ignore the end of a checkpoint."""


def at_once(step: Callable[[], None]) -> None:
    """Call the action now: there is no loop that others wait for."""
    step()


class Gathered:
    """Contents for the checkpoint files of a directory, gathered some partitions at a time.
    Partitions that were not opened keep the offsets that the files have.
    """

    def __init__(
        self,
        home: LogDirectory,
        logs: Mapping[Key, Log],
        homes: Mapping[Key, LogDirectory],
        high_watermarks: Mapping[Key, int],
    ) -> None:
        self.home = home
        # names of files that were written meanwhile, with newer offsets than those gathered here
        self.stale: set[str] = set()
        self._logs = logs
        self._homes = homes
        self._high_watermarks = high_watermarks
        self._left = [key for key, where in homes.items() if where is home]
        self._left.reverse()
        self._found: list[tuple[Key, Log | None, int, int, int, int]] = []  # as COLUMNS has it

    def some(self, count: int) -> bool:
        """Gather up to `count` partitions; return whether there are more."""
        known = self.home.offsets
        for _ in range(min(count, len(self._left))):
            key = self._left.pop()
            log = self._logs.get(key)
            if log is None:
                first, point, start, cleaned = (
                    0,
                    *[
                        known[name].get(key, 0)
                        for name in (RECOVERY_POINTS, START_OFFSETS, CLEANED_OFFSETS)
                    ],
                )
            else:
                first, point = log.segments[0].base_offset, log.durability.recovery_point
                start, cleaned = log.start_offset, log.segments.cleaned_offset
            high_watermark = self._high_watermarks.get(key, known[HIGH_WATERMARKS].get(key, 0))
            self._found.append(
                (key, log, point, start if start > first else 0, high_watermark, cleaned)
            )
        return bool(self._left)

    def offsets(self, name: str) -> Offsets:
        """Return the offsets for one file, without partitions that were removed meanwhile, or
        replaced by others of the same name.
        """
        logs, homes, home, column = self._logs, self._homes, self.home, COLUMNS[name]
        of_each = name in OF_EACH
        offsets = {
            key: offset for key, offset in home.offsets[name].items() if key in home.namesakes
        }
        for found in self._found:
            if (
                (of_each or found[column])
                and logs.get(found[0]) is found[1]
                and homes.get(found[0]) is home
            ):
                offsets[found[0]] = found[column]  # type: ignore[assignment]
        return offsets


class Checkpointing:
    """Checkpoints of the logs of a node, which its manager opens and removes meanwhile."""

    def __init__(
        self,
        files: Files,
        logs: Mapping[Key, Log],
        homes: Mapping[Key, LogDirectory],
        offline: Mapping[str, OSError],
    ) -> None:
        self._files = files
        self._logs = logs
        self._homes = homes
        self._offline = offline
        self._under_way = False
        self._gathered: Gathered | None = None
        self.later: Later = at_once
        self.closed = False

    def write(
        self,
        homes: Sequence[LogDirectory],
        high_watermarks: Mapping[Key, int],
        failed: Failed,
        done: Done,
    ) -> None:
        """Write the checkpoints of these directories, off the loop where it waits for a disk. Do
        nothing while an earlier call is under way.
        """
        if self._under_way:
            done(None)  # the next checkpoint has it
            return
        self._under_way = True
        self._each(homes, high_watermarks, failed, done)

    def _each(
        self,
        homes: Sequence[LogDirectory],
        high_watermarks: Mapping[Key, int],
        failed: Failed,
        done: Done,
    ) -> None:
        """Write one directory after the other: so an error belongs to one of them."""
        if not homes:
            self._under_way = False
            done(None)
            return

        def ended(error: OSError | None) -> None:
            if (
                error is not None
                and homes[0].path not in self._offline
                and not failed(homes[0], error)
            ):
                self._under_way = False
                done(error)
            else:
                self._each(homes[1:], high_watermarks, failed, done)

        left = list(self._logs)
        left.reverse()
        self._some(homes[0], left, [], high_watermarks, ended)

    def _some(
        self,
        home: LogDirectory,
        left: list[Key],
        names: list[str],
        high_watermarks: Mapping[Key, int],
        done: Done,
    ) -> None:
        """Checkpoint some logs and, after their flush, some more: the loop makes their files, so it
        must not make too many in a turn. `names` are flushed before any point is written down.
        """
        if self.closed:
            return
        files: list[File | str] = []
        settles: list[tuple[Key, Log, Callable[[bool], list[str]]]] = []
        for _ in range(min(len(left), LOOKED_AT_ONCE)):
            if len(settles) == CHECKPOINTED_AT_ONCE:
                break
            key = left.pop()
            log = self._logs.get(key)
            if log is not None and log.checkpoint_due and self._homes.get(key) is home:
                try:
                    behind, settle = log.begin_checkpoint()
                except OSError:
                    continue  # the log has failed, and the next append gets the error
                files += behind
                settles.append((key, log, settle))

        def flushed(error: OSError | None) -> None:
            settled = [
                name
                for key, log, settle in settles
                for name in _settled(settle, error is None and self._logs.get(key) is log)
            ]
            if error is not None or home.path in self._offline:
                done(error)
            elif left:
                self._some(home, left, names + settled, high_watermarks, done)
            else:
                self._gathered = Gathered(home, self._logs, self._homes, high_watermarks)
                self._gather(self._gathered, names + settled, done)

        if files:
            self._files.flush(files, flushed)
        else:
            self.later(lambda: flushed(None))

    def _gather(self, gathered: Gathered, names: list[str], done: Done) -> None:
        if self.closed:
            return
        if gathered.some(LOOKED_AT_ONCE):
            self.later(lambda: self._gather(gathered, names, done))
        else:
            self.later(lambda: self._write_aside(gathered, [*COLUMNS], names, [], done))

    def _write_aside(
        self, gathered: Gathered, left: list[str], names: list[str], opened: list[File], done: Done
    ) -> None:
        """Write one checkpoint file in each turn, under a temporary name."""
        if self.closed:
            return
        home, name = gathered.home, left[0]
        if name not in gathered.stale:
            try:
                opened += home.write_aside(name, gathered.offsets(name))
            except OSError:
                home.drop_aside()
                for file in opened:
                    file.close()
                self._gathered = None
                done(None)  # a full disk: what is written down stays as it is
                return
        if len(left) > 1:
            self.later(lambda: self._write_aside(gathered, left[1:], names, opened, done))
        else:
            self._gathered = None
            self._put_in_place(home, names, opened, done)

    def _put_in_place(
        self, home: LogDirectory, names: list[str], opened: list[File], done: Done
    ) -> None:
        def flushed(error: OSError | None) -> None:
            for file in opened:
                file.close()
            try:
                home.put_in_place(error is None)
            except OSError as failure:
                error = failure
            if error is None:
                self._files.flush([home.path], in_place)
            else:
                in_place(error)

        def in_place(error: OSError | None) -> None:
            if error is None:
                self._settle(home, list(self._logs), done)
            else:
                done(error)

        files: list[File | str] = [*opened, *names]
        if files:
            self._files.flush(files, flushed)
        else:
            flushed(None)

    def _settle(self, home: LogDirectory, left: list[Key], done: Done) -> None:
        """Tell the logs which recovery points are on disk: recovery begins there or later, whatever
        happens.
        """
        points = home.offsets[RECOVERY_POINTS]
        for key in left[-LOOKED_AT_ONCE:]:
            log = self._logs.get(key)
            if log is not None and self._homes.get(key) is home:
                log.durability.settled_point = min(
                    log.durability.recovery_point, points.get(key, 0)
                )
        del left[-LOOKED_AT_ONCE:]
        if not left:
            done(None)
        elif not self.closed:
            self.later(lambda: self._settle(home, left, done))

    def offsets_of(
        self, home: LogDirectory, high_watermarks: Mapping[Key, int]
    ) -> dict[str, Offsets]:
        """Return the offsets for the checkpoint files."""
        gathered = Gathered(home, self._logs, self._homes, high_watermarks)
        gathered.some(len(self._homes))
        return {name: gathered.offsets(name) for name in COLUMNS}

    def lowered(self, home: LogDirectory) -> None:
        """Write lower recovery points down before a log is cut: the files must not claim records
        that are gone.
        """
        offsets = self.offsets_of(home, {})
        home.write(RECOVERY_POINTS, offsets[RECOVERY_POINTS])
        if offsets[CLEANED_OFFSETS] != home.offsets[CLEANED_OFFSETS]:
            home.write(CLEANED_OFFSETS, offsets[CLEANED_OFFSETS])
        if self._gathered is not None and self._gathered.home is home:
            self._gathered.stale |= {RECOVERY_POINTS, CLEANED_OFFSETS}


def _settled(settle: Callable[[bool], list[str]], counts: bool) -> list[str]:
    """Call `settle`, also for a log that is gone or whose disk failed: it closes the files that
    were opened. Return the names to flush.
    """
    try:
        return settle(counts)
    except OSError:
        return []  # the log has failed, and the next append gets the error
