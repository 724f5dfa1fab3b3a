"""Commands to the controller and their replies: frozen values of plain fields, in one process and
over the controller port alike.

`to_wire` returns a name and a tuple that msgpack can write. `from_wire` reads a command of another
node and raises ValueError for anything else. REPLIES has the type of each command's reply. Over the
wire a reply is a plain tuple; `read_reply` turns it into that type.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from types import UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from raftka.metadata.security_commands import (
    AddToken,
    AlterClientQuotas,
    AlterScramCredentials,
    CreateAcls,
    DeleteAcls,
    ExpireToken,
    QuotaResult,
    RenewToken,
    ScramResult,
    TokenTimes,
)
from raftka.security.acls import Acl
from raftka.versions import Features

Endpoints = tuple[tuple[str, str, int, str], ...]  # (listener, host, port, security protocol)


class Registered(NamedTuple):
    # TELL_HELD: not registered; a directory is missing, so send RegisterBroker with `held`
    broker_epoch: int


TELL_HELD = -1
SET, DELETE, APPEND, SUBTRACT = range(4)  # operations on a setting, as in IncrementalAlterConfigs
OPERATIONS = ("set", "delete", "append", "subtract")
NO_DIRECTORY = bytes(16)


class HeartbeatAnswer(NamedTuple):
    fenced: bool
    caught_up: bool
    should_shutdown: bool


class AlteredPartition(NamedTuple):
    """The result of a Change, with the partition's present state if the partition exists."""

    topic_id: bytes
    partition: int
    error: int
    leader: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1
    elr: tuple[int, ...] = ()  # eligible leader replicas


class CreatedTopic(NamedTuple):
    name: str
    topic_id: bytes  # zero with an error
    error: int
    message: str | None
    num_partitions: int = -1
    replication_factor: int = -1


class DeletedTopic(NamedTuple):
    name: str | None
    topic_id: bytes
    error: int
    message: str | None


class TopicResult(NamedTuple):
    name: str
    error: int
    message: str | None


class PartitionResult(NamedTuple):
    partition: int
    error: int
    message: str | None


class TopicResults(NamedTuple):
    name: str
    partitions: tuple[PartitionResult, ...]


class OngoingPartition(NamedTuple):
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class OngoingTopic(NamedTuple):
    name: str
    partitions: tuple[OngoingPartition, ...]


class QuorumReplica(NamedTuple):
    node_id: int
    log_end_offset: int
    last_fetch_ms: int  # wall clock of the controller; -1: unknown
    last_caught_up_ms: int
    directory_id: bytes = NO_DIRECTORY


class QuorumState(NamedTuple):
    """The quorum as its leader sees it."""

    leader: int
    term: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    # (node id, end points) of the voters; empty: those of controller.quorum.voters
    nodes: tuple[tuple[int, tuple[tuple[str, str, int], ...]], ...] = ()


class ProducerIdBlock(NamedTuple):
    first: int
    size: int


class StaticSettings(NamedTuple):
    """A controller's node id, and the settings of its properties file that topics inherit."""

    node_id: int
    given: tuple[tuple[str, str], ...]


