"""SASL logins between nodes, before their greeting: the messages of both sides, sans-IO.

The dialing side sends a mechanism's name and a token. The other side answers with a token, or with
the reason of its refusal. Users and passwords are those of the controller listener's JAAS line, for
PLAIN and SCRAM alike: when controllers meet, they do not have the metadata with the users of
clients yet.
"""

from collections.abc import Callable
from typing import Protocol

from raftka.security.mechanism import AuthenticationFailed, ClientMechanism, ServerMechanism
from raftka.wire.errors import ProtocolError

Later = Callable[[Callable[[], None]], object]  # calls it after the delay of failed logins
# a login with the mechanism of that name; None: it is not enabled
Start = Callable[[str], ServerMechanism | None]


class LoginRefused(ProtocolError):
    """A refused login; the text goes to the other node."""


class PeerLogin(Protocol):
    over: bool  # the login has succeeded
    later: Later

    def step(self, fields: list[object]) -> tuple[object, ...] | None:
        """Take the fields of the other side's message and return those of the next one; None: there
        is none. Raises ProtocolError.
        """


class DialingLogin:
    def __init__(self, mechanism: ClientMechanism) -> None:
        self.over = False
        self.later: Later = lambda refuse: refuse()
        self._mechanism = mechanism

    def first(self) -> tuple[object, ...]:
        return self._mechanism.name, self._mechanism.first()

    def step(self, fields: list[object]) -> tuple[object, ...] | None:
        token, refused = [*fields, None, None][:2]
        if refused is not None:
            raise ProtocolError(f"the controller does not let this node in: {refused}")
        if not isinstance(token, bytes):
            raise ProtocolError("a login without a token")
        try:
            answer = self._mechanism.step(token)
        except AuthenticationFailed as error:
            raise ProtocolError(f"the login at the controller failed: {error}") from None
        self.over = answer is None
        return None if answer is None else (self._mechanism.name, answer)


class AcceptingLogin:
    def __init__(self, start: Start, later: Later) -> None:
        self.over = False
        self.later = later
        self._start = start
        self._mechanism: ServerMechanism | None = None

    def step(self, fields: list[object]) -> tuple[object, ...]:
        """Take a message and return the answer. Raises ProtocolError and LoginRefused."""
        name, token = [*fields, None, None][:2]
        if not isinstance(name, str) or not isinstance(token, bytes):
            raise ProtocolError("a login without mechanism and token")
        if self._mechanism is None:
            self._mechanism = self._start(name)
        if self._mechanism is None or self._mechanism.name != name:
            raise LoginRefused("its mechanism is not enabled here")
        try:
            answer = self._mechanism.step(token)
        except AuthenticationFailed:
            raise LoginRefused(f"invalid credentials with {name}") from None
        self.over = self._mechanism.user is not None
        return answer, None
