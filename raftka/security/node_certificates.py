"""The nodes of a cluster that a certificate is for: URIs among its alternative names,
`urn:raftka:node:1`.
"""

from raftka.security.certificates import read_certificate

NODE_URI = "urn:raftka:node:"


def node_uri(node_id: int) -> str:
    return f"{NODE_URI}{node_id}"


def nodes_of(certificate: bytes) -> frozenset[int]:
    """Return the ids of the nodes that a certificate (DER, verified) is for; empty: it names none.
    Raises ValueError.
    """
    numbers = [
        uri.removeprefix(NODE_URI)
        for uri in read_certificate(certificate).uris
        if uri.startswith(NODE_URI)
    ]
    return frozenset(int(number) for number in numbers if number.isdecimal() and number.isascii())
