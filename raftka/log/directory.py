"""One of a node's log directories: whose it is (meta.properties, .lock), the checkpoint files in
it, the partitions that lie there. Opens no log.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import Random

from raftka import versions
from raftka.log.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOCK,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    START_OFFSETS,
    CheckpointError,
    Offsets,
    check_clean_shutdown,
    decode_offsets,
    decode_properties,
    encode_offsets,
    encode_properties,
    uuid_bytes,
    uuid_text,
)
from raftka.runtime.interfaces import File, Files

DELETED = "-delete"
RESTORE = "__raftka_restore"  # note of the backup that was, or is being, restored here
PARTLY = b"partly"  # begins the note until the whole cluster is restored
BACKUP = "__raftka_backup"  # files of a backup that is being made (backup_cut.py)
NAME_BYTES = 255  # of a file, everywhere; a topic may have 249
LEVEL_DIGITS = 9  # of a version or level: more are damage
QUORUMS_OWN = "__cluster_metadata"  # Kafka's controllers keep theirs among the partitions
CHECKPOINTS = (RECOVERY_POINTS, START_OFFSETS, HIGH_WATERMARKS, CLEANED_OFFSETS)
MENDED = "mend it, or, when other replicas have all that lies there, empty the directory"
Key = tuple[str, int]  # topic, partition


class LogDirectoryError(Exception):
    """The directory is another node's, another cluster's, or in use: the node must not start on it.
    `remedy`: what to do.
    """

    def __init__(
        self,
        wrong: str,
        remedy: str = (
            "change `node.id` or `log.dirs`: a directory belongs to one node of one cluster"
        ),
    ) -> None:
        super().__init__(wrong)
        self.remedy = remedy


def check_readable(files: Files, path: str) -> None:
    """Raise NewerFormat where a later release wrote into the log directory. Nothing is changed, in
    no directory: a node checks all of them before it takes the first. Raise LogDirectoryError for a
    version that cannot be read, and where the restore of a backup was broken off.

    The level in meta.properties was raised before a file of that level was written, so it speaks
    for all partitions. Their own versions are checked as they are opened.
    """
    note = f"{path}/{RESTORE}"
    if files.exists(note) and files.read(note).startswith(PARTLY):
        raise LogDirectoryError(
            f"{path} holds a part of a backup: its restore was broken off",
            "run `raftka backup restore` again, or empty the directory",
        )
    for name in (META_PROPERTIES, *CHECKPOINTS, CLEAN_SHUTDOWN):
        file = f"{path}/{name}"
        if not files.exists(file):
            continue
        data = files.read(file)
        try:
            if name == META_PROPERTIES:
                _check_properties(decode_properties(data), file)
            elif name == CLEAN_SHUTDOWN:
                check_clean_shutdown(data)
            else:
                decode_offsets(data)
        except versions.NewerFormat as error:
            raise versions.NewerFormat(f"{path}: {error}") from None
        except CheckpointError:
            continue  # damage: whoever reads it next knows what that means


def _check_properties(properties: Mapping[str, str], file: str) -> None:
    version, level = properties.get("version", ""), properties.get(versions.RAFTKA_VERSION, "")
    for name, value in (("version", version), (versions.RAFTKA_VERSION, level)):
        if value and not (value.isdecimal() and len(value) <= LEVEL_DIGITS):
            raise LogDirectoryError(f"{file}: {name}={value[:100]} is damaged", MENDED)
    if version:
        versions.META_PROPERTIES.check(int(version), META_PROPERTIES)
    if level:
        versions.check_features({versions.RAFTKA_VERSION: int(level)}, META_PROPERTIES)


class LogDirectory:
    """One of log.dirs: who owns it, and the checkpoint files in it."""

    def __init__(self, files: Files, path: str, node_id: int, random: Random) -> None:
        self.files = files
        self.path = path
        files.make_directory(path)
        try:
            self.unlock = files.lock(f"{path}/{LOCK}")
        except BlockingIOError as error:
            raise LogDirectoryError(
                f"{path} is in use by another node", "stop that one, or change `log.dirs`"
            ) from error
        try:
            self._take(node_id, random)
        except BaseException:
            self.unlock()
            raise

    def _take(self, node_id: int, random: Random) -> None:
        files, path = self.files, self.path
        self.properties = self._owned_by(node_id, random)
        try:
            self.directory_id = uuid_bytes(self.properties["directory.id"])
        except CheckpointError as error:
            raise LogDirectoryError(
                f"{path}/{META_PROPERTIES} is damaged: {error}", MENDED
            ) from error
        self.offsets = {name: self._read(name) for name in CHECKPOINTS}  # as the files have them
        self._aside: dict[str, Offsets] = {}  # under temporary names
        # they lie here, and another directory has a log of that name
        self.namesakes: set[Key] = set()
        self.was_clean = files.exists(f"{path}/{CLEAN_SHUTDOWN}")
        self.clean_epoch = -1  # the broker's at the clean shutdown; -1: there was none
        if self.was_clean:
            self.clean_epoch = check_clean_shutdown(files.read(f"{path}/{CLEAN_SHUTDOWN}"))
            files.remove(f"{path}/{CLEAN_SHUTDOWN}")
            files.sync_directory(path)

    @property
    def cluster_id(self) -> str | None:
        return self.properties.get("cluster.id")

    def _owned_by(self, node_id: int, random: Random) -> dict[str, str]:
        path = f"{self.path}/{META_PROPERTIES}"
        if self.files.exists(path):
            properties = decode_properties(self.files.read(path))
            if not {"node.id", "directory.id"} <= properties.keys():
                raise LogDirectoryError(f"{path} does not say whose directory this is", MENDED)
            if properties["node.id"] != str(node_id):
                raise LogDirectoryError(
                    f"{self.path} belongs to node {properties['node.id']}, this is node {node_id}"
                )
            return properties
        return self.take(self.files, self.path, node_id, random.randbytes(16))

    @staticmethod
    def take(files: Files, path: str, node_id: int, directory_id: bytes) -> dict[str, str]:
        """Make an empty directory the node's, with that id (16 bytes). Raises OSError."""
        files.make_directory(path)
        properties = {
            "node.id": str(node_id),
            "directory.id": uuid_text(directory_id),
            "version": "1",
        }
        files.replace(f"{path}/{META_PROPERTIES}", encode_properties(properties))
        return properties

    def join_cluster(self, cluster_id: str) -> None:
        if self.cluster_id not in {None, cluster_id}:
            raise LogDirectoryError(
                f"{self.path} belongs to cluster {self.cluster_id}, this is cluster {cluster_id}"
            )
        if self.cluster_id is None:
            self.properties["cluster.id"] = cluster_id
            self.files.replace(f"{self.path}/{META_PROPERTIES}", encode_properties(self.properties))

    def raise_level(self, level: int) -> None:
        """Note durably that nodes may write formats of this level from now on. Raises OSError."""
        if level > int(self.properties.get(versions.RAFTKA_VERSION, "1")):
            self.properties[versions.RAFTKA_VERSION] = str(level)
            self.files.replace(f"{self.path}/{META_PROPERTIES}", encode_properties(self.properties))

    def _read(self, name: str) -> Offsets:
        """A checkpoint that cannot be read is none: more is read again."""
        try:
            return (
                decode_offsets(self.files.read(f"{self.path}/{name}"))
                if self.files.exists(f"{self.path}/{name}")
                else {}
            )
        except CheckpointError:
            return {}

    def write(self, name: str, offsets: Offsets) -> None:
        """At once and durably."""
        self._aside.pop(name, None)  # it is older
        self.files.replace(f"{self.path}/{name}", encode_offsets(offsets))
        self.offsets[name] = offsets

    def write_aside(self, name: str, offsets: Offsets) -> list[File]:
        """Under a temporary name, if it says something new; returns the file to flush before
        `put_in_place`. Raises OSError.
        """
        if offsets == self.offsets[name]:
            return []
        file = self.files.open(f"{self.path}/{name}.tmp", create=True)
        try:
            file.truncate(0)
            file.append([encode_offsets(offsets)])
        except OSError:
            file.close()
            raise
        self._aside[name] = offsets
        return [file]

    def drop_aside(self) -> None:
        """Remove the files that were written under temporary names."""
        self._aside = {}

    def put_in_place(self, flushed: bool) -> None:
        """The names are to be flushed, too, before what is written counts: an old log start would
        give back what was deleted. Raises OSError.
        """
        aside, self._aside = self._aside, {}
        for name, offsets in aside.items() if flushed else ():
            self.files.rename(f"{self.path}/{name}.tmp", f"{self.path}/{name}")
            self.offsets[name] = offsets

    def clear_offsets(self, key: Key) -> None:
        """Forget what the files say of an earlier partition: it does not hold for a new one."""
        for name in CHECKPOINTS:
            if key in self.offsets[name] or key in self._aside.get(name, {}):
                self.write(
                    name,
                    {other: offset for other, offset in self.offsets[name].items() if other != key},
                )

    def partitions(self) -> list[Key]:
        """The partitions that lie here; what was being deleted goes, and a backup that has not
        ended.
        """
        found = []
        for name in self.files.list(self.path):
            topic, _, number = name.rpartition("-")
            if name == BACKUP or name.endswith((DELETED, ".gone")):
                self.files.remove(f"{self.path}/{name}")
            elif (
                topic not in {"", QUORUMS_OWN}
                and number.isascii()
                and number.isdigit()
                and self.files.exists(f"{self.path}/{name}/{PARTITION_METADATA}")
            ):
                found.append((topic, int(number)))
        return found

    def place(self, key: Key) -> str:
        return f"{self.path}/{key[0]}-{key[1]}"

    def doomed(self, key: Key, topic_id: bytes) -> str:
        """The name under which it waits for its end; as in Kafka, a topic's name is cut where there
        is no room for the rest.
        """
        rest = f"-{key[1]}.{topic_id.hex()}{DELETED}"
        return f"{self.path}/{key[0][: NAME_BYTES - len(rest)]}{rest}"


class DirectoryFailure(OSError):
    """An error, and the directory in which it occurred."""

    def __init__(self, home: LogDirectory, error: OSError) -> None:
        super().__init__(error.errno, error.strerror, error.filename)
        self.home = home


@contextmanager
def failing(home: LogDirectory) -> Iterator[None]:
    """Raise an OSError as DirectoryFailure, which says where: most errors of a system do not."""
    try:
        yield
    except DirectoryFailure:
        raise
    except OSError as error:
        raise DirectoryFailure(home, error) from error


def all_failed(offline: Mapping[str, OSError]) -> OSError:
    """Name the directories, where the errors do not say where they come from, and what failed in
    each.
    """
    (first, error), *others = offline.items()
    told = [each.strerror or str(each) for each in offline.values()]
    text = "; ".join(
        [told[0], *(f"{path}: {what}" for (path, _), what in zip(others, told[1:], strict=True))]
    )
    return OSError(error.errno, text, error.filename or first)
