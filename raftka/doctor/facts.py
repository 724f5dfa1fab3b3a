"""Facts about a cluster, and about one node of this machine: plain values, gathered once. Times are
ms since 1970 by this machine's clock unless a name says otherwise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from raftka.client.blocking.access import Quota
from raftka.client.blocking.client import Where
from raftka.client.blocking.log_dirs import Directory
from raftka.client.blocking.quorum import Quorum
from raftka.client.blocking.transaction_admin import OpenTransaction
from raftka.client.connection import Address
from raftka.security.acls import Acl
from raftka.security.certificates import Certificate

Settings = Mapping[str, str]
NO_SETTINGS: Settings = MappingProxyType({})


class Broker(NamedTuple):
    """`apis`: lowest and highest version by API key; `levels`: likewise of features it supports.
    Those, `settings`, `directories` and `metrics` are empty where the broker does not tell.
    """

    node_id: int
    host: str
    port: int
    rack: str | None = None
    is_alive: bool = True
    settings: Settings = NO_SETTINGS
    apis: Mapping[int, tuple[int, int]] = MappingProxyType({})
    levels: Mapping[str, tuple[int, int]] = MappingProxyType({})
    directories: Sequence[Directory] = ()
    metrics: Mapping[str, float] = MappingProxyType({})
    clock_ahead_ms: int | None = None  # of this machine's
    other_node: str | None = None  # the broker's id, as the process at its address has it

    @property
    def address(self) -> Address:
        return self.host, self.port


class Partition(NamedTuple):
    leader: int  # -1: none
    replicas: Sequence[int]
    isr: Sequence[int]


class Topic(NamedTuple):
    name: str
    partitions: Mapping[int, Partition]
    settings: Settings = NO_SETTINGS

    @property
    def factor(self) -> int:
        return max((len(each.replicas) for each in self.partitions.values()), default=0)


class Offsets(NamedTuple):
    """Of a group in a partition. None: it is not known. `begin` and `end`: of the log."""

    committed: int | None
    begin: int | None
    end: int | None


class Group(NamedTuple):
    """`stands`: partitions in which a share group has records left and has not moved between two
    looks.
    """

    id: str
    type: str  # classic, consumer, share or streams
    members: int
    offsets: Mapping[Where, Offsets]
    stands: Sequence[Where] = ()


class Endpoint(NamedTuple):
    """An address as it is seen from here. `error`: why no connection could be made."""

    host: str
    port: int
    ips: Sequence[str] = ()
    error: str | None = None
    certificate: Certificate | None = None


class Token(NamedTuple):
    id: str
    expires_ms: int


class Machine(NamedTuple):
    """Limits of this machine, for the process of a node or the next one. -1: not known."""

    max_files: int = -1
    aio_used: int = -1  # asynchronous requests, of all processes
    aio_max: int = -1
    memory_used: int = -1  # bytes, of the control group
    memory_max: int = -1
    swapped: int = -1  # bytes of the process


class LocalDirectory(NamedTuple):
    """`error`: why it cannot be written. `there`: the nearest folder that exists."""

    path: str
    there: str
    error: str | None


class Node(NamedTuple):
    """The node that a properties file describes, on this machine. `refused`: why no node starts
    with the file. `advertised`: address and listener's port by listener.
    """

    file: str
    refused: str | None = None
    unused: Sequence[str] = ()
    directories: Sequence[LocalDirectory] = ()
    advertised: Mapping[str, tuple[str, int, int]] = MappingProxyType({})
    super_users: Sequence[str] = ()
    allows_everyone: bool = False  # what no ACL is about
    machine: Machine = Machine()
    snapshot_age_ms: int | None = None  # of the metadata log
    journal_bytes: int = 0  # behind that snapshot


@dataclass(frozen=True)
class Facts:
    """`unknown`: subjects about which the cluster did not tell, and why."""

    bootstrap: Sequence[Address] = ()
    controller: int = -1
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    levels: Mapping[str, int] = field(default_factory=dict)  # of finalised features
    quorum: Quorum | None = None
    leader_ahead_ms: int | None = None  # the quorum leader's clock, of this machine's
    stuck_moves: Sequence[Where] = ()  # reassignments whose new replicas did not grow
    groups: Sequence[Group] = ()
    hanging: Sequence[OpenTransaction] = ()
    quotas: Sequence[Quota] = ()
    acls: Sequence[Acl] = ()
    scram_users: Sequence[str] | None = None  # None: not known
    tokens: Sequence[Token] = ()
    endpoints: Sequence[Endpoint] = ()
    newest_ms: Mapping[Where, int] = field(default_factory=dict)  # the latest time of a record
    node: Node | None = None
    now_ms: int = 0
    unknown: Mapping[str, str] = field(default_factory=dict)

    @property
    def alive(self) -> list[Broker]:
        return [each for each in self.brokers.values() if each.is_alive]

    def setting(self, name: str) -> dict[int, str]:
        """Return the values of a broker's setting by broker, of those that tell it."""
        return {
            each.node_id: each.settings[name]
            for each in self.alive
            if each.settings.get(name) is not None
        }
