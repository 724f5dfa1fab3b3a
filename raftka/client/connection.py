"""The client's side of one connection, sans-IO: requests in, frames out, replies back in order.
Knows no socket, no clock and no retry.

The connection sends ApiVersions first. Requests made meanwhile wait, and then leave in the highest
version that both sides know. A caller that wants a time limit closes the connection.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

from raftka.limits import REQUEST_BYTES, LimitExceeded
from raftka.runtime.interfaces import Connection, Transport
from raftka.security.mechanism import BESIDE_LOOP, AuthenticationFailed, ClientMechanism
from raftka.wire.errors import Code, ProtocolError, name_of_code
from raftka.wire.frame import FrameBuffer, Pool, decode_response_header, encode_body, encode_request
from raftka.wire.messages.api_versions import API_VERSIONS, ApiVersionsResponse
from raftka.wire.messages.produce import ProduceRequest
from raftka.wire.messages.sasl import (
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
)
from raftka.wire.schema import AnyApi, Api, Req, Resp, Versions
from raftka.wire.software import SOFTWARE_NAME

AUTHENTICATION = "authentication"  # begins the reason of a connection whose login was refused
# begins the reason of a connection at whose address is another node, or another cluster
ANOTHER_NODE = "REBOOTSTRAP_REQUIRED"
SOFTWARE_VERSION = "1"  # of this client side, shown to the broker (KIP-511)

_UNSUPPORTED = Code.UNSUPPORTED_VERSION.to_bytes(2, "big")

Address = tuple[str, int]
Login = Callable[[str], ClientMechanism]  # begins one, at a host
# as Offload.run
Beside = Callable[
    [Callable[[], bytes | None], Callable[[bytes | BaseException | None], None]], None
]
Wrap = Callable[[Connection, str], Connection]  # puts TLS around a connection to a host
# a row, or why there is none; both None for what is never answered
OnReply = Callable[[Resp | None, str | None], None]
OnFrame = Callable[[memoryview, int], None]  # an answer as it came, and where its message begins


class Secured(NamedTuple):
    """TLS and logins of connections to brokers."""

    login: Login | None = None  # with SASL
    wrap: Wrap | None = None  # with TLS
    # for mechanisms that wait for others; None: the caller's thread may wait
    beside: Beside | None = None


PLAIN = Secured()


class Intended(NamedTuple):
    """The node that a connection is meant for. Another node at its address refuses it (KIP-1242),
    if it knows ApiVersions 5.
    """

    cluster_id: str | None = None
    node_id: int = -1

    @classmethod
    def of(cls, cluster_id: str | None, node_id: int) -> "Intended":
        """Return the node, or any node while the cluster's id is not known."""
        return cls(cluster_id, node_id) if cluster_id is not None else ANY_NODE


ANY_NODE = Intended()


class Opener(Protocol):
    """Opens a connection: the network of a runtime, or a blocking socket."""

    def connect(self, host: str, port: int, connection: Connection) -> None: ...


def open_connection(
    network: Opener,
    address: Address,
    client_id: str | None,
    on_ready: Callable[[], None] | None = None,
    on_closed: Callable[[str], None] | None = None,
    *,
    pool: Pool | None = None,
    secured: Secured = PLAIN,
    intended: Intended = ANY_NODE,
) -> "ClientConnection":
    """Open a connection to the broker at `address`. All connections to brokers are opened here.
    If another broker is there, the reason of the end begins with ANOTHER_NODE. Raises TlsError.
    """
    login = partial(secured.login, address[0]) if secured.login is not None else None
    connection = ClientConnection(
        client_id,
        on_ready,
        on_closed,
        pool=pool,
        login=login,
        beside=secured.beside,
        intended=intended,
    )
    network.connect(
        *address, connection if secured.wrap is None else secured.wrap(connection, address[0])
    )
    return connection


class _Waiting(NamedTuple):
    api: AnyApi
    version: int
    correlation_id: int
    on_reply: OnReply[Any]
    on_frame: OnFrame | None = None


class _Queued(NamedTuple):
    api: AnyApi
    row: Any
    on_reply: OnReply[Any]
    cap: int | None


