"""Clients that are members of groups: the only ones that Kafka's protocol names."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from raftka.client.blocking.groups import describe_groups
from raftka.console.groups.history import host_of
from raftka.console.limits import DESCRIBED_GROUPS
from raftka.console.rows import missing_nodes
from raftka.console.sessions import Session
from raftka.console.view.beside import Beside
from raftka.console.view.cached import Cached, Effort

CLIENTS_S, GROUPS_S = 5.0, 5.0  # ages that serve
WITHOUT_MEMBERS = ("Empty", "Dead")


@dataclass(slots=True)
class GroupClient:
    """All members with one client id at one host."""

    client_id: str
    host: str
    members: int = 0
    partitions: int = 0  # that are assigned to them
    groups: set[str] = field(default_factory=set)


class Clients(NamedTuple):
    found: Sequence[GroupClient]
    missing: Mapping[str, str]  # brokers and groups that have not answered, and why
    is_cut: bool  # more groups have members than were asked


class ClientMonitor:
    """State of a cluster for the page of clients. For many threads."""

    def __init__(self, session: Callable[[], Session]) -> None:
        self._session = session
        self._clients: Cached[Clients] = Cached(self._read)

    def clients(self) -> Clients:
        """Raises OSError, ClientError and KafkaError."""
        return self._clients.get(CLIENTS_S).value

    def _read(self, _: Effort) -> Clients:
        session = self._session()
        groups = session.view.groups(GROUPS_S)
        alive = [each for each in groups.of.values() if each.state not in WITHOUT_MEMBERS]
        asked = sorted(each.group_id for each in alive)
        most = DESCRIBED_GROUPS.value
        with session.client() as client:
            described, lost = describe_groups(client, asked[:most])
        found: dict[tuple[str, str], GroupClient] = {}
        for group_id, group in described.items():
            for member in group.members:
                key = member.client_id, host_of(member)
                each = found.setdefault(key, GroupClient(*key))
                each.members += 1
                each.partitions += len(member.assigned)
                each.groups.add(group_id)
        missing = {**missing_nodes(groups.missing), **lost}
        return Clients(list(found.values()), missing, len(asked) > most)


MONITORS: Beside[Session, ClientMonitor] = Beside(ClientMonitor)
