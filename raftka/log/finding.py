"""Contents of a log directory when a node starts. Opens no log.

A topic can be deleted and made again while one of the directories is away, so two topics of one
name may lie in two directories. Their ids tell them apart; the metadata says later which of them is
there still. Two logs of one topic's partition are not told apart: one is of earlier times.
"""

from raftka.log.checkpoints import PARTITION_METADATA, CheckpointError, decode_partition_metadata
from raftka.log.directory import Key, LogDirectory, LogDirectoryError
from raftka.log.segments.segment import segment_path
from raftka.runtime.interfaces import Files
from raftka.versions import NewerFormat

# names the directories that were away when the log was made, one a line
MADE_WITHOUT = "made-without"


def find(
    files: Files,
    home: LogDirectory,
    homes: dict[Key, LogDirectory],
    namesakes: dict[tuple[Key, bytes], LogDirectory],
) -> None:
    """Add the partitions that lie in `home`. Raises OSError, and LogDirectoryError when `homes` has
    one of them for the same topic.
    """
    found = home.partitions()
    # an earlier process may have made them, and not have come to flush that
    if found and not home.was_clean:
        files.sync_directory(home.path)
    for key in found:
        other = homes.get(key)
        if other is None or _never_written(files, other, key) or _replaces(files, home, key, other):
            if other is not None:
                files.remove(other.place(key))
            homes[key] = home
        elif _never_written(files, home, key) or _replaces(files, other, key, home):
            files.remove(home.place(key))
        elif (topic_id := topic_id_of(files, home, key)) and topic_id_of(files, other, key) not in {
            None,
            topic_id,
        }:
            namesakes[key, topic_id] = home
            home.namesakes.add(key)
        else:
            raise LogDirectoryError(
                f"{key[0]}-{key[1]} lies in {other.path} and in {home.path}",
                "take the older one away",
            )


def _replaces(files: Files, home: LogDirectory, key: Key, other: LogDirectory) -> bool:
    """The log in `home` was made while `other` was away, and not the other way round."""
    return other.path in _made_without(files, home, key) and home.path not in _made_without(
        files, other, key
    )


def _made_without(files: Files, home: LogDirectory, key: Key) -> list[str]:
    path = f"{home.place(key)}/{MADE_WITHOUT}"
    return files.read(path).decode(errors="replace").splitlines() if files.exists(path) else []


def _never_written(files: Files, home: LogDirectory, key: Key) -> bool:
    """The log was begun, and the directory failed."""
    path = home.place(key)
    logs = [name for name in files.list(path) if name.endswith(".log")]
    return logs == [segment_path("", 0, ".log")[1:]] and not files.read(
        segment_path(path, 0, ".log")
    )


def topic_id_of(files: Files, home: LogDirectory, key: Key) -> bytes | None:
    """The topic's id as partition.metadata has it; None: it cannot be read. Raises NewerFormat."""
    try:
        return decode_partition_metadata(files.read(f"{home.place(key)}/{PARTITION_METADATA}"))
    except NewerFormat as error:
        raise NewerFormat(f"{key[0]}-{key[1]}: {error}") from None
    except CheckpointError:
        return None
