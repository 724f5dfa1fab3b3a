"""Begin a lost quorum anew from the one voter that is left.

Runs while the node is stopped. The lost voters can have confirmed at most LOST_AT_MOST entries that
this one lacks. Every number that must never be given out twice moves ahead by so much: offsets of
the metadata log (and with them broker epochs), leader and partition epochs, producer ids. Then no
partition has a leader, and every broker must register anew. Knows no terminal.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from raftka.metadata.controller.brokers import PRODUCER_IDS
from raftka.metadata.image import NO_LEADER, ExtensionImage, MetadataImage, PartitionImage
from raftka.metadata.quorum.journal import Journal, Recovery, Standing
from raftka.metadata.quorum.raft_types import Snapshot
from raftka.metadata.quorum.voter_sets import data_in
from raftka.versions import KRAFT_VERSION

LOST_AT_MOST = 1_000_000  # entries: at a hundred a second, what three hours bring
PACKAGE = "raftka"  # under which the cluster remembers its recoveries


class NotRecoverable(ValueError):
    """The directory cannot be recovered. The text is for the operator."""


@dataclass(frozen=True, slots=True)
class Remains:
    """The state of the quorum that one directory still has."""

    node_id: int
    image: MetadataImage  # with all entries, also those that may never have been confirmed
    last_index: int
    last_term: int
    term: int  # the latest that this voter has heard of
    # entries that are not in the snapshot: the last of them may never have been confirmed
    unsure: int

    @property
    def cluster_id(self) -> str:
        assert self.image.cluster_id is not None
        return self.image.cluster_id


def read_remains(journal: Journal) -> Remains:
    """Read the quorum's state from one voter's journal. Raises NotRecoverable, JournalDamaged,
    NewerFormat.
    """
    if journal.standing is Standing.EMPTY:
        raise NotRecoverable(f"{journal.directory} is empty: there is nothing to begin with")
    if journal.standing is Standing.JOINING:
        raise NotRecoverable(
            f"{journal.directory} replaces a lost disk and was never brought up to date: its "
            "entries may be wrong. Take another voter's."
        )
    image = (
        MetadataImage.from_snapshot(journal.read_snapshot().state)
        if journal.snapshot is not None
        else MetadataImage()
    )
    for command, index, _ in journal.entries[1:]:
        if index > image.offset:
            image, _ = image.apply_entry(index, data_in(command))
    if image.cluster_id is None:
        raise NotRecoverable(
            f"{journal.directory} has never heard of a cluster that was formed: empty it and "
            "start all voters"
        )
    return Remains(
        journal.node_id,
        image,
        journal.last.index,
        journal.last.term,
        journal.term,
        journal.last.index - journal.snapshot_index,
    )


def begin_anew(
    journal: Journal, remains: Remains, voters: Sequence[int], report: str, random: Random
) -> None:
    """Make the directory the seed of a quorum of these voters. `report`: what was given up; the
    cluster's metadata keep it. Raises OSError, and NotRecoverable for a node that is not a voter.
    """
    if journal.node_id not in voters:
        raise NotRecoverable(
            f"node {journal.node_id} is not among the voters {', '.join(map(str, voters))}"
        )
    index = remains.last_index + LOST_AT_MOST
    image = moved_ahead(remains.image, index, report)
    journal.begin_anew(
        Snapshot(index, remains.term + 1, image.to_snapshot()),
        Recovery(random.getrandbits(62) + 1, tuple(sorted(voters))),
    )


def moved_ahead(image: MetadataImage, index: int, report: str) -> MetadataImage:
    notes = image.extensions.get(PACKAGE, ExtensionImage(0, {}))
    noted = ExtensionImage(index, {**notes.entries, f"recovery/{index}".encode(): report.encode()})
    topics = {
        topic_id: topic._replace(
            partitions=tuple([_without_leader(partition) for partition in topic.partitions])
        )
        for topic_id, topic in image.topics.items()
    }
    return replace(
        image,
        offset=index,
        # the voters are those of controller.quorum.voters again
        features={name: level for name, level in image.features.items() if name != KRAFT_VERSION},
        brokers={
            broker_id: broker._replace(epoch=index, fenced=True, shutting_down=False)
            for broker_id, broker in image.brokers.items()
        },
        topics=topics,
        next_producer_id=image.next_producer_id + LOST_AT_MOST * PRODUCER_IDS,
        extensions={**image.extensions, PACKAGE: noted},
    )


def _without_leader(partition: PartitionImage) -> PartitionImage:
    """Leave the partition without leader: the first member of the ISR that comes back leads, under
    an epoch that no lost entry can have used.
    """
    epochs = partition.leader_epoch + LOST_AT_MOST, partition.partition_epoch + LOST_AT_MOST
    return partition._replace(leader=NO_LEADER, leader_epoch=epochs[0], partition_epoch=epochs[1])


def recoveries(image: MetadataImage) -> list[str]:
    """Return the reports of all recoveries that this cluster remembers."""
    known = image.extensions.get(PACKAGE)
    return (
        [
            text.decode()
            for key, text in sorted(known.entries.items())
            if key.startswith(b"recovery/")
        ]
        if known is not None
        else []
    )


def check_start(journal: Journal, voters: Sequence[int]) -> None:
    """Raise NotRecoverable when the node must not run as it is."""
    if journal.standing is Standing.BROKEN_OFF:
        raise NotRecoverable(
            f"the recovery of {journal.directory} was broken off: run `raftka cluster recover` "
            "again"
        )
    if journal.standing is Standing.SEED and tuple(sorted(voters)) != journal.recovery.voters:
        known = ", ".join(map(str, journal.recovery.voters))
        raise NotRecoverable(
            f"{journal.directory} was recovered for the voters {known}; controller.quorum.voters "
            "has other ones"
        )
