"""OAUTHBEARER (RFC 7628, KIP-255), both sides, sans-IO: the client brings a token that somebody
else has issued. Knows no issuer and no key.

The server asks `verify` about the token. One that it does not take is answered with a status; the
client must acknowledge that with one byte, and the login has failed: whatever else comes in that
place is no second try.
"""

import re
from collections.abc import Callable
from urllib.parse import unquote, urlsplit

from raftka.security.mechanism import AuthenticationFailed
from raftka.security.oauth.jwt import InvalidToken, Verified

OAUTHBEARER = "OAUTHBEARER"
SEPARATOR = "\x01"
ACKNOWLEDGED = b"\x01"
INVALID_TOKEN = '{"status":"invalid_token"}'

_HEADER = re.compile(r"n,(?:a=((?:[\x01-+\--<>-\x7f]|=2C|=3D)+))?,")
_PAIR = re.compile(r"([A-Za-z]+)=([!-~ \t\r\n]+)")
_BEARER = re.compile(r"bearer +([-_.A-Za-z0-9]+)", re.IGNORECASE)


class OAuthBearerServer:
    """One login. `verify` raises InvalidToken."""

    def __init__(self, verify: Callable[[str], Verified]) -> None:
        self.name = OAUTHBEARER
        self.by_token = False
        self.user: str | None = None
        self.expires_ms: int | None = None
        self._verify = verify
        self._invalid = ""  # why the token was not taken, once it was not

    def step(self, token: bytes) -> bytes:
        if self._invalid:
            if token != ACKNOWLEDGED:
                raise AuthenticationFailed
            raise AuthenticationFailed(INVALID_TOKEN, self._invalid)
        authzid, bearer = _read(token)
        try:
            found = self._verify(bearer)
        except InvalidToken as error:
            self._invalid = f"the token is invalid: {error}"
            return INVALID_TOKEN.encode()
        if authzid and authzid != found.user:
            text = (
                f"Client requested an authorization id ({authzid}) that is different from the "
                f"token's principal name ({found.user})"
            )
            raise AuthenticationFailed(f"Authentication failed: {text}")
        self.expires_ms = found.expires_ms
        self.user = found.user
        return b""


def _read(message: bytes) -> tuple[str, str]:
    """The authorization id and the token. Raises AuthenticationFailed."""
    try:
        text = message.decode("ascii")
    except UnicodeDecodeError:
        raise AuthenticationFailed from None
    header, *rest = text.split(SEPARATOR)
    match = _HEADER.fullmatch(header)
    if match is None or len(rest) < 2 or rest[-2:] != ["", ""]:
        raise AuthenticationFailed
    pairs: dict[str, str] = {}
    for part in rest[:-2]:
        pair = _PAIR.fullmatch(part)
        if pair is None or pair[1] in pairs:
            raise AuthenticationFailed
        pairs[pair[1]] = pair[2]
    bearer = _BEARER.fullmatch(pairs.get("auth", ""))
    if bearer is None:
        raise AuthenticationFailed
    return (match[1] or "").replace("=2C", ",").replace("=3D", "="), bearer[1]


class OAuthBearerClient:
    def __init__(self, token: str) -> None:
        self.name = OAUTHBEARER
        self._token = token

    def first(self) -> bytes:
        return f"n,,{SEPARATOR}auth=Bearer {self._token}{SEPARATOR}{SEPARATOR}".encode()

    def step(self, token: bytes) -> bytes | None:
        """A status of the server's is acknowledged; then it tells the error."""
        return ACKNOWLEDGED if token else None


def file_of(url: str) -> str | None:
    """The path that a file URL names; None: it is another kind of URL. Raises ValueError for one
    that names another host's file, or none.
    """
    parts = urlsplit(url)
    if parts.scheme != "file":
        return None
    path = unquote(parts.path)
    if (
        parts.netloc not in ("", "localhost")
        or not path.startswith("/")
        or parts.query
        or parts.fragment
        or "\0" in path
    ):
        raise ValueError("a file's URL is file:///path")
    return path
