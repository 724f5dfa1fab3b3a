"""The common interface of all SASL mechanisms."""

from typing import Protocol

GSSAPI = "GSSAPI"
# mechanisms whose steps read files or ask others: they are taken beside the loop
BESIDE_LOOP = frozenset({GSSAPI})


class AuthenticationFailed(Exception):
    """The client is not let in. The text is for the client; without one it gets the words that all
    failures share. `reason`: for the log.
    """

    def __init__(self, text: str = "", reason: str = "") -> None:
        super().__init__(text)
        self.reason = reason


class NotReady(Exception):
    """Nobody can be let in or refused yet. The client is to come again."""


class ServerMechanism(Protocol):
    """One login on the server's side, sans-IO."""

    name: str
    by_token: bool  # with a delegation token
    user: str | None  # once the client is known: then there is no further step
    expires_ms: int | None  # wall clock: when the credential ends; None: never

    def step(self, token: bytes) -> bytes:
        """Take the client's message and return the answer. Raises AuthenticationFailed and
        NotReady.
        """


class ClientMechanism(Protocol):
    """One login on the client's side, sans-IO."""

    name: str

    def first(self) -> bytes:
        """Return the first message."""

    def step(self, token: bytes) -> bytes | None:
        """Take the server's message and return the next; None: there is none. Raises
        AuthenticationFailed.
        """
