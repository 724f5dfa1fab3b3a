"""Login by SASL on one connection: from its first byte until the client is known, and again when
its session ends (KIP-368).

Until then only ApiVersions, SaslHandshake and SaslAuthenticate are decoded; every other request
ends the connection. Knows no mechanism but by name and no other API.

    INITIAL --ApiVersions, once--> VERSIONS_ASKED --SaslHandshake v1--> AUTHENTICATING
    --SaslAuthenticate ...--> COMPLETE
                                                  --SaslHandshake v0--> BARE_TOKENS    --tokens
                                                      without header ...--> COMPLETE
    COMPLETE --SaslHandshake, if the session has an end--> AUTHENTICATING, as the same user with the
    same mechanism
"""

from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple

from raftka.broker.context import BrokerContext
from raftka.broker.network.connection import HEAD, Parts, ServerConnection
from raftka.broker.network.greeting import find_fault
from raftka.broker.telemetry.event_log import BoundedRate
from raftka.broker.work.background_worker import BackgroundWorker
from raftka.limits import LOGIN_BYTES, LOGIN_SECONDS, REQUEST_BYTES, LimitExceeded
from raftka.security.mechanism import BESIDE_LOOP, AuthenticationFailed, NotReady, ServerMechanism
from raftka.wire.errors import Code, ProtocolError
from raftka.wire.frame import decode_request_header, encode_response
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.sasl import SASL_AUTHENTICATE, SASL_HANDSHAKE
from raftka.wire.schema import AnyApi, Row

REAUTHENTICATION_PAUSE_S = 1.0  # since the last one began; Kafka's
SUCCESSES, FAILURES = "raftka_authentications_total", "raftka_failed_authentications_total"


class State(Enum):
    INITIAL = auto()
    VERSIONS_ASKED = auto()
    AUTHENTICATING = auto()
    BARE_TOKENS = auto()
    COMPLETE = auto()
    FAILED = auto()


class Rules(NamedTuple):
    """The present settings of a listener."""

    mechanisms: tuple[str, ...]
    max_receive_bytes: int  # of one frame before the client has logged in
    failure_delay_s: float


class Logins:
    """The logins of one listener. `start` begins a login with a mechanism, by name, and returns
    None if that one is not set up.

    `session_ms`: the longest session with a mechanism; 0: sessions have no end of their own.
    """

    def __init__(
        self,
        context: BrokerContext,
        rules: Callable[[], Rules],
        session_ms: Callable[[str], int],
        start: Callable[[str], ServerMechanism | None],
    ) -> None:
        self.context = context
        self.rules = rules
        self.session_ms = session_ms
        self.start = start
        self.failed = BoundedRate(
            context.events.info, "authentication_failed", context.runtime.clock.now
        )
        # one step at a time, for mechanisms that read files
        self.beside = BackgroundWorker(context.runtime.offload, context.metrics)


