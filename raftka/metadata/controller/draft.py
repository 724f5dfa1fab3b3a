"""The batch of records that the controller is about to append, and the image with these records.

A decision reads a draft and returns records. A package's machine may write the records of several
decisions into one draft: each decision then sees the changes of those before it. A draft changes
no replicated state; its records take effect when they are appended.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import NamedTuple

from raftka.limits import Limit
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.controller.topic_names import Names, NamesAbove
from raftka.metadata.image import MetadataImage
from raftka.metadata.records import ClusterSecretSet, Record, TopicCreated, TopicDeleted
from raftka.versions import Features


class Environment(NamedTuple):
    """The controller's state outside the image, as far as decisions use it."""

    settings: NodeSettings
    random: Random
    wall_ms: int
    hits: list[Limit]  # decisions append the limits that they hit
    allows_unclean_election: Callable[[str], bool]  # by topic name
    # changes that the partitions of that image need; those beyond one entry follow later
    settle_partitions: Callable[[MetadataImage], list[Record]]
    new_secret: Callable[[], ClusterSecretSet] | None  # None: this node may not make one
    # what the releases of other voters support, as far as known
    greeted: Mapping[int, Features] = MappingProxyType({})
    # brokers all of whose log directories are cordoned
    find_cordoned: Callable[[], frozenset[int]] = frozenset
    voters: Sequence[int] = ()  # their ids


class Draft:
    def __init__(
        self, image: MetadataImage, names: Names, offset: int, environment: Environment
    ) -> None:
        """`offset`: index that the records will have."""
        self.records: list[Record] = []
        self.names = NamesAbove(names)
        self.offset = offset
        self.environment = environment
        self._image = image
        self._unapplied: list[Record] = []

    @property
    def image(self) -> MetadataImage:
        """The image with all records that were written so far."""
        if self._unapplied:
            self._image, _ = self._image.apply(self.offset, self._unapplied)
            self._unapplied = []
        return self._image

    def write(self, records: Iterable[Record]) -> None:
        """Append records; the caller has validated them."""
        topics = self.image.topics
        for record in records:
            match record:
                case TopicCreated(name):
                    self.names.add(name)
                case TopicDeleted(topic_id) if topic_id in topics:
                    self.names.remove(topics[topic_id].name)
            self.records.append(record)
            self._unapplied.append(record)

    def branch(self) -> "Draft":
        """Return a draft on top of this one; it has no effect unless `take` is called with it."""
        return Draft(self.image, self.names, self.offset, self.environment)

    def take(self, branch: "Draft") -> None:
        """Append the records of the newest branch; this draft has not changed since."""
        self.records += branch.records
        self._image, self._unapplied, self.names = branch._image, branch._unapplied, branch.names
