"""Keys and certificates in the forms in which Kafka's settings give them: PEM, in files or inline,
and PKCS12. Reads no file itself.
"""

import re
from binascii import a2b_base64
from typing import NamedTuple

from raftka.security import cryptography_package
from raftka.security.certificates import read_certificate

PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]+)-----END \1-----")
PEM_LINE = 64
JAVA_KEY_STORE = b"\xfe\xed\xfe\xed"
NO_JKS = (
    "is a Java key store (JKS): convert it with `keytool -importkeystore -srckeystore OLD.jks "
    "-destkeystore NEW.p12 -deststoretype PKCS12`"
)


class StoreError(ValueError):
    """A store that cannot be used. The text is for whoever gave it, and has no secret."""


class Store(NamedTuple):
    """PEM texts. `key` is empty where there is none; of the certificates the key's own is the
    first.
    """

    key: str
    certificates: tuple[str, ...]


def read_store(data: bytes, password: str | None, name: str) -> Store:
    """The content of a file of either form. `name`: whose it is, for errors. Raises StoreError."""
    if data.startswith(JAVA_KEY_STORE):
        raise StoreError(f"{name} {NO_JKS}")
    if b"-----BEGIN " in data:
        return read_pem(data.decode("utf-8", "replace"), name)
    return _read_pkcs12(data, password, name)


def read_pem(text: str, name: str) -> Store:
    """Line ends may have become blanks, as in a properties file. Raises StoreError."""
    keys, certificates = [], []
    for kind, body in PEM_BLOCK.findall(text):
        base64 = "".join(body.split())
        lines = [base64[at : at + PEM_LINE] for at in range(0, len(base64), PEM_LINE)]
        block = "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""])
        if kind.endswith("PRIVATE KEY"):
            keys.append(block)
        elif kind == "CERTIFICATE":
            certificates.append(block)
    if len(keys) > 1:
        raise StoreError(f"{name} has more than one private key")
    if not keys and not certificates:
        raise StoreError(f"{name} has no PEM block of a private key or a certificate")
    return Store(keys[0] if keys else "", tuple(certificates))


def _read_pkcs12(data: bytes, password: str | None, name: str) -> Store:
    if not cryptography_package.is_installed():
        raise StoreError(f"{name} is not PEM, and PKCS12 {cryptography_package.NEEDS_IT}")
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    try:
        found = load_pkcs12(data, password.encode() if password is not None else None)
    except ValueError:
        raise StoreError(f"{name} is neither PEM nor PKCS12, or its password is wrong") from None
    key = (
        found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        if found.key is not None
        else ""
    )
    certificates = (
        [found.cert, *found.additional_certs] if found.cert is not None else found.additional_certs
    )
    return Store(
        key,
        tuple(
            each.certificate.public_bytes(Encoding.PEM).decode()
            for each in certificates
            if each is not None
        ),
    )


def expires_s(certificate: str) -> int:
    """Return the end of a certificate (PEM), in seconds since the epoch. Raises ValueError."""
    match = PEM_BLOCK.search(certificate)
    return read_certificate(a2b_base64(match[2]) if match is not None else b"").expires_s
