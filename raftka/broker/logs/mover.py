"""Move replicas between this broker's log directories (KIP-113). Pieces are read off the loop,
flushed, and copied at a limited rate; the last small piece is copied on the loop.

Meanwhile the present log serves clients and follows its leader as before. When both logs are the
same, and nothing of the present one is staged or under way to the disk, the future one takes its
place in one step. The controller is not told of the move: for it a replica counts in any directory
of its broker.
"""

from errno import ENOSPC

from raftka.broker.logs.directories import LogDirectories
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.replica.partition import Partition
from raftka.log.directory import DirectoryFailure, LogDirectory, failing
from raftka.log.future import align, append_copy, fits, future_path, next_spans
from raftka.log.log import Log
from raftka.replication.throttle import Throttle
from raftka.runtime.interfaces import FileSpan, pin, unpin
from raftka.wire.errors import Code, KafkaError

PIECE_BYTES = 512 * 1024
LAST_BYTES = 64 * 1024  # copied on the loop, where all clients wait
AGAIN_S = 0.05


class LogMover:
    def __init__(self, replicas: ReplicaManager, directories: LogDirectories) -> None:
        self.replicas = replicas
        self.directories = directories
        self.context = replicas.context
        self.clock = replicas.clock
        self.moves: dict[Partition, Move] = {}
        self.throttle = Throttle()

    def alter(self, path: str, topic: str, index: int) -> None:
        """Move one partition's replica to the directory `path`, as AlterReplicaLogDirs asks. If it
        lies there already, a move to another directory is called off.

        Raises LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR, INVALID_TOPIC_EXCEPTION,
        INVALID_REPLICA_ASSIGNMENT for a cordoned directory, and the errors of
        `ReplicaManager.find`. After one of the latter a replica that is made later lies in `path`.
        """
        key = (topic, index)
        if not fits(key):
            raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
        target = self._target(path)
        partition = self.replicas.partitions.get(key)
        if self.replicas.logs.is_cordoned(path) and (
            partition is None or partition.home is not target
        ):
            raise KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, f"Log directory {path} is cordoned")
        if partition is None:
            self.replicas.logs.preferred[key] = target
            partition = self.replicas.find(topic, index)
        if partition.log.failed is not None:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, f"Partition {partition.name} is offline")
        under_way = self.moves.get(partition)
        if under_way is not None and under_way.target is not target:
            under_way.give_up()
        if partition.home is not target and partition not in self.moves:
            self._begin(partition, target)

    def _target(self, path: str) -> LogDirectory:
        logs = self.replicas.logs
        if path not in self.context.metadata.settings.log_dirs:
            raise KafkaError(
                Code.LOG_DIR_NOT_FOUND,
                f"The given log dir {path} was not found in the log.dirs config",
            )
        if path in logs.offline:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline")
        return next(home for home in logs.directories if home.path == path)

    def opened(self, partition: Partition) -> None:
        """Continue a move that an earlier process began."""
        target = self.replicas.logs.leftovers.get(
            ((partition.topic, partition.index), partition.topic_id)
        )
        if target is not None and target.path not in self.replicas.logs.offline:
            if target is partition.home:
                self.replicas.logs.drop_leftover(
                    (partition.topic, partition.index), partition.topic_id
                )
            else:
                try:
                    self._begin(partition, target)
                except KafkaError:
                    pass  # `_begin` has logged it

    def _begin(self, partition: Partition, target: LogDirectory) -> None:
        key = (partition.topic, partition.index)
        try:
            future = self.replicas.logs.begin_move(key, target)
        except OSError as error:
            if not self.directories.failed(target, error):
                self.context.events.error(
                    "log_directory_move_failed",
                    partition=partition.name,
                    target=target.path,
                    error=str(error),
                )
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, str(error)) from error
        move = self.moves[partition] = Move(self, partition, target, future)
        self.context.events.info(
            "log_directory_move_began",
            partition=partition.name,
            target=target.path,
            size_bytes=partition.log.size_bytes,
        )
        self.clock.call_at(self.clock.now(), move.step)

    def stop(self, partition: Partition) -> None:
        """Give up the move: the replica is removed, or cannot be read."""
        if partition in self.moves:
            self.moves[partition].give_up()

    def close(self) -> None:
        """Stop all moves; the next process continues them."""
        for move in self.moves.values():
            move.over = True


