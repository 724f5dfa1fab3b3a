"""A broker's log directories: the state of its replicas when a directory fails, is missing, or is
another one than before.

The metadata log does not have the directory of a replica. A broker reports its replicas when one
of its registered directories is missing. A missing directory is *lost* (another disk is in its
place, or it was removed from `log.dirs`) or it *may come back* (it cannot be used for now).
Replicas in a lost directory leave every ISR. Replicas in a directory that may come back are
offline: they leave as if their broker had died, so the last member of an ISR keeps its place. A
replica is offline as long as its directory is missing: a log with its name in another directory is
not this replica.

A broker that was not shut down in order may have lost records too, if it does not flush what it
acknowledges.
"""

from collections import defaultdict
from collections.abc import Container
from enum import Enum, auto

from raftka.metadata.commands import RegisterBroker, ReplicasOffline
from raftka.metadata.controller.partitions import Alive, MinIsr, Unclean, settle
from raftka.metadata.controller.walks import After
from raftka.metadata.image import NO_LEADER, BrokerImage, PartitionImage, TopicImage
from raftka.metadata.records import BrokerDirectoryFailed, Record, ReplicasMarked


class DirectoriesHere:
    """The changes in a broker's directories since its previous registration."""

    def __init__(self, known: BrokerImage | None, command: RegisterBroker) -> None:
        self.broker_id = command.broker_id
        before = (
            known.directories.union(known.missing_directories) if known is not None else frozenset()
        )
        kept = before & command.directories
        missing = before - command.directories
        self.must_report_replicas = bool(kept and missing) and command.held is None
        self.may_come_back = tuple(sorted(missing)) if command.failed_directories else ()
        self._all_there = known is not None and not missing
        self._held = _held(command, known.directories if known is not None else ())
        self._back = _held(command, known.missing_directories if known is not None else ())
        # by topic: replicas that are not, and are to be
        self._offline: dict[bytes, list[int]] = defaultdict(list)
        self._online: dict[bytes, list[int]] = defaultdict(list)

    def has(self, replica: tuple[bytes, int], *, offline: bool) -> bool:
        """Return whether the broker still has the replica that it had at its last registration."""
        return self._all_there or replica in (self._back if offline else self._held)

    def marks(self) -> list[Record]:
        """Return the records that mark replicas as offline, or as back, in the entry of the
        registration.
        """
        marked = ((True, self._offline), (False, self._online))
        return [
            ReplicasMarked(self.broker_id, offline, _indexes(replicas))
            for offline, replicas in marked
            if replicas
        ]

    def note_replica(self, replica: tuple[bytes, int], *, offline: bool) -> bool:
        """Return whether the broker's disks have this replica; note how its offline mark must
        change.
        """
        there = self.has(replica, offline=offline)
        wanted = not there and bool(self.may_come_back)
        if wanted != offline:
            (self._offline if wanted else self._online)[replica[0]].append(replica[1])
        return there


def _held(command: RegisterBroker, directories: Container[bytes]) -> frozenset[tuple[bytes, int]]:
    held = [
        topic
        for directory in command.held or ()
        if directory.directory_id in directories
        for topic in directory.topics
    ]
    return frozenset(
        (topic.topic_id, partition) for topic in held for partition in topic.partitions
    )


class Shutdown(Enum):
    """The end of the broker's process before the one that registers."""

    CLEAN = auto()  # all records are on the disk; or it goes on, and only registers again
    CRASH = auto()  # all that it has acknowledged is on the disk
    UNCLEAN = auto()  # records that it has acknowledged may be gone


def shutdown_before(command: RegisterBroker, known: BrokerImage | None) -> Shutdown:
    """Return how the process before has ended. A broker that is not registered was forgotten with
    all that was known of its processes.
    """
    if known is None:
        return Shutdown.UNCLEAN
    if command.previous_epoch == known.epoch or command.incarnation_id == known.incarnation_id:
        return Shutdown.CLEAN
    return Shutdown.CRASH if known.flushes else Shutdown.UNCLEAN


def when_registered(
    here: DirectoriesHere, shutdown: Shutdown, alive: Alive, unclean: Unclean, min_isr: MinIsr
) -> After:
    """Return a function that takes this broker out of the ISRs, as its process is a new one.

    After an unclean shutdown it is not eligible any more. After a crash it stays so where no other
    replica leads: as good as the others, and perhaps the first that is back.

    The broker is not among those `alive`. These records may be written before its registration.
    The offline marks may not: they refer to directories that the registration calls missing.
    """
    broker_id = here.broker_id
    doubtful = () if shutdown is Shutdown.CLEAN else (broker_id,)

    def after(topic: TopicImage, index: int, before: PartitionImage) -> PartitionImage:
        if broker_id not in before.replicas:
            return before
        there = here.note_replica((topic.topic_id, index), offline=broker_id in before.offline)
        lost = (broker_id,) if not there and not here.may_come_back else ()
        if broker_id not in before.isr and not (
            broker_id in before.elr + before.last_known_elr and (lost or doubtful)
        ):
            return before
        now = settle(topic.name, before, alive, unclean, min_isr, lost)
        if doubtful and (shutdown is Shutdown.UNCLEAN or now.leader != NO_LEADER):
            now = settle(topic.name, before, alive, unclean, min_isr, lost, doubtful)
        return now

    return after


def mark_directory_failed(broker: BrokerImage, command: ReplicasOffline) -> list[Record]:
    """Return records that call the directory missing and its replicas offline; none if it is
    missing already.
    """
    if command.directory_id not in broker.directories:
        return []
    failed = BrokerDirectoryFailed(broker.broker_id, broker.epoch, command.directory_id)
    topics = tuple([(each.topic_id, each.partitions) for each in command.topics])
    return [failed, ReplicasMarked(broker.broker_id, True, topics)] if topics else [failed]


def when_lost(broker_id: int, alive: Alive, unclean: Unclean, min_isr: MinIsr) -> After:
    """Return a function that takes the broker out of every ISR with other members, and makes it not
    eligible where others are. The last one keeps its place: no other replica has more records.
    """

    def after(topic: TopicImage, index: int, before: PartitionImage) -> PartitionImage:
        if broker_id not in before.eligible or len(before.eligible) == 1:
            return before
        return settle(topic.name, before, alive, unclean, min_isr, (broker_id,))

    return after


def _indexes(replicas: dict[bytes, list[int]]) -> tuple[tuple[bytes, tuple[int, ...]], ...]:
    return tuple([(topic_id, tuple(indexes)) for topic_id, indexes in replicas.items()])
