"""Addresses of this machine, as sockets know them."""

import socket


def plain_host(host: str) -> str:
    """Return an IPv4 address that a socket for both versions writes as `::ffff:a.b.c.d` in its own
    form; others as they are.
    """
    mapped = host.removeprefix("::ffff:")
    return mapped if "." in mapped else host


def address_towards(host: str, port: int) -> str | None:
    """Return this machine's address on the way to another; None when the name is not known, or
    there is no way. A datagram socket that is connected sends nothing.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except OSError:
        return None
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as sock:
                sock.connect(address)
                return plain_host(str(sock.getsockname()[0]))
        except OSError:
            continue
    return None
