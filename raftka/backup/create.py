"""Make a backup: cut the cluster, take the files, write the manifest last."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from secrets import token_hex
from typing import Protocol

import raftka
from raftka.backup.catalogue import clean_up, manifests_in
from raftka.backup.cut import Cut, CutPartition, CutSegment, Cutter
from raftka.backup.errors import BackupError
from raftka.backup.manifest import (
    DATA,
    METADATA,
    UNFINISHED,
    Manifest,
    Partition,
    Segment,
    encode_manifest,
    manifest_path,
)
from raftka.backup.places import Place
from raftka.checksum import crc32c
from raftka.client.blocking.client import Client
from raftka.limits import BACKUP_READ_BYTES, KIB
from raftka.runtime.interfaces import Files

SETTLED_AT_ONCE = 64  # files: with raftka.log.flush=os gigabytes may be flushed
PRINTED_BYTES = 64 * KIB  # at each end of a segment, for its fingerprint


@dataclass(slots=True)
class Made:
    """A backup that is finished."""

    manifest: Manifest
    linked_bytes: int = 0  # they take no room
    copied_bytes: int = 0
    known_bytes: int = 0  # that an earlier backup in the place has
    took_s: float = 0.0


def name_of(ms: int) -> str:
    """Return the name of a backup that was begun then: its time in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H-%M-%SZ")


def create(client: Client, place: Place, files: Files, name: str | None = None) -> Made:
    """Make a backup of the client's cluster. `files`: of this machine, where files of brokers may
    lie. Raises BackupError, ClientError, KafkaError, OSError.
    """
    name = name or name_of(time.time_ns() // 1_000_000)
    if place.exists(manifest_path(name)):
        raise BackupError(f"{place.where} has a backup {name}: give another --name")
    began, cutter = time.monotonic(), Cutter(client, token_hex(16))
    try:
        # from here on the brokers refuse another backup, which would clean up behind this one
        made = take(cutter, cutter.cut(), place, files, name)
    finally:
        cutter.drop()
    made.took_s = time.monotonic() - began
    return made


def take(source: "Source", cut: Cut, place: Place, files: Files, name: str) -> Made:
    """Take the files of a cut into the place, and write the manifest."""
    clean_up(place)
    taker = Taker(source, place, files, _known(place, cut.image.cluster_id or ""))
    place.write(f"{UNFINISHED}/{name}", ())
    image = f"{METADATA}/{name}.image"
    place.write(image, (cut.image_bytes,))
    manifest = Manifest(
        name,
        source.backup_id,
        cut.image.cluster_id or "",
        raftka.__version__,
        cut.begun_ms,
        cut.cut_ms,
        cut.held_ms,
        Segment(cut.image.offset, len(cut.image_bytes), image, crc32c(cut.image_bytes)),
        tuple([taker.take(partition) for partition in cut.partitions]),
    )
    for at in range(0, len(taker.linked), SETTLED_AT_ONCE):
        source.keep()
        place.settle(taker.linked[at : at + SETTLED_AT_ONCE])
    place.write(manifest_path(name), (encode_manifest(manifest),))
    place.remove(f"{UNFINISHED}/{name}")
    return Made(manifest, taker.linked_bytes, taker.copied_bytes, taker.known_bytes)


def _known(place: Place, cluster_id: str) -> dict[str, Segment]:
    """Return the files of earlier backups, by path. Raises BackupError, OSError."""
    known = {}
    for manifest in manifests_in(place):
        if manifest.cluster_id != cluster_id:
            raise BackupError(
                f"{place.where} has backups of cluster {manifest.cluster_id}: give this cluster a "
                "place of its own"
            )
        known.update({each.file: each for each in manifest.files()})
    return known


class Source(Protocol):
    """The brokers of a cut: they keep its files until they are told to drop them."""

    backup_id: str

    def keep(self) -> None:
        """Tell them now and then that the backup goes on."""

    def read(self, segment: CutSegment, position: int, size: int) -> bytes: ...


class Taker:
    """Takes the files of a cut into a place: one that is known is left, one of the same file system
    is linked, any other is copied.
    """

    def __init__(
        self,
        source: Source,
        place: Place,
        files: Files,
        known: dict[str, Segment],
    ) -> None:
        self.place = place
        self._source = source
        self._files = files
        self._known = known
        self.linked: list[str] = []
        self.linked_bytes = self.copied_bytes = self.known_bytes = 0

    def take(self, cut: CutPartition) -> Partition:
        return Partition(
            cut.topic,
            cut.topic_id.hex(),
            cut.index,
            cut.leader_epoch,
            cut.start_offset,
            cut.end_offset,
            tuple([self._take_segment(cut, segment) for segment in cut.segments]),
        )

    def _take_segment(self, cut: CutPartition, segment: CutSegment) -> Segment:
        path = (
            f"{DATA}/{cut.topic_id.hex()}-{cut.index}-{segment.base_offset:020}-{segment.size}-"
            f"{self._fingerprint(segment):08x}.log"
        )
        known = self._known.get(path)
        if known is not None:
            self.known_bytes += segment.size
            return known
        checksum = None
        if self._files.exists(segment.path) and self.place.link(segment.path, path):
            self.linked.append(path)
            self.linked_bytes += segment.size
        else:
            parts = Summed(self._parts(segment, 0, segment.size))
            self.place.write(path, parts)
            checksum = parts.crc
            self.copied_bytes += segment.size
        taken = self._known[path] = Segment(segment.base_offset, segment.size, path, checksum)
        return taken

    def _fingerprint(self, segment: CutSegment) -> int:
        """Return the CRC32C of the first and the last 64 KiB. With the topic's id, partition,
        offset and size it names the content: committed batches at an offset are the same on all
        replicas, and compaction makes a segment shorter.
        """
        begin = min(PRINTED_BYTES, segment.size)
        checksum = 0
        for position in (0, segment.size - begin):
            for part in self._parts(segment, position, begin):
                checksum = crc32c(part, checksum)
        return checksum

    def _parts(self, segment: CutSegment, position: int, size: int) -> Iterator[bytes]:
        """Read from the file, if it lies on this machine; else ask its broker. The path has the
        backup's random id: no other machine has such a file. Raises OSError, KafkaError.
        """
        end = position + size
        file = self._files.open(segment.path) if self._files.exists(segment.path) else None
        try:
            while position < end:
                size = min(BACKUP_READ_BYTES.value, end - position)
                self._source.keep()
                part = (
                    file.read(position, size)
                    if file is not None
                    else self._source.read(segment, position, size)
                )
                if not part:
                    raise BackupError(f"{segment.path} of broker {segment.broker} is too short")
                yield part
                position += len(part)
        finally:
            if file is not None:
                file.close()


class Summed(Iterable[bytes]):
    """Parts of a file, and the CRC32C of those that were taken."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = parts
        self.crc = 0

    def __iter__(self) -> Iterator[bytes]:
        for part in self._parts:
            self.crc = crc32c(part, self.crc)
            yield part
