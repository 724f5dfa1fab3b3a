"""Proofs and signatures of SCRAM for recorded logins."""

import hashlib
import hmac
from base64 import b64encode

from raftka.security.scram import HASHES

SAME = {"127.0.0.1": "n1", 24092: 9092, 24095: 9092}


def proof(mechanism: str, salted: bytes, message: str) -> str:
    """Return the proof of a client that has this salted password."""
    name = HASHES[mechanism]
    key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(hashlib.new(name, key).digest(), message.encode(), name)
    return b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()


def server_signature(mechanism: str, salted: bytes, message: str) -> bytes:
    name = HASHES[mechanism]
    return b"v=" + b64encode(
        hmac.digest(hmac.digest(salted, b"Server Key", name), message.encode(), name)
    )
