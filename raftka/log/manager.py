"""All logs of a node: opening, making and removing partitions in its log directories. Knows no
records.

Partitions lie in `topic-partition`, with the topic's id in partition.metadata; a removed one is
renamed first, so a crash cannot leave half a log under its name. They are opened when they are
asked for: what lies there and never is belongs to a topic that was deleted meanwhile. A topic can
be deleted and made again while one of the directories is away, so two topics of one name may lie in
two directories; the metadata says later which of them is there still.

A directory that fails is *offline* until the node is started again: nothing is read from it or
written to it, and what lies there is not made anew in another.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from raftka.log.checkpointing import Checkpointing, Done, Later, nobody
from raftka.log.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    START_OFFSETS,
    CheckpointError,
    decode_partition_metadata,
    encode_clean_shutdown,
    encode_partition_metadata,
)
from raftka.log.config import LogConfig
from raftka.log.directory import DirectoryFailure, Key, LogDirectory, all_failed, failing
from raftka.log.finding import MADE_WITHOUT, find, topic_id_of
from raftka.log.future import (
    FUTURE,
    change_names,
    finish_moves,
    future_path,
    leftovers,
    note_offsets,
    open_future,
)
from raftka.log.log import Log
from raftka.log.recovery import Damaged
from raftka.log.segments.segment import segment_path
from raftka.runtime.interfaces import File, Files


@dataclass(frozen=True, slots=True)
class Ahead:
    """The result of opening a log off the loop."""

    topic_id: bytes
    whole: bool
    result: Log | OSError | Damaged

    def close(self) -> None:
        if isinstance(self.result, Log):
            self.result.close(clean=False)


class Maker:
    """Make the directories of one batch of new partitions, right behind each other. A new file
    costs a file system more than all else here, so a batch makes few.

    All partitions of a topic have the same partition.metadata: those of one batch are names of one
    file. Code that changes such a file replaces it, which leaves the other names alone.
    """

    def __init__(self, files: Files, offline: Iterable[str]) -> None:
        """`offline`: log directories that cannot be used; a partition that is made without them
        says so.
        """
        self._files = files
        self._without = "\n".join(list(offline)).encode()
        # a partition.metadata, by log directory and topic id
        self._like: dict[tuple[str, bytes], str] = {}

    def make(self, home: str, path: str, topic_id: bytes) -> None:
        """Make the directory `path` in the log directory `home`."""
        if self._files.exists(path):
            # a crash while it was made: it has no metadata, so never a record
            self._files.remove(path)
        self._files.make_directory(path, durable=False)
        self._files.open(segment_path(path, 0, ".log"), create=True).close()
        self._name_topic(home, f"{path}/{PARTITION_METADATA}", topic_id)
        if self._without:
            self._write(f"{path}/{MADE_WITHOUT}", self._without)

    def _name_topic(self, home: str, metadata: str, topic_id: bytes) -> None:
        like = self._like.get((home, topic_id))
        if like is not None:
            try:
                self._files.link(like, metadata)
                return
            except OSError:
                pass  # the file system knows no links, or the other one was deleted meanwhile
        self._write(metadata, encode_partition_metadata(topic_id))
        self._like[home, topic_id] = metadata

    def _write(self, path: str, data: bytes) -> None:
        file = self._files.open(path, create=True)
        file.append([data])
        file.close()


class LogManager:
    def __init__(
        self,
        files: Files,
        directories: list[LogDirectory],
        now_ms: int,
        offline: Mapping[str, OSError] | None = None,
    ) -> None:
        """`offline`: paths of those that could not be taken. Raises OSError, LogDirectoryError."""
        self._files = files
        self._now_ms = now_ms
        self.directories = directories
        self.offline = dict(offline or {})  # by path, and why: others join them
        self.logs: dict[Key, Log] = {}
        self.topic_ids: dict[Key, bytes] = {}
        self._homes: dict[Key, LogDirectory] = {}
        # another topic's log of that name, in another directory than `_homes` has
        self.namesakes: dict[tuple[Key, bytes], LogDirectory] = {}
        # where a partition is to be made that is not there yet
        self.preferred: dict[Key, LogDirectory] = {}
        # with a log that was on its way there
        self.leftovers: dict[tuple[Key, bytes], LogDirectory] = {}
        for home in directories:
            try:
                find(files, home, self._homes, self.namesakes)
            except OSError as error:
                self.offline[home.path] = error
        for home in self.usable:
            finish_moves(files, self._homes, home)
            self.leftovers.update(
                {(left.key, left.topic_id): home for left in leftovers(files, home, FUTURE)}
            )
        # who knows until when it may be read keeps it
        self.on_retired: Callable[[Log, File], None] = lambda _log, file: files.discard(file)
        # True: the node goes on without it
        self.on_directory_failed: Callable[[LogDirectory, OSError], bool] = lambda _home, _error: (
            False
        )
        self._checkpoints = Checkpointing(files, self.logs, self._homes, self.offline)
        # by `make_ahead`, and not asked for yet
        self._made: dict[tuple[Key, bytes], LogDirectory] = {}
        self._opening: set[Key] = set()  # by `open_ahead`, off the loop
        self._ahead: dict[Key, Ahead] = {}  # what came of it, and was not asked for yet

    @classmethod
    def open(
        cls, files: Files, log_dirs: Sequence[str], node_id: int, random: Random, now_ms: int
    ) -> "LogManager":
        """Takes the directories that can be read; `random` makes the id of a new one. Raises
        LogDirectoryError, OSError when none can.
        """
        taken: list[LogDirectory] = []
        offline: dict[str, OSError] = {}
        try:
            for path in dict.fromkeys(log_dirs):
                try:
                    taken.append(LogDirectory(files, path, node_id, random))
                except OSError as error:
                    offline[path] = error
            logs = cls(files, taken, now_ms, offline)
            if not logs.usable:
                raise all_failed(logs.offline)
            return logs
        except BaseException:
            for home in taken:
                home.unlock()
            raise

    @property
    def usable(self) -> list[LogDirectory]:
        return [home for home in self.directories if home.path not in self.offline]

    @property
    def directory_ids(self) -> list[bytes]:
        """Of those that can be used."""
        return [home.directory_id for home in self.usable]

    @property
    def directory_id(self) -> bytes:
        return self.directory_ids[0]

    @property
    def cluster_id(self) -> str | None:
        return next((home.cluster_id for home in self.usable if home.cluster_id is not None), None)

    def set_cluster_id(self, cluster_id: str) -> None:
        """Raises LogDirectoryError when a directory is another cluster's."""
        for home in self.usable:
            home.join_cluster(cluster_id)

    # directories that fail

    def fail(self, home: LogDirectory, error: OSError) -> list[Key]:
        """It is not used any more; returns what lies there."""
        self.offline[home.path] = error
        keys = self.lying_in(home)
        for key in keys:
            if key in self.logs:
                self.logs[key].give_up(error)
        return keys

    def lying_in(self, home: LogDirectory) -> list[Key]:
        return [key for key, where in self._homes.items() if where is home]

    def home(self, key: Key) -> LogDirectory:
        return self._homes[key]

    def lies_offline(self, key: Key, topic_id: bytes) -> bool:
        """In a directory that failed; not when what lies there is an earlier topic's of that
        name.
        """
        if (key, topic_id) in self.namesakes:
            return self.namesakes[key, topic_id].path in self.offline
        home = self._homes.get(key)
        return (
            home is not None
            and home.path in self.offline
            and self.topic_ids.get(key, topic_id) == topic_id
        )

    def held(self) -> dict[bytes, list[tuple[bytes, int]]]:
        """Return the contents of usable directories, by their ids: topic ids and partitions."""
        held: dict[bytes, list[tuple[bytes, int]]] = {}
        for home in self.usable:
            found = [(self._topic_id(key), key[1]) for key in self.lying_in(home)]
            found += [
                (topic_id, key[1])
                for (key, topic_id), where in self.namesakes.items()
                if where is home
            ]
            held[home.directory_id] = [
                (topic_id, partition) for topic_id, partition in found if topic_id is not None
            ]
        return held

    # partitions

    def get(self, topic: str, partition: int) -> Log | None:
        return self.logs.get((topic, partition))

    def get_or_create(
        self,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: LogConfig,
        now_ms: int | None = None,
        *,
        whole: bool = False,
    ) -> Log:
        """The partition's log: open, on disk, or new in the directory with the fewest. One of an
        earlier topic of that name goes. Raises OSError.

        `whole`: raises Damaged when records are gone that were on disk.

        `now_ms` is the wall clock, where it is not told the latest that was.
        """
        key = (topic, partition)
        self._now_ms = self._now_ms if now_ms is None else now_ms
        home = self.namesakes.get((key, topic_id)) or self._homes.get(key)
        if home is not None and self.lies_offline(key, topic_id):
            raise DirectoryFailure(home, self.offline[home.path])
        if (key, topic_id) in self.namesakes:
            self._take_namesake(key, topic_id)
        home = home or self._made.get((key, topic_id)) or self._place_for(key)
        try:
            if key in self._homes and self._topic_id(key) != topic_id:
                self._not_that_topic(key, topic_id, whole)
            if key in self.logs:
                return self.logs[key]
            return self._open(key, topic_id, config, whole)
        except DirectoryFailure:
            raise
        except OSError as error:
            raise DirectoryFailure(self._homes.get(key, home), error) from error

    def _not_that_topic(self, key: Key, topic_id: bytes, whole: bool) -> None:
        """Remove a log of an earlier topic of that name. Or its partition.metadata has rotted: then
        it may be all that is left.

        One without a committed record was never flushed: a power loss took what it says.
        """
        home = self._homes[key]
        metadata = f"{home.place(key)}/{PARTITION_METADATA}"
        committed = home.offsets[HIGH_WATERMARKS].get(key, 0)
        if whole and committed:
            raise Damaged(
                f"{metadata} does not name the topic of which {committed} records were committed "
                "here"
            )
        if committed and self._topic_id(key) is None:
            self._files.replace(metadata, encode_partition_metadata(topic_id))
        else:
            self.remove([key])

    def _take_namesake(self, key: Key, topic_id: bytes) -> None:
        """The other log of that name is this topic's: what `_homes` has is of an earlier one, and
        goes. Raises DirectoryFailure.
        """
        if key in self._homes:
            with failing(self._homes[key]):
                self.remove([key])
        self._homes[key] = home = self.namesakes.pop((key, topic_id))
        home.namesakes.discard(key)

    def _open(self, key: Key, topic_id: bytes, config: LogConfig, whole: bool) -> Log:
        home = self._homes.get(key)
        is_new = home is None
        if home is None:
            home = self._make(key, topic_id)
        clean = home.was_clean and not is_new
        recovery_point = home.offsets[RECOVERY_POINTS].get(key, 0)
        log = (
            self._opened_ahead(key, topic_id, whole)
            or self._opener(key, home, config, clean, whole)()
        )
        log.configure(config)
        # a clean end says nothing of the names of a log that had no records
        if not recovery_point and not (clean and log.end_offset):
            self._make_durable(log, home, is_new)
        cleaned_offset = home.offsets[CLEANED_OFFSETS].get(key, 0)
        log.segments.cleaned_offset = cleaned_offset if cleaned_offset <= log.end_offset else 0
        self.topic_ids[key] = topic_id
        self._take(key, log, home)
        return log

    def _opener(
        self, key: Key, home: LogDirectory, config: LogConfig, clean: bool, whole: bool
    ) -> Callable[[], Log]:
        """With what the checkpoints say now; it touches nothing but the partition's directory."""
        return partial(
            Log.open,
            self._files,
            home.place(key),
            config,
            self._now_ms,
            clean_shutdown=clean,
            recovery_point=home.offsets[RECOVERY_POINTS].get(key, 0),
            start_offset=home.offsets[START_OFFSETS].get(key, 0),
            whole=home.offsets[HIGH_WATERMARKS].get(key, 0) if whole else None,
        )

    def open_ahead(
        self, wanted: Iterable[tuple[Key, bytes, LogConfig, bool]]
    ) -> Callable[[], None]:
        """Work for off the loop: opens what lies here of them (with their topics' ids, settings,
        `whole`), for `get_or_create` to find it open.

        A log of another topic of that name is left alone.
        """
        jobs = []
        for key, topic_id, config, whole in wanted:
            home = self._homes.get(key)
            if home is not None and key not in self.logs and home.path not in self.offline:
                self._opening.add(key)
                jobs.append(
                    (
                        key,
                        topic_id,
                        whole,
                        home.place(key),
                        self._opener(key, home, config, home.was_clean, whole),
                    )
                )

        def work() -> None:
            for key, topic_id, whole, place, opener in jobs:
                result: Log | OSError | Damaged
                try:
                    if (
                        decode_partition_metadata(self._files.read(f"{place}/{PARTITION_METADATA}"))
                        != topic_id
                    ):
                        continue
                    result = opener()
                except CheckpointError:
                    continue
                except (OSError, Damaged) as error:
                    result = error
                self._ahead[key] = Ahead(topic_id, whole, result)

        return work

    def _opened_ahead(self, key: Key, topic_id: bytes, whole: bool) -> Log | None:
        """Raises what opening it has raised."""
        ahead = self._ahead.pop(key, None)
        if ahead is None:
            return None
        if ahead.topic_id == topic_id and ahead.whole == whole:
            if isinstance(ahead.result, Exception):
                raise ahead.result
            return ahead.result
        ahead.close()
        return None

    def _make_durable(self, log: Log, home: LogDirectory, is_new: bool) -> None:
        """The first flush of its records makes the names durable too: thousands of partitions may
        come at once.

        So it is with one that an earlier process has begun and perhaps never flushed; what is in it
        already is claimed from now on.
        """
        metadata, made_without = (
            f"{log.directory}/{name}" for name in (PARTITION_METADATA, MADE_WITHOUT)
        )
        for path in (
            home.path,
            log.directory,
            metadata,
            *((made_without,) if is_new and self.offline else ()),
        ):
            log.durability.flush_with_next(path)
        if not is_new and log.end_offset:
            file = self._files.open(metadata)
            file.write(0, file.read(0, file.size()))  # as recovery does with records
            file.sync()
            file.close()

    def _take(self, key: Key, log: Log, home: LogDirectory) -> None:
        log.durability.on_recovery_point_lowered = lambda: self._checkpoints.lowered(home)
        log.segments.on_retired = lambda file: self.on_retired(log, file)
        self.logs[key], self._homes[key] = log, home

    # to another directory

    def begin_move(self, key: Key, target: LogDirectory) -> Log:
        """The log that is to take the place of the present one; what an earlier process copied of
        it counts. Raises OSError.
        """
        self.leftovers.pop((key, self.topic_ids[key]), None)
        return open_future(
            self._files, target, key, self.topic_ids[key], self.logs[key].config, self._now_ms
        )

    def drop_leftover(self, key: Key, topic_id: bytes) -> None:
        """Nobody wants what an earlier process had copied."""
        home = self.leftovers.pop((key, topic_id))
        if home.path not in self.offline:
            self._files.remove(future_path(home, key, topic_id))

    def end_move(
        self, key: Key, future: Log, target: LogDirectory
    ) -> tuple[Log, str, OSError | None]:
        """It has all of the present one, of which nothing is staged or under way. The new log, and
        what `change_names` tells.

        Waits for the disks on the caller's own time: some flushes of little. Raises
        DirectoryFailure; the present log stays, or has failed.
        """
        present, old = self.logs[key], self._homes[key]
        with failing(target):
            future.adopt(present)
            future.close(clean=True)
            note_offsets(present, key, old, target)
        doomed, error = change_names(self._files, future, key, self.topic_ids[key], old, target)
        self._homes[key] = target
        end, start = present.end_offset, present.start_offset
        place, config = target.place(key), present.config
        try:
            log = Log.open(
                self._files,
                place,
                config,
                self._now_ms,
                clean_shutdown=True,
                recovery_point=end,
                start_offset=start,
            )
        except OSError as failure:
            present.give_up(failure)  # what it would write from now on nobody would find
            raise DirectoryFailure(target, failure) from failure
        log.adopt(present)
        self._take(key, log, target)
        return log, doomed, error

    def _topic_id(self, key: Key) -> bytes | None:
        if key not in self.topic_ids:
            topic_id = topic_id_of(self._files, self._homes[key], key)
            if topic_id is None:
                return None
            self.topic_ids[key] = topic_id
        return self.topic_ids[key]

    def lying_here(self) -> list[Key]:
        return list(self._homes)

    def lies_here(self, key: Key) -> bool:
        return key in self._homes

    def unopened(self, keys: Iterable[Key]) -> list[tuple[Key, bytes]]:
        """Those of them that lie here and nobody has asked for, with their topics' ids; those whose
        id cannot be read are left out.
        """
        lying = [
            key
            for key in keys
            if key not in self.logs
            and key not in self._opening
            and (home := self._homes.get(key)) is not None
            and home.path not in self.offline
        ]
        found = [(key, self._topic_id(key)) for key in lying]
        return [(key, topic_id) for key, topic_id in found if topic_id is not None]

    def prepare(self, wanted: Sequence[tuple[Key, bytes, LogConfig, bool]]) -> Callable[[], None]:
        """Work for off the loop, for `get_or_create` to find partitions made, or open (with their
        topics' ids, settings, `whole`).
        """
        make = self.make_ahead([(key, topic_id) for key, topic_id, _, _ in wanted])
        open_logs = self.open_ahead(wanted)

        def work() -> None:
            make()
            open_logs()

        return work

    def make_ahead(self, wanted: Iterable[tuple[Key, bytes]]) -> Callable[[], None]:
        """Work for off the loop: the directories of those that are new (with their topics' ids),
        for `get_or_create` to find them made.
        """
        counts = self._counts()
        new = []
        for key, topic_id in wanted:
            if key not in self._homes:
                home = self._place_for(key, counts)
                counts[home] += 1
                new.append((key, topic_id, home))

        def work() -> None:
            maker = Maker(self._files, self.offline)
            for key, topic_id, home in new:
                maker.make(home.path, home.place(key), topic_id)
                self._made[key, topic_id] = home

        return work

    def forget_ahead(self) -> bool:
        """Drop logs that were deleted meanwhile. Return whether there are such logs on the disk."""
        left = [key for key in self._opening if key not in self.logs]
        self._opening.clear()
        for ahead in self._ahead.values():
            ahead.close()
        self._ahead.clear()
        self._forget_made()
        return bool(left)

    def _forget_made(self) -> None:
        made, self._made = self._made, {}
        for (key, _), home in made.items():
            if key not in self._homes and home.path not in self.offline:
                self._files.remove(home.place(key))

    def _make(self, key: Key, topic_id: bytes) -> LogDirectory:
        home = self._made.pop((key, topic_id), None)
        if home is None or home.path in self.offline:
            home = self._place_for(key)
            Maker(self._files, self.offline).make(home.path, home.place(key), topic_id)
        home.clear_offsets(key)
        return home

    def _counts(self) -> dict[LogDirectory, int]:
        counts = dict.fromkeys(self.usable, 0)
        for home in self._homes.values() if len(counts) > 1 else ():
            if home in counts:
                counts[home] += 1
        return counts

    def _place_for(
        self, key: Key, counts: Mapping[LogDirectory, int] | None = None
    ) -> LogDirectory:
        """Return the directory that was wanted, else the one with the fewest."""
        wanted = self.preferred.get(key)
        if wanted is not None and wanted.path not in self.offline:
            return wanted
        counts = self._counts() if counts is None else counts
        return min(counts, key=lambda home: counts[home])

    def remove(self, keys: Iterable[Key]) -> None:
        """The names go at once and durably, the files in the background. Raises OSError."""
        doomed = []
        for key in keys:
            home = self._homes.pop(key)
            topic_id = self.topic_ids.pop(key, bytes(16))
            log = self.logs.pop(key, None)
            if log is not None:
                log.close(clean=False)
            doomed.append((home, key, topic_id))
        self._remove_directories(doomed)

    def remove_namesakes(self, namesakes: Iterable[tuple[Key, bytes]]) -> None:
        """Raises OSError."""
        doomed = [
            (self.namesakes.pop((key, topic_id)), key, topic_id) for key, topic_id in namesakes
        ]
        for home, key, _ in doomed:
            home.namesakes.discard(key)
        self._remove_directories(doomed)

    def _remove_directories(self, doomed: Iterable[tuple[LogDirectory, Key, bytes]]) -> None:
        paths: dict[str, LogDirectory] = {}
        for home, key, topic_id in doomed:
            # of one that is, the next start finds that it is nobody's
            if home.path not in self.offline:
                path = home.doomed(key, topic_id)
                self._files.rename(home.place(key), path)
                paths[path] = home
        for home in dict.fromkeys(paths.values()):
            self._files.sync_directory(home.path)
        for path in paths:
            self._files.remove(path)

    # checkpoints

    def high_watermark(self, topic: str, partition: int) -> int:
        """As it was last written down; 0 when it never was."""
        key = (topic, partition)
        return self._homes[key].offsets[HIGH_WATERMARKS].get(key, 0) if key in self._homes else 0

    def work_in_turns(self, later: Later) -> None:
        """`later` calls what it is given in another turn: thousands of logs are checkpointed some
        at a time.
        """
        self._checkpoints.later = later

    def write_checkpoints(self, high_watermarks: Mapping[Key, int], done: Done = nobody) -> None:
        """Write down how far all is on disk: the next start reads less. After an error the node
        must stop.
        """
        self._checkpoints.write(self.usable, high_watermarks, self.on_directory_failed, done)

    def close(self, high_watermarks: Mapping[Key, int], broker_epoch: int = -1) -> None:
        """A clean shutdown of every directory whose logs are all sound. Raises OSError."""
        self._checkpoints.closed = True  # one that is under way goes no further
        for log in self.logs.values():
            log.close(clean=True)
        for home in self.directories:
            if home.path in self.offline:
                home.unlock()
                continue
            for name, offsets in self._checkpoints.offsets_of(home, high_watermarks).items():
                home.write(name, offsets)
            if all(self._sound(key) for key, where in self._homes.items() if where is home):
                self._files.replace(
                    f"{home.path}/{CLEAN_SHUTDOWN}", encode_clean_shutdown(broker_epoch)
                )
            home.unlock()

    def _sound(self, key: Key) -> bool:
        log = self.logs.get(key)
        return self._homes[key].was_clean if log is None else not log.failed
