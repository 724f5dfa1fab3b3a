"""The manifest of a backup: the files that belong to it, and the cut of each partition.

Two lines of JSON: the first has the version and the CRC32C of the second. Times are milliseconds
since the epoch, sizes are bytes.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from raftka.backup.errors import Damaged
from raftka.checksum import crc32c
from raftka.json_values import Json, JsonObject
from raftka.versions import BACKUP_MANIFEST

FORMAT = "raftka backup"
MANIFESTS, DATA, METADATA, UNFINISHED = "manifests", "data", "metadata", "unfinished"


@dataclass(frozen=True, slots=True)
class Segment:
    """Batches of one partition, in a file of the place."""

    base_offset: int
    size: int
    file: str
    crc: int | None = None  # CRC32C of the file; None: it was linked, not read

    def as_list(self) -> list[Json]:
        return [self.base_offset, self.size, self.file, self.crc]


@dataclass(frozen=True, slots=True)
class Partition:
    topic: str
    topic_id: str  # hexadecimal
    index: int
    leader_epoch: int  # of the leader that cut it
    start_offset: int
    end_offset: int  # the cut
    segments: tuple[Segment, ...]

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Manifest:
    name: str
    backup_id: str
    cluster_id: str
    release: str
    begun_ms: int  # all that was acknowledged before is inside
    cut_ms: int  # nothing after it is inside
    held_ms: int  # for so long no transaction was committed
    image: Segment  # the metadata: a snapshot, as of offset `base_offset`
    partitions: tuple[Partition, ...]

    @property
    def size(self) -> int:
        return self.image.size + sum(partition.size for partition in self.partitions)

    @property
    def offsets(self) -> int:
        """Records, and gaps between them, where a topic is compacted."""
        return sum(each.end_offset - each.start_offset for each in self.partitions)

    @property
    def topics(self) -> list[str]:
        return sorted({partition.topic for partition in self.partitions})

    def files(self) -> Iterable[Segment]:
        yield self.image
        for partition in self.partitions:
            yield from partition.segments


def manifest_path(name: str) -> str:
    return f"{MANIFESTS}/{name}.json"


def encode_manifest(manifest: Manifest) -> bytes:
    values = asdict(manifest)
    values["image"] = manifest.image.as_list()
    values["partitions"] = [
        {**_fields(each), "segments": [segment.as_list() for segment in each.segments]}
        for each in manifest.partitions
    ]
    body = json.dumps(values, separators=(",", ":"))
    head = {"format": FORMAT, "version": BACKUP_MANIFEST.newest, "crc32c": crc32c(body.encode())}
    return f"{json.dumps(head)}\n{body}\n".encode()


def _fields(partition: Partition) -> JsonObject:
    return {name: getattr(partition, name) for name in Partition.__slots__ if name != "segments"}


def decode_manifest(data: bytes, where: str) -> Manifest:
    """Raises Damaged, and NewerFormat for a manifest of a later release."""
    first, _, rest = data.partition(b"\n")
    body = rest.removesuffix(b"\n")
    try:
        head = json.loads(first)
        if head["format"] != FORMAT:
            raise ValueError("another format")
        BACKUP_MANIFEST.check(int(head["version"]), where)
        if head["crc32c"] != crc32c(body):
            raise ValueError("its checksum is wrong")
        values = json.loads(body)
        image, partitions = values.pop("image"), values.pop("partitions")
        return Manifest(
            image=Segment(*image), partitions=tuple(map(_partition, partitions)), **values
        )
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{where} is no manifest that can be read: {error}") from error


def _partition(values: JsonObject) -> Partition:
    segments = tuple(Segment(*each) for each in values.pop("segments"))
    return Partition(segments=segments, **values)
