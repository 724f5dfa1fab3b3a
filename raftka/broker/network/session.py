"""The client of a connection: listener, address, principal, software."""

from dataclasses import dataclass, field

from raftka.broker.network.quotas.precedence import Applied
from raftka.wire.software import SOFTWARE_NAME

Software = tuple[str, str]  # name and version
UNKNOWN_SOFTWARE: Software = ("unknown", "unknown")  # Kafka's words for a client that told none
OTHER_SOFTWARE: Software = ("other", "other")


@dataclass(slots=True)
class Session:
    """The client of a request; goes with every request, forwarded ones too."""

    listener: str
    peer: str = ""
    # the address at which the client has reached this node, where the listener is automatic
    reached_at: str = ""
    principal: str = "User:ANONYMOUS"
    client_id: str | None = None
    software: Software = UNKNOWN_SOFTWARE  # that its last ApiVersions has told
    authenticated: bool = True
    mechanism: str = ""  # of SASL, with which the client logged in
    by_token: bool = False  # it logged in with a delegation token
    # decisions of the authorizer about this client, by operation and resource
    decisions: dict[tuple[str, tuple[str, str]], bool] = field(default_factory=dict, repr=False)
    decided_at: int = -1  # the version of the ACLs that they follow
    quotas: Applied | None = None  # that applied at the last request

    @property
    def host(self) -> str:
        """The client's address, without the port."""
        return self.peer.rpartition(":")[0].strip("[]")

    @property
    def java_host(self) -> str:
        """The same, as Java writes an address."""
        return f"/{self.host}"

    @property
    def is_raftka(self) -> bool:
        """Return whether a node or tool of raftka is the client: no ceiling holds for it."""
        return self.software[0] == SOFTWARE_NAME
