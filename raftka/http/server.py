"""A server of HTTP/1.1, sans-IO: the node's runtime drives its connections, or a thread does
(`thread.py`). Knows no page: a `Site` answers.

A connection answers one request at a time: while an answer is made, or waits to be sent, nothing
more is read. A request has one deadline from the answer before it to its own, so that clients that
send or read slowly end.

A body that is made while it is sent (a `Source`) has a deadline for each piece instead: a stream
may last for days, and a client that does not take a piece in time ends.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Protocol

from raftka.http.messages import (
    BadRequest,
    BodyFailed,
    Reply,
    Request,
    Response,
    Source,
    encode_head,
)
from raftka.http.request_reader import Bounds, RequestReader
from raftka.limits import Limit
from raftka.runtime.interfaces import Clock, Connection, Timer, Transport

SMALL_BODY_BYTES = 64 * 1024  # bodies as small as that are always taken
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

Admit = Callable[[Response | None], None]  # None: the request may go on


class Site(Protocol):
    """The application behind a server. Its methods do not raise."""

    def check_login(self, request: Request, admit: Admit) -> None:
        """Call `admit` now or later; set `request.user` for a client that has logged in. The head
        of the request has come, its body perhaps not.
        """

    def answer(self, request: Request, reply: Reply) -> None:
        """Call `reply` once, now or later."""

    def refuse(self, error: BadRequest, peer: str) -> Response:
        """Return the answer to a request that is not understood, or exceeds a limit."""

    def count_hit(self, limit: Limit) -> None:
        """Count a limit of connections or of time."""


class State(Enum):
    READING = "a request is awaited, or has come in part"
    CHECKING = "the site checks its login"
    ANSWERING = "the site makes its answer"
    SENDING = "the network has not taken the answer yet"
    STREAMING = "the answer's body is made while it is sent"
    CLOSING = "nothing more is read; the connection ends when all is sent"


NEXT = {
    State.READING: {State.CHECKING, State.ANSWERING, State.CLOSING},
    State.CHECKING: {State.READING, State.CLOSING},
    State.ANSWERING: {State.SENDING, State.STREAMING, State.CLOSING},
    State.SENDING: {State.READING, State.CLOSING},
    State.STREAMING: {State.READING, State.CLOSING},
    State.CLOSING: {State.CLOSING},
}


class HttpServer:
    def __init__(
        self,
        site: Site,
        bounds: Bounds,
        clock: Clock,
        *,
        has_logins: bool = False,
        protect: Callable[[Connection], Connection] | None = None,
    ) -> None:
        """`protect`: put TLS in front of a connection."""
        self.site, self.bounds, self.clock = site, bounds, clock
        self.connections: dict[HttpConnection, None] = {}
        self.held_bytes = 0  # of requests that are not answered
        self.has_logins, self._protect = has_logins, protect

    @property
    def is_guarded(self) -> bool:
        """Return whether a client is a stranger before its first request is admitted."""
        return self.has_logins or self._protect is not None

    def accept(self) -> Connection | None:
        """Return a new connection; at the limit a stranger makes room for it, or it is refused."""
        if len(self.connections) >= self.bounds.connections.value:
            self.site.count_hit(self.bounds.connections)
            stranger = next((each for each in self.connections if each.is_stranger), None)
            if stranger is None:
                return None
            stranger.make_room()
        connection = HttpConnection(self)
        self.connections[connection] = None
        return connection if self._protect is None else self._protect(connection)


@dataclass(frozen=True, slots=True)
class _Body:
    """The body that a connection streams."""

    source: Source
    is_chunked: bool
    keep_alive: bool


class HttpConnection:
    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._state = State.READING
        self._reader = RequestReader(server.bounds)
        self._request: Request | None = None  # the one that is answered
        self._admitted = False  # the login of the request that comes in is checked
        self._is_known = not server.is_guarded  # strangers have less time
        self._out: list[bytes] = []
        self._counted_bytes = 0  # of `server.held_bytes`
        self._body: _Body | None = None  # the one that is streamed
        self._transport: Transport | None = None
        self._timer: Timer | None = None

    @property
    def is_stranger(self) -> bool:
        """Return whether its client has not logged in, and no request of it is in work."""
        return not self._is_known and self._state is State.READING

    def make_room(self) -> None:
        """End for another connection: strangers must not keep out clients that can log in."""
        self._enter(State.CLOSING)
        if self._transport is not None:
            self._transport.drop("another connection takes its place")

    def _enter(self, state: State) -> None:
        assert state in NEXT[self._state], (self._state, state)
        self._state = state

    # the network's side

    def opened(self, transport: Transport) -> None:
        self._transport = transport
        self._restart_timer()

    def room(self) -> memoryview | None:
        return None

    def receive(self, view: memoryview) -> None:
        if self._transport is None or self._state is State.CLOSING:
            return
        if not view:
            self._on_end(self._transport)
            return
        self._reader.feed(view)
        self._count_held()
        if self._state is State.STREAMING:
            self._hold(True)  # the next request waits in the network
            return
        self._advance()

    def take_output(self) -> list[bytes]:
        out, self._out = self._out, []
        if self._state is State.STREAMING and self._body is not None:
            return self._take_body(self._body, out)
        if self._state is State.CLOSING and self._transport is not None:
            self._transport.close("answered")  # not earlier: output that is not taken is lost
        elif out and self._state is State.SENDING:
            self._enter(State.READING)
            self._hold(False)
            self._advance()
        return out

    def closed(self, reason: str) -> None:
        self._transport, self._request = None, None
        self._state = State.CLOSING
        self._stop_body()
        self._reader = RequestReader(self._server.bounds)
        self._count_held()
        self._server.connections.pop(self, None)
        self._stop_timer()

    def _on_end(self, transport: Transport) -> None:
        """The client sends no more: it gets the answer that is being made."""
        if self._state is State.ANSWERING and self._request is not None:
            self._request.keep_alive = False
        elif self._state is State.STREAMING:  # nobody reads a stream to the end after that
            self._enter(State.CLOSING)
            self._stop_body()
            transport.drop("closed by the other side")
        elif self._state is not State.CHECKING:
            self._enter(State.CLOSING)
            transport.close("closed by the other side")

    # requests

    def _advance(self) -> None:
        """Read and answer requests until more bytes, the site or the network are needed."""
        reader = self._reader
        while self._state is State.READING:
            try:
                reader.advance()
                if reader.request is None:
                    return
                if self._admitted and not reader.is_whole:
                    self._ask_for_body()
                    return
            except BadRequest as error:
                self._refuse(error)
                return
            if self._admitted:
                self._answer(reader.take())
            else:
                self._check_login(reader.request)

    def _check_login(self, request: Request) -> None:
        request.peer = self._transport.peer if self._transport is not None else ""
        self._enter(State.CHECKING)
        self._server.site.check_login(request, partial(self._on_login, request))
        if self._state is State.CHECKING:
            self._hold(True)

    def _on_login(self, request: Request, refusal: Response | None) -> None:
        if self._state is not State.CHECKING or self._reader.request is not request:
            return
        if refusal is not None:
            self._send(refusal._replace(close=True), request)
            return
        self._admitted = True
        if not self._is_known and (request.user is not None or not self._server.has_logins):
            self._is_known = True
            self._restart_timer()
        self._enter(State.READING)
        self._hold(False)
        self._advance()

    def _ask_for_body(self) -> None:
        """Raises BadRequest when the bodies of all connections are too large."""
        server, limit = self._server, self._server.bounds.bodies
        if (
            limit is not None
            and self._counted_bytes > SMALL_BODY_BYTES
            and server.held_bytes > limit.value
        ):
            raise BadRequest(503, f"bodies of {server.held_bytes:,} bytes have come in part", limit)
        if self._reader.take_continue():
            self._out.append(CONTINUE)
            if self._transport is not None:
                self._transport.wake()

    def _answer(self, request: Request) -> None:
        self._request, self._admitted = request, False
        request.has_left = self._has_left
        self._enter(State.ANSWERING)
        self._server.site.answer(request, partial(self._reply, request))
        if self._state is State.ANSWERING:
            self._hold(True)

    def _reply(self, request: Request, response: Response) -> None:
        if self._state is State.ANSWERING and self._request is request:
            self._send(response, request)

    def _refuse(self, error: BadRequest) -> None:
        peer = self._transport.peer if self._transport is not None else ""
        self._send(self._server.site.refuse(error, peer)._replace(close=True), None)

    def _send(self, response: Response, request: Request | None) -> None:
        """`request`: None where none was understood."""
        self._request = None
        self._count_held()
        keep_alive = request is not None and request.keep_alive and not response.close
        if response.source is not None:
            if request is not None and request.method != "HEAD" and self._transport is not None:
                self._stream(response, request, response.source, self._transport)
                return
            response.source.stop()
        self._out.append(encode_head(response, request, keep_alive=keep_alive))
        if request is None or request.method != "HEAD":
            self._out.append(response.body)
        self._enter(State.SENDING if keep_alive else State.CLOSING)
        if self._transport is None:
            return
        self._hold(True)
        self._transport.wake()
        if keep_alive:
            self._restart_timer()

    # bodies that are made while they are sent

    def _stream(
        self, response: Response, request: Request, source: Source, transport: Transport
    ) -> None:
        keep_alive = request.keep_alive and not response.close and not request.is_old
        self._out.append(encode_head(response, request, keep_alive=keep_alive))
        self._body = _Body(source, is_chunked=not request.is_old, keep_alive=keep_alive)
        self._enter(State.STREAMING)
        self._hold(False)  # so that the client's end is noticed
        self._restart_timer()
        transport.wake()
        source.start(partial(self._on_ready, self._body))

    def _on_ready(self, body: "_Body") -> None:
        if self._body is body and self._transport is not None:
            if self._timer is None:
                self._restart_timer()
            self._transport.wake()

    def _take_body(self, body: "_Body", out: list[bytes]) -> list[bytes]:
        """The network has taken all that was there before: no deadline runs until there is more."""
        try:
            piece = body.source.take()
        except BodyFailed as error:
            self._enter(State.CLOSING)
            self._stop_body()
            if self._transport is not None:
                self._transport.drop(f"a body is not whole: {error}")
            return out
        self._stop_timer()
        if piece:
            out += (b"%x\r\n" % len(piece), piece, b"\r\n") if body.is_chunked else (piece,)
        if piece is None:
            self._finish_body(body, out)
        elif out:  # asked again when this has left: a client that does not take it in time ends
            self._restart_timer()
            clock = self._server.clock
            clock.call_at(clock.now(), partial(self._on_ready, body))
        return out

    def _finish_body(self, body: "_Body", out: list[bytes]) -> None:
        if body.is_chunked:
            out.append(LAST_CHUNK)
        self._stop_body()
        self._restart_timer()
        if body.keep_alive:
            self._enter(State.READING)
            self._hold(False)
            self._advance()
        else:
            self._enter(State.CLOSING)
            if self._transport is not None:
                self._transport.close("answered")

    def _stop_body(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            body.source.stop()

    def _has_left(self) -> bool:
        return self._transport is None or self._transport.left()

    def _count_held(self) -> None:
        """A body that is being answered counts until then."""
        before = self._counted_bytes
        self._counted_bytes = self._reader.held_bytes + (
            len(self._request.body) if self._request is not None else 0
        )
        self._server.held_bytes += self._counted_bytes - before

    def _hold(self, held: bool) -> None:
        if self._transport is not None:
            self._transport.hold_reading(held)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _restart_timer(self) -> None:
        self._stop_timer()
        clock = self._server.clock
        self._timer = clock.call_at(clock.now() + self._seconds.value, self._on_deadline)

    @property
    def _seconds(self) -> Limit:
        bounds = self._server.bounds
        return bounds.seconds if self._is_known else bounds.login_seconds

    def _on_deadline(self) -> None:
        if self._transport is None:
            return
        if self._reader.held_bytes or self._out or self._state is not State.READING:
            self._server.site.count_hit(self._seconds)
        self._transport.drop("idle")