class Change(NamedTuple):
    """The ISR that the leader of one partition proposes."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    # (broker id, broker epoch as the leader saw it, -1: not known)
    new_isr: tuple[tuple[int, int], ...]


class NewTopic(NamedTuple):
    name: str
    # -1: the controller's num.partitions, or as many as there are assignments
    num_partitions: int = -1
    replication_factor: int = -1
    # (partition, replicas in order of preference)
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


class MorePartitions(NamedTuple):
    name: str
    total: int  # of partitions, old and new
    # of each new partition; None: the controller places them
    assignments: tuple[tuple[int, ...], ...] | None = None


class TopicPartitions(NamedTuple):
    name: str
    partitions: tuple[int, ...]


class Move(NamedTuple):
    partition: int
    replicas: tuple[int, ...] | None  # None: cancel the reassignment under way


class MovedTopic(NamedTuple):
    name: str
    partitions: tuple[Move, ...]


class FeatureUpdate(NamedTuple):
    name: str
    level: int  # 0: remove the feature
    upgrade_type: int  # 1 upgrade, 2 safe downgrade, 3 unsafe downgrade


class ConfigChange(NamedTuple):
    name: str
    operation: int  # SET, DELETE, APPEND or SUBTRACT
    value: str | None


class ConfigResource(NamedTuple):
    resource_type: int
    name: str
    changes: tuple[ConfigChange, ...]


class AlteredConfigs(NamedTuple):
    """The result for one resource, in the order of the command."""

    error: int
    message: str | None


class TopicReplicas(NamedTuple):
    """Partitions of a topic that lie on a broker's disk."""

    topic_id: bytes
    partitions: tuple[int, ...]


def by_topic(replicas: Iterable[tuple[bytes, int]]) -> tuple[TopicReplicas, ...]:
    """Group pairs of topic id and partition by topic."""
    topics: dict[bytes, list[int]] = defaultdict(list)
    for topic_id, partition in replicas:
        topics[topic_id].append(partition)
    return tuple(
        [TopicReplicas(topic_id, tuple(partitions)) for topic_id, partitions in topics.items()]
    )


class HeldReplicas(NamedTuple):
    """The replicas in one log directory."""

    directory_id: bytes
    topics: tuple[TopicReplicas, ...]


class DoomedTopic(NamedTuple):
    """A topic to be deleted: its name or its id."""

    name: str | None = None
    topic_id: bytes | None = None


class RegisterBroker(NamedTuple):
    broker_id: int
    incarnation_id: bytes
    directory_id: bytes
    cluster_id: str | None  # None: the broker has never been in a cluster
    endpoints: Endpoints
    rack: str | None = None
    more_directories: tuple[bytes, ...] = ()  # ids of all that it can use beside the first
    # how many of its log.dirs it cannot use: their ids may not be readable
    failed_directories: int = 0
    held: tuple[HeldReplicas, ...] | None = None  # only after a reply TELL_HELD
    features: Features = ()  # that its release supports
    # epoch with which its process before was shut down in order, -1: it was not, or is not known
    previous_epoch: int = -1
    flushes: bool = False  # what it acknowledges, so that its records survive a crash

    @property
    def directories(self) -> frozenset[bytes]:
        return frozenset((self.directory_id, *self.more_directories))


class UnregisterBroker(NamedTuple):
    broker_id: int


class Heartbeat(NamedTuple):
    broker_id: int
    broker_epoch: int
    applied_offset: int  # of the metadata log
    want_shutdown: bool = False
    want_fenced: bool = False
    is_cordoned: bool = False  # all log directories that it can use


class BrokerLost(NamedTuple):
    """A broker's process has ended: its connection broke and its port refuses connections. The
    controller need not wait for the end of its session.
    """

    broker_id: int
    broker_epoch: int


class ReplicasOffline(NamedTuple):
    """A log directory of the broker failed; `topics` has the replicas in it. The broker goes on
    with its other directories.
    """

    broker_id: int
    broker_epoch: int
    directory_id: bytes
    topics: tuple[TopicReplicas, ...]


class ReplicasLost(NamedTuple):
    """Records of these replicas are missing on the broker's disk, which works; other members of
    their ISRs may have them.
    """

    broker_id: int
    broker_epoch: int
    topics: tuple[TopicReplicas, ...]


class AlterPartition(NamedTuple):
    broker_id: int
    broker_epoch: int
    changes: tuple[Change, ...]


class CreateTopics(NamedTuple):
    topics: tuple[NewTopic, ...]
    validate_only: bool = False


class DeleteTopics(NamedTuple):
    topics: tuple[DoomedTopic, ...]


class CreatePartitions(NamedTuple):
    topics: tuple[MorePartitions, ...]
    validate_only: bool = False


