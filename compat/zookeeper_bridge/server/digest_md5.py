"""SASL's DIGEST-MD5 (RFC 2831) on the server's side, as ZooKeeper's clients know it, sans-IO.
Broken by design (RFC 6331): for TLS alone.

A client's empty message is answered by a challenge, its response by a proof that the server knows
the password too. Nothing is resumed.
"""

import re
from collections.abc import Mapping
from hashlib import md5
from hmac import compare_digest

REALM, URI, QOP, COUNT = "zk-sasl-md5", "zookeeper/zk-sasl-md5", "auth", "00000001"
NONCE_BYTES = 24
RESPONSE_BYTES = 4096  # RFC 2831: a response has fewer
_DIRECTIVE = re.compile(
    rb'\s*([A-Za-z][A-Za-z-]*)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",;=]+))\s*(?:,|$)', re.DOTALL
)


class LoginRefused(Exception):
    """The text is for the log, and has nothing of what the client has sent."""


class DigestMd5:
    """One login. `user` is set when the client has shown that it knows the password."""

    def __init__(self, passwords: Mapping[str, str], nonce: bytes) -> None:
        self.user: str | None = None
        self._passwords = passwords
        self._nonce = nonce.hex()
        self._challenged = self._over = False

    def step(self, token: bytes) -> bytes:
        """Raises LoginRefused; there is no further step then."""
        if self._over:
            raise LoginRefused("a message behind the end of the login")
        if not self._challenged:
            self._challenged = True
            if token:
                self._over = True
                raise LoginRefused("the first message is not empty")
            return (
                f'realm="{REALM}",nonce="{self._nonce}",qop="{QOP}",charset=utf-8,'
                "algorithm=md5-sess"
            ).encode()
        self._over = True
        return self._verify(token)

    def _verify(self, token: bytes) -> bytes:
        given = _directives(token)
        encoding = "utf-8" if given.get("charset", b"").lower() == b"utf-8" else "latin-1"
        try:
            found = {name: value.decode(encoding) for name, value in given.items()}
        except UnicodeDecodeError:
            raise LoginRefused("a response that is no text") from None
        user = found.get("username", "")
        expected = {"realm": REALM, "nonce": self._nonce, "nc": COUNT, "digest-uri": URI}
        for name, value in expected.items():
            if found.get(name) != value:
                raise LoginRefused(f"a wrong {name}")
        if found.get("qop", QOP) != QOP:
            raise LoginRefused("a wrong qop")
        if not user or not found.get("cnonce"):
            raise LoginRefused("no user, or no cnonce")
        if found.get("authzid", user) != user:
            raise LoginRefused("another identity is asked for than the user's own")
        password = self._passwords.get(user)
        secret = _proof_key(user, password or self._nonce, self._nonce, found, encoding)
        right = compare_digest(
            _proof(secret, "AUTHENTICATE:", self._nonce, found),
            found.get("response", "").encode("utf-8", "replace"),
        )
        if not right or password is None:
            raise LoginRefused("an unknown user or a wrong password")
        self.user = user
        return b"rspauth=" + _proof(secret, ":", self._nonce, found)


def _directives(token: bytes) -> dict[str, bytes]:
    """Raises LoginRefused for what is none, or comes twice."""
    if len(token) >= RESPONSE_BYTES:
        raise LoginRefused("a response that is too long")
    found: dict[str, bytes] = {}
    position = 0
    while position < len(token):
        match = _DIRECTIVE.match(token, position)
        if match is None:
            raise LoginRefused("a response that is malformed")
        name = match[1].decode().lower()
        if name in found:
            raise LoginRefused("a directive comes twice")
        found[name] = (
            re.sub(rb"\\(.)", rb"\1", match[2], flags=re.DOTALL)
            if match[2] is not None
            else match[3]
        )
        position = match.end()
    return found


def _proof_key(
    user: str, password: str, nonce: str, given: Mapping[str, str], encoding: str
) -> bytes:
    """H(A1), in hex."""
    inner = md5(b":".join(_hashed(each, encoding) for each in (user, REALM, password))).digest()
    parts = [inner, nonce.encode(), given["cnonce"].encode(encoding)]
    if "authzid" in given:
        parts.append(given["authzid"].encode(encoding))
    return md5(b":".join(parts)).hexdigest().encode()


def _hashed(text: str, encoding: str) -> bytes:
    """Return the hash of the text. Text that fits into Latin-1 is hashed as such, also where the
    client speaks UTF-8.
    """
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8" if encoding == "utf-8" else "latin-1", "replace")


def _proof(key: bytes, purpose: str, nonce: str, given: Mapping[str, str]) -> bytes:
    asked = md5(f"{purpose}{URI}".encode()).hexdigest()
    encoding = "utf-8" if given.get("charset", "").lower() == "utf-8" else "latin-1"
    rest = ":".join((nonce, COUNT, given["cnonce"], QOP, asked)).encode(encoding)
    return md5(key + b":" + rest).hexdigest().encode()
