"""HTTP/1.1 for the registry: httptools parses, Trio's streams carry; bodies with a limit, logins,
threads for what is slow. Knows no subject.
"""

import binascii
import json
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import NamedTuple, Protocol

import httptools
import trio

from raftka.json_values import Json
from raftka.limits import Limit
from raftka.registry.access import User
from raftka.registry.errors import LimitReached, RegistryError
from raftka.registry.limits import (
    AT_WORK,
    BODIES_BYTES,
    CONNECTIONS,
    HEAD_BYTES,
    IDLE_SECONDS,
    REQUEST_BYTES,
)
from raftka.registry.metrics import RegistryMetrics
from raftka.registry.rest.api import Api, Raw
from raftka.registry.rest.requests import Request

JSON_TYPE = b"application/vnd.schemaregistry.v1+json"
CHUNK_BYTES = 64 * 1024
BAD_REQUEST, UNAUTHORIZED, TOO_LARGE, HEAD_TOO_LARGE, INTERNAL = 400, 40101, 413, 431, 50001
BUSY = 503
NO_METHOD, UNSUPPORTED, NOT_IMPLEMENTED = 405, 415, 501
OLD = "1.0"
VERSIONS = (OLD, "1.1")
CLOSE, KEEP_ALIVE = b"Connection: close\r\n", b"Connection: keep-alive\r\n"
ONCE = frozenset({b"authorization", b"host", b"expect"})  # headers that come once
CHALLENGE = b'WWW-Authenticate: Basic realm="schema registry"\r\n'


class Head(NamedTuple):
    """A request as it came."""

    method: str
    target: str
    body: bytes
    login: bytes | None  # the value of Authorization
    keep_alive: bool
    more: bytes = b""  # headers of its answer


class Answer(NamedTuple):
    status: int
    content_type: bytes
    body: bytes
    more: bytes = b""  # headers


class Login(Protocol):
    async def __call__(self, user: User) -> bool:
        """Return whether this is the user's password."""


class HttpServer:
    """Serves streams until they end."""

    def __init__(
        self,
        api: Api,
        numbers: RegistryMetrics,
        login: Login | None = None,
        report: Callable[[str, str], None] = lambda what, error: None,
    ) -> None:
        """`login`: None where everybody may ask. `report`: of bugs of ours."""
        self.api, self.numbers, self.login, self.report = api, numbers, login, report
        self.threads = trio.CapacityLimiter(AT_WORK.value)
        self.connections = 0
        self.body_bytes = 0  # of requests that are not answered

    async def serve(self, stream: trio.abc.Stream) -> None:
        if self.connections >= CONNECTIONS.value:
            self.numbers.hit(CONNECTIONS)
            await trio.aclose_forcefully(stream)
            return
        self.connections += 1
        connection = HttpConnection(self, stream)
        try:
            await connection.run()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has gone
        except Exception as error:
            self.report("a connection", repr(error))
        finally:
            self.connections -= 1
            connection.ended()
            await trio.aclose_forcefully(stream)

    async def answer(self, request: Request) -> Answer:
        try:
            if request.path == "/metrics" and request.method == "GET":
                return Answer(200, *self.numbers.page())
            if request.method == "OPTIONS":
                return Answer(200, JSON_TYPE, b"{}", _allowed(self.api.methods(request)))
            return Answer(200, JSON_TYPE, await self._found(request))
        except RegistryError as error:
            if isinstance(error, LimitReached):
                self.numbers.hit(error.limit)
            more = _allowed(self.api.methods(request)) if error.code == NO_METHOD else b""
            return Answer(error.status, JSON_TYPE, _refusal(error), more)
        except Exception as error:  # a bug of ours is this request's matter alone
            self.report(f"{request.method} {request.path}", repr(error))
            return Answer(
                500,
                JSON_TYPE,
                _refusal(RegistryError(INTERNAL, "this request failed: see the registry's log")),
            )

    async def _found(self, request: Request) -> bytes:
        """A thread answers what is slow, and what would have to wait for the lock: this loop serves
        all connections.
        """
        route, request, parts = self.api.route(request)
        if not route.slow and self.api.lock.acquire(blocking=False):
            try:
                return _written(route.answer(request, *parts))
            finally:
                self.api.lock.release()
        if not self.threads.available_tokens:
            self.numbers.hit(AT_WORK)
        return await trio.to_thread.run_sync(
            lambda: _written(route.answer(request, *parts)), limiter=self.threads
        )


