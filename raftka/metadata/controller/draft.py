"""Administrative commands of one atomic batch, each decided on what those before it come to.
Nothing becomes so until somebody appends the records.

The controller decides a client's command as a draft of that one alone; a package's machine may
decide several, beside changes of its own. Knows no session, no heartbeat and no time.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, NamedTuple

from raftka.limits import Limit
from raftka.metadata.acls import create_acls, delete_acls
from raftka.metadata.commands import (
    Administration,
    AlterConfigs,
    AlterReassignments,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    DescribeQuorum,
    ElectLeaders,
    ListReassignments,
    UpdateFeatures,
)
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.configs.validate import UNCLEAN, alter_configs
from raftka.metadata.controller.elections import elect_leaders
from raftka.metadata.controller.features import update_features
from raftka.metadata.controller.reassignments import alter_reassignments, list_reassignments
from raftka.metadata.controller.topics import (
    Names,
    NamesAbove,
    TopicCreation,
    create_partitions,
    delete_topics,
)
from raftka.metadata.credentials import alter_scram_credentials
from raftka.metadata.image import MetadataImage
from raftka.metadata.quotas import alter_client_quotas
from raftka.metadata.records import ConfigSet, Record, TopicCreated, TopicDeleted
from raftka.metadata.security_commands import (
    AlterClientQuotas,
    AlterScramCredentials,
    CreateAcls,
    DeleteAcls,
)
from raftka.wire.errors import Code, KafkaError

Decided = tuple[Iterable[Record], object]


class Standing(NamedTuple):
    """The controller's state outside the image."""

    settings: NodeSettings
    random: Random
    hits: list[Limit]  # gets those that are hit
    unclean_allowed: Callable[[str], bool]  # by topic name
    # what changes in the partitions of that image; what does not fit follows by itself
    settle: Callable[[MetadataImage], list[Record]]


class Draft:
    def __init__(self, image: MetadataImage, names: Names, offset: int, standing: Standing) -> None:
        """`offset`: that the records will have."""
        self.records: list[Record] = []
        self.offset = offset
        self.standing = standing
        self._image = image
        self._names = NamesAbove(names)
        self._unapplied: list[Record] = []

    @property
    def image(self) -> MetadataImage:
        """As it will be with the records of so far."""
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
                    self._names.add(name)
                case TopicDeleted(topic_id) if topic_id in topics:
                    self._names.remove(topics[topic_id].name)
            self.records.append(record)
            self._unapplied.append(record)

    def branch(self) -> "Draft":
        """One that may come to nothing; `take` makes it a part of this one."""
        return Draft(self.image, self._names, self.offset, self.standing)

    def take(self, branch: "Draft") -> None:
        """The one that was made last, of this one as it still is."""
        self.records += branch.records
        self._image, self._unapplied, self._names = branch._image, branch._unapplied, branch._names

    def decide(self, command: Administration) -> Any:
        """The reply. Raises KafkaError for what is refused as a whole."""
        records, reply = self._decided(command)
        if not getattr(command, "validate_only", False):
            self.write(records)
        return reply

    def _decided(self, command: Administration) -> Decided:
        image, settings, random = self.image, self.standing.settings, self.standing.random
        hits = self.standing.hits
        match command:
            case CreateTopics():
                creation = TopicCreation(image, self._names, settings, random, hits)
                reply = creation.run(command)
                return creation.records, reply
            case DeleteTopics():
                return delete_topics(image, command, settings)
            case AlterConfigs():
                return self._alter_configs(command)
            case CreatePartitions():
                return create_partitions(image, command, random, hits)
            case ElectLeaders():
                return elect_leaders(image, command)
            case AlterReassignments():
                return alter_reassignments(image, command, self.standing.unclean_allowed)
            case ListReassignments():
                return (), list_reassignments(image, command)
            case UpdateFeatures():
                return update_features(image, command, settings.node_id), None
            case CreateAcls():
                return create_acls(image, command)
            case DeleteAcls():
                return delete_acls(image, command)
            case AlterScramCredentials():
                return alter_scram_credentials(image, command)
            case AlterClientQuotas():
                return alter_client_quotas(image, command, hits)
            case DescribeQuorum():
                raise KafkaError(Code.UNSUPPORTED_VERSION, "that is the quorum's to tell")

    def _alter_configs(self, command: AlterConfigs) -> Decided:
        """Alter settings. Where unclean election is allowed now, partitions without a leader get
        one at once: their ISR may never come back.
        """
        records, reply = alter_configs(
            self.image, command, self.standing.settings, self.standing.hits
        )
        if any(isinstance(record, ConfigSet) and record.name == UNCLEAN for record in records):
            altered, _ = self.image.apply(self.offset, records)
            records += self.standing.settle(altered)
        return records, reply
