"""Requests and responses as values, and the refusal of a request that is not understood."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import NamedTuple, Protocol

from raftka.limits import Limit

TEXT = "text/plain; charset=utf-8"
EVENTS = "text/event-stream"


def is_never_left() -> bool:
    return False


@dataclass(slots=True)
class Request:
    method: str
    target: str  # path and query, without an origin; "*" stands for all paths
    headers: dict[bytes, bytes]  # by lower-case name; the last one where a name comes again
    is_old: bool  # HTTP/1.0
    peer: str = ""  # host:port of the client
    body: bytes = b""
    keep_alive: bool = False
    user: object | None = None  # set by the site when the request has logged in
    # ask on the loop's thread, while the answer is made: True when the client has left
    has_left: Callable[[], bool] = is_never_left

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]


class BodyFailed(Exception):
    """A body that was begun cannot be finished: its connection is cut, so that the client sees a
    body that is not whole.
    """


class Source(Protocol):
    """A body that is made while it is sent. Its methods run on the loop's thread."""

    def start(self, ready: Callable[[], None]) -> None:
        """Begin; the head has been sent. Call `ready`, on the loop's thread, when `take` has
        something new or the body is whole.
        """

    def take(self) -> bytes | None:
        """Return what is there, perhaps nothing; None when the body is whole. It is asked for only
        when the network has taken what was returned before. Raises BodyFailed.
        """

    def stop(self) -> None:
        """Nothing is asked for any more: the body is whole, or the client has left, or was too
        slow. Called exactly once.
        """


class Response(NamedTuple):
    status: int
    content_type: str
    body: bytes
    headers: Sequence[str] = ()  # further ones, each "Name: value"
    close: bool = False  # the connection ends after it
    source: Source | None = None  # the body is made while it is sent; `body` is empty then


Reply = Callable[[Response], None]


class BadRequest(Exception):
    """A request is refused before any page sees it; its connection ends with the answer."""

    def __init__(self, status: int, message: str, limit: Limit | None = None) -> None:
        """`limit`: the one that the request exceeds."""
        super().__init__(message)
        self.status, self.limit = status, limit


def url_of(host: str, port: int, *, has_tls: bool = False) -> str:
    """Return the address of a server without a path; one of IPv6 has brackets."""
    host = f"[{host}]" if ":" in host else host
    return f"{'https' if has_tls else 'http'}://{host}:{port}"


def encode_head(response: Response, request: Request | None, *, keep_alive: bool) -> bytes:
    """Return the bytes before the body. `request`: None where none was understood."""
    lines = [
        f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}",
        f"Content-Type: {response.content_type}",
        *_framing(response, request),
        *response.headers,
    ]
    if not keep_alive:
        lines.append("Connection: close")
    elif request is not None and request.is_old:
        lines.append("Connection: keep-alive")
    return "\r\n".join([*lines, "", ""]).encode()


def _framing(response: Response, request: Request | None) -> Sequence[str]:
    """Return the headers that tell where the body ends; without one the end of the connection
    does.
    """
    if response.status == HTTPStatus.NOT_MODIFIED:
        return ()
    if response.source is None:
        return (f"Content-Length: {len(response.body)}",)
    return () if request is None or request.is_old else ("Transfer-Encoding: chunked",)