class Move:
    def __init__(
        self, mover: LogMover, partition: Partition, target: LogDirectory, future: Log
    ) -> None:
        self.mover = mover
        self.partition = partition
        self.target = target
        self.future = future
        self.present = partition.log
        self.over = False
        self._aligned_at = -1  # count of the present log's truncations at the last `_align`

    @property
    def lag(self) -> int:
        return self.present.end_offset - self.future.end_offset

    @property
    def _is_live(self) -> bool:
        replicas = self.mover.replicas
        there = (
            replicas.partitions.get((self.partition.topic, self.partition.index)) is self.partition
            and self.partition.log is self.present
        )
        return (
            not self.over
            and there
            and self.present.failed is None
            and self.target.path not in replicas.logs.offline
        )

    def step(self) -> None:
        """Copy one piece, or take the present log's place."""
        if not self._is_live:
            self.give_up()
            return
        try:
            self._align()
            with failing(self.partition.home):
                spans = next_spans(self.future, self.present, PIECE_BYTES)
        except (OSError, KafkaError) as error:
            self._failed(error)
            return
        if sum(span.size for span in spans) > LAST_BYTES:
            self._copy(spans)
        else:
            self._try_to_end()

    def _align(self) -> None:
        if (
            self._aligned_at != self.present.durability.truncations
            or self.future.end_offset < self.present.start_offset
        ):
            self._aligned_at = self.present.durability.truncations
            align(self.future, self.present)

    def _copy(self, spans: list[FileSpan]) -> None:
        def read() -> bytes:
            return b"".join([span.file.read(span.position, span.size) for span in spans])

        def done(data: bytes | BaseException) -> None:
            unpin(spans)
            self._read(data)

        pin(spans)  # the segment may be deleted meanwhile, and its file be written over
        self.mover.context.runtime.offload.run(read, done)

    def _read(self, data: bytes | BaseException) -> None:
        if not self._is_live:
            self.give_up()
            return
        try:
            with failing(self.partition.home):
                if isinstance(data, BaseException):
                    raise data
            # else the data may have been cut
            if self._aligned_at == self.present.durability.truncations:
                append_copy(self.future, data)
        except (OSError, KafkaError) as error:
            self._failed(error)
            return
        self._pay(len(data))
        files, offset = self.future.begin_flush()
        self.mover.context.runtime.files.flush(files, lambda error: self._flushed(offset, error))

    def _pay(self, size_bytes: int) -> None:
        throttle, now = self.mover.throttle, self.mover.clock.now()
        throttle.set_rate(
            self.mover.context.metadata.settings["replica.alter.log.dirs.io.max.bytes.per.second"],
            now,
        )
        throttle.passed(size_bytes, now)

    def _flushed(self, offset: int, error: OSError | None) -> None:
        if error is not None:
            self._failed(DirectoryFailure(self.target, error))
            return
        self.future.flushed(offset)
        clock = self.mover.clock
        clock.call_at(max(clock.now(), self.mover.throttle.free_at), self.step)

    def _try_to_end(self) -> None:
        """End the move now, or when the flush that is under way is done: under load there is always
        one.
        """
        if self.partition.flushing or self.partition.touched or self.present.cleaning:
            if self.partition.flushing:
                self.partition.on_quiet = self.step
            else:
                self.mover.clock.call_at(self.mover.clock.now() + AGAIN_S, self.step)
            return
        try:
            while data := self._next_data():
                append_copy(self.future, data)
            if self.future.end_offset == self.present.end_offset:
                self._end()
            else:  # the last records were compacted away: wait for new ones
                self.mover.clock.call_at(self.mover.clock.now() + AGAIN_S, self.step)
        except (OSError, KafkaError) as error:
            self._failed(error)

    def _next_data(self) -> bytes:
        with failing(self.partition.home):
            return b"".join(
                [
                    span.file.read(span.position, span.size)
                    for span in next_spans(self.future, self.present, PIECE_BYTES)
                ]
            )

    def _end(self) -> None:
        mover, partition = self.mover, self.partition
        logs = mover.replicas.logs
        before = partition.home
        log, doomed, error = logs.end_move(
            (partition.topic, partition.index), self.future, self.target
        )
        del mover.moves[partition]
        self.over = True
        mover.replicas.log_moved(partition, log, self.target)
        if error is not None and not mover.directories.failed(before, error):
            mover.replicas.failures.fail_node(error)
            return
        mover.context.events.info(
            "log_directory_moved",
            partition=partition.name,
            target=self.target.path,
            end=log.end_offset,
        )
        old = self.present
        mover.clock.call_at(
            mover.clock.now() + old.config.file_delete_delay_ms / 1000,
            lambda: _discard(mover, old, doomed),
        )

    def _failed(self, error: Exception) -> None:
        """Give up the move. A full disk fails the copy alone: the present log goes on, and so does
        the target directory.
        """
        self.mover.context.events.error(
            "log_directory_move_failed",
            partition=self.partition.name,
            target=self.target.path,
            error=str(error),
        )
        self.give_up()
        if isinstance(error, DirectoryFailure) and error.errno != ENOSPC:
            self.mover.directories.failed(error.home, error)
        if (
            self.present.failed is not None
            and self.partition.log is self.present
            and isinstance(error, OSError)
        ):
            self.partition.home = self.target
            self.mover.replicas.failures.log_failed(self.partition, error)

    def give_up(self) -> None:
        """Remove the copy; the present log stays."""
        if self.mover.moves.get(self.partition) is self:
            del self.mover.moves[self.partition]
        if self.over:
            return
        self.over = True
        files = self.mover.context.runtime.files
        path = future_path(
            self.target, (self.partition.topic, self.partition.index), self.partition.topic_id
        )
        try:
            self.future.close(clean=False)
            if files.exists(path):
                files.remove(path)
        except OSError:
            pass  # the next start finds it


def _discard(mover: LogMover, log: Log, path: str) -> None:
    """Remove the old log: the answers that may read it have had file.delete.delay.ms."""
    try:
        log.close(clean=False)
        mover.context.runtime.files.remove(path)
    except OSError as error:
        mover.context.events.warning("old_log_not_removed", path=path, error=str(error))
