"""All logs of a node: opening, making and removing partitions in its log directories. Knows no
records.

A partition lies in `topic-partition`, with the topic's id in partition.metadata. A partition that
is removed gets another name first, so a crash cannot leave half a log under its own name. A log is
opened when the node first asks for it. Partitions that it never asks for belong to topics that were
deleted meanwhile. A topic can be deleted and made again while a directory is away, so two topics of
one name may lie in two directories; the metadata says later which of them still exists.

A directory that fails is *offline* until the node is started again: the node does not read it, does
not write to it, and does not make its partitions anew in another directory.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from raftka.log.checkpointing import Checkpointing, Done, Later, ignore_end
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
from raftka.log.directory import (
    DirectoryFailure,
    Key,
    LogDirectory,
    all_failed,
    check_readable,
    failing,
)
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
from raftka.versions import NewerFormat


@dataclass(frozen=True, slots=True)
class Ahead:
    """The result of opening a log off the loop."""

    topic_id: bytes
    whole: bool
    result: Log | OSError | Damaged | NewerFormat

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
        """`offline`: log directories that cannot be used; a new partition keeps their names in a
        file.
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
        """`offline`: by path, the errors of directories that could not be opened. Raises OSError,
        LogDirectoryError.
        """
        self._files = files
        self._now_ms = now_ms
        self.directories = directories
        self.offline = dict(offline or {})  # by path; directories that fail later are added
        self.logs: dict[Key, Log] = {}
        self.topic_ids: dict[Key, bytes] = {}
        self._homes: dict[Key, LogDirectory] = {}
        # logs of another topic of the same name, in another directory than `_homes` has
        self.namesakes: dict[tuple[Key, bytes], LogDirectory] = {}
        # the directory in which to make a partition that does not exist yet
        self.preferred: dict[Key, LogDirectory] = {}
        # returns whether the directory with that path gets no new partition
        self.is_cordoned: Callable[[str], bool] = lambda _path: False
        # the target of a move that an earlier process began and did not end
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
        # closes the file of a removed segment; the broker waits until no answer reads it
        self.on_retired: Callable[[Log, File], None] = lambda _log, file: files.discard(file)
        # returns True if the node goes on without the directory
        self.on_directory_failed: Callable[[LogDirectory, OSError], bool] = lambda _home, _error: (
            False
        )
        self._checkpoints = Checkpointing(files, self.logs, self._homes, self.offline)
        # made by `make_ahead`, and not asked for yet
        self._made: dict[tuple[Key, bytes], LogDirectory] = {}
        self._opening: set[Key] = set()  # `open_ahead` opens them off the loop
        self._ahead: dict[Key, Ahead] = {}  # results, not asked for yet

    @classmethod
    def open(
        cls, files: Files, log_dirs: Sequence[str], node_id: int, random: Random, now_ms: int
    ) -> "LogManager":
        """Open the directories that can be read; `random` makes the id of a new one. Raises
        LogDirectoryError and NewerFormat, and OSError when no directory can be read.
        """
        taken: list[LogDirectory] = []
        offline: dict[str, OSError] = {}
        for path in dict.fromkeys(log_dirs):
            try:
                check_readable(files, path)
            except OSError as error:
                offline[path] = error
        try:
            for path in dict.fromkeys(log_dirs):
                if path in offline:
                    continue
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
        """Return the ids of the directories that can be used."""
        return [home.directory_id for home in self.usable]

    @property
    def directory_id(self) -> bytes:
        return self.directory_ids[0]

    @property
    def previous_epoch(self) -> int:
        """The broker epoch with which all directories were shut down in order; -1: not all were, or
        one cannot be used.
        """
        epochs = {home.clean_epoch for home in self.directories}
        return epochs.pop() if len(epochs) == 1 and not self.offline else -1

    @property
    def cluster_id(self) -> str | None:
        return next((home.cluster_id for home in self.usable if home.cluster_id is not None), None)

    def raise_level(self, level: int) -> None:
        """Write the cluster's level of raftka.version down before anything is written in its
        formats. A directory that cannot note the level fails. Raises OSError if the node cannot go
        on without it.
        """
        for home in self.usable:
            try:
                home.raise_level(level)
            except OSError as error:
                if not self.on_directory_failed(home, error):
                    raise

    def set_cluster_id(self, cluster_id: str) -> None:
        """Write the id down in each directory. Raises LogDirectoryError when one belongs to another
        cluster.
        """
        for home in self.usable:
            home.join_cluster(cluster_id)

    # directories that fail

    def fail(self, home: LogDirectory, error: OSError) -> list[Key]:
        """Stop using the directory, and fail its open logs. Return the partitions in it."""
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
        """Return whether this topic's log lies in a failed directory. False if the log there
        belongs to an earlier topic of that name.
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
        """Return the partition's log: open, on disk, or new in the directory with the fewest
        partitions. A log of an earlier topic of that name is removed. Raises OSError.

        `whole`: raise Damaged when records that were on disk are gone.

        `now_ms`: the wall clock; None: the latest time that an earlier call gave.
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
        """Remove a log of an earlier topic of that name; or, if its partition.metadata cannot be
        read, write that file again: the log may be the only copy.

        A log without a committed record is removed in any case: it was never flushed, so a power
        loss may have taken the file's content. `whole`: raise Damaged for a log with committed
        records.
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
        """Use the other log of that name, which is this topic's. The log in `_homes` belongs to an
        earlier topic and is removed. Raises DirectoryFailure.
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
            or self._opener(key, home, config, clean, whole and not is_new)()
        )
        log.configure(config)
        # after a clean shutdown the names of an empty log may still be only in memory
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
        """Return a function that opens the log by the present checkpoints. It touches nothing but
        the partition's directory.
        """
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
        """Return work to be run off the loop. It opens those of the partitions (with their topics'
        ids, settings, `whole`) that lie here, so that `get_or_create` finds them open.

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
                result: Log | OSError | Damaged | NewerFormat
                try:
                    if (
                        decode_partition_metadata(self._files.read(f"{place}/{PARTITION_METADATA}"))
                        != topic_id
                    ):
                        continue
                    result = opener()
                except CheckpointError:
                    continue
                except (OSError, Damaged, NewerFormat) as error:
                    result = error
                self._ahead[key] = Ahead(topic_id, whole, result)

        return work

    def _opened_ahead(self, key: Key, topic_id: bytes, whole: bool) -> Log | None:
        """Return the log if `open_ahead` has opened it for this topic, else None. Raises the error
        of the opening.
        """
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
        """Let the first flush of records make the names durable too: thousands of partitions may be
        made at once, and a flush for each would take long.

        The same is done for a log that an earlier process began and perhaps never flushed: its
        records count as durable from now on.
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
            file.write(0, file.read(0, file.size()))  # written again, as recovery does with records
            file.sync()
            file.close()

    def _take(self, key: Key, log: Log, home: LogDirectory) -> None:
        log.durability.on_recovery_point_lowered = lambda: self._checkpoints.lowered(home)
        log.segments.on_retired = lambda file: self.on_retired(log, file)
        self.logs[key], self._homes[key] = log, home

    # to another directory

    def begin_move(self, key: Key, target: LogDirectory) -> Log:
        """Return the log that will take the place of the present one. It keeps the copy that an
        earlier process has begun. Raises OSError.
        """
        self.leftovers.pop((key, self.topic_ids[key]), None)
        return open_future(
            self._files, target, key, self.topic_ids[key], self.logs[key].config, self._now_ms
        )

    def drop_leftover(self, key: Key, topic_id: bytes) -> None:
        """Remove the copy that an earlier process has left: the move is not wanted any more."""
        home = self.leftovers.pop((key, topic_id))
        if home.path not in self.offline:
            self._files.remove(future_path(home, key, topic_id))

    def end_move(
        self, key: Key, future: Log, target: LogDirectory
    ) -> tuple[Log, str, OSError | None]:
        """Put `future` in the place of the present log. It has all of that log's records, and none
        of them is staged or under way to the disk. Return the new log, and the result of
        `change_names`.

        Waits for the disks in the caller's thread: some small flushes. Raises DirectoryFailure; the
        present log stays, or has failed.
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
            present.give_up(failure)  # its files have other names now: new records would be lost
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
        """Return those of `keys` that lie here and were not asked for yet, with their topics' ids.
        A partition whose id cannot be read is left out.
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
        """Return work to be run off the loop. It makes or opens these partitions (with their
        topics' ids, settings, `whole`), so that `get_or_create` finds them ready.
        """
        make = self.make_ahead([(key, topic_id) for key, topic_id, _, _ in wanted])
        open_logs = self.open_ahead(wanted)

        def work() -> None:
            make()
            open_logs()

        return work

    def make_ahead(self, wanted: Iterable[tuple[Key, bytes]]) -> Callable[[], None]:
        """Return work to be run off the loop. It makes the directories of new partitions (with
        their topics' ids), so that `get_or_create` finds them made.
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
        """Return the directory that was wanted, else the one with the fewest. Cordoned ones are
        taken only if there are no others: the controller chose this broker before it heard of that.
        """
        wanted = self.preferred.get(key)
        if wanted is not None and not (
            wanted.path in self.offline or self.is_cordoned(wanted.path)
        ):
            return wanted
        counts = self._counts() if counts is None else counts
        free = [home for home in counts if not self.is_cordoned(home.path)]
        return min(free or counts, key=lambda home: counts[home])

    def remove(self, keys: Iterable[Key]) -> None:
        """Remove partitions: their names at once and durably, their files in the background. Raises
        OSError.
        """
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
        """Remove these logs of other topics of the same name. Raises OSError."""
        doomed = [
            (self.namesakes.pop((key, topic_id)), key, topic_id) for key, topic_id in namesakes
        ]
        for home, key, _ in doomed:
            home.namesakes.discard(key)
        self._remove_directories(doomed)

    def _remove_directories(self, doomed: Iterable[tuple[LogDirectory, Key, bytes]]) -> None:
        paths: dict[str, LogDirectory] = {}
        for home, key, topic_id in doomed:
            # in an offline directory the next start finds that no topic has the log
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
        """Return the high watermark that was last written down; 0 if none was."""
        key = (topic, partition)
        return self._homes[key].offsets[HIGH_WATERMARKS].get(key, 0) if key in self._homes else 0

    def work_in_turns(self, later: Later) -> None:
        """Checkpoint some logs in each turn, because a node can have thousands. `later` calls a
        function in another turn.
        """
        self._checkpoints.later = later

    def write_checkpoints(
        self, high_watermarks: Mapping[Key, int], done: Done = ignore_end
    ) -> None:
        """Write down how far all is on disk: the next start reads less. After an error the node
        must stop.
        """
        self._checkpoints.write(self.usable, high_watermarks, self.on_directory_failed, done)

    def close(self, high_watermarks: Mapping[Key, int], broker_epoch: int = -1) -> None:
        """Close all logs, and mark each directory whose logs are all sound as cleanly shut down.
        Without a broker epoch no client was served: the mark of the last shutdown stays. Raises
        OSError.
        """
        self._checkpoints.closed = True  # a checkpoint under way goes no further
        for log in self.logs.values():
            log.close(clean=True)
        for home in self.directories:
            if home.path in self.offline:
                home.unlock()
                continue
            for name, offsets in self._checkpoints.offsets_of(home, high_watermarks).items():
                home.write(name, offsets)
            if all(self._sound(key) for key, where in self._homes.items() if where is home):
                epoch = home.clean_epoch if broker_epoch < 0 else broker_epoch
                self._files.replace(f"{home.path}/{CLEAN_SHUTDOWN}", encode_clean_shutdown(epoch))
            home.unlock()

    def _sound(self, key: Key) -> bool:
        log = self.logs.get(key)
        return self._homes[key].was_clean if log is None else not log.failed