class ElectLeaders(NamedTuple):
    election_type: int  # 0 preferred, 1 unclean
    topics: tuple[TopicPartitions, ...] | None = None  # None: all


class AlterReassignments(NamedTuple):
    topics: tuple[MovedTopic, ...]
    allow_replication_factor_change: bool = True


class ListReassignments(NamedTuple):
    topics: tuple[TopicPartitions, ...] | None = None  # None: all


class UpdateFeatures(NamedTuple):
    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False


class DescribeQuorum(NamedTuple):
    pass


VoterEndpoints = tuple[tuple[str, str, int], ...]  # (listener, host, port) of a controller


class AddVoter(NamedTuple):
    """Make a controller that follows the log a voter (KIP-853)."""

    cluster_id: str | None  # None: any
    voter_id: int
    directory_id: bytes
    endpoints: VoterEndpoints
    ack_when_committed: bool = True
    lowest: int = 0  # kraft.version that its release supports, and the highest one
    highest: int = 1


class RemoveVoter(NamedTuple):
    cluster_id: str | None
    voter_id: int
    directory_id: bytes


class UpdateVoter(NamedTuple):
    """The voter's new end points, or a new directory in the place of a lost one."""

    cluster_id: str | None
    voter_id: int
    directory_id: bytes
    endpoints: VoterEndpoints
    lowest: int = 0
    highest: int = 1
    leader_epoch: int = -1  # that the voter knows; -1: not checked
    moves: bool = True  # the directory may be another one than that in the log


class UnregisterController(NamedTuple):
    """Forget what a controller's release supports, until it greets again."""

    controller_id: int


class AlterConfigs(NamedTuple):
    resources: tuple[ConfigResource, ...]
    replace_all: bool = False  # settings that are not named go back to their defaults
    validate_only: bool = False


class AllocateProducerIds(NamedTuple):
    broker_id: int
    broker_epoch: int


class TopicDefaults(NamedTuple):
    """Ask for the settings that topics inherit from the controller's properties file. CreateTopics
    returns them, and any broker may get that request.
    """


class WriteExtension(NamedTuple):
    """Puts and deletes (value None) of another package, one atomic batch."""

    package: str
    changes: tuple[tuple[bytes, bytes | None], ...]
    # refused if the package's entries changed after this offset; None: never refused
    read_at: int | None = None


class ExtensionCommand(NamedTuple):
    """A command to the package's machine; only the package reads payload and reply."""

    package: str
    payload: bytes


Administration = (
    CreateTopics
    | DeleteTopics
    | AlterConfigs
    | CreatePartitions
    | ElectLeaders
    | AlterReassignments
    | ListReassignments
    | UpdateFeatures
    | AlterScramCredentials
    | CreateAcls
    | DeleteAcls
    | AlterClientQuotas
)
OfBrokers = (
    RegisterBroker
    | UnregisterBroker
    | Heartbeat
    | BrokerLost
    | ReplicasOffline
    | ReplicasLost
    | AlterPartition
    | AllocateProducerIds
)
OfTokens = AddToken | RenewToken | ExpireToken
OfNodes = TopicDefaults | DescribeQuorum | UnregisterController
OfVoters = AddVoter | RemoveVoter | UpdateVoter
Command = (
    OfBrokers | OfNodes | OfVoters | WriteExtension | ExtensionCommand | OfTokens | Administration
)

