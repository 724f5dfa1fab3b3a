"""Facts about addresses, as they are seen from this machine: their names, whether they answer, and
their certificates.
"""

import socket
import ssl
import threading
from collections.abc import Iterable

from raftka.client.connection import Address
from raftka.doctor.facts import Endpoint
from raftka.security.certificates import read_certificate

CONNECT_S = 3.0


def look_at(addresses: Iterable[Address], *, with_tls: bool) -> list[Endpoint]:
    """Connect to all of them at once. `with_tls`: and read their certificates."""
    found: dict[Address, Endpoint] = {}

    def look(address: Address) -> None:
        found[address] = _endpoint(address, with_tls=with_tls)

    threads = [
        threading.Thread(target=look, args=(each,), daemon=True)
        for each in dict.fromkeys(addresses)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(2 * CONNECT_S + 1)
    return [found[each] for each in sorted(found)]


def _endpoint(address: Address, *, with_tls: bool) -> Endpoint:
    host, port = address
    try:
        rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        return Endpoint(host, port, error=f"the name does not resolve: {error.strerror or error}")
    endpoint = Endpoint(host, port, sorted({str(row[4][0]) for row in rows}))
    try:
        with socket.create_connection(address, CONNECT_S) as connection:
            return _with_certificate(endpoint, connection) if with_tls else endpoint
    except OSError as error:
        return endpoint._replace(error=str(error.strerror or error))


def _with_certificate(endpoint: Endpoint, connection: socket.socket) -> Endpoint:
    """Read the certificate of a TLS server and verify nothing: that is the checks' part."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with context.wrap_socket(connection, server_hostname=endpoint.host) as secured:
            data = secured.getpeercert(binary_form=True)
    except (OSError, ValueError) as error:
        return endpoint._replace(error=f"no TLS handshake: {error}")
    try:
        return endpoint._replace(certificate=read_certificate(data or b""))
    except ValueError as error:
        return endpoint._replace(error=str(error))


def is_own(host: str) -> bool:
    """Return whether a name or address is one of this machine's loopback."""
    try:
        rows = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(is_loopback(str(row[4][0])) for row in rows)


def is_loopback(ip: str) -> bool:
    return ip == "::1" or ip.startswith("127.")
