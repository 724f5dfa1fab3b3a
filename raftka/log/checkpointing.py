"""Writes down how far each log is on disk, where it starts, what is committed and what was compacted: Kafka's checkpoint files, while the node runs.

One directory after the other, and in each some logs at a time, flushed off the loop. Knows no records, and not who decides what is committed.
"""

from collections.abc import Callable, Mapping, Sequence

from raftka.log.checkpoints import CLEANED_OFFSETS, HIGH_WATERMARKS, RECOVERY_POINTS, START_OFFSETS, Offsets
from raftka.log.directory import Key, LogDirectory
from raftka.log.log import Log
from raftka.runtime.door import File, Files

CHECKPOINTED_AT_ONCE = 25  # logs: some 10 ms

Done = Callable[[OSError | None], None]
Failed = Callable[[LogDirectory, OSError], bool]  # True: the node goes on without it


def nobody(error: OSError | None) -> None:
    """Who does not ask when a checkpoint is done."""


class Checkpointing:
    """Of the logs of a node, which its manager opens and removes meanwhile."""

    def __init__(self, files: Files, logs: Mapping[Key, Log], homes: Mapping[Key, LogDirectory], offline: Mapping[str, OSError]) -> None:
        self._files = files
        self._logs = logs
        self._homes = homes
        self._offline = offline
        self._under_way = False

    def write(self, homes: Sequence[LogDirectory], high_watermarks: Mapping[Key, int], failed: Failed, done: Done) -> None:
        """Everything that lies in these directories, off the loop where it waits for a disk; nothing while an earlier one is under way."""
        if self._under_way:
            done(None)  # the next one tells it
            return
        self._under_way = True
        self._each(homes, high_watermarks, failed, done)

    def _each(self, homes: Sequence[LogDirectory], high_watermarks: Mapping[Key, int], failed: Failed, done: Done) -> None:
        """One directory after the other: an error says which."""
        if not homes:
            self._under_way = False
            done(None)
            return

        def ended(error: OSError | None) -> None:
            if error is not None and homes[0].path not in self._offline and not failed(homes[0], error):
                self._under_way = False
                done(error)
            else:
                self._each(homes[1:], high_watermarks, failed, done)

        due = [key for key, log in self._logs.items() if log.checkpoint_due and self._homes[key] is homes[0]]
        self._some(homes[0], due, [], high_watermarks, ended)

    def _some(self, home: LogDirectory, due: list[Key], names: list[str], high_watermarks: Mapping[Key, int], done: Done) -> None:
        """Some, then when they are flushed some more: their files are made on the loop. `names` are flushed before any point is written down."""
        some, rest = due[:CHECKPOINTED_AT_ONCE], due[CHECKPOINTED_AT_ONCE:]
        files: list[File | str] = []
        settles: list[tuple[Key, Log, Callable[[bool], list[str]]]] = []
        for key in some:
            log = self._logs.get(key)
            if log is not None and not log.failed:
                try:
                    behind, settle = log.begin_checkpoint()
                except OSError:
                    continue  # it has failed, and says so to whoever writes next
                files += behind
                settles.append((key, log, settle))

        def flushed(error: OSError | None) -> None:
            settled = [name for key, log, settle in settles for name in _settled(settle, error is None and self._logs.get(key) is log)]
            if error is not None or home.path in self._offline:
                done(error)
            elif rest:
                self._some(home, rest, names + settled, high_watermarks, done)
            else:
                self._write_aside(home, high_watermarks, names + settled, done)

        self._flush(files, flushed)

    def _write_aside(self, home: LogDirectory, high_watermarks: Mapping[Key, int], names: list[str], done: Done) -> None:
        try:
            opened = home.write_aside(self.offsets_of(home, high_watermarks))
        except OSError:
            done(None)  # a full disk: what is written down stays as it is
            return

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
            for key, log in self._logs.items() if error is None else ():
                if self._homes[key] is home:
                    log.settled_point = min(log.recovery_point, home.offsets[RECOVERY_POINTS].get(key, 0))
            done(error)

        self._flush([*opened, *names], flushed)

    def _flush(self, files: Sequence[File | str], done: Done) -> None:
        if files:
            self._files.flush(files, done)
        else:
            done(None)

    def offsets_of(self, home: LogDirectory, high_watermarks: Mapping[Key, int]) -> dict[str, Offsets]:
        """What the checkpoint files should say; of partitions that were not opened, what they say."""
        starts: Offsets = {}
        known: Offsets = {}
        for key, where in self._homes.items():
            if where is home:
                log = self._logs.get(key)
                start = home.offsets[START_OFFSETS].get(key, 0) if log is None else log.start_offset
                if start > (0 if log is None else log.segments[0].base_offset):
                    starts[key] = start
                known[key] = high_watermarks.get(key, home.offsets[HIGH_WATERMARKS].get(key, 0))
        return {
            RECOVERY_POINTS: self._recovery_points(home),
            START_OFFSETS: starts,
            HIGH_WATERMARKS: known,
            CLEANED_OFFSETS: self._cleaned_offsets(home),
        }

    def _cleaned_offsets(self, home: LogDirectory) -> Offsets:
        """As in Kafka's file, only of those that were compacted."""
        opened = {key: self._logs[key].cleaned_offset for key, where in self._homes.items() if where is home and key in self._logs}
        known = {key: offset for key, offset in home.offsets[CLEANED_OFFSETS].items() if key in self._homes} | opened
        return {key: offset for key, offset in known.items() if offset > 0}

    def _recovery_points(self, home: LogDirectory) -> Offsets:
        points = {key: home.offsets[RECOVERY_POINTS].get(key, 0) for key, where in self._homes.items() if where is home}
        return points | {key: self._logs[key].recovery_point for key in points if key in self._logs}

    def lowered(self, home: LogDirectory) -> None:
        """A log is about to be cut: what is written down must not claim what is not there any more."""
        home.write(RECOVERY_POINTS, self._recovery_points(home))
        if (cleaned := self._cleaned_offsets(home)) != home.offsets[CLEANED_OFFSETS]:
            home.write(CLEANED_OFFSETS, cleaned)


def _settled(settle: Callable[[bool], list[str]], counts: bool) -> list[str]:
    """Also of a log that is gone, or on a disk that failed: what was opened for it is closed."""
    try:
        return settle(counts)
    except OSError:
        return []  # the log has failed, and says so to whoever writes next
