"""Make the directories of new partitions. A new file costs a file system more than all else here,
so a batch makes few.

All partitions of a topic have the same partition.metadata: those of one batch are names of one
file. Code that changes such a file replaces it, which leaves the other names alone.
"""

from collections.abc import Iterable

from raftka.log.checkpoints import PARTITION_METADATA, encode_partition_metadata
from raftka.log.finding import MADE_WITHOUT
from raftka.log.segments.segment import segment_path
from raftka.runtime.interfaces import Files


class Maker:
    """For one batch: its partitions are made right behind each other."""

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