class SaslGate:
    """Stands between a connection's frames and the dispatcher."""

    __slots__ = ("_began", "_connection", "_expires", "_logins", "_mechanism", "_opened", "_state")

    def __init__(self, connection: ServerConnection, logins: Logins) -> None:
        self._connection = connection
        self._logins = logins
        self._state = State.INITIAL
        self._mechanism: ServerMechanism | None = None
        self._opened = logins.context.runtime.clock.now()
        self._began = 0.0  # the login under way, or the last one
        self._expires: float | None = None  # on the runtime's clock
        connection.session.authenticated = False
        connection.limit_frames(min(logins.rules().max_receive_bytes, LOGIN_BYTES.value))

    @property
    def is_late(self) -> bool:
        """Return whether the time for the login is over."""
        first = not self._connection.session.authenticated
        return (
            first and self._logins.context.runtime.clock.now() - self._opened >= LOGIN_SECONDS.value
        )

    def passes(self, frame: memoryview) -> bool:
        """Return whether the frame is the dispatcher's; else it is handled here. Raises
        ProtocolError: the connection ends without an answer.
        """
        if self._state is not State.COMPLETE:
            self._login(frame)
            return False
        handshake = frame[:2] == _HANDSHAKE
        if handshake and (
            self._expires is not None
            or self._logins.session_ms(self._connection.session.mechanism) > 0
        ):
            self._reauthenticate(frame)
            return False
        if (
            self._expires is not None
            and self._logins.context.runtime.clock.now() >= self._expires
            and not handshake
        ):
            raise ProtocolError("the session has ended and the client has not authenticated again")
        return True

    def _login(self, frame: memoryview) -> None:
        if self._state is State.BARE_TOKENS:
            self._token(bytes(frame), _bare_answer)
            return
        if len(frame) < HEAD.size:
            raise ProtocolError("the client is not authenticated")
        key, version, _ = HEAD.unpack_from(frame)
        if key == API_VERSIONS.key and self._state is State.INITIAL:
            self._versions(frame, version)
        elif (
            key == SASL_HANDSHAKE.key
            and version in SASL_HANDSHAKE.versions
            and self._state in (State.INITIAL, State.VERSIONS_ASKED)
        ):
            self._handshake(frame, version)
        elif key == SASL_HANDSHAKE.key and version in SASL_HANDSHAKE.versions:
            rows = SASL_HANDSHAKE.response(error_code=int(Code.ILLEGAL_SASL_STATE))
            self._refuse(
                self._encoder(SASL_HANDSHAKE, frame, version)(rows), "a second SaslHandshake"
            )
        elif (
            key == SASL_AUTHENTICATE.key
            and version in SASL_AUTHENTICATE.versions
            and self._state is State.AUTHENTICATING
        ):
            self._authenticate(frame, version)
        else:
            raise ProtocolError(
                f"API key {key} version {version} before the client is authenticated"
            )

    def _versions(self, frame: memoryview, version: int) -> None:
        """One that is answered in full; a refused one may be repeated with another version, name
        or node.
        """
        dispatcher, session = self._connection.dispatcher, self._connection.session
        if version in dispatcher.announced(API_VERSIONS, session):
            _, position = decode_request_header(frame, flexible=version in API_VERSIONS.flexible)
            body, _ = API_VERSIONS.decode_request(version, frame, position)
            if find_fault(body, version, self._logins.context.metadata) is None:
                self._state = State.VERSIONS_ASKED
        dispatcher.dispatch(self._connection, frame)

    def _handshake(self, frame: memoryview, version: int) -> None:
        encode = self._encoder(SASL_HANDSHAKE, frame, version)
        body, _ = SASL_HANDSHAKE.decode_request(
            version, frame, self._position(frame, flexible=False)
        )
        mechanisms = self._logins.rules().mechanisms
        mechanism = self._logins.start(body.mechanism) if body.mechanism in mechanisms else None
        if mechanism is None:
            row = SASL_HANDSHAKE.response(
                error_code=int(Code.UNSUPPORTED_SASL_MECHANISM), mechanisms=list(mechanisms)
            )
            self._fail(encode(row), f"the mechanism {body.mechanism!r:.40} is not enabled")
            return
        self._began = self._logins.context.runtime.clock.now()
        self._mechanism = mechanism
        self._state = State.AUTHENTICATING if version else State.BARE_TOKENS
        self._connection.answer(encode(SASL_HANDSHAKE.response(mechanisms=list(mechanisms))))

    def _authenticate(self, frame: memoryview, version: int) -> None:
        encode = self._encoder(SASL_AUTHENTICATE, frame, version)
        body, _ = SASL_AUTHENTICATE.decode_request(
            version, frame, self._position(frame, flexible=version in SASL_AUTHENTICATE.flexible)
        )

        def answer(token: bytes, lifetime_ms: int, error: str | None) -> Parts:
            code = 0 if error is None else int(Code.SASL_AUTHENTICATION_FAILED)
            lifetime = {"session_lifetime_ms": lifetime_ms} if version else {}
            return encode(
                SASL_AUTHENTICATE.response(
                    error_code=code, error_message=error or "", auth_bytes=token, **lifetime
                )
            )

        self._token(bytes(body.auth_bytes), answer)

    def _token(self, token: bytes, answer: "Callable[[bytes, int, str | None], Parts]") -> None:
        """One message of the mechanism. `answer` makes the bytes that leave, of a token, the
        session's life (ms) and an error.
        """
        mechanism = self._mechanism
        assert mechanism is not None
        if mechanism.name not in BESIDE_LOOP:
            self._step(mechanism, lambda: mechanism.step(token), answer)
            return
        connection = self._connection

        def came(result: bytes | BaseException) -> None:
            if not connection.gone:
                self._step_ended(mechanism, result, answer)
                connection.release()

        connection.hold()
        self._logins.beside.run(
            len(token), lambda: mechanism.step(token), came, lambda: not connection.gone
        )

    def _step_ended(
        self,
        mechanism: ServerMechanism,
        result: "bytes | BaseException",
        answer: "Callable[[bytes, int, str | None], Parts]",
    ) -> None:
        """A step was taken beside the loop."""

        def outcome() -> bytes:
            if isinstance(result, BaseException):
                raise result
            return result

        try:
            self._step(mechanism, outcome, answer)
        except (ProtocolError, LimitExceeded) as error:
            self._connection.refuse(error)
        except Exception as error:
            self._connection.dispatcher.reports.failed(self._connection, error)

    def _step(
        self,
        mechanism: ServerMechanism,
        step: Callable[[], bytes],
        answer: "Callable[[bytes, int, str | None], Parts]",
    ) -> None:
        again = self._connection.session.authenticated
        try:
            reply = step()
            if mechanism.user is None:
                self._connection.answer(answer(reply, 0, None))
                return
            self._check_same_user(f"User:{mechanism.user}", again)
            lifetime_ms = self._lifetime_ms(mechanism)
        except AuthenticationFailed as error:
            doing = "re-authentication" if again else "authentication"
            generic = (
                f"Authentication failed during {doing} due to invalid credentials with SASL "
                f"mechanism {mechanism.name}"
            )
            reason = f"{doing} with {mechanism.name} failed" + (
                f": {error.reason}" if error.reason else ""
            )
            self._fail(answer(b"", 0, str(error) or generic), reason)
            return
        except NotReady as error:
            raise ProtocolError(f"{mechanism.name} is not ready: {error}") from None
        self._succeed(f"User:{mechanism.user}", mechanism, lifetime_ms)
        self._connection.answer(answer(reply, lifetime_ms, None))

    def _check_same_user(self, principal: str, again: bool) -> None:
        before = self._connection.session.principal
        if again and principal != before:
            raise AuthenticationFailed("Cannot change principals during re-authentication")

    def _lifetime_ms(self, mechanism: ServerMechanism) -> int:
        """Of the session; 0: it has no end. Raises AuthenticationFailed when the credential has
        ended: 0 would tell the client the opposite.
        """
        session_ms, expires_ms = self._logins.session_ms(mechanism.name), mechanism.expires_ms
        if expires_ms is None:
            return session_ms
        left_ms = expires_ms - self._logins.context.runtime.clock.wall_ms()
        if left_ms <= 0:
            raise AuthenticationFailed
        return min(left_ms, session_ms) if session_ms else left_ms

    def _succeed(self, principal: str, mechanism: ServerMechanism, lifetime_ms: int) -> None:
        session, context = self._connection.session, self._logins.context
        session.principal, session.authenticated = principal, True
        session.mechanism = mechanism.name
        session.by_token = mechanism.by_token
        self._expires = context.runtime.clock.now() + lifetime_ms / 1000 if lifetime_ms else None
        self._state, self._mechanism = State.COMPLETE, None
        self._connection.limit_frames(REQUEST_BYTES.value)
        if self._expires is None and not self._logins.session_ms(mechanism.name):
            self._connection.gate = None
        context.metrics.count(SUCCESSES)

    def _reauthenticate(self, frame: memoryview) -> None:
        _, version, _ = HEAD.unpack_from(frame.tobytes().ljust(HEAD.size, b"\0"))
        if version not in SASL_HANDSHAKE.versions:
            raise ProtocolError(f"SaslHandshake version {version}")
        encode = self._encoder(SASL_HANDSHAKE, frame, version)
        if self._logins.context.runtime.clock.now() - self._began < REAUTHENTICATION_PAUSE_S:
            self._connection.answer(
                encode(SASL_HANDSHAKE.response(error_code=int(Code.ILLEGAL_SASL_STATE)))
            )
            return
        body, _ = SASL_HANDSHAKE.decode_request(
            version, frame, self._position(frame, flexible=False)
        )
        if body.mechanism != self._connection.session.mechanism:
            row = SASL_HANDSHAKE.response(
                error_code=int(Code.UNSUPPORTED_SASL_MECHANISM),
                mechanisms=[self._connection.session.mechanism],
            )
            self._fail(encode(row), "another mechanism in a re-authentication")
            return
        self._connection.limit_frames(
            min(self._logins.rules().max_receive_bytes, LOGIN_BYTES.value)
        )
        self._handshake(frame, version)

    def _fail(self, parts: Parts, reason: str) -> None:
        """The answer and the end come later, so that guessing is slow; nothing more is read."""
        context, connection = self._logins.context, self._connection
        self._state = State.FAILED
        context.metrics.count(FAILURES)
        self._logins.failed(
            peer=connection.session.peer, listener=connection.session.listener, reason=reason
        )
        connection.hold()
        clock = context.runtime.clock
        clock.call_at(
            clock.now() + self._logins.rules().failure_delay_s, lambda: self._refuse(parts, reason)
        )

    def _refuse(self, parts: Parts, reason: str) -> None:
        if not self._connection.gone:
            self._state = State.FAILED
            self._connection.answer(parts)
            self._connection.end(reason)

    def _encoder(self, api: AnyApi, frame: memoryview, version: int) -> Callable[[Row], Parts]:
        _, _, correlation_id = HEAD.unpack_from(frame)
        return lambda row: encode_response(api, version, correlation_id, row)

    def _position(self, frame: memoryview, *, flexible: bool) -> int:
        header, position = decode_request_header(frame, flexible=flexible)
        self._connection.session.client_id = header.client_id
        return position


_HANDSHAKE = SASL_HANDSHAKE.key.to_bytes(2, "big")


def _bare_answer(token: bytes, lifetime_ms: int, error: str | None) -> Parts:
    """A token with its size; a failure has none, the connection ends."""
    return (len(token).to_bytes(4, "big") + token,) if error is None else ()