class Incoming:
    """The requests of one client, as httptools' parser tells of them: whole ones in `requests`,
    then perhaps a `fault`, after which none comes.

    A request may ask for another protocol (`Upgrade`), which a server is free to pass over. The
    parser is not: it ends with the head of such a request. So a new one begins with the same head,
    without that header.
    """

    def __init__(self) -> None:
        self.requests: deque[Head] = deque()
        self.fault: RegistryError | None = None
        self.continues = False  # the client waits to be told to send its body
        self._parser = httptools.HttpRequestParser(self)
        self._begin()

    @property
    def login(self) -> bytes | None:
        """Return the value of Authorization of a request whose body is still to come."""
        return self._headers.get(b"authorization")

    @property
    def body_bytes(self) -> int:
        """Return how much of bodies has come that is not answered."""
        return len(self._body) + sum(len(each.body) for each in self.requests)

    @property
    def lacks_body(self) -> bool:
        return self._in_body

    def feed(self, data: bytes | bytearray) -> None:
        """Take what has come; what is no HTTP, or too large, becomes the fault."""
        self._taken += len(data)
        try:
            self._parse(memoryview(data))
        except RegistryError as error:
            self.fault = error
        except httptools.HttpParserError as error:
            cause = error.__context__
            self.fault = (
                cause
                if isinstance(cause, RegistryError)
                else RegistryError(BAD_REQUEST, "this is not HTTP/1.1")
            )
        else:
            limit, code = (
                (REQUEST_BYTES, TOO_LARGE) if self._in_body else (HEAD_BYTES, HEAD_TOO_LARGE)
            )
            # sizes of chunks and headers behind them count too
            most = limit.value + (HEAD_BYTES.value if self._in_body else 0)
            if self._taken > most:
                self.fault = _too_large(limit, code)

    def _parse(self, rest: memoryview) -> None:
        while True:
            try:
                self._parser.feed_data(rest)
                return
            except httptools.HttpParserUpgrade as upgrade:
                method = self._parser.get_method()
                if method == b"CONNECT":
                    raise RegistryError(BAD_REQUEST, "this is no proxy") from None
                rest, version = rest[upgrade.args[0] :], self._parser.get_http_version().encode()
                lines = [
                    b"%b %b HTTP/%b" % (method, self._url, version),
                    *(b"%b: %b" % each for each in self._fields if each[0] != b"upgrade"),
                ]
            self._begin()
            self._taken = len(rest)
            self._parser = httptools.HttpRequestParser(self)
            self._parser.feed_data(b"\r\n".join([*lines, b"", b""]))

    def _begin(self) -> None:
        self._url, self._headers, self._body, self._in_body = (
            b"",
            dict[bytes, bytes](),
            bytearray(),
            False,
        )
        self._fields: list[tuple[bytes, bytes]] = []
        self._taken = self._head_bytes = 0

    # the parser's side

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        name = name.lower()
        if self._in_body:
            return  # behind the body: nothing of it counts
        if name in ONCE and name in self._headers:
            raise RegistryError(BAD_REQUEST, f"there is more than one {name.decode()}")
        self._headers[name] = value
        self._fields.append((name, value))

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES.value:
            raise _too_large(HEAD_BYTES, HEAD_TOO_LARGE)

    def on_headers_complete(self) -> None:
        self._in_body = True
        version = self._parser.get_http_version()
        if version not in VERSIONS:  # its parser knows those that have no headers, or other frames
            raise RegistryError(BAD_REQUEST, "this is not HTTP/1.1")
        is_old = version == OLD
        coding = [
            value.strip().lower() for name, value in self._fields if name == b"transfer-encoding"
        ]
        if coding and is_old:
            raise RegistryError(BAD_REQUEST, "HTTP/1.0 has no Transfer-Encoding")
        if coding and coding != [b"chunked"]:
            raise RegistryError(NOT_IMPLEMENTED, "of the transfer codings only chunked is taken")
        if self._headers.get(b"content-encoding", b"identity").lower() not in (b"", b"identity"):
            raise RegistryError(UNSUPPORTED, "bodies are taken without a Content-Encoding")
        self.continues = not is_old and self._headers.get(b"expect", b"").lower() == b"100-continue"

    def on_body(self, data: bytes) -> None:
        if len(self._body) + len(data) > REQUEST_BYTES.value:
            raise _too_large(REQUEST_BYTES, TOO_LARGE)
        self._body += data

    def on_message_complete(self) -> None:
        if self._parser.should_upgrade():
            return  # it comes again, without that header
        method = self._parser.get_method().decode("ascii")
        keep_alive = self._parser.should_keep_alive()
        more = (
            KEEP_ALIVE
            if keep_alive and self._parser.get_http_version() == OLD
            else b""
            if keep_alive
            else CLOSE
        )
        self.requests.append(
            Head(
                method, self._url.decode("latin-1"), bytes(self._body), self.login, keep_alive, more
            )
        )
        self.continues = False
        self._begin()


