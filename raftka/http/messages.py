"""Requests and responses as values, and the refusal of a request that is not understood."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import NamedTuple

from raftka.limits import Limit

TEXT = "text/plain; charset=utf-8"


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

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]


class Response(NamedTuple):
    status: int
    content_type: str
    body: bytes
    headers: Sequence[str] = ()  # further ones, each "Name: value"
    close: bool = False  # the connection ends after it


Reply = Callable[[Response], None]


class BadRequest(Exception):
    """A request is refused before any page sees it; its connection ends with the answer."""

    def __init__(self, status: int, message: str, limit: Limit | None = None) -> None:
        """`limit`: the one that the request exceeds."""
        super().__init__(message)
        self.status, self.limit = status, limit


def encode_head(response: Response, request: Request | None, *, keep_alive: bool) -> bytes:
    """Return the bytes before the body. `request`: None where none was understood."""
    lines = [
        f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {len(response.body)}",
        *response.headers,
    ]
    if not keep_alive:
        lines.append("Connection: close")
    elif request is not None and request.is_old:
        lines.append("Connection: keep-alive")
    return "\r\n".join([*lines, "", ""]).encode()
