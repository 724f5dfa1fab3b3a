"""Requests out of the bytes of one connection, sans-IO: one request at a time, and no byte beyond
its end is looked at before `take`.

httptools judges the headers and decodes the body. The request line is judged here, and httptools
gets another one: it knows some methods only, and it ends its work at CONNECT and at `Upgrade`,
which a server is free to pass over (RFC 9110, 7.8). A request is refused rather than understood
where two readers could see its end at different places.
"""

import re
from dataclasses import dataclass

import httptools

from raftka.http.messages import BadRequest, Request
from raftka.limits import Limit

TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
# of a target in absolute form, which every server must take
ORIGIN = rb"(?i:https?)://[!$&-.0-9:;=A-Z\[\]_a-z~%]+"
REQUEST_LINE = re.compile(
    rb"(" + TOKEN + rb") (?:(?:" + ORIGIN + rb")?(/[!-~]*)|" + ORIGIN + rb"(\?[!-~]*)?|(\*))"
    rb" HTTP/1\.([01])"
)
UPGRADE = re.compile(rb"^upgrade:[^\n]*\n", re.IGNORECASE | re.MULTILINE)
EMPTY_LINE, END_OF_HEAD = b"\r\n", b"\r\n\r\n"
TLS_RECORD = 0x16  # the first byte of a handshake
ONCE = (b"authorization", b"host", b"expect")  # headers that come at most once
NO_HTTP = "this is not HTTP/1.1"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a server. None: there is no such thing."""

    connections: Limit  # at once
    head: Limit  # bytes of a request before its body
    seconds: Limit  # from one answer to the next
    login_seconds: Limit  # the same, for a client that has not logged in
    body: Limit | None = None  # bytes; None: requests have no body
    # bytes of all requests that are not answered; beyond them only small bodies are taken
    bodies: Limit | None = None


class RequestReader:
    def __init__(self, bounds: Bounds) -> None:
        self.request: Request | None = None  # its head has come
        self.is_whole = False  # its body has come too
        self._bounds = bounds
        self._buffer = bytearray()  # not parsed
        self._body = bytearray()
        self._body_taken = 0  # bytes with sizes of chunks and trailers
        self._length: int | None = None  # bytes of the body still to come; None: it is chunked
        self._fields: list[tuple[bytes, bytes]] = []
        self._keep_alive = False
        self._parser: httptools.HttpRequestParser | None = None

    @property
    def held_bytes(self) -> int:
        return len(self._buffer) + len(self._body)

    def take_continue(self) -> bool:
        """Return True, once, when the client waits for `100 Continue` before it sends a body."""
        if self.request is None or self.request.is_old or self._body_taken:
            return False
        return self.request.headers.pop(b"expect", b"").lower() == b"100-continue"

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        self._buffer += data

    def advance(self) -> None:
        """Parse what has come, up to the end of one request. Raises BadRequest."""
        if self.is_whole:
            return
        if self.request is None:
            self._read_head()
        if self._bounds.body is not None and self.request is not None:
            self._read_body(self._bounds.body)
        if self.is_whole and self.request is not None:
            self.request.body, self.request.keep_alive = bytes(self._body), self._keep_alive
            self._body.clear()

    def take(self) -> Request:
        """Return the whole request; the next one may begin."""
        request = self.request
        assert request is not None and self.is_whole  # noqa: PT018
        self.request, self.is_whole = None, False
        return request

    def _read_head(self) -> None:
        buffer, limit = self._buffer, self._bounds.head
        while buffer[:2] == EMPTY_LINE:  # older clients send an empty line behind a request
            del buffer[:2]
        if buffer[:1] == bytes([TLS_RECORD]):
            raise BadRequest(400, "there is no TLS on this port")
        end = buffer.find(END_OF_HEAD, 0, limit.value)
        if end >= 0:
            head = bytes(buffer[: end + len(END_OF_HEAD)])
            del buffer[: len(head)]
            self._parse_head(head)
        elif len(buffer) >= limit.value:
            raise BadRequest(
                431, f"a request here has at most {limit.value} bytes before its body", limit
            )

    def _parse_head(self, head: bytes) -> None:
        line, _, fields = head.partition(EMPTY_LINE)
        match = REQUEST_LINE.fullmatch(line)
        if match is None:
            raise BadRequest(400, NO_HTTP)
        self._fields, self._body, self._body_taken = [], bytearray(), 0
        self._parser = httptools.HttpRequestParser(self)
        self._parse(b"POST / HTTP/1.%b\r\n%b" % (match[5], UPGRADE.sub(b"", fields)))
        target: bytes = match[2] or match[4] or b"/" + (match[3] or b"")
        request = Request(match[1].decode(), target.decode(), dict(self._fields), match[5] == b"0")
        self._check_head(request)
        self.request = request

    def _check_head(self, request: Request) -> None:
        names = [name for name, _ in self._fields]
        for name in ONCE:
            if names.count(name) > 1:
                raise BadRequest(400, f"there is more than one {name.decode()}")
        if not request.is_old and b"host" not in names:
            raise BadRequest(400, "a request of HTTP/1.1 names its host")
        if request.target == "*" and request.method != "OPTIONS":
            raise BadRequest(400, "only OPTIONS asks for all paths")
        codings = [value.lower() for name, value in self._fields if name == b"transfer-encoding"]
        length = int(request.headers.get(b"content-length", b"0"))
        limit = self._bounds.body
        if limit is None:
            if codings or length:
                raise BadRequest(400, "a request here has no body")
        elif codings and request.is_old:
            raise BadRequest(400, "HTTP/1.0 has no Transfer-Encoding")
        elif codings and codings != [b"chunked"]:
            raise BadRequest(501, "of the transfer codings only chunked is taken")
        elif request.headers.get(b"content-encoding", b"").lower() not in (b"", b"identity"):
            raise BadRequest(415, "bodies are taken without a Content-Encoding")
        self._length = None if codings else length

    def _read_body(self, limit: Limit) -> None:
        while not self.is_whole and (size := self._size_of_piece()):
            piece = self._buffer[:size]
            del self._buffer[:size]
            self._body_taken += size
            self._parse(piece)
            # sizes of chunks and headers behind them count too
            if (
                len(self._body) > limit.value
                or self._body_taken > limit.value + self._bounds.head.value
            ):
                raise self._too_large(limit)

    def _size_of_piece(self) -> int:
        """Return how many bytes can be parsed without touching the next request.

        Chunks end with an empty line, so a piece ends there, or before what may begin one.
        """
        if self._length is not None:
            size = min(self._length, len(self._buffer))
            self._length -= size
            return size
        end = self._buffer.find(END_OF_HEAD)
        return (
            end + len(END_OF_HEAD) if end >= 0 else max(0, len(self._buffer) - len(END_OF_HEAD) + 1)
        )

    def _parse(self, data: bytes | bytearray) -> None:
        assert self._parser is not None
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            raise BadRequest(400, NO_HTTP) from None

    @staticmethod
    def _too_large(limit: Limit) -> BadRequest:
        return BadRequest(413, f"a body here has at most {limit.value:,} bytes", limit)

    # the parser's side

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.request is None:  # trailers count for nothing
            self._fields.append((name.lower(), value.strip()))

    def on_body(self, data: bytes) -> None:
        self._body += data

    def on_message_complete(self) -> None:
        assert self._parser is not None
        self.is_whole, self._keep_alive = True, self._parser.should_keep_alive()
