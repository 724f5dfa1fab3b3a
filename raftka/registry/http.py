"""HTTP/1.1 for the registry: httptools parses, Trio's streams carry; bodies with a limit, logins, threads for what is slow. Knows no subject."""

import binascii
import json
from base64 import b64decode
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple, Protocol

import httptools
import trio

from raftka.json_values import Json
from raftka.limits import Limit
from raftka.registry.access import User
from raftka.registry.api import Api, Raw, Request
from raftka.registry.errors import RegistryError
from raftka.registry.limits import AT_WORK, CONNECTIONS, HEAD_BYTES, IDLE_SECONDS, REQUEST_BYTES
from raftka.registry.numbers import Numbers

JSON_TYPE = b"application/vnd.schemaregistry.v1+json"
CHUNK_BYTES = 64 * 1024
BAD_REQUEST, UNAUTHORIZED, TOO_LARGE, HEAD_TOO_LARGE, INTERNAL = 400, 40101, 413, 431, 50001
CHALLENGE = b'WWW-Authenticate: Basic realm="schema registry"\r\n'


class Head(NamedTuple):
    """A request as it came."""

    method: str
    target: str
    body: bytes
    login: bytes | None  # the value of Authorization
    keep_alive: bool


class Login(Protocol):
    async def __call__(self, user: User) -> bool:
        """Return whether this is the user's password."""


class HttpServer:
    """Serves streams until they end."""

    def __init__(self, api: Api, numbers: Numbers, login: Login | None = None, report: Callable[[str, str], None] = lambda what, error: None) -> None:
        """`login`: None where everybody may ask. `report`: of bugs of ours."""
        self.api, self.numbers, self.login, self.report = api, numbers, login, report
        self.threads = trio.CapacityLimiter(AT_WORK.value)
        self.connections = 0

    async def serve(self, stream: trio.abc.Stream) -> None:
        if self.connections >= CONNECTIONS.value:
            self.numbers.refused(CONNECTIONS)
            await trio.aclose_forcefully(stream)
            return
        self.connections += 1
        try:
            await HttpConnection(self, stream).run()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has gone
        except Exception as error:
            self.report("a connection", repr(error))
        finally:
            self.connections -= 1
            await trio.aclose_forcefully(stream)

    async def answer(self, request: Request) -> tuple[int, bytes, bytes]:
        """Return status, type and body."""
        try:
            if request.path == "/metrics" and request.method == "GET":
                return 200, *self.numbers.page()
            route, parts = self.api.route(request)
            if route.slow:
                found = await trio.to_thread.run_sync(route.answer, request, *parts, limiter=self.threads)
            else:
                found = route.answer(request, *parts)
            return 200, JSON_TYPE, _written(found)
        except RegistryError as error:
            return error.status, JSON_TYPE, _refusal(error)
        except Exception as error:  # a bug of ours is this request's matter alone
            self.report(f"{request.method} {request.path}", repr(error))
            return 500, JSON_TYPE, _refusal(RegistryError(INTERNAL, "this request failed: see the registry's log"))


class Incoming:
    """What one client sends, as httptools' parser tells it: whole requests in `requests`."""

    def __init__(self) -> None:
        self.requests: deque[Head] = deque()
        self.continues = False  # the client waits to be told to send its body
        self._parser = httptools.HttpRequestParser(self)
        self._begin()

    def feed(self, data: bytes | bytearray) -> None:
        """Raises RegistryError for what is no HTTP, or too large."""
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise RegistryError(BAD_REQUEST, "this port speaks HTTP/1.1 alone") from None
        except httptools.HttpParserError as error:
            cause = error.__context__
            if isinstance(cause, RegistryError):
                raise cause from None
            raise RegistryError(BAD_REQUEST, "this is not HTTP/1.1") from None
        if not self._in_body and self._head_bytes > HEAD_BYTES.value:
            raise TooLarge(HEAD_BYTES, HEAD_TOO_LARGE)

    def _begin(self) -> None:
        self._url, self._headers, self._body, self._in_body, self._head_bytes = b"", dict[bytes, bytes](), bytearray(), False, 0

    # the parser's side

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"authorization" and name in self._headers:
            raise RegistryError(BAD_REQUEST, "there is more than one login")
        self._headers[name] = value

    def on_headers_complete(self) -> None:
        self._in_body = True
        self.continues = self._headers.get(b"expect", b"").lower() == b"100-continue"

    def on_body(self, data: bytes) -> None:
        if len(self._body) + len(data) > REQUEST_BYTES.value:
            raise TooLarge(REQUEST_BYTES, TOO_LARGE)
        self._body += data

    def on_message_complete(self) -> None:
        method, login = self._parser.get_method().decode("ascii"), self._headers.get(b"authorization")
        self.requests.append(Head(method, self._url.decode("latin-1"), bytes(self._body), login, self._parser.should_keep_alive()))
        self._begin()


