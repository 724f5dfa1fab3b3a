"""GSSAPI (RFC 4752), both sides, sans-IO but for what the Kerberos library itself reads. Knows no
settings; `Context` stands for the library.

First the tokens of the security context, then one message in each direction: the server offers
layers, the client chooses and may name whom it acts for. There is one layer here: none; TLS is what
encrypts. A client is who its ticket says, whatever it names.
"""

from collections.abc import Callable
from typing import Protocol

from raftka.security.mechanism import GSSAPI, AuthenticationFailed

NO_LAYER = 1
LAYERS = NO_LAYER.to_bytes(1) + bytes(3)  # and the largest message in a layer: there is none
ANONYMOUS = "WELLKNOWN/"  # the first component of principals that are nobody's (RFC 8062)


class Context(Protocol):
    """A security context of one side. Every method raises AuthenticationFailed."""

    @property
    def complete(self) -> bool: ...

    @property
    def client(self) -> str:
        """The principal of the client."""

    @property
    def lifetime_s(self) -> int:
        """Until the client's ticket ends."""

    def step(self, token: bytes) -> bytes:
        """Take the other side's token and return ours; empty: there is none."""

    def wrap(self, message: bytes) -> bytes: ...

    def unwrap(self, token: bytes) -> bytes: ...


class GssapiServer:
    """One login. `begin` makes the context. `own`: the principal of the node. `user_of`: the name
    for a principal; None: it has none.

    `now_ms`: wall clock as the login begins, where the session is to end with the ticket.
    """

    def __init__(
        self,
        begin: Callable[[], Context],
        own: str,
        user_of: Callable[[str], str | None],
        now_ms: int | None,
    ) -> None:
        self.name = GSSAPI
        self.by_token = False
        self.user: str | None = None
        self.expires_ms: int | None = None
        self._begin = begin
        self._service = own.partition("@")[0]
        self._user_of = user_of
        self._now_ms = now_ms
        self._context: Context | None = None
        self._offered = False

    def step(self, token: bytes) -> bytes:
        if self._context is None:
            self._context = self._begin()
        context = self._context
        if self._offered:
            self._chosen(context, context.unwrap(token))
            return b""
        if not context.complete:
            reply = context.step(token)
            if reply or not context.complete:
                return reply
        elif token:
            raise AuthenticationFailed(reason="a token after the context was complete")
        self._offered = True
        return context.wrap(LAYERS)

    def _chosen(self, context: Context, message: bytes) -> None:
        principal = context.client
        if len(message) < len(LAYERS) or message[0] != NO_LAYER:
            raise AuthenticationFailed(
                reason=f"{principal:.100} chose a security layer that was not offered"
            )
        user = self._user_of(principal)
        if user is None or principal.startswith(ANONYMOUS):
            raise AuthenticationFailed(
                reason=f"there is no user for the principal {principal:.100}"
            )
        try:
            asked = message[len(LAYERS) :].decode()
        except UnicodeDecodeError:
            raise AuthenticationFailed(reason="an authorization id that is no text") from None
        if asked not in ("", principal, user) and not self._names_service(asked):
            raise AuthenticationFailed(
                reason=f"{principal:.100} asked to be another: {asked!r:.100}"
            )
        self.user = user
        if self._now_ms is not None:
            self.expires_ms = self._now_ms + 1000 * context.lifetime_s

    def _names_service(self, asked: str) -> bool:
        """Some clients in Python name the service that they log in to, as `kafka@host`; it makes
        them nobody else.
        """
        return asked.partition("@")[0] in (self._service, self._service.partition("/")[0])


class GssapiClient:
    """One login as a client. `begin` makes the context; there is no authorization id: the client is
    its ticket's.
    """

    def __init__(self, begin: Callable[[], Context]) -> None:
        self.name = GSSAPI
        self._begin = begin
        self._context: Context | None = None
        self._chose = False

    def first(self) -> bytes:
        self._context = self._begin()
        return self._context.step(b"")

    def step(self, token: bytes) -> bytes | None:
        """Raises AuthenticationFailed when the server cannot prove that it is the service, or
        insists on a layer.
        """
        context = self._context
        if self._chose or context is None:
            return None
        if not context.complete:
            return context.step(token)
        offer = context.unwrap(token)
        if len(offer) != len(LAYERS) or not offer[0] & NO_LAYER:
            raise AuthenticationFailed("the server insists on a security layer of GSSAPI")
        self._chose = True
        return context.wrap(LAYERS)
