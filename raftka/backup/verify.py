"""Check a backup: every file, every batch, and that the cut is one moment."""

from dataclasses import dataclass, field

from raftka.backup.contents import batches_of, parts_of
from raftka.backup.errors import Damaged
from raftka.backup.manifest import Manifest, Partition
from raftka.backup.places import Place
from raftka.backup.state import offsets_in, transactions_in
from raftka.coordinator.transactions.records import State
from raftka.metadata.image import MetadataImage
from raftka.wire.records import CONTROL


@dataclass(slots=True)
class Verified:
    """The contents of a backup, as they were found."""

    topics: int = 0
    partitions: int = 0
    batches: int = 0
    records: int = 0  # without markers of transactions
    bytes: int = 0
    groups: set[str] = field(default_factory=set)
    offsets: int = 0
    transactional_ids: int = 0


def read_image(place: Place, manifest: Manifest) -> MetadataImage:
    """Raises Damaged, NewerFormat."""
    return MetadataImage.from_snapshot(b"".join(parts_of(place, manifest.image)))


def verify(place: Place, manifest: Manifest) -> Verified:
    """Read all of it. Raises Damaged with the first fault, NewerFormat, OSError."""
    image = read_image(place, manifest)
    found = Verified(topics=len(manifest.topics), bytes=manifest.size)
    ends = {(each.topic, each.index): each for each in manifest.partitions}
    for topic in image.topics.values():
        for index in range(len(topic.partitions)):
            known = ends.get((topic.name, index))
            if known is not None and known.topic_id != topic.topic_id.hex():
                raise Damaged(f"{known.name} is another topic's of that name")
    for partition in manifest.partitions:
        found.partitions += 1
        for _, header, _ in batches_of(place, partition):
            found.batches += 1
            found.records += 0 if header[5] & CONTROL else header[12]
    for (group, name, index), committed in offsets_in(place, manifest).items():
        found.groups.add(group)
        found.offsets += 1
        _check_committed(group, ends.get((name, index)), committed.offset)
    for transactional_id, its in transactions_in(place, manifest).items():
        found.transactional_ids += 1
        if its.state is State.PREPARE_COMMIT:
            raise Damaged(f"the transaction of {transactional_id} was being committed at the cut")
    return found


def _check_committed(group: str, partition: Partition | None, offset: int) -> None:
    if partition is not None and offset > partition.end_offset:
        raise Damaged(
            f"group {group} has committed {offset} of {partition.name}, which ends at "
            f"{partition.end_offset}"
        )
