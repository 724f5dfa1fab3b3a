"""The nodes of a cluster that a certificate is for: URIs among its alternative names,
`urn:raftka:node:1`.
"""

NODE_URI = "urn:raftka:node:"


def node_uri(node_id: int) -> str:
    return f"{NODE_URI}{node_id}"


def nodes_of(certificate: bytes) -> frozenset[int]:
    """The ids of the nodes that a certificate (DER, verified) is for; empty: it names none."""
    from cryptography.x509 import (
        ExtensionNotFound,
        SubjectAlternativeName,
        UniformResourceIdentifier,
        load_der_x509_certificate,
    )

    try:
        names = (
            load_der_x509_certificate(certificate)
            .extensions.get_extension_for_class(SubjectAlternativeName)
            .value
        )
    except ExtensionNotFound:
        return frozenset()
    numbers = [
        uri.removeprefix(NODE_URI)
        for uri in names.get_values_for_type(UniformResourceIdentifier)
        if uri.startswith(NODE_URI)
    ]
    return frozenset(int(number) for number in numbers if number.isdecimal() and number.isascii())
