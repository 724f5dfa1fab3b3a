"""A node's HTTP, for Prometheus and health checks: GET, HEAD, OPTIONS, no bodies, a request of a
connection at a time. Sans-IO; knows no page.

Our own hundred lines because h11 costs a start 0.1 s, and because what nobody needs here is refused
rather than parsed: whatever is not a short, well-formed GET is answered once and closed. A request
has one deadline from its connection's last answer to the next, so drips and slow readers end.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from raftka.broker.telemetry.event_log import BoundedRate, Events
from raftka.broker.telemetry.metrics import Metrics
from raftka.limits import HTTP_CONNECTIONS, HTTP_REQUEST_BYTES, HTTP_SECONDS, LOGIN_SECONDS
from raftka.runtime.interfaces import Clock, Connection, Timer, Transport

Reply = Callable[[int, str, bytes], None]  # status, content type, body
Page = Callable[[Reply], None]  # may reply at once or later

TEXT = "text/plain; charset=utf-8"
REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
# of a target in absolute form, which every server must take
ORIGIN = rb"(?i:https?)://[!$&-.0-9:;=A-Z\[\]_a-z~%]+"
REQUEST_LINE = re.compile(
    rb"("
    + TOKEN
    + rb") (?:(?:"
    + ORIGIN
    + rb")?(/[!-~]*)|"
    + ORIGIN
    + rb"(\?[!-~]*)?|(\*)) HTTP/1\.([01])"
)
ALLOWED = "GET, HEAD, OPTIONS"
HEADER = re.compile(rb"(" + TOKEN + rb"):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
END = b"\r\n\r\n"
TLS_RECORD = 0x16  # the first byte of a handshake
SCHEMES = (b"basic", b"bearer")
FAILED_LOGINS = "raftka_http_failed_authentications_total"


class BadRequest(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Request:
    """One head, without its last empty line. Raises BadRequest."""

    def __init__(self, head: bytes) -> None:
        line, *rest = head.split(b"\r\n")
        match = REQUEST_LINE.fullmatch(line)
        if match is None:
            raise BadRequest(400, "this is not HTTP/1.1")
        headers = [HEADER.fullmatch(each) for each in rest]
        if not all(headers):
            raise BadRequest(400, "a header is malformed")
        fields: dict[bytes, list[bytes]] = {}
        for each in headers:
            if each is not None:
                fields.setdefault(each[1].lower(), []).append(each[2].strip())
        for name in (b"authorization", b"host", b"content-length"):
            if len(fields.get(name, ())) > 1:
                raise BadRequest(400, f"there is more than one {name.decode()}")
        self.authorization = fields.get(b"authorization", [None])[0]
        target: bytes = match[2] or match[4] or b"/"
        self.method, self.path = match[1].decode(), target.partition(b"?")[0].decode()
        if self.method not in ("GET", "HEAD", "OPTIONS"):
            raise BadRequest(405, f"{ALLOWED} are all there is")
        if self.path == "*" and self.method != "OPTIONS":
            raise BadRequest(400, "only OPTIONS asks for all paths")
        if b"transfer-encoding" in fields or fields.get(b"content-length", [b"0"]) != [b"0"]:
            raise BadRequest(400, "a request here has no body")
        wishes = {
            each.strip().lower() for each in b",".join(fields.get(b"connection", ())).split(b",")
        }
        self.is_old = match[5] == b"0"
        self.keep_alive = b"close" not in wishes and (not self.is_old or b"keep-alive" in wishes)


class Logins(Protocol):
    @property
    def challenges(self) -> Sequence[str]:
        """For `WWW-Authenticate`."""

    def knows(self, authorization: bytes) -> bool:
        """`authorization`: the header's value."""


class Guard(NamedTuple):
    """What a connection has to show."""

    logins: Logins | None = None  # None: nobody has to log in
    open_pages: Mapping[str, Page] = {}  # for clients without a login
    delay_s: float = 0.0  # before a failed login is answered
    # the connection with TLS in front of it
    protect: Callable[[Connection], Connection] | None = None


class HttpServer:
    def __init__(
        self,
        pages: Mapping[str, Page],
        clock: Clock,
        metrics: Metrics,
        events: Events,
        guard: Guard = Guard(),  # noqa: B008
    ) -> None:
        self.pages = pages
        self.guard = guard
        self.login_failed = BoundedRate(events.info, "http_authentication_failed", clock.now)
        self.clock = clock
        self.metrics = metrics
        self.events = events
        self.connections: dict[HttpConnection, None] = {}

    def accept(self) -> Connection | None:
        if len(self.connections) >= HTTP_CONNECTIONS.value:
            self.metrics.refused(HTTP_CONNECTIONS)
            stranger = next((each for each in self.connections if each.is_stranger), None)
            if stranger is None:
                self.events.warning(
                    "http_refused", reason=f"there are {len(self.connections)} connections"
                )
                return None
            stranger.make_room()
        connection = HttpConnection(self)
        self.connections[connection] = None
        return connection if self.guard.protect is None else self.guard.protect(connection)


