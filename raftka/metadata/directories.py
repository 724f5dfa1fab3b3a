"""A broker's log directories: what follows for its replicas when one fails, is not there, or is another than before. Knows no time and no session.

The metadata log does not say in which directory a replica lies: its broker does, when one of the directories that it had registered with is missing.
A missing one is *lost* (another disk is in its place, or it is not wanted any more) or it *may come back* (it cannot be used for now). What was in a
lost one leaves every ISR; what is in one that may come back is offline: it leaves as if its broker had died, so the last of an ISR keeps its place.
A replica is offline as long as it lies in one of the broker's missing directories, so what is found under its name in any other is not it.
"""

from collections.abc import Container

from raftka.metadata.commands import RegisterBroker, ReplicasLost, ReplicasOffline
from raftka.metadata.image import BrokerImage, MetadataImage, PartitionImage
from raftka.metadata.partitions import Alive, Unclean, changed, moved, settle
from raftka.metadata.records import BrokerDirectoryFailed, Record


class DirectoriesHere:
    """What a registration says of the broker's directories, beside what the one before it said."""

    def __init__(self, known: BrokerImage | None, command: RegisterBroker) -> None:
        self.broker_id = command.broker_id
        before = known.directories.union(known.missing_directories) if known is not None else frozenset()
        kept = before & command.directories
        missing = before - command.directories
        self.must_tell = bool(kept and missing) and command.held is None
        self.may_come_back = tuple(sorted(missing)) if command.failed_directories else ()
        self._all_there = known is not None and not missing
        self._held = _held(command, known.directories if known is not None else ())
        self._back = _held(command, known.missing_directories if known is not None else ())

    def has(self, replica: tuple[bytes, int], *, offline: bool) -> bool:
        """The one that it had when it was registered before."""
        return self._all_there or replica in (self._back if offline else self._held)


def _held(command: RegisterBroker, directories: Container[bytes]) -> frozenset[tuple[bytes, int]]:
    held = [topic for directory in command.held or () if directory.directory_id in directories for topic in directory.topics]
    return frozenset((topic.topic_id, partition) for topic in held for partition in topic.partitions)


def when_registered(image: MetadataImage, here: DirectoriesHere, alive: Alive, unclean: Unclean) -> list[Record]:
    """What changes in all partitions as this broker begins anew. It is not among those `alive`."""
    broker_id = here.broker_id
    records: list[Record] = []
    for topic in image.topics.values():
        for index, before in enumerate(topic.partitions):
            if broker_id not in before.replicas:
                continue
            gone = not here.has((topic.topic_id, index), offline=broker_id in before.offline)
            now = _marked(before, broker_id, offline=gone and bool(here.may_come_back))
            lost = (broker_id,) if gone and not here.may_come_back else ()
            after = settle(topic.name, now, alive, unclean, lost) if broker_id in before.isr else now
            if after is not before:
                records.append(changed(topic.topic_id, index, before, moved(before, now) if after is now else after))
    return records


def when_offline(image: MetadataImage, broker: BrokerImage, command: ReplicasOffline, alive: Alive, unclean: Unclean) -> list[Record]:
    """What changes when these replicas cannot be used, while their broker goes on. Said twice it changes nothing."""
    if command.directory_id not in broker.directories:
        return []
    records: list[Record] = [BrokerDirectoryFailed(broker.broker_id, broker.epoch, command.directory_id)]
    for topic in command.topics:
        for index in topic.partitions:
            before = image.partition(topic.topic_id, index)
            if before is None or command.broker_id not in before.replicas or command.broker_id in before.offline:
                continue
            now = _marked(before, command.broker_id, offline=True)
            after = settle(image.topics[topic.topic_id].name, now, alive, unclean)
            records.append(changed(topic.topic_id, index, before, moved(before, now) if after is now else after))
    return records


def when_lost(image: MetadataImage, command: ReplicasLost, alive: Alive, unclean: Unclean) -> list[Record]:
    """These leave every ISR that has others; the last of one keeps its place: nobody has more than is left there. Said twice it changes nothing."""
    records: list[Record] = []
    for topic in command.topics:
        for index in topic.partitions:
            before = image.partition(topic.topic_id, index)
            if before is not None and command.broker_id in before.isr and len(before.isr) > 1:
                after = settle(image.topics[topic.topic_id].name, before, alive, unclean, (command.broker_id,))
                records.append(changed(topic.topic_id, index, before, after))
    return records


def _marked(partition: PartitionImage, broker_id: int, *, offline: bool) -> PartitionImage:
    if offline == (broker_id in partition.offline):
        return partition
    others = tuple([each for each in partition.offline if each != broker_id])
    return partition._replace(offline=(*others, broker_id) if offline else others)
