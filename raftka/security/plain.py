"""PLAIN (RFC 4616), both sides, sans-IO: the password itself travels, so a listener with PLAIN
needs TLS. Knows no settings.
"""

import hmac
from collections.abc import Mapping

from raftka.security.mechanism import AuthenticationFailed

PLAIN = "PLAIN"


class PlainServer:
    """One login. `passwords`: by user."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self.name = PLAIN
        self.by_token = False
        self.user: str | None = None
        self.expires_ms: int | None = None
        self._passwords = passwords

    def step(self, token: bytes) -> bytes:
        """Take authzid NUL user NUL password. Kafka's checks in Kafka's order, with its words."""
        parts = token.decode(errors="replace").split("\0")
        if len(parts) != 3:
            raise AuthenticationFailed(
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            )
        authzid, user, password = parts
        if not user:
            raise AuthenticationFailed("Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailed("Authentication failed: password not specified")
        expected = self._passwords.get(user)
        right = hmac.compare_digest(password.encode(), (expected or "").encode())
        if expected is None or not right:
            raise AuthenticationFailed("Authentication failed: Invalid username or password")
        if authzid and authzid != user:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self.user = user
        return b""


class PlainClient:
    def __init__(self, user: str, password: str) -> None:
        self.name = PLAIN
        self._token = f"\0{user}\0{password}".encode()

    def first(self) -> bytes:
        return self._token

    def step(self, token: bytes) -> bytes | None:
        return None
