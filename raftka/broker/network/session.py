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
    # of the authorizer, about this client
    decisions: dict[tuple[str, tuple[str, str]], bool] = field(default_factory=dict, repr=False)
    decided_at: int = -1  # the state of the ACLs that they are about
    quotas: Applied | None = None  # that applied when it was asked last