class HttpConnection:
    def __init__(self, server: HttpServer) -> None:
        self.server = server
        self._transport: Transport | None = None
        self._come = bytearray()
        self._out: list[bytes] = []
        self._busy = False  # a page is being made
        self._ended = False  # nothing more will come
        self._timer: Timer | None = None
        # what strangers may take is less
        self._known = server.guard.logins is None and server.guard.protect is None

    @property
    def is_stranger(self) -> bool:
        """Return whether it has shown nothing yet, and nothing is done for it."""
        return not self._known and not self._busy and not self._ended

    def make_room(self) -> None:
        """For another: strangers must not keep out those who may see the pages."""
        self._ended = True
        if self._transport is not None:
            self._transport.drop("another connection takes its place")

    # the network's side

    def opened(self, transport: Transport) -> None:
        self._transport = transport
        self._restart_timer()

    def room(self) -> memoryview | None:
        return None

    def receive(self, view: memoryview) -> None:
        if self._transport is None or self._ended:
            return
        if not view:
            self._ended = True
            if not self._busy:
                self._transport.close("closed by the other side")
            return
        self._come += view
        if not self._busy:
            self._next()

    def take_output(self) -> list[bytes]:
        out, self._out = self._out, []
        if out and not self._busy:
            self._hold(False)
            self._next()
        return out

    def closed(self, reason: str) -> None:
        self._transport = None
        self._come.clear()
        self.server.connections.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()

    # requests

    def _next(self) -> None:
        """Answer what is whole, one at a time: while a page is made, or waits to be taken, nothing
        more is read.
        """
        while self._transport is not None and not self._busy and not self._out and not self._ended:
            while self._come[:2] == b"\r\n":  # older clients send an empty line behind a request
                del self._come[:2]
            if self._come[:1] == bytes([TLS_RECORD]):
                self._refuse(BadRequest(400, "there is no TLS on this port"))
                return
            end = self._come.find(END, 0, HTTP_REQUEST_BYTES.value)
            if end < 0:
                if len(self._come) >= HTTP_REQUEST_BYTES.value:
                    self.server.metrics.refused(HTTP_REQUEST_BYTES)
                    self._refuse(
                        BadRequest(
                            431, f"a request here has at most {HTTP_REQUEST_BYTES.value} bytes"
                        )
                    )
                return
            head = bytes(self._come[:end])
            del self._come[: end + len(END)]
            try:
                self._answer(Request(head))
            except BadRequest as error:
                self._refuse(error)

    def _answer(self, request: Request) -> None:
        logins, shown = self.server.guard.logins, request.authorization
        pages = self.server.pages
        if logins is not None and (shown is None or not logins.knows(shown)):
            pages = self.server.guard.open_pages
            if shown is not None or request.path not in pages:
                self._refuse_login(request, logins)
                return
        else:
            self._known = True
        if request.method == "OPTIONS":
            self._send(200, TEXT, b"", request, [f"Allow: {ALLOWED}"])
            return
        page = pages.get(request.path)
        if page is None:
            self._send(404, TEXT, f"there is {' '.join(pages)}\n".encode(), request)
            return
        self._busy = True
        self._hold(True)
        try:
            page(lambda status, content_type, body: self._send(status, content_type, body, request))
        except Exception as error:  # a bug of ours is this request's matter alone
            self.server.events.error("page_failed", path=request.path, error=repr(error))
            self._send(500, TEXT, b"this page failed: see the node's log\n", request)

    def _refuse_login(self, request: Request, logins: Logins) -> None:
        """After a while: so guesses take their time."""
        server, delay_s = self.server, 0.0
        if request.authorization is not None:
            delay_s = server.guard.delay_s
            server.metrics.count(FAILED_LOGINS)
            scheme = request.authorization.partition(b" ")[0].lower()
            peer = self._transport.peer if self._transport is not None else ""
            server.login_failed(
                peer=peer, scheme=scheme.decode() if scheme in SCHEMES else "another"
            )
        self._busy = True
        self._hold(True)
        request.keep_alive = False
        challenges = [f"WWW-Authenticate: {each}" for each in logins.challenges]
        text = b"this page is for those who log in\n"
        server.clock.call_at(
            server.clock.now() + delay_s, lambda: self._send(401, TEXT, text, request, challenges)
        )

    def _send(
        self,
        status: int,
        content_type: str,
        body: bytes,
        request: Request | None,
        more: Sequence[str] = (),
    ) -> None:
        self._busy = False
        if self._transport is None:
            return
        self._hold(True)
        keep_alive = request is not None and request.keep_alive and not self._ended
        lines = [
            f"HTTP/1.1 {status} {REASONS[status]}",
            f"Content-Type: {content_type}",
            f"Content-Length: {len(body)}",
            *([f"Allow: {ALLOWED}"] if status == 405 else []),
            *more,
            *(
                ["Connection: close"]
                if not keep_alive
                else ["Connection: keep-alive"]
                if request is not None and request.is_old
                else []
            ),
        ]
        self._out.append("\r\n".join(lines).encode() + END)
        if request is None or request.method != "HEAD":
            self._out.append(body)
        self._transport.wake()
        if keep_alive:
            self._restart_timer()
        else:
            self._ended = True
            self._transport.close("answered")

    def _refuse(self, error: BadRequest) -> None:
        if self._transport is not None:
            self.server.events.warning("http_refused", peer=self._transport.peer, reason=str(error))
            self.server.metrics.count("raftka_http_errors_total")
            self._send(error.status, TEXT, f"{error}\n".encode(), None)

    def _hold(self, held: bool) -> None:
        if self._transport is not None:
            self._transport.hold_reading(held)

    def _restart_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        seconds = HTTP_SECONDS if self._known else LOGIN_SECONDS
        self._timer = self.server.clock.call_at(
            self.server.clock.now() + seconds.value, self._too_late
        )

    def _too_late(self) -> None:
        if self._transport is not None:
            if self._come or self._out or self._busy:
                self.server.metrics.refused(HTTP_SECONDS if self._known else LOGIN_SECONDS)
            self._transport.drop("idle")
