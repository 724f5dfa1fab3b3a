"""All logs of a node: opening, making and removing partitions in its log directories, and the checkpoints of all of them. Knows no records.

Partitions lie in `topic-partition`, with the topic's id in partition.metadata; a removed one is renamed first, so a crash cannot leave half a log
under its name. They are opened when they are asked for: what lies there and never is belongs to a topic that was deleted meanwhile.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random

from raftka.log.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    START_OFFSETS,
    CheckpointError,
    Offsets,
    decode_partition_metadata,
    encode_clean_shutdown,
    encode_partition_metadata,
)
from raftka.log.config import LogConfig
from raftka.log.directory import Key, LogDirectory
from raftka.log.log import Log
from raftka.log.segment import segment_path
from raftka.runtime.door import File, Files

CHECKPOINTED_AT_ONCE = 25  # logs: some 10 ms

Done = Callable[[OSError | None], None]


def _nobody(error: OSError | None) -> None:
    """Who does not ask when a checkpoint is done."""


class LogManager:
    def __init__(self, files: Files, directories: list[LogDirectory], now_ms: int) -> None:
        self._files = files
        self._now_ms = now_ms
        self.directories = directories
        self.logs: dict[Key, Log] = {}
        self.topic_ids: dict[Key, bytes] = {}
        self._homes = {key: home for home in directories for key in home.partitions()}
        self._checkpointing = False
        self.on_retired: Callable[[Log, File], None] = lambda _log, file: files.discard(file)  # who knows until when it may be read keeps it
        self._made: dict[tuple[Key, bytes], LogDirectory] = {}  # by `make_ahead`, and not asked for yet

    @classmethod
    def open(cls, files: Files, log_dirs: Sequence[str], node_id: int, random: Random, now_ms: int) -> "LogManager":
        """Takes the directories; `random` makes the id of a new one. Raises LogDirectoryError, OSError."""
        taken: list[LogDirectory] = []
        try:
            taken.extend(LogDirectory(files, path, node_id, random) for path in log_dirs)
            return cls(files, taken, now_ms)
        except BaseException:
            for home in taken:
                home.unlock()
            raise

    @property
    def directory_id(self) -> bytes:
        return self.directories[0].directory_id

    @property
    def cluster_id(self) -> str | None:
        return self.directories[0].cluster_id

    def set_cluster_id(self, cluster_id: str) -> None:
        """Raises LogDirectoryError when a directory is another cluster's."""
        for home in self.directories:
            home.join_cluster(cluster_id)

    # partitions

    def get(self, topic: str, partition: int) -> Log | None:
        return self.logs.get((topic, partition))

    def get_or_create(self, topic: str, partition: int, topic_id: bytes, config: LogConfig, now_ms: int | None = None) -> Log:
        """The partition's log: open, on disk, or new in the directory with the fewest. One of an earlier topic of that name goes. Raises OSError.

        `now_ms` is the wall clock, where it is not told the latest that was.
        """
        key = (topic, partition)
        self._now_ms = self._now_ms if now_ms is None else now_ms
        if key in self._homes and self._topic_id(key) != topic_id:
            self.remove([key])
        if key in self.logs:
            return self.logs[key]
        clean = key in self._homes and self._homes[key].was_clean
        home = self._homes.get(key)
        is_new = home is None
        if home is None:
            home = self._make(key, topic_id)
        recovery_point, start_offset = home.offsets[RECOVERY_POINTS].get(key, 0), home.offsets[START_OFFSETS].get(key, 0)
        log = Log.open(
            self._files, home.place(key), config, self._now_ms, clean_shutdown=clean, recovery_point=recovery_point, start_offset=start_offset
        )
        if is_new:  # the first flush of its records makes the names durable too: thousands of partitions may come at once
            for path in (home.path, log.directory, f"{log.directory}/{PARTITION_METADATA}"):
                log.flush_too(path)
        cleaned_offset = home.offsets[CLEANED_OFFSETS].get(key, 0)
        log.cleaned_offset = cleaned_offset if cleaned_offset <= log.end_offset else 0
        log.on_recovery_point_lowered = lambda: self._lowered(home)
        log.on_retired = lambda file: self.on_retired(log, file)
        self.logs[key], self.topic_ids[key], self._homes[key] = log, topic_id, home
        return log

    def _lowered(self, home: LogDirectory) -> None:
        """A log is about to be cut: what is written down must not claim what is not there any more."""
        home.write(RECOVERY_POINTS, self._recovery_points(home))
        if (cleaned := self._cleaned_offsets(home)) != home.offsets[CLEANED_OFFSETS]:
            home.write(CLEANED_OFFSETS, cleaned)

    def _topic_id(self, key: Key) -> bytes | None:
        if key not in self.topic_ids:
            try:
                self.topic_ids[key] = decode_partition_metadata(self._files.read(f"{self._homes[key].place(key)}/{PARTITION_METADATA}"))
            except CheckpointError:
                return None
        return self.topic_ids[key]

    def unopened(self) -> list[tuple[Key, bytes]]:
        """Partitions that lie here and nobody has asked for, with their topics' ids; those whose id cannot be read are left out."""
        found = [(key, self._topic_id(key)) for key in self._homes if key not in self.logs]
        return [(key, topic_id) for key, topic_id in found if topic_id is not None]

    def make_ahead(self, wanted: Iterable[tuple[Key, bytes]]) -> Callable[[], None]:
        """Work for off the loop: the directories of those that are new (with their topics' ids), for `get_or_create` to find them made."""
        new = [(key, topic_id, self._emptiest()) for key, topic_id in wanted if key not in self._homes]

        def work() -> None:
            for key, topic_id, home in new:
                self._make_directory(home.place(key), topic_id)
                self._made[key, topic_id] = home

        return work

    def forget_made(self) -> None:
        """Those that nobody came for: they were deleted meanwhile."""
        made, self._made = self._made, {}
        for (key, _), home in made.items():
            if key not in self._homes:
                self._files.remove(home.place(key))

    def _make(self, key: Key, topic_id: bytes) -> LogDirectory:
        home = self._made.pop((key, topic_id), None)
        if home is None:
            home = self._emptiest()
            self._make_directory(home.place(key), topic_id)
        home.forget(key)
        return home

    def _make_directory(self, path: str, topic_id: bytes) -> None:
        if self._files.exists(path):
            self._files.remove(path)  # a crash while it was made: it has no metadata, so never a record
        self._files.make_directory(path, durable=False)
        self._files.open(segment_path(path, 0, ".log"), create=True).close()
        metadata = self._files.open(f"{path}/{PARTITION_METADATA}", create=True)
        metadata.append([encode_partition_metadata(topic_id)])
        metadata.close()

    def _emptiest(self) -> LogDirectory:
        if len(self.directories) == 1:
            return self.directories[0]
        return min(self.directories, key=lambda home: sum(where is home for where in self._homes.values()))

    def remove(self, keys: Iterable[Key]) -> None:
        """The names go at once and durably, the files in the background. Raises OSError."""
        doomed: dict[str, LogDirectory] = {}
        for key in keys:
            home = self._homes.pop(key)
            topic_id = self.topic_ids.pop(key, bytes(16))
            log = self.logs.pop(key, None)
            if log is not None:
                log.close(clean=False)
            path = home.doomed(key, topic_id)
            self._files.rename(home.place(key), path)
            doomed[path] = home
        for home in dict.fromkeys(doomed.values()):
            self._files.sync_directory(home.path)
        for path in doomed:
            self._files.remove(path)

    # checkpoints

    def high_watermark(self, topic: str, partition: int) -> int:
        """As it was last written down; 0 when it never was."""
        key = (topic, partition)
        return self._homes[key].offsets[HIGH_WATERMARKS].get(key, 0) if key in self._homes else 0

    def write_checkpoints(self, high_watermarks: Mapping[Key, int], done: Done = _nobody) -> None:
        """Write down how far everything is on disk: the next start reads less. Waits for the disk off the loop; after an error the node must stop."""
        if self._checkpointing:
            done(None)  # the next one tells it
            return
        self._checkpointing = True
        self._checkpoint([key for key, log in self.logs.items() if log.checkpoint_due], [], high_watermarks, done)

    def _checkpoint(self, due: list[Key], names: list[str], high_watermarks: Mapping[Key, int], done: Done) -> None:
        """Some, then when they are flushed some more: their files are made on the loop. `names` are flushed before any point is written down."""
        some, rest = due[:CHECKPOINTED_AT_ONCE], due[CHECKPOINTED_AT_ONCE:]
        files: list[File | str] = []
        settles: list[tuple[Key, Log, Callable[[], list[str]]]] = []
        for key in some:
            log = self.logs.get(key)
            if log is not None and not log.failed:
                try:
                    behind, settle = log.begin_checkpoint()
                except OSError:
                    continue  # it has failed, and says so to whoever writes next
                files += behind
                settles.append((key, log, settle))

        def flushed(error: OSError | None) -> None:
            settled = [name for key, log, settle in settles if error is None and self.logs.get(key) is log for name in _settled(settle)]
            if error is not None:
                self._checkpointing = False
                done(error)
            elif rest:
                self._checkpoint(rest, names + settled, high_watermarks, done)
            else:
                self._write_aside(high_watermarks, names + settled, done)

        self._flush(files, flushed)

    def _write_aside(self, high_watermarks: Mapping[Key, int], names: list[str], done: Done) -> None:
        opened: list[File] = []
        try:
            for home in self.directories:
                opened += home.write_aside(self._offsets_of(home, high_watermarks))
        except OSError:
            self._checkpointing = False
            done(None)  # a full disk: what is written down stays as it is
            return

        def flushed(error: OSError | None) -> None:
            for file in opened:
                file.close()
            for home in self.directories:
                home.put_in_place(error is None)
            if error is None:
                self._files.flush([home.path for home in self.directories], in_place)
            else:
                in_place(error)

        def in_place(error: OSError | None) -> None:
            self._checkpointing = False
            for key, log in self.logs.items() if error is None else ():
                log.settled_point = min(log.recovery_point, self._homes[key].offsets[RECOVERY_POINTS].get(key, 0))
            done(error)

        self._flush([*opened, *names], flushed)

    def _flush(self, files: Sequence[File | str], done: Done) -> None:
        if files:
            self._files.flush(files, done)
        else:
            done(None)

    def _offsets_of(self, home: LogDirectory, high_watermarks: Mapping[Key, int]) -> dict[str, Offsets]:
        """What the checkpoint files should say; of partitions that were not opened, what they say."""
        starts: Offsets = {}
        known: Offsets = {}
        for key, where in self._homes.items():
            if where is home:
                log = self.logs.get(key)
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
        opened = {key: self.logs[key].cleaned_offset for key, where in self._homes.items() if where is home and key in self.logs}
        known = {key: offset for key, offset in home.offsets[CLEANED_OFFSETS].items() if key in self._homes} | opened
        return {key: offset for key, offset in known.items() if offset > 0}

    def _recovery_points(self, home: LogDirectory) -> Offsets:
        points = {key: home.offsets[RECOVERY_POINTS].get(key, 0) for key, where in self._homes.items() if where is home}
        return points | {key: self.logs[key].recovery_point for key in points if key in self.logs}

    def close(self, high_watermarks: Mapping[Key, int], broker_epoch: int = -1) -> None:
        """A clean shutdown of every directory whose logs are all sound. Raises OSError."""
        for log in self.logs.values():
            log.close(clean=True)
        for home in self.directories:
            for name, offsets in self._offsets_of(home, high_watermarks).items():
                home.write(name, offsets)
            if all(self._sound(key) for key, where in self._homes.items() if where is home):
                self._files.replace(f"{home.path}/{CLEAN_SHUTDOWN}", encode_clean_shutdown(broker_epoch))
            home.unlock()

    def _sound(self, key: Key) -> bool:
        log = self.logs.get(key)
        return self._homes[key].was_clean if log is None else not log.failed


def _settled(settle: Callable[[], list[str]]) -> list[str]:
    try:
        return settle()
    except OSError:
        return []  # the log has failed, and says so to whoever writes next
