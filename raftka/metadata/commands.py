"""Commands of brokers to the controller, and their replies: frozen values of plain fields, in one
process and over the controller port alike.

`to_wire` gives a name and a tuple that msgpack takes as it is; `from_wire` is for what another node
sent and raises ValueError for anything else. A reply is what REPLIES says of its command; over the
wire it is bare, and `read_reply` gives the names back. Decides nothing.
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

Endpoints = tuple[tuple[str, str, int, str], ...]  # (listener, host, port, security protocol)


class Registered(NamedTuple):
    # TELL_HELD: a directory that was there before is not any more, so which replicas are? Nothing
    # is registered yet
    broker_epoch: int


TELL_HELD = -1
NO_DIRECTORY = bytes(16)


class HeartbeatAnswer(NamedTuple):
    fenced: bool
    caught_up: bool
    should_shutdown: bool


class AlteredPartition(NamedTuple):
    """With error 0 and with errors that know the partition: its state now, as the controller has
    it.
    """

    topic_id: bytes
    partition: int
    error: int
    leader: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1


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
    last_fetch_ms: int  # wall clock of the controller; -1: not heard of
    last_caught_up_ms: int
    directory_id: bytes = NO_DIRECTORY


class QuorumState(NamedTuple):
    """As the one that leads it sees it."""

    leader: int
    term: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


class ProducerIdBlock(NamedTuple):
    first: int
    size: int


class StaticSettings(NamedTuple):
    """A controller's number, and what its properties file gives that topics inherit."""

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
    total: int  # of all partitions, those that are there included
    # of each new one; None: the controller places them
    assignments: tuple[tuple[int, ...], ...] | None = None


class TopicPartitions(NamedTuple):
    name: str
    partitions: tuple[int, ...]


class Move(NamedTuple):
    partition: int
    replicas: tuple[int, ...] | None  # None: call off what is under way


class MovedTopic(NamedTuple):
    name: str
    partitions: tuple[Move, ...]


class FeatureUpdate(NamedTuple):
    name: str
    level: int  # 0: not finalized any more
    upgrade_type: int  # 1 upgrade, 2 safe downgrade, 3 unsafe downgrade


class ConfigChange(NamedTuple):
    name: str
    operation: int  # Kafka's: 0 set, 1 delete, 2 append, 3 subtract
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
    """Exactly one of them is to be given."""

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
    held: tuple[HeldReplicas, ...] | None = None  # only when it was asked for them

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


class BrokerLost(NamedTuple):
    """Its connection broke and its port refuses: the process is gone, no need to wait for the
    session's end.
    """

    broker_id: int
    broker_epoch: int


class ReplicasOffline(NamedTuple):
    """One of the broker's log directories failed: what lay in it, while the broker goes on with the
    others.
    """

    broker_id: int
    broker_epoch: int
    directory_id: bytes
    topics: tuple[TopicReplicas, ...]


class ReplicasLost(NamedTuple):
    """Records of these are gone from the broker's disk, which is there; others of their ISRs may
    have them.
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


class AlterConfigs(NamedTuple):
    resources: tuple[ConfigResource, ...]
    replace_all: bool = False  # what is not named goes back to its default
    validate_only: bool = False


class AllocateProducerIds(NamedTuple):
    broker_id: int
    broker_epoch: int


class TopicDefaults(NamedTuple):
    """Ask for the settings of a topic that sets none, from the controller's file: CreateTopics
    shows them, whichever broker gets the request.
    """


class WriteExtension(NamedTuple):
    """Puts and deletes (value None) of another package, one atomic batch."""

    package: str
    changes: tuple[tuple[bytes, bytes | None], ...]
    # not to be done if the package's entries changed after this offset; None: in any case
    read_at: int | None = None


class ExtensionCommand(NamedTuple):
    """For the package's own machine beside the controller; what is in it, and in the reply, is the
    package's matter.
    """

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
    | DescribeQuorum
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
    | TopicDefaults
)
OfTokens = AddToken | RenewToken | ExpireToken
Command = OfBrokers | WriteExtension | ExtensionCommand | OfTokens | Administration

REPLIES: dict[type[Command], object] = {  # their types, as `read_reply` reads them
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
    RenewToken: int,  # when it expires
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
    AlterScramCredentials: tuple[ScramResult, ...],
    CreateAcls: int,  # how many are new
    DeleteAcls: tuple[tuple[Acl, ...], ...],  # what each filter has found
    AlterClientQuotas: tuple[QuotaResult, ...],
}
COMMANDS: dict[str, type[Command]] = {each.__name__: each for each in REPLIES}


def to_wire(command: Command) -> tuple[str, tuple[object, ...]]:
    return type(command).__name__, command


def from_wire(name: str, values: object) -> Command:
    kind = COMMANDS.get(name)
    if kind is None:
        raise ValueError(f"no such command: {name!r:.40}")
    command: Command = _reader_of(kind)(values)
    return command


def read_reply(command: Command, plain: object) -> Any:
    """The reply of another node's controller, with its names. Raises ValueError when it is none."""
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
    return _fields([_reader(hints[name]) for name in kind._fields], kind)


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


def _fields(readers: list[Read], build: Callable[..., object]) -> Read:
    def read(plain: object) -> object:
        if not isinstance(plain, (list, tuple)) or len(plain) != len(readers):
            raise ValueError(f"{len(readers)} fields expected")
        return build(*[each(value) for each, value in zip(readers, plain, strict=True)])

    return read
