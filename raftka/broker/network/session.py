"""Who speaks on a connection."""

from dataclasses import dataclass


@dataclass(slots=True)
class Session:
    """Who speaks: goes with every request, forwarded ones too."""

    listener: str
    peer: str = ""
    principal: str = "User:ANONYMOUS"
    client_id: str | None = None
    authenticated: bool = True
