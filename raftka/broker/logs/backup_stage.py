"""The files of a backup that is being made on this node: of one backup at a time, in each log
directory under __raftka_backup/ID/. The command copies or links them, and drops them then; a
command that is gone is forgotten after KEPT_S. Knows no transaction and no manifest.
"""

from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.replica.partition import Partition
from raftka.broker.work.long_work import Steps
from raftka.log.backup_cut import CutSegment, cut_log
from raftka.log.directory import BACKUP
from raftka.runtime.interfaces import Files, Timer
from raftka.wire.errors import Code, KafkaError

KEPT_S = 180.0  # after the last request of the backup's command
ID_CHARACTERS = 64
TRIES = 3  # of a log whose segments change meanwhile; the last one is without a pause


class BackupStage:
    def __init__(self, replicas: ReplicaManager) -> None:
        self._context = replicas.context
        self._replicas = replicas
        self.backup_id = ""  # of the present backup; empty: there is none
        self._paths: dict[str, int] = {}  # its files: bytes below the cut
        self._homes: set[str] = set()  # its directories, one in each log directory
        self._timer: Timer | None = None

    @property
    def _files(self) -> Files:
        return self._context.runtime.files

    def use(self, backup_id: str) -> None:
        """Begin the backup, or go on with it. Raises INVALID_REQUEST while there is another one."""
        if not (backup_id.isascii() and backup_id.isalnum() and len(backup_id) <= ID_CHARACTERS):
            raise KafkaError(
                Code.INVALID_REQUEST, "the id of a backup has letters and digits alone"
            )
        if self.backup_id not in ("", backup_id):
            raise KafkaError(
                Code.INVALID_REQUEST, f"backup {self.backup_id} is being made on this node"
            )
        self.backup_id = backup_id
        if self._timer is not None:
            self._timer.cancel()
        clock = self._context.runtime.clock
        self._timer = clock.call_at(clock.now() + KEPT_S, lambda: self.drop(backup_id))

    def drop(self, backup_id: str) -> None:
        """Remove the backup's files here; those that the command has linked stay."""
        if backup_id != self.backup_id or not backup_id:
            return
        if self._timer is not None:
            self._timer.cancel()
        homes, self.backup_id, self._timer = self._homes, "", None
        self._homes, self._paths = set(), {}
        for home in homes:
            try:
                self._files.remove(home)
            except OSError:
                pass  # the directory has failed; the next start removes what is left

    def cut(self, partition: Partition, at_least: int) -> Steps[tuple[int, list[CutSegment]]]:
        """Cut the log at the high watermark, as its leader. Return the offset and the segments.

        Raises NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR; and OFFSET_NOT_AVAILABLE while not all
        below `at_least` is committed.
        """
        leader = partition.leading()
        offset = leader.high_watermark
        if offset < at_least:
            raise KafkaError(Code.OFFSET_NOT_AVAILABLE)
        if partition.log.segments[0].base_offset == offset:
            return offset, []
        found = None
        for attempt in range(TRIES):
            found = yield from self._try(partition, offset, pauses=attempt < TRIES - 1)
            if partition.leader is not leader:
                raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER)
            if found is not None:
                break
        assert found is not None, "without pauses nothing changes meanwhile"
        self._paths.update({each.path: each.size for each in found})
        return offset, found

    def _try(
        self, partition: Partition, offset: int, *, pauses: bool
    ) -> Steps[list[CutSegment] | None]:
        home = f"{partition.home.path}/{BACKUP}/{self.backup_id}"
        directory = f"{home}/{partition.name}"
        files, log = self._files, partition.log
        now_ms = self._context.runtime.clock.wall_ms()
        try:
            if files.exists(directory):
                files.remove(directory)  # of an earlier try
            files.make_directory(directory, durable=False)
            self._homes.add(home)
            return (yield from cut_log(log, files, offset, directory, now_ms, pauses=pauses))
        except OSError as error:
            if log.failed is not None:
                self._replicas.failures.log_failed(partition, log.failed)
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, f"{partition.name}: {error}") from error

    def check_path(self, path: str) -> int:
        """Return how many bytes the backup has of the file. Raises INVALID_REQUEST."""
        size = self._paths.get(path)
        if size is None:
            raise KafkaError(Code.INVALID_REQUEST, "that is no file of this backup")
        return size

    def read(self, path: str, position: int, size: int) -> bytes:
        """Read a part of a file; for a thread. Raises OSError."""
        file = self._files.open(path)
        try:
            return file.read(position, size)
        finally:
            file.close()
