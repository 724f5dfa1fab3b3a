"""Delegation tokens (KIP-48): what one is, and the credentials with which it logs in by SCRAM.
Knows no clock and no metadata log.

A token's id is public. Its HMAC, made of the id with the cluster's key, is its password: whoever
has it acts as the owner until the token ends.
"""

import hmac
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from typing import NamedTuple

from raftka.security.scram import NUMBERS, SALT_BYTES, ScramCredential, make_credential

ID_BYTES = 16
USER_PREFIX = "User:"


class TokenCredential(NamedTuple):
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class DelegationToken(NamedTuple):
    token_id: str
    owner: str  # this and the others are principals
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    hmac: bytes
    # one for each mechanism, made when the token is: a login costs no PBKDF2
    credentials: tuple[TokenCredential, ...]

    def credential(self, mechanism: int) -> ScramCredential | None:
        return next(
            (
                ScramCredential(*each[1:])
                for each in self.credentials
                if each.mechanism == mechanism
            ),
            None,
        )

    def may_be_renewed_by(self, principal: str) -> bool:
        return principal == self.owner or principal in self.renewers


def new_token_id(randbytes: Callable[[int], bytes]) -> str:
    return urlsafe_b64encode(randbytes(ID_BYTES)).rstrip(b"=").decode()


def hmac_of(key: str, token_id: str) -> bytes:
    return hmac.digest(key.encode(), token_id.encode(), "sha512")


def password_of(token_hmac: bytes) -> str:
    return b64encode(token_hmac).decode()


def salts_of(randbytes: Callable[[int], bytes]) -> tuple[bytes, ...]:
    return tuple([randbytes(SALT_BYTES) for _ in NUMBERS])


def make_credentials(token_hmac: bytes, salts: tuple[bytes, ...]) -> tuple[TokenCredential, ...]:
    """Takes some milliseconds: PBKDF2."""
    password = password_of(token_hmac)
    mechanisms = zip(NUMBERS.items(), salts, strict=True)
    return tuple(
        [
            TokenCredential(number, *make_credential(name, password, salt))
            for (number, name), salt in mechanisms
        ]
    )
