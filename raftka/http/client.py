"""One GET of a document, or one POST, sans-IO: a `Connection` that the runtime's network drives.
Follows no redirect, keeps no connection.
"""

from collections.abc import Callable, Collection, Sequence
from ssl import SSLContext
from typing import NamedTuple
from urllib.parse import SplitResult

from raftka.http.answer_reader import AnswerReader, HttpFailed
from raftka.limits import Limit, LimitExceeded
from raftka.runtime.interfaces import Buffer, Connection, Runtime, Transport
from raftka.security.tls_connection import Later, Side, TlsConnection

PORTS = {"http": 80, "https": 443}


class Answer(NamedTuple):
    status: int
    body: bytes


Done = Callable[[Answer | HttpFailed | LimitExceeded], None]


class Wanted(NamedTuple):
    """A document, and the answers that have it. With a body it is a POST."""

    url: SplitResult
    limit: Limit  # of its bytes
    headers: Sequence[str] = ("Accept: application/json",)
    statuses: Collection[int] | None = (200,)  # None: any one
    needs_end: bool = False  # the answer has to say where it ends
    body: bytes | None = None

    @property
    def request(self) -> bytes:
        url = self.url
        method = "GET" if self.body is None else "POST"
        lines = [
            f"{method} {url.path or '/'}{f'?{url.query}' if url.query else ''} HTTP/1.1",
            f"Host: {url.netloc}",
            *self.headers,
            "Accept-Encoding: identity",
            "Connection: close",
        ]
        if self.body is not None:
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join([*lines, "", ""]).encode() + (self.body or b"")


def fetch(
    runtime: Runtime,
    wanted: Wanted,
    seconds: Limit,
    done: Done,
    tls: tuple[SSLContext, Later] | None = None,
) -> None:
    """Get a document; `done` is called once, in a later turn. `tls`: for a URL with https."""

    def finish(result: Answer | HttpFailed | LimitExceeded) -> None:
        timer.cancel()
        done(result)

    url, clock = wanted.url, runtime.clock
    connection = HttpFetch(wanted, finish)
    timer = clock.call_at(
        clock.now() + seconds.value,
        lambda: connection.give_up(LimitExceeded(seconds, seconds.value)),
    )
    outer: Connection = connection
    host = url.hostname or ""
    if url.scheme == "https":
        assert tls is not None
        outer = TlsConnection(connection, tls[0], Side(host), tls[1])
    runtime.network.connect(host, url.port or PORTS[url.scheme], outer)


class HttpFetch:
    def __init__(self, wanted: Wanted, done: Done) -> None:
        """`done` is called once."""
        self._wanted, self._reader = wanted, AnswerReader(wanted.limit)
        self._output: list[Buffer] = [wanted.request]
        self._done: Done | None = done
        self._transport: Transport | None = None

    def give_up(self, error: LimitExceeded) -> None:
        self._finish(error)

    def opened(self, transport: Transport) -> None:
        if self._done is None:
            transport.close("given up")
            return
        self._transport = transport
        transport.wake()

    def room(self) -> memoryview | None:
        return None

    def receive(self, view: memoryview) -> None:
        if self._done is None:
            return
        reader = self._reader
        try:
            if view:
                reader.feed(view)
            if reader.status:
                self._check_head()
            if not view:
                reader.end()
        except (HttpFailed, LimitExceeded) as error:
            self._finish(error)
            return
        if reader.is_whole:
            self._finish(Answer(reader.status, bytes(reader.body)))

    def take_output(self) -> list[Buffer]:
        output, self._output = self._output, []
        return output

    def closed(self, reason: str) -> None:
        self._transport = None
        self._finish(HttpFailed(reason))

    def _check_head(self) -> None:
        """Raises HttpFailed."""
        wanted, status = self._wanted, self._reader.status
        if wanted.statuses is not None and status not in wanted.statuses:
            raise HttpFailed(
                f"the answer is {status}"
                + (
                    ": redirects are not followed, set the URL to where it leads"
                    if 300 <= status < 400
                    else ""
                )
            )
        if wanted.needs_end and not self._reader.has_end:
            raise HttpFailed("the answer does not say where it ends")

    def _finish(self, result: Answer | HttpFailed | LimitExceeded) -> None:
        done, self._done = self._done, None
        self._reader.body.clear()
        if self._transport is not None:
            self._transport.close("the document is there, or will not come")
        if done is not None:
            done(result)
