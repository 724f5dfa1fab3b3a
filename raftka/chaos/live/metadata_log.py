"""The metadata log as each controller has it on its disk when all have stopped: what the checker
asks of ISR and epochs. Knows no process.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from raftka.chaos.checks.metadata import PartitionSeen, Seen
from raftka.metadata.configs.settings import METADATA_DIRECTORY
from raftka.metadata.image import MetadataImage
from raftka.metadata.quorum.journal import Journal
from raftka.metadata.quorum.voter_sets import data_in
from raftka.runtime.real.files import RealFiles


def seen_in(directories: Iterable[tuple[str, Path]]) -> list[Seen]:
    """Of (who, its log directory), as far back as each goes and as far on as all do: what only some
    have was perhaps never committed.
    """
    files = RealFiles(lambda action: None)
    try:
        found = {who: list(_entries(who, files, path)) for who, path in directories}
    finally:
        files.stop()
    end = min((entries[-1].offset for entries in found.values() if entries), default=0)
    return [each for entries in found.values() for each in entries if each.offset <= end]


def _entries(who: str, files: RealFiles, path: Path) -> Iterator[PartitionSeen]:
    journal = Journal.open(files, str(path / METADATA_DIRECTORY), int(who.rpartition(" ")[2]))
    try:
        image = (
            MetadataImage.from_snapshot(journal.read_snapshot().state)
            if journal.snapshot is not None
            else MetadataImage()
        )
        yield from _of(
            who,
            image,
            (
                (topic_id, index)
                for topic_id, topic in image.topics.items()
                for index in range(len(topic.partitions))
            ),
        )
        for command, index, _ in journal.entries[1:]:
            if index <= image.offset:
                continue
            before = image
            (image, delta) = image.apply_entry(index, data_in(command))
            new = [
                topic_id
                for topic_id in delta.topics_changed
                if topic_id in image.topics and topic_id not in before.topics
            ]
            made = {
                (topic_id, i)
                for topic_id in new
                for i in range(len(image.topics[topic_id].partitions))
            }
            yield from _of(who, image, sorted(made | set(delta.partitions_changed)))
    finally:
        journal.close()


def _of(
    who: str, image: MetadataImage, partitions: Iterable[tuple[bytes, int]]
) -> Iterator[PartitionSeen]:
    for topic_id, index in partitions:
        now = image.partition(topic_id, index)
        if now is not None:
            key = f"{image.topics[topic_id].name}-{index} {topic_id.hex()}"
            members = now.replicas, now.isr, now.offline, now.elr, now.last_known_elr
            yield PartitionSeen(
                image.offset,
                who,
                key,
                now.leader,
                now.leader_epoch,
                now.partition_epoch,
                *map(tuple, members),
            )
