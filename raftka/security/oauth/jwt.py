"""JSON Web Tokens (RFC 7519), as text and as claims: how they are read, and what must hold of their
claims. Knows no key and no clock.

A token is a stranger's until its signature is checked: JSON with a name twice, a number that is
none, or base64 in another form than the one that there is, is no token.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import NamedTuple

LONGEST_KEY_ID = 1000  # characters
_BASE64_URL = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
Claims = Mapping[str, object]


class InvalidToken(Exception):
    """The token lets nobody in. The text is for the operator's log, and has nothing of the
    token.
    """


class Jwt(NamedTuple):
    header: Claims
    claims: Claims
    signed: bytes  # what the signature is of
    signature: bytes

    @property
    def algorithm(self) -> str:
        name = self.header.get("alg")
        return name if isinstance(name, str) else ""

    @property
    def key_id(self) -> str | None:
        """Raises InvalidToken."""
        key_id = self.header.get("kid")
        if key_id is None or (isinstance(key_id, str) and len(key_id) <= LONGEST_KEY_ID):
            return key_id
        raise InvalidToken("its key id (kid) is no string, or too long")


class Expected(NamedTuple):
    """The claims that a token must have, from the settings."""

    audiences: tuple[str, ...] = ()  # one of them; empty: any
    issuer: str | None = None  # None: any
    skew_ms: int = 30_000  # between our clock and the issuer's
    user_claim: str = "sub"
    scope_claim: str = "scope"
    scopes: tuple[str, ...] = ()  # all of them
    must_be_issued: bool = True  # has the claim iat


class Verified(NamedTuple):
    """The client that a token is of."""

    user: str
    expires_ms: int  # wall clock


def read_jwt(text: str) -> Jwt:
    """Raises InvalidToken."""
    parts = text.split(".")
    if len(parts) != 3:
        raise InvalidToken("it does not have three parts")
    header, claims = (_read_json(part) for part in parts[:2])
    if "crit" in header:
        raise InvalidToken("its header asks for an extension (crit)")
    return Jwt(header, claims, f"{parts[0]}.{parts[1]}".encode(), _unbase64(parts[2]))


def unsecured_jwt(claims: Claims) -> str:
    """A token without a signature."""
    return (
        ".".join([_base64(json.dumps(each).encode()) for each in ({"alg": "none"}, claims)]) + "."
    )


def check_claims(claims: Claims, expected: Expected, now_ms: int) -> Verified:
    """Raises InvalidToken. A token that has expired is invalid at once: within the skew it would
    give a session that is over before it begins.
    """
    expires_ms = _time_ms(claims, "exp")
    if expires_ms is None:
        raise InvalidToken("it has no time of expiry (exp)")
    if expires_ms <= now_ms:
        raise InvalidToken("it has expired")
    issued_ms, begins_ms = _time_ms(claims, "iat"), _time_ms(claims, "nbf")
    if issued_ms is None and expected.must_be_issued:
        raise InvalidToken("it has no time of issue (iat)")
    if issued_ms is not None and expires_ms < issued_ms:
        raise InvalidToken("it expires before it is issued")
    if begins_ms is not None and begins_ms > now_ms + expected.skew_ms:
        raise InvalidToken("it is not valid yet (nbf)")
    if expected.issuer is not None and claims.get("iss") != expected.issuer:
        raise InvalidToken("it is of another issuer (iss)")
    if expected.audiences and set(_strings(claims, "aud")).isdisjoint(expected.audiences):
        raise InvalidToken("it is for another audience (aud)")
    scopes = _scopes(claims, expected.scope_claim)
    if not set(expected.scopes) <= set(scopes):
        raise InvalidToken("it does not have all scopes that are asked for")
    return Verified(_user(claims, expected.user_claim), expires_ms)


def _user(claims: Claims, name: str) -> str:
    """Exactly as it stands: a name with blanks around is not trimmed to another user's."""
    user = claims.get(name)
    if (
        not isinstance(user, str)
        or not user
        or user != user.strip()
        or min(user[0], user[-1]) <= " "
    ):
        raise InvalidToken(f"its claim {name} is no name, or has blanks around")
    try:
        user.encode()
    except UnicodeEncodeError:
        raise InvalidToken(f"its claim {name} is no text") from None
    return user


def _scopes(claims: Claims, name: str) -> list[str]:
    """A string is one scope, or several with blanks between; a list has each once."""
    if claims.get(name) is None:
        return []
    scopes = [each.strip() for each in _strings(claims, name)]
    if not all(scopes) or len(set(scopes)) < len(scopes):
        raise InvalidToken(f"its claim {name} has an empty scope, or one twice")
    return [part for each in scopes for part in each.split()]


def _strings(claims: Claims, name: str) -> list[str]:
    value = claims.get(name)
    values = value if isinstance(value, list) else [] if value is None else [value]
    strings = [each for each in values if isinstance(each, str)]
    if len(strings) < len(values):
        raise InvalidToken(f"its claim {name} is no string, and no list of strings")
    return strings


def _time_ms(claims: Claims, name: str) -> int | None:
    seconds = claims.get(name)
    if seconds is None:
        return None
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, int | float)
        or not isfinite(seconds)
        or abs(seconds) > 1e12
    ):
        raise InvalidToken(f"its claim {name} is no time")
    return int(seconds * 1000)


def _read_json(part: str) -> Claims:
    try:
        value = json.loads(_unbase64(part), object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise InvalidToken("its header or its claims are no JSON, or have a name twice") from None
    if not isinstance(value, dict):
        raise InvalidToken("its header or its claims are no JSON object")
    return value


def _once(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError("a name twice")
        found[name] = value
    return found


def _no_number(text: str) -> object:
    raise ValueError("NaN or infinity")


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _unbase64(text: str) -> bytes:
    """Base64 for URLs, without padding, in its one form."""
    data = text.encode("utf-8", "surrogatepass")
    try:
        decoded = (
            urlsafe_b64decode(data + b"=" * (-len(data) % 4))
            if _BASE64_URL.issuperset(data)
            else b""
        )
    except Base64Error:
        decoded = b""
    if _base64(decoded) != text:
        raise InvalidToken("it is not in base64 for URLs")
    return decoded