class ClientConnection:
    """A `Connection` as runtime/interfaces.py has it. Replies and errors come by callback, never
    from inside `request` once it is on its way.
    """

    def __init__(
        self,
        client_id: str | None,
        on_ready: Callable[[], None] | None = None,
        on_closed: Callable[[str], None] | None = None,
        *,
        pool: Pool | None = None,
        login: Callable[[], ClientMechanism] | None = None,
        beside: Beside | None = None,
        intended: Intended = ANY_NODE,
    ) -> None:
        self.client_id = client_id
        self.intended = intended
        # of the other side, by API key; empty until it has answered and knows the client
        self.versions: dict[int, Versions] = {}
        self.close_reason: str | None = None
        self._login = login
        self._beside = beside
        self._offered: dict[int, Versions] = {}  # the same, before the client is known
        self._on_ready = on_ready
        self._on_closed = on_closed
        self._transport: Transport | None = None
        self._close_wanted: str | None = None
        self._frames = FrameBuffer(REQUEST_BYTES.value, pool)
        self._output: list[bytes] = []
        self._queued: deque[_Queued] = deque()
        self._waiting: deque[_Waiting] = deque()
        self._next_correlation_id = 0

    @property
    def ready(self) -> bool:
        return bool(self.versions) and self.close_reason is None

    @property
    def in_flight(self) -> int:
        """Requests without an answer yet, queued ones too."""
        return len(self._waiting) + len(self._queued)

    def request(
        self, api: Api[Req, Resp], row: Req, on_reply: OnReply[Resp], version: int | None = None
    ) -> None:
        """Send, or queue until the versions are known. `version` caps the one that is chosen. A
        reply's record bytes are valid until the turn ends.

        Raises ValueError when the chosen version can not carry the row; later, for a queued one,
        that is the reason given to `on_reply`.
        """
        if self.close_reason is not None:
            on_reply(None, self.close_reason)
        elif not self.ready:
            self._queued.append(_Queued(api, row, on_reply, version))
        else:
            self._send(_Queued(api, row, on_reply, version))
            self._wake()

    def speaks(self, api: AnyApi, version: int) -> bool:
        """Return whether the connection is ready, and the broker has this version."""
        theirs = self.versions.get(api.key) if self.close_reason is None else None
        return theirs is not None and theirs.low <= version <= theirs.high

    def exchange(
        self,
        api: Api[Req, Resp],
        version: int,
        body: bytes,
        on_frame: OnFrame,
        on_failure: OnReply[Resp],
    ) -> None:
        """Send a message that is encoded already, in a version that the broker speaks.

        `on_frame` gets the answer as it came, valid until the turn ends, and may raise
        ProtocolError; `on_failure` why there is none.
        """
        correlation_id = self._next_correlation_id
        self._output.append(encode_body(api, version, correlation_id, self.client_id, body))
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        self._waiting.append(_Waiting(api, version, correlation_id, on_failure, on_frame))
        self._wake()

    def version_of(self, api: AnyApi, cap: int | None = None) -> int | None:
        """The highest version that both sides know, not above `cap`; None if there is none."""
        theirs = self.versions.get(api.key)
        if theirs is None:
            return None
        highest = min(theirs.high, api.max_version, api.max_version if cap is None else cap)
        return highest if highest >= max(theirs.low, api.min_version) else None

    @property
    def opened_once(self) -> bool:
        """The broker, or its operating system, took the connection."""
        return self._transport is not None

    def close(self, reason: str) -> None:
        """Everything unanswered gets `reason`, when the network has closed."""
        self._close_wanted = self._close_wanted or reason
        if self._transport is not None and self.close_reason is None:
            self._transport.close(reason)

    # the network's side

    def opened(self, transport: Transport) -> None:
        self._transport = transport
        if self._close_wanted is not None:
            transport.close(self._close_wanted)
            return
        self._ask_versions(API_VERSIONS.max_version)

    def room(self) -> memoryview | None:
        return self._frames.room()

    def receive(self, view: memoryview) -> None:
        if not view:
            self.close("the broker sends no more")
            return
        try:
            for frame in self._frames.feed(view):
                if self.close_reason is not None:
                    return
                self._reply(frame)
        except ProtocolError as error:
            self.close(f"the broker's answer: {error}")
        except LimitExceeded as error:
            self.close(str(error))

    def take_output(self) -> list[bytes]:
        output, self._output = self._output, []
        return output

    def closed(self, reason: str) -> None:
        self.close_reason = reason
        waiting: list[OnReply[Any]] = [w.on_reply for w in self._waiting] + [
            q.on_reply for q in self._queued
        ]
        self._waiting.clear()
        self._queued.clear()
        self._output.clear()
        self._frames.drop()
        for on_reply in waiting:
            on_reply(None, reason)
        if self._on_closed is not None:
            self._on_closed(reason)

    def _wake(self) -> None:
        if self._transport is not None:
            self._transport.wake()

    def _send(self, queued: _Queued) -> None:
        api, row, on_reply, cap = queued
        version = self.version_of(api, cap)
        if version is None:
            on_reply(None, f"the broker and we have no version of {api.name} in common")
            return
        self._write(api, version, row, on_reply)

    def _write(self, api: Api[Req, Resp], version: int, row: Req, on_reply: OnReply[Resp]) -> None:
        correlation_id = self._next_correlation_id
        self._output.append(encode_request(api, version, correlation_id, self.client_id, row))
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        if isinstance(row, ProduceRequest) and row.acks == 0:
            on_reply(None, None)
        else:
            self._waiting.append(_Waiting(api, version, correlation_id, on_reply))

    def _reply(self, frame: memoryview) -> None:
        if not self._waiting:
            raise ProtocolError("a response that was not asked for")
        api, version, expected, on_reply, on_frame = self._waiting[0]
        correlation_id, position = decode_response_header(frame, api, version)
        if correlation_id != expected:
            raise ProtocolError(f"response {correlation_id} where {expected} was due")
        if on_frame is not None:
            self._waiting.popleft()
            on_frame(frame, position)
            return
        refused = api is API_VERSIONS and frame[position : position + 2] == _UNSUPPORTED
        row = (
            _refusal(frame, position)
            if refused
            else api.decode_response(version, frame, position)[0]
        )
        self._waiting.popleft()
        on_reply(row, None)

    def _ask_versions(self, version: int) -> None:
        row = API_VERSIONS.request(
            client_software_name=SOFTWARE_NAME,
            client_software_version=SOFTWARE_VERSION,
            cluster_id=self.intended.cluster_id,
            node_id=self.intended.node_id,
        )
        self._write(
            API_VERSIONS,
            version,
            row,
            lambda answer, error: self._versions_came(answer, error, version),
        )
        self._wake()

    def _versions_came(
        self, answer: ApiVersionsResponse | None, error: str | None, asked: int
    ) -> None:
        if answer is None:
            return  # closed
        versions = {
            entry.api_key: Versions(entry.min_version, entry.max_version)
            for entry in answer.api_keys
        }
        if answer.error_code == Code.UNSUPPORTED_VERSION and asked > 0:
            self._ask_versions(min(versions.get(API_VERSIONS.key, Versions(0, 0)).high, asked - 1))
            return
        if answer.error_code == Code.REBOOTSTRAP_REQUIRED:
            cluster_id, node_id = self.intended
            self.close(f"{ANOTHER_NODE}: not broker {node_id} of cluster {cluster_id} is there")
            return
        if answer.error_code or not versions:
            self.close(f"the broker's answer to ApiVersions: {name_of_code(answer.error_code)}")
            return
        self._offered = versions
        if self._login is None:
            self._become_ready()
        else:
            try:
                mechanism = self._login()
            except AuthenticationFailed as refused:
                self.close(f"{AUTHENTICATION}: {refused}")
                return
            self._log_in(mechanism)

    def _log_in(self, mechanism: ClientMechanism) -> None:
        """Ask for the mechanism, and exchange its messages until it has no more."""
        theirs = self._offered.get(SASL_AUTHENTICATE.key)
        if theirs is None:
            self.close("the broker does not know SaslAuthenticate")
            return
        version = min(theirs.high, SASL_AUTHENTICATE.max_version)

        def send(token: bytes) -> None:
            self._write(
                SASL_AUTHENTICATE, version, SASL_AUTHENTICATE.request(auth_bytes=token), came
            )
            self._wake()

        def chosen(answer: SaslHandshakeResponse | None, _: str | None) -> None:
            if answer is not None and answer.error_code:
                self.close(
                    f"{AUTHENTICATION} with {mechanism.name}: {name_of_code(answer.error_code)}, "
                    f"the broker has {', '.join(answer.mechanisms)}"
                )
            elif answer is not None:
                take(mechanism.first)

        def came(answer: SaslAuthenticateResponse | None, _: str | None) -> None:
            if answer is None:
                return  # closed
            if answer.error_code:
                self.close(
                    f"{AUTHENTICATION} with {mechanism.name}: "
                    f"{answer.error_message or name_of_code(answer.error_code)}"
                )
                return
            token = bytes(answer.auth_bytes)
            take(lambda: mechanism.step(token))

        def take(step: Callable[[], bytes | None]) -> None:
            if self._beside is not None and mechanism.name in BESIDE_LOOP:
                self._beside(step, taken)
                return
            try:
                token = step()
            except AuthenticationFailed as error:
                taken(error)
            else:
                taken(token)

        def taken(token: bytes | BaseException | None) -> None:
            if self.close_reason is not None:
                return  # the broker has gone meanwhile
            if isinstance(token, BaseException):
                reason = token.reason if isinstance(token, AuthenticationFailed) else ""
                self.close(f"{AUTHENTICATION} with {mechanism.name}: {str(token) or reason}")
            elif token is not None:
                send(token)
            else:
                self._become_ready()

        self._write(
            SASL_HANDSHAKE,
            SASL_HANDSHAKE.max_version,
            SASL_HANDSHAKE.request(mechanism=mechanism.name),
            chosen,
        )
        self._wake()

    def _become_ready(self) -> None:
        self.versions = self._offered
        while self._queued:
            self._send_queued(self._queued.popleft())
        self._wake()
        if self._on_ready is not None:
            self._on_ready()

    def _send_queued(self, queued: _Queued) -> None:
        try:
            self._send(queued)
        except ValueError as error:
            queued.on_reply(None, str(error))


def _refusal(frame: memoryview, position: int) -> ApiVersionsResponse:
    """A broker that does not know our ApiVersions version answers in version 0 (KIP-511), or
    should: some mocks answer in the version asked.
    """
    try:
        return API_VERSIONS.decode_response(0, frame, position)[0]
    except ProtocolError:
        return API_VERSIONS.response(error_code=Code.UNSUPPORTED_VERSION)