REPLIES: dict[type[Command], object] = {  # types of the replies, as `read_reply` reads them
    RegisterBroker: Registered,
    UnregisterBroker: None,
    Heartbeat: HeartbeatAnswer,
    BrokerLost: None,
    ReplicasOffline: None,
    ReplicasLost: None,
    AlterPartition: tuple[AlteredPartition, ...],
    AllocateProducerIds: ProducerIdBlock,
    TopicDefaults: StaticSettings,
    WriteExtension: int,  # the offset of the write
    ExtensionCommand: bytes,
    AddToken: TokenTimes,
    RenewToken: int,  # its expiry
    ExpireToken: int,
    CreateTopics: tuple[CreatedTopic, ...],
    DeleteTopics: tuple[DeletedTopic, ...],
    AlterConfigs: tuple[AlteredConfigs, ...],
    CreatePartitions: tuple[TopicResult, ...],
    ElectLeaders: tuple[TopicResults, ...],
    AlterReassignments: tuple[TopicResults, ...],
    ListReassignments: tuple[OngoingTopic, ...],
    UpdateFeatures: None,
    DescribeQuorum: QuorumState,
    UnregisterController: None,
    AddVoter: None,
    RemoveVoter: None,
    UpdateVoter: None,
    AlterScramCredentials: tuple[ScramResult, ...],
    CreateAcls: int,  # how many are new
    DeleteAcls: tuple[tuple[Acl, ...], ...],  # the matches of each filter
    AlterClientQuotas: tuple[QuotaResult, ...],
}
COMMANDS: dict[str, type[Command]] = {each.__name__: each for each in REPLIES}


def to_wire(command: Command) -> tuple[str, tuple[object, ...]]:
    return type(command).__name__, command


class UnknownCommand(ValueError):
    """Of a release after this one."""


def from_wire(name: str, values: object) -> Command:
    """Raises UnknownCommand, and ValueError for values that are none of that command's."""
    kind = COMMANDS.get(name)
    if kind is None:
        raise UnknownCommand(f"no such command: {name!r:.40}")
    command: Command = _reader_of(kind)(values)
    return command


def read_reply(command: Command, plain: object) -> Any:
    """Turn another node's reply into its type. Raises ValueError for any other value."""
    return _reader_of(REPLIES[type(command)])(plain)


Read = Callable[[object], Any]  # turns a plain value into one of a type
_readers: dict[object, Read] = {}


def _reader_of(kind: object) -> Read:
    if kind not in _readers:
        _readers[kind] = _reader(kind)
    return _readers[kind]


def _reader(kind: Any) -> Read:
    """Return a function that turns a plain value into one of this type: a number, a string, `X |
    None`, a tuple, or a class of such fields.
    """
    arguments = get_args(kind)
    if kind is None or kind in (int, float, str, bytes, bool):
        return _scalar(type(None) if kind is None else kind)
    if isinstance(kind, UnionType):
        return _optional(_reader(arguments[0]))
    if get_origin(kind) is tuple and arguments[-1] is Ellipsis:
        return _sequence(_reader(arguments[0]))
    if get_origin(kind) is tuple:
        return _fields([_reader(each) for each in arguments], lambda *values: values)
    hints = get_type_hints(kind)
    least = len(kind._fields) - len(kind._field_defaults)
    return _fields([_reader(hints[name]) for name in kind._fields], kind, least)


def _scalar(kind: type) -> Read:
    def read(plain: object) -> object:
        if type(plain) is not kind:
            raise ValueError(f"{kind.__name__} expected, {type(plain).__name__} given")
        return plain

    return read


def _optional(inner: Read) -> Read:
    return lambda plain: None if plain is None else inner(plain)


def _sequence(inner: Read) -> Read:
    def read(plain: object) -> object:
        if not isinstance(plain, (list, tuple)):
            raise ValueError(f"array expected, {type(plain).__name__} given")
        return tuple([inner(each) for each in plain])

    return read


def _fields(readers: list[Read], build: Callable[..., object], least: int | None = None) -> Read:
    """`least`: how many fields have no default. A release adds fields behind the others: what an
    earlier one does not send has its default, what a later one sends is passed over.
    """

    def read(plain: object) -> object:
        if not isinstance(plain, (list, tuple)) or (
            len(plain) != len(readers) and (least is None or len(plain) < least)
        ):
            raise ValueError(f"{len(readers)} fields expected")
        return build(*[each(value) for each, value in zip(readers, plain, strict=False)])

    return read
