"""The client of a connection: listener, address, principal."""

from dataclasses import dataclass


@dataclass(slots=True)
class Session:
    """The client of a request; goes with every request, forwarded ones too."""

    listener: str
    peer: str = ""
    principal: str = "User:ANONYMOUS"
    client_id: str | None = None
    authenticated: bool = True
    mechanism: str = ""  # of SASL, with which the client logged in
