"""Changes of many partitions in portions: each portion is one entry of the metadata log, which
every node writes and applies in a few milliseconds.

A broker that dies may be in the ISR of every partition of the cluster. Its fencing is written at
once. A walk over all partitions then settles those that need a change. Each change follows from the
image of that moment alone, so each portion is correct on its own. A new controller walks over all
partitions once, and so completes the walk of the controller before it.
"""

from collections.abc import Callable, Iterable

from raftka.limits import KIB
from raftka.metadata.commands import TopicReplicas
from raftka.metadata.controller.partitions import changed
from raftka.metadata.image import MetadataImage, PartitionImage, TopicImage
from raftka.metadata.records import PartitionChanged, Record

PORTION_BYTES = 32 * KIB  # of records: 400 partitions of three replicas
LOOKED_AT = 10_000  # partitions in one portion: some milliseconds if none of them changes
RECORD_BYTES = 74  # an encoded PartitionChanged without its broker ids
ID_BYTES = 5  # a broker id
NO_TOPIC = TopicImage("", b"", ())

# the partition as it should be; itself if it is so already
After = Callable[[TopicImage, int, PartitionImage], PartitionImage]


class Walk:
    """Visits each partition once: of all topics that exist when it begins, or the given ones."""

    def __init__(
        self, image: MetadataImage, replicas: Iterable[TopicReplicas] | None = None
    ) -> None:
        self._topics = (
            [TopicReplicas(topic_id, ()) for topic_id in image.topics]
            if replicas is None
            else list(replicas)
        )
        self._whole = replicas is None
        self._topic = 0
        self._position = 0  # in the topic's partitions

    @property
    def finished(self) -> bool:
        return self._topic == len(self._topics)

    def portion(self, image: MetadataImage, after: After) -> list[Record]:
        """Return the next changes, as many as one entry takes; it may be none."""
        records: list[Record] = []
        room, look = PORTION_BYTES, LOOKED_AT
        while room > 0 and look > 0 and not self.finished:
            topic_id, given = self._topics[self._topic]
            topic = image.topics.get(topic_id, NO_TOPIC)
            there = topic.partitions
            partitions = range(len(there)) if self._whole else given
            for index in partitions[self._position : self._position + look]:
                self._position += 1
                look -= 1
                if not 0 <= index < len(there):
                    continue
                before = there[index]
                now = after(topic, index, before)
                if now is not before:
                    records.append(record := changed(topic_id, index, before, now))
                    room -= size_bound(record)
                    if room <= 0:
                        break
            if self._position >= len(partitions):
                self._topic, self._position = self._topic + 1, 0
                look -= 1
        return records


def size_bound(record: PartitionChanged) -> int:
    """Return an upper bound of the record's size in an entry."""
    lists = (
        record.isr,
        record.replicas,
        record.adding,
        record.removing,
        record.offline,
        record.elr,
        record.last_known_elr,
    )
    return RECORD_BYTES + ID_BYTES * sum([len(each) for each in lists if each])
