"""The address of a bridge, and the login of its client. Opens nothing."""

from typing import NamedTuple


class Address(NamedTuple):
    servers: str  # host:port, several with commas
    digest: str | None = None  # user:password
    # file with the certificates that the bridge's are signed by; given: the connection has TLS
    ca: str | None = None
    certificate: str | None = None  # file with the client's own key and certificates