class TooLarge(RegistryError):
    def __init__(self, limit: Limit, code: int) -> None:
        super().__init__(code, f"a request here has at most {limit.value} bytes")
        self.limit = limit


class HttpConnection:
    """One client: one request after the other."""

    def __init__(self, server: HttpServer, stream: trio.abc.Stream) -> None:
        self._server, self._stream = server, stream
        self._incoming = Incoming()

    async def run(self) -> None:
        while True:
            with trio.move_on_after(IDLE_SECONDS.value) as scope:
                head = await self._next()
                if head is None:
                    return
                await self._answer(head)
                if not head.keep_alive:
                    return
            if scope.cancelled_caught:
                self._server.numbers.refused(IDLE_SECONDS)
                return

    async def _next(self) -> Head | None:
        """Return the next request; None when there is no other."""
        incoming = self._incoming
        while not incoming.requests:
            data = await self._stream.receive_some(CHUNK_BYTES)
            if not data:
                return None
            try:
                incoming.feed(data)
            except RegistryError as error:  # what comes next is not known to begin a request
                if isinstance(error, TooLarge):
                    self._server.numbers.refused(error.limit)
                await self._respond(error.status, JSON_TYPE, _refusal(error), more=b"Connection: close\r\n")
                return None
            if incoming.continues:
                incoming.continues = False
                if not incoming.requests:
                    await self._stream.send_all(b"HTTP/1.1 100 Continue\r\n\r\n")
        return incoming.requests.popleft()

    async def _answer(self, head: Head) -> None:
        user = None
        if self._server.login is not None:
            user = _basic(head.login or b"")
            try:
                known = user is not None and await self._server.login(user)
            except RegistryError as error:
                await self._respond(error.status, JSON_TYPE, _refusal(error), head)
                return
            if not known:
                self._server.numbers.logins_refused += 1
                await self._respond(401, JSON_TYPE, _refusal(RegistryError(UNAUTHORIZED, "Unauthorized")), head, CHALLENGE)
                return
        method = "GET" if head.method == "HEAD" else head.method
        status, content_type, body = await self._server.answer(Request.of(method, head.target, head.body, user))
        await self._respond(status, content_type, body, head)

    async def _respond(self, status: int, content_type: bytes, body: bytes, head: Head | None = None, more: bytes = b"") -> None:
        self._server.numbers.answered(status)
        if head is not None and not head.keep_alive:
            more += b"Connection: close\r\n"
        reason = HTTPStatus(status).phrase.encode()
        start = b"HTTP/1.1 %d %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n%b\r\n" % (status, reason, content_type, len(body), more)
        await self._stream.send_all(start if head is not None and head.method == "HEAD" else start + body)


def _basic(value: bytes) -> User | None:
    scheme, _, rest = value.partition(b" ")
    try:
        name, colon, password = b64decode(rest.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return User(name, password) if scheme.lower() == b"basic" and colon else None


def _written(found: Json) -> bytes:
    return found.encode() if isinstance(found, Raw) else json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode()


def _refusal(error: RegistryError) -> bytes:
    return _written({"error_code": error.code, "message": str(error)})
