"""Restore a backup into the empty directories of a new cluster, whose nodes do not run: the same
topics, offsets, groups and rights under another cluster id.

Each node gets the replicas that the brokers' ids and the backup decide, so the nodes of several
machines can be restored one by one. All replicas of a partition are equal, and all are in the ISR.
The voter with the lowest id gets the metadata, as the seed of the quorum; the others' metadata
directories stay empty, and they are brought up to date when the cluster starts.

Until the last directory is whole, each has a note, with which no node starts. A restore that was
broken off is run again: what is whole stays, the rest is made anew.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from raftka.backup.contents import batches_of
from raftka.backup.cut import FIRST
from raftka.backup.errors import BackupError
from raftka.backup.manifest import Manifest, Partition
from raftka.backup.places import Place
from raftka.backup.replica import Replica, write_replica
from raftka.backup.verify import read_image
from raftka.log.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    START_OFFSETS,
    encode_clean_shutdown,
    uuid_text,
)
from raftka.log.directory import PARTLY, RESTORE, LogDirectory
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage, TopicImage
from raftka.metadata.quorum.journal import Journal, Recovery
from raftka.metadata.quorum.raft_types import Snapshot
from raftka.metadata.quorum.recovery import LOST_AT_MOST, moved_ahead
from raftka.runtime.interfaces import Files

WHOLE = b"whole"
FIRST_TERM = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """The cluster to be made."""

    manifest: Manifest
    cluster_id: str
    brokers: tuple[int, ...]  # ids of all brokers of the cluster, in order
    voters: tuple[int, ...]
    topics: frozenset[str]  # those to restore

    def directory_id(self, broker: int, at: int) -> bytes:
        """Return the id (16 bytes) of a broker's log directory, the first being 0: all machines
        that are restored agree on it.
        """
        return hashlib.sha256(b"%s %d %d" % (self.note, broker, at)).digest()[:16]

    @property
    def note(self) -> bytes:
        """Return the text that names this restore in a directory."""
        topics = hashlib.sha256("\n".join(sorted(self.topics)).encode()).hexdigest()[:16]
        brokers, voters = (",".join(map(str, each)) for each in (self.brokers, self.voters))
        return (
            f" backup={self.manifest.name} id={self.manifest.backup_id} "
            f"cluster={self.cluster_id} brokers={brokers} voters={voters} topics={topics} "
            f"moment={self.manifest.cut_ms}"
        ).encode()


@dataclass(slots=True)
class Restored:
    partitions: int = 0
    replicas: int = 0
    bytes: int = 0
    aborted: int = 0  # open transactions, once for each partition
    dropped_offsets: int = 0  # of topics that were not restored
    nodes: int = 0
    kept_nodes: int = 0  # that were whole before


def make_plan(
    manifest: Manifest,
    settings: Sequence[NodeSettings],
    brokers: Sequence[int] = (),
    topics: Sequence[str] = (),
    cluster_id: str | None = None,
) -> Plan:
    """Plan a restore. `settings`: of the nodes whose directories lie here; `brokers`: ids of all,
    if there are others; `topics`: those to restore, without them all. Raises BackupError.
    """
    own = sorted(each.node_id for each in settings if each.is_broker)
    ids = tuple(sorted(set(brokers) or set(own)))
    voters = {tuple(sorted(voter.node_id for voter in each.voters)) for each in settings}
    if not ids or not set(own) <= set(ids):
        raise BackupError("name all brokers of the new cluster with --brokers")
    if len(voters) != 1 or () in voters:
        raise BackupError("the nodes need the same controller.quorum.voters: it names the quorum")
    if unknown := sorted(set(topics) - set(manifest.topics)):
        raise BackupError(f"the backup has no topic {unknown[0]}")
    wanted = frozenset(
        name for name in manifest.topics if not topics or name in topics or name in FIRST
    )
    (quorum,) = voters
    if cluster_id is None:
        digest = hashlib.sha256(f"{manifest.backup_id} {ids} {quorum}".encode()).digest()
        cluster_id = uuid_text(digest[:16])
    return Plan(manifest, cluster_id, ids, quorum, wanted)


def restore(
    place: Place,
    plan: Plan,
    settings: Sequence[NodeSettings],
    files: Files,
    random: Random,
    progress: Callable[[str], None] = lambda _: None,
) -> Restored:
    """Fill the directories of these nodes. Raises BackupError, Damaged, NewerFormat, OSError."""
    image, found = read_image(place, plan.manifest), Restored(nodes=len(settings))
    replicas = _replicas(plan, image)
    todo = []
    for each in settings:
        states = {path: _state(files, path, plan) for path in _directories(each)}
        if set(states.values()) == {WHOLE}:
            found.kept_nodes += 1
        else:
            todo.append(each)
    for each in todo:
        for path in _directories(each):
            _empty(files, path, plan)
    for each in todo:
        progress(f"node {each.node_id}")
        _restore_node(place, plan, each, files, random, image, replicas, found)
    for each in todo:
        if each.node_id == plan.voters[0]:
            directories = {other.node_id: len(other.log_dirs) for other in settings}
            _write_metadata(plan, each, files, random, image, replicas, directories)
    for each in todo:
        for path in _directories(each):
            files.replace(f"{path}/{RESTORE}", WHOLE + plan.note)
    found.partitions = len(replicas)
    return found


# directories


def _directories(settings: NodeSettings) -> list[str]:
    """Return all directories of a node; that of its metadata may be none of its logs."""
    home = settings.metadata_directory.rpartition("/")[0]
    return list(dict.fromkeys([*settings.log_dirs, home]))


def _state(files: Files, path: str, plan: Plan) -> bytes:
    """Return WHOLE, or PARTLY for a directory that is to be filled. Raises BackupError for one that
    has other data.
    """
    names = [name for name in files.list(path) if name != ".lock"] if files.exists(path) else []
    if not names:
        return PARTLY
    note = files.read(f"{path}/{RESTORE}") if RESTORE in names else b""
    if note == WHOLE + plan.note:
        return WHOLE
    if note.startswith(PARTLY):
        return PARTLY
    raise BackupError(f"{path} is not empty: a backup is restored into a new cluster")


def _empty(files: Files, path: str, plan: Plan) -> None:
    """Note the restore, and remove what one that was broken off has left."""
    files.make_directory(path)
    files.replace(f"{path}/{RESTORE}", PARTLY + plan.note)
    for name in files.list(path):
        if name != RESTORE:
            files.remove(f"{path}/{name}")
    files.sync_directory(path)


# replicas


def _replicas(plan: Plan, image: MetadataImage) -> dict[tuple[str, int], tuple[int, ...]]:
    """Return the brokers of each partition that is restored: as many as before, if there are so
    many.
    """
    brokers, found = plan.brokers, {}
    first = 0
    for partition in plan.manifest.partitions:
        if partition.topic not in plan.topics:
            continue
        before = image.partition(bytes.fromhex(partition.topic_id), partition.index)
        if before is None:
            continue  # the topic was deleted while the cluster was cut
        count = min(len(before.replicas) or 1, len(brokers))
        found[partition.topic, partition.index] = tuple(
            brokers[(first + at) % len(brokers)] for at in range(count)
        )
        first += 1
    return found


def _restore_node(
    place: Place,
    plan: Plan,
    settings: NodeSettings,
    files: Files,
    random: Random,
    image: MetadataImage,
    replicas: dict[tuple[str, int], tuple[int, ...]],
    found: Restored,
) -> None:
    homes = [
        _make_home(files, path, settings.node_id, plan, at, image.level, random)
        for at, path in enumerate(settings.log_dirs)
    ]
    try:
        ends: list[dict[tuple[str, int], int]] = [{} for _ in homes]
        starts: list[dict[tuple[str, int], int]] = [{} for _ in homes]
        own = [
            each
            for each in plan.manifest.partitions
            if settings.node_id in replicas.get((each.topic, each.index), ())
        ]
        for at, partition in enumerate(own):
            to, key = at % len(homes), (partition.topic, partition.index)
            replica = _write(place, plan, partition, files, homes[to].place(key), replicas)
            ends[to][key], starts[to][key] = replica.end_offset, partition.start_offset
            found.replicas += 1
            found.bytes += partition.size
            if replicas[key][0] == settings.node_id:
                found.aborted += replica.aborted
                found.dropped_offsets += replica.dropped_offsets
        for home, end, start in zip(homes, ends, starts, strict=True):
            files.sync_directory(home.path)
            home.write(RECOVERY_POINTS, end)
            home.write(HIGH_WATERMARKS, end)
            home.write(START_OFFSETS, start)
            mark = encode_clean_shutdown(image.offset + LOST_AT_MOST)
            files.replace(f"{home.path}/{CLEAN_SHUTDOWN}", mark)
    finally:
        for each in homes:
            each.unlock()


def _make_home(
    files: Files, path: str, node_id: int, plan: Plan, at: int, level: int, random: Random
) -> LogDirectory:
    LogDirectory.take(files, path, node_id, plan.directory_id(node_id, at))
    home = LogDirectory(files, path, node_id, random)
    home.join_cluster(plan.cluster_id)
    home.raise_level(level)
    return home


def _write(
    place: Place,
    plan: Plan,
    partition: Partition,
    files: Files,
    directory: str,
    replicas: dict[tuple[str, int], tuple[int, ...]],
) -> Replica:
    ends = {
        (each.topic, each.index): each.end_offset
        for each in plan.manifest.partitions
        if (each.topic, each.index) in replicas
    }
    return write_replica(
        batches_of(place, partition),
        partition,
        files,
        directory,
        plan.manifest.cut_ms,
        lambda topic, index: ends.get((topic, index)),
    )


# metadata


def _write_metadata(
    plan: Plan,
    settings: NodeSettings,
    files: Files,
    random: Random,
    image: MetadataImage,
    replicas: dict[tuple[str, int], tuple[int, ...]],
    directories: dict[int, int],
) -> None:
    """Make the node the seed of the new quorum. `directories`: of the brokers that are known here:
    how many each has.
    """
    index = image.offset + LOST_AT_MOST
    report = f"restored from backup {plan.manifest.name} of cluster {image.cluster_id}"
    made = restored_image(image, plan, index, report, replicas)
    made = replace(
        made,
        brokers={
            broker: _stopped_broker(plan, broker, directories.get(broker, 1), index)
            for broker in plan.brokers
        },
    )
    journal = Journal.open(files, settings.metadata_directory, settings.node_id)
    try:
        journal.set_cluster_id(plan.cluster_id)
        journal.begin_anew(
            Snapshot(index, FIRST_TERM, made.to_snapshot()),
            Recovery(random.getrandbits(62) + 1, plan.voters),
        )
    finally:
        journal.close()


def _stopped_broker(plan: Plan, broker: int, directories: int, epoch: int) -> BrokerImage:
    """Return a broker that was shut down in order: it stays in the ISRs when it registers."""
    first, *more = [plan.directory_id(broker, at) for at in range(directories)]
    return BrokerImage(
        broker, epoch, bytes(16), first, (), None, True, False, more_directories=tuple(more)
    )


def restored_image(
    image: MetadataImage,
    plan: Plan,
    index: int,
    report: str,
    replicas: dict[tuple[str, int], tuple[int, ...]],
) -> MetadataImage:
    """Return the metadata of the new cluster, without its brokers: no partition has a leader. Every
    number that the old cluster may have given out after the cut is passed over.
    """
    ahead = moved_ahead(image, index, report)
    topics = {}
    for topic_id, topic in ahead.topics.items():
        count = sum((topic.name, at) in replicas for at in range(len(topic.partitions)))
        if count and topic.name in plan.topics:
            topics[topic_id] = _restored_topic(topic, count, replicas)
    return replace(
        ahead,
        cluster_id=plan.cluster_id,
        brokers={},
        topics=topics,
        topic_ids={topic.name: topic_id for topic_id, topic in topics.items()},
        partition_count=sum(len(topic.partitions) for topic in topics.values()),
    )


def _restored_topic(
    topic: TopicImage, count: int, replicas: dict[tuple[str, int], tuple[int, ...]]
) -> TopicImage:
    """`count`: its partitions when it was cut; later ones had no record yet."""
    partitions = tuple(
        [
            PartitionImage(
                replicas[topic.name, at],
                replicas[topic.name, at],
                NO_LEADER,
                before.leader_epoch,
                before.partition_epoch,
            )
            for at, before in enumerate(topic.partitions[:count])
        ]
    )
    return topic._replace(partitions=partitions)