def _too_large(limit: Limit, code: int) -> LimitReached:
    return LimitReached(limit, code, "the request has too many bytes")


class HttpConnection:
    """One client: one request after the other."""

    def __init__(self, server: HttpServer, stream: trio.abc.Stream) -> None:
        self._server, self._stream = server, stream
        self._incoming = Incoming()
        self._body_bytes = 0  # that the server counts for this connection

    async def run(self) -> None:
        while True:
            with trio.move_on_after(IDLE_SECONDS.value) as scope:
                head = await self._next()
                if head is None:
                    return
                goes_on = await self._answer(head)
                self._count_bodies()
                if not goes_on:
                    return
            if scope.cancelled_caught:
                self._server.numbers.hit(IDLE_SECONDS)
                return

    def ended(self) -> None:
        self._server.body_bytes -= self._body_bytes

    def _count_bodies(self) -> None:
        """The body that is being answered counts until then."""
        before, self._body_bytes = self._body_bytes, self._incoming.body_bytes
        self._server.body_bytes += self._body_bytes - before

    async def _next(self) -> Head | None:
        """Return the next request; None when there is no other."""
        incoming = self._incoming
        while not incoming.requests:
            if incoming.fault is not None:  # what comes next is not known to begin a request
                await self._refuse(incoming.fault)
                return None
            if incoming.lacks_body:
                refused = await self._refused_body()
                if refused is not None:
                    await self._refuse(refused)
                    return None
                if incoming.continues:
                    incoming.continues = False
                    await self._stream.send_all(b"HTTP/1.1 100 Continue\r\n\r\n")
            data = await self._stream.receive_some(CHUNK_BYTES)
            if not data:
                return None
            incoming.feed(data)
            self._count_bodies()
        return incoming.requests.popleft()

    async def _refused_body(self) -> RegistryError | None:
        """Why no more of a body is taken: its sender has not logged in, or there are too many
        others.
        """
        if self._body_bytes > CHUNK_BYTES and self._server.body_bytes > BODIES_BYTES.value:
            return LimitReached(
                BODIES_BYTES, BUSY, f"bodies of {self._server.body_bytes:,} bytes have come in part"
            )
        if self._server.login is None:
            return None
        return await self._refused_login(_basic(self._incoming.login or b""))

    async def _refused_login(self, user: User | None) -> RegistryError | None:
        assert self._server.login is not None
        try:
            known = user is not None and await self._server.login(user)
        except RegistryError as error:
            return error
        if known:
            return None
        self._server.numbers.count_refused_login()
        return RegistryError(UNAUTHORIZED, "Unauthorized")

    async def _refuse(self, error: RegistryError, head: Head | None = None) -> None:
        """The connection ends after it."""
        if isinstance(error, LimitReached):
            self._server.numbers.hit(error.limit)
        more = CLOSE + (CHALLENGE if error.code == UNAUTHORIZED else b"")
        await self._respond(error.status, JSON_TYPE, _refusal(error), head, more)

    async def _answer(self, head: Head) -> bool:
        """Return whether the connection goes on."""
        user = _basic(head.login or b"")
        if self._server.login is not None:
            refused = await self._refused_login(user)
            if refused is not None:
                await self._refuse(refused, head)
                return False
        method = "GET" if head.method == "HEAD" else head.method
        answer = await self._server.answer(Request.of(method, head.target, head.body, user))
        await self._respond(
            answer.status, answer.content_type, answer.body, head, answer.more + head.more
        )
        return head.keep_alive

    async def _respond(
        self,
        status: int,
        content_type: bytes,
        body: bytes,
        head: Head | None = None,
        more: bytes = b"",
    ) -> None:
        self._server.numbers.count_answer(status)
        reason = HTTPStatus(status).phrase.encode()
        start = b"HTTP/1.1 %d %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n%b\r\n" % (
            status,
            reason,
            content_type,
            len(body),
            more,
        )
        await self._stream.send_all(
            start if head is not None and head.method == "HEAD" else start + body
        )


def _basic(value: bytes) -> User | None:
    scheme, _, rest = value.partition(b" ")
    try:
        name, colon, password = b64decode(rest.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return User(name, password) if scheme.lower() == b"basic" and colon else None


def _written(found: Json) -> bytes:
    """Half of a surrogate pair, which another writer of the topic may have left, harms no
    answer.
    """
    return (
        found.encode("utf-8", "backslashreplace")
        if isinstance(found, Raw)
        else json.dumps(found, separators=(",", ":")).encode()
    )


def _refusal(error: RegistryError) -> bytes:
    return _written({"error_code": error.code, "message": str(error)})


def _allowed(methods: Iterable[str]) -> bytes:
    return f"Allow: {', '.join(methods)}\r\n".encode()
