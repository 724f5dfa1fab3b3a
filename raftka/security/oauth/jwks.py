"""The keys of an issuer of tokens (JWKS, RFC 7517), and which of them a token's signature is to be
checked with (RFC 7518). Fetches nothing.

A token chooses among these keys by its key id, and never brings one: `jku`, `jwk` and `x5u` in its
header are not looked at. Of the algorithms there are those with a private and a public key only:
`none` and HS256 are not among them, whatever keys there are.
"""

import json
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from raftka.security.oauth.jwt import InvalidToken, Jwt

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

RSA_BITS = range(2048, 8193)
MOST_KEYS = 200
MOST_TRIED = 4  # keys with the same id
HASHES = {"256": "SHA256", "384": "SHA384", "512": "SHA512"}
CURVES = {
    "P-256": ("SECP256R1", "ES256", 32),
    "P-384": ("SECP384R1", "ES384", 48),
    "P-521": ("SECP521R1", "ES512", 66),
}
RSA_ALGORITHMS = tuple(kind + size for kind in ("RS", "PS") for size in HASHES)
# whether the token's signature is by the key; its algorithm is one of the key's
Checks = Callable[[Jwt], bool]


class JwksError(ValueError):
    """This is no set of keys. The text is for the operator."""


class UnknownKey(InvalidToken):
    """No key has the token's key id: the issuer may have a new one."""


class Key(NamedTuple):
    key_id: str | None
    algorithms: tuple[str, ...]
    checks: Checks


@dataclass(frozen=True, slots=True)
class KeySet:
    keys: tuple[Key, ...]

    def verify(self, token: Jwt) -> None:
        """Raises InvalidToken unless the token is signed by the key that it names, or by the only
        one that it can mean.
        """
        algorithm, key_id = token.algorithm, token.key_id
        fitting = [key for key in self.keys if algorithm in key.algorithms]
        if key_id is None:
            if len(fitting) != 1:
                raise InvalidToken(
                    "it names no key (kid), and not exactly one key is for its algorithm"
                )
        elif all(key.key_id != key_id for key in self.keys):
            raise UnknownKey("there is no key with its key id (kid)")
        else:
            fitting = [key for key in fitting if key.key_id == key_id][:MOST_TRIED]
        if not fitting:
            raise InvalidToken("no key is for its algorithm (alg)")
        if not any(key.checks(token) for key in fitting):
            raise InvalidToken("its signature is not by the issuer")


def read_key_set(data: bytes) -> KeySet:
    """Keys of other kinds are passed over. Raises JwksError when none is left."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise JwksError("this is no JSON") from None
    rows = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(rows, list) or len(rows) > MOST_KEYS:
        raise JwksError(f"this is no JSON object with a list of at most {MOST_KEYS} keys")
    keys = [key for row in rows if isinstance(row, dict) and (key := _key(row)) is not None]
    if not keys:
        raise JwksError(
            "no key is one for RS256, PS256, ES256 or their longer forms; RSA keys have 2048 to "
            "8192 bits"
        )
    return KeySet(tuple(keys))


def _key(row: Mapping[str, object]) -> Key | None:
    """None: not one that signs tokens, or of another kind."""
    operations = row.get("key_ops")
    if row.get("use", "sig") != "sig" or (
        isinstance(operations, list) and "verify" not in operations
    ):
        return None
    made = {"RSA": _rsa, "EC": _elliptic}.get(str(row.get("kty")), _other)(row)
    if made is None:
        return None
    algorithms, checks = made
    if row.get("alg") is not None:
        algorithms = tuple(each for each in algorithms if each == row["alg"])
    key_id = row.get("kid")
    return (
        Key(key_id if isinstance(key_id, str) else None, algorithms, checks) if algorithms else None
    )


def _other(row: Mapping[str, object]) -> None:
    return None


def _rsa(row: Mapping[str, object]) -> tuple[tuple[str, ...], Checks] | None:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

    modulus, exponent = _number(row.get("n")), _number(row.get("e"))
    if modulus.bit_length() not in RSA_BITS or not 3 <= exponent < 1 << 32:
        return None
    try:
        key = RSAPublicNumbers(exponent, modulus).public_key()
    except ValueError:
        return None
    return RSA_ALGORITHMS, lambda token: _rsa_signed(key, token)


def _rsa_signed(key: "RSAPublicKey", token: Jwt) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    algorithm = getattr(hashes, HASHES[token.algorithm[2:]])()
    pss = padding.PSS(padding.MGF1(algorithm), padding.PSS.DIGEST_LENGTH)
    try:
        key.verify(
            token.signature,
            token.signed,
            pss if token.algorithm.startswith("PS") else padding.PKCS1v15(),
            algorithm,
        )
    except InvalidSignature:
        return False
    return True


def _elliptic(row: Mapping[str, object]) -> tuple[tuple[str, ...], Checks] | None:
    from cryptography.hazmat.primitives.asymmetric import ec

    curve = CURVES.get(str(row.get("crv")))
    if curve is None:
        return None
    name, algorithm, size = curve
    try:
        key = ec.EllipticCurvePublicNumbers(
            _number(row.get("x")), _number(row.get("y")), getattr(ec, name)()
        ).public_key()
    except ValueError:  # a point that is not on the curve
        return None
    return (algorithm,), lambda token: _elliptic_signed(key, size, token)


def _elliptic_signed(key: "EllipticCurvePublicKey", size: int, token: Jwt) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    signature = token.signature
    if len(signature) != 2 * size:
        return False
    algorithm = ec.ECDSA(getattr(hashes, HASHES[token.algorithm[2:]])())
    encoded = utils.encode_dss_signature(
        int.from_bytes(signature[:size]), int.from_bytes(signature[size:])
    )
    try:
        key.verify(encoded, token.signed, algorithm)
    except InvalidSignature:
        return False
    return True


def _number(text: object) -> int:
    """Return 0 for a value that is no number."""
    if not isinstance(text, str):
        return 0
    try:
        return int.from_bytes(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except ValueError:
        return 0
