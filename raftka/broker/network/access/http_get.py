"""One GET of a small document over HTTP/1.1, sans-IO: a `Connection` that the runtime's network
drives. Follows no redirect, keeps no connection.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import SplitResult

from raftka.limits import KEY_SET_BYTES, Limit, LimitExceeded
from raftka.runtime.interfaces import Buffer, Transport

HEAD_BYTES = 16 * 1024
END_OF_HEAD = b"\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
MOST_TRIES = 8


class HttpFailed(Exception):
    """No document came. The text is for the operator's log."""


Done = Callable[[bytes | HttpFailed | LimitExceeded], None]


class Head(NamedTuple):
    """The body of an answer, as the head describes it."""

    position: int  # at which the body begins
    length: int | None
    chunked: bool


class HttpGet:
    """`done` is called once, with the document or the failure."""

    def __init__(
        self,
        url: SplitResult,
        done: Done,
        *,
        limit: Limit = KEY_SET_BYTES,
        headers: Sequence[str] = ("Accept: application/json",),
        statuses: Sequence[str] = ("200",),
    ) -> None:
        """`limit`: of the document's bytes; `statuses`: with any other one there is no document."""
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        lines = [
            f"GET {target} HTTP/1.1",
            f"Host: {url.netloc}",
            *headers,
            "Accept-Encoding: identity",
            "Connection: close",
        ]
        self._output: list[Buffer] = ["\r\n".join([*lines, "", ""]).encode()]
        self._limit, self._statuses = limit, statuses
        self.status = ""  # of the answer, once its head has come
        self._done: Done | None = done
        self._data = bytearray()
        self._head: Head | None = None
        self._tries = 0  # to read chunks before the server has closed
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
        before = len(self._data)
        self._data += view
        try:
            if self._head is None:
                self._head = _head(self._data, max(0, before - len(END_OF_HEAD)))
                self.status = (
                    _check_status(self._data, self._statuses) if self._head is not None else ""
                )
            body = self._body(self._head, ended=not view) if self._head is not None else None
            if body is None and not view:
                raise HttpFailed("the answer ends too early")
            most = self._limit.value
            if len(self._data) > HEAD_BYTES + 2 * most or (body is not None and len(body) > most):
                raise LimitExceeded(self._limit, len(self._data))
        except (HttpFailed, LimitExceeded) as error:
            self._finish(error)
            return
        if body is not None:
            self._finish(body)

    def _body(self, head: Head, *, ended: bool) -> bytes | None:
        """The document, once it is complete. Raises HttpFailed and LimitExceeded."""
        if head.chunked:
            if not ended and (self._tries >= MOST_TRIES or not self._data.endswith(LAST_CHUNK)):
                return None
            self._tries += 1
            return _joined(bytes(self._data[head.position :]), self._limit)
        end = None if head.length is None else head.position + head.length
        complete = ended if end is None else len(self._data) >= end
        return bytes(self._data[head.position : end]) if complete else None

    def take_output(self) -> list[Buffer]:
        output, self._output = self._output, []
        return output

    def closed(self, reason: str) -> None:
        self._transport = None
        self._finish(HttpFailed(reason))

    def _finish(self, result: bytes | HttpFailed | LimitExceeded) -> None:
        done, self._done = self._done, None
        self._data.clear()
        if self._transport is not None:
            self._transport.close("the document is there, or will not come")
        if done is not None:
            done(result)


def _head(data: bytearray, start: int) -> Head | None:
    """None while it has not come. Raises HttpFailed."""
    end = data.find(END_OF_HEAD, start)
    if end < 0 or end > HEAD_BYTES:
        if len(data) > HEAD_BYTES:
            raise HttpFailed("the head of the answer is too long")
        return None
    _, *lines = data[:end].decode("latin-1").split("\r\n")
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines)
    }
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise HttpFailed("the answer is compressed, which was not asked for")
    length = headers.get("content-length")
    if length is not None and not (length.isascii() and length.isdigit() and len(length) < 12):
        raise HttpFailed("the length of the answer is no number")
    return Head(
        end + len(END_OF_HEAD),
        None if length is None else int(length),
        headers.get("transfer-encoding", "").lower() == "chunked",
    )


def _check_status(data: bytearray, allowed: Sequence[str]) -> str:
    """Raises HttpFailed."""
    version, _, rest = data[: data.find(b"\r\n")].decode("latin-1").partition(" ")
    status = rest[:3]
    if not version.startswith("HTTP/1.") or not status.isdigit():
        raise HttpFailed("this is no HTTP/1.1")
    if status.startswith("3"):
        raise HttpFailed(
            f"the answer is {status}: redirects are not followed, set the URL to where it leads"
        )
    if status not in allowed:
        raise HttpFailed(f"the answer is {status}")
    return status


def _joined(body: bytes, limit: Limit) -> bytes | None:
    """Chunks in one piece; None while the last one has not come."""
    parts: list[bytes] = []
    position = 0
    while True:
        end = body.find(b"\r\n", position)
        if end < 0:
            return None
        size = body[position:end].split(b";")[0].strip()
        if not size or len(size) > 8 or not all(sign in b"0123456789abcdefABCDEF" for sign in size):
            raise HttpFailed("the size of a chunk is no number")
        length = int(size, 16)
        if not length:
            return b"".join(parts)
        if length > limit.value:
            raise LimitExceeded(limit, length)
        if len(body) < end + 2 + length + 2:
            return None
        parts.append(body[end + 2 : end + 2 + length])
        position = end + 2 + length + 2
