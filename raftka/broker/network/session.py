"""The client of a connection: listener, address, principal."""

from dataclasses import dataclass, field

from raftka.broker.network.quotas.precedence import Applied


@dataclass(slots=True)
class Session:
    """The client of a request; goes with every request, forwarded ones too."""

    listener: str
    peer: str = ""
    principal: str = "User:ANONYMOUS"
    client_id: str | None = None
    authenticated: bool = True
    mechanism: str = ""  # of SASL, with which the client logged in
    by_token: bool = False  # it logged in with a delegation token
    # decisions of the authorizer about this client, by operation and resource
    decisions: dict[tuple[str, tuple[str, str]], bool] = field(default_factory=dict, repr=False)
    decided_at: int = -1  # the version of the ACLs that they follow
    quotas: Applied | None = None  # that applied at the last request
