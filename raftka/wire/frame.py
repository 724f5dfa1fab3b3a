"""Frames: a size, a header, a message. Cuts them out of a stream of bytes and puts them together.
Knows no connection and no API by name but one.

Headers: a request of a flexible version ends its header with tagged fields; so does its response,
but for ApiVersions, whose reader does not know the version yet.
"""

from functools import cache, lru_cache
from struct import Struct
from struct import error as struct_error
from typing import Any, NamedTuple, NoReturn, Protocol

from raftka.limits import REQUEST_BYTES, LimitExceeded
from raftka.wire.codec import Piece, merge, size_of, skip_tags
from raftka.wire.errors import ProtocolError
from raftka.wire.schema import AnyApi, Api, Req, Resp

API_VERSIONS_KEY = 18
# from this size on what is missing of a frame is better received where it belongs
ROOM_BYTES = 16 * 1024
EXPECTED_FROM_BYTES = 64 * 1024  # smaller frames are received several at a time, if they come so
EXPECTED_BYTES = 2 * 1024 * 1024  # a larger frame is not expected to come again

_SIZE = Struct(">i")
_REQUEST_HEADER = Struct(">hhih")
_SIZE_AND_IDS = Struct(">ihhi")  # key, version, correlation id
_SIZE_AND_CORRELATION = Struct(">ii")
_STRANGERS = {
    **dict.fromkeys((b"GET ", b"POST", b"HEAD", b"PUT "), "HTTP"),
    **dict.fromkeys((b"\x16\x03\x01", b"\x16\x03\x03"), "TLS"),
    **dict.fromkeys(
        (b"ruok", b"srvr", b"stat", b"mntr", b"conf", b"cons", b"envi", b"dump", b"isro", b"wchs"),
        "ZooKeeper's four letters",
    ),
}


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(
    frame: memoryview, position: int = 0, *, flexible: bool
) -> tuple[RequestHeader, int]:
    """The header and the position of the message behind it."""
    try:
        key, version, correlation_id, size = _REQUEST_HEADER.unpack_from(frame, position)
        position += _REQUEST_HEADER.size
        client_id = None
        if size >= 0:
            client_id = str(frame[position : position + size], "utf-8", "replace")
            position += size
        if flexible:
            count = frame[position]
            position = skip_tags(frame, position + 1, count) if count else position + 1
    except (struct_error, IndexError) as error:
        raise ProtocolError("the request ends inside its header") from error
    if position > len(frame):
        raise ProtocolError("the request ends inside its header")
    return RequestHeader(key, version, correlation_id, client_id), position


def decode_response_header(frame: memoryview, api: AnyApi, version: int) -> tuple[int, int]:
    """The correlation id and the position of the message behind the header."""
    try:
        position = 4
        if _has_tags(api, version):
            position = skip_tags(frame, 5, frame[4])
        return _SIZE.unpack_from(frame, 0)[0], position
    except (struct_error, IndexError) as error:
        raise ProtocolError("the response ends inside its header") from error


@cache
def _has_tags(api: AnyApi, version: int) -> bool:
    return version in api.flexible and api.key != API_VERSIONS_KEY


def encode_request(
    api: Api[Req, Resp], version: int, correlation_id: int, client_id: str | None, row: Req
) -> bytes:
    """The whole frame. Raises ValueError for a value that this version can not carry."""
    parts: list[Any] = []
    api.request_parts(version, row, parts)
    return encode_body(api, version, correlation_id, client_id, b"".join(parts))


def encode_body(
    api: AnyApi, version: int, correlation_id: int, client_id: str | None, body: bytes
) -> bytes:
    """The whole frame of a message that is encoded already."""
    rest = _rest_of_header(api, version, client_id)
    return (
        _SIZE_AND_IDS.pack(8 + len(rest) + len(body), api.key, version, correlation_id)
        + rest
        + body
    )


@lru_cache(256)
def _rest_of_header(api: AnyApi, version: int, client_id: str | None) -> bytes:
    """The client's id, and no tags where there may be some: the same for nearly all requests of a
    connection.
    """
    name = b"" if client_id is None else client_id.encode()
    return (
        (-1 if client_id is None else len(name)).to_bytes(2, "big", signed=True)
        + name
        + (b"\0" if version in api.flexible else b"")
    )


def encode_response(
    api: Api[Req, Resp], version: int, correlation_id: int, row: Resp
) -> list[Piece]:
    """The whole frame, in as many pieces as its records make necessary; nearly always one."""
    parts: list[Any] = [b"\0"] if _has_tags(api, version) else []
    api.response_parts(version, row, parts)
    if not api.answers_with_records:
        body = b"".join(parts)
        return [_SIZE_AND_CORRELATION.pack(len(body) + 4, correlation_id) + body]
    merged = merge(parts)
    head = _SIZE_AND_CORRELATION.pack(size_of(merged) + 4, correlation_id)
    if merged and isinstance(merged[0], bytes):
        merged[0] = head + merged[0]
    else:
        merged.insert(0, head)
    return merged


class Pool(Protocol):
    """Lends buffers for frames that come in pieces: a fresh one costs more than the bytes that are
    received into it.
    """

    def take(self, size: int, total: int) -> bytearray:
        """At least `size` bytes with anything in them; it will grow to `total` if the frame is as
        large as it says. Raises LimitExceeded.
        """

    def give_at_turn_end(self, buffer: bytearray) -> None:
        """Take the buffer back when this turn has ended: it is read until then."""

    def discard(self, buffer: bytearray) -> None:
        """Drop the buffer: its frame will not be completed."""


class FrameBuffer:
    """Cuts frames out of received bytes. The memory of a frame grows with the received bytes, never
    with the size it claims.
    """

    def __init__(self, limit_bytes: int = REQUEST_BYTES.value, pool: Pool | None = None) -> None:
        self.limit_bytes = limit_bytes
        self._pool = pool
        # the beginning of a frame, its size in front; replaced, never resized: views of it are
        # about
        self._buffer = bytearray()
        self._have = 0
        self._need = 4
        self._expected = 0  # bytes of the next frame, if it is large and like the last one
        # what was whole in front of the bytes that `feed` refused
        self.before_error: list[memoryview] = []

    @property
    def pending_bytes(self) -> int:
        """Bytes of a frame that has begun and not ended."""
        return self._have

    @property
    def buffer_bytes(self) -> int:
        return len(self._buffer)

    @property
    def is_long(self) -> bool:
        """Return whether a frame has begun that does not come in one piece."""
        return self._have >= 4 and self._need >= ROOM_BYTES

    @property
    def is_between_frames(self) -> bool:
        """Return whether the next bytes begin a frame, and no large one is expected: `feed` would
        remember nothing of whole small frames.
        """
        return not self._have and not self._expected

    def room(self) -> memoryview | None:
        """Return the place for the next bytes, when much of a frame is still to come; `feed` then
        gets a view of it.

        So is a frame received where it stays, in one piece if it is as large as the one before.
        """
        if not self._have and self._expected and self._pool is not None:
            if not self._buffer:
                try:
                    self._buffer = self._pool.take(self._expected, self._expected)
                except LimitExceeded:
                    return None
            return memoryview(self._buffer)[: self._expected]
        if self._have < 4 or self._need - self._have < ROOM_BYTES:
            return None
        self._grow(self._have + 1)
        return memoryview(self._buffer)[self._have : self._need]

    def feed(self, view: memoryview) -> list[memoryview]:
        """The frames that are whole now, without their sizes: slices of `view`, or of a buffer that
        is as short-lived. Raises ProtocolError.
        """
        frames: list[memoryview] = []
        is_ours = not self._have and view.obj is self._buffer
        position = self._continue(view, frames) if self._have else 0
        end, limit = len(view), self.limit_bytes
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(view, position)
            if not 0 <= size <= limit:
                self.before_error = frames
                self._refuse(size)
            stop = position + 4 + size
            if stop > end:
                break
            frames.append(view[position + 4 : stop])
            position = stop
        if frames and (end >= ROOM_BYTES or self._expected):
            self._expect(4 + len(frames[-1]))
        # few bytes do not hold the memory of many
        if is_ours and (position or 4 * end < len(self._buffer)):
            self._give_back()
        if position < end:
            self._need = 4 if end - position < 4 else 4 + _SIZE.unpack_from(view, position)[0]
            self._store(view[position:])
        return frames

    def drop(self) -> None:
        """Forget the frame that has begun."""
        if self._pool is not None and self._buffer:
            self._pool.discard(self._buffer)
        self._clear()

    def _clear(self) -> None:
        self._buffer, self._have, self._need = bytearray(), 0, 4

    def _continue(self, view: memoryview, frames: list[memoryview]) -> int:
        """Take what belongs to the frame that has begun; returns how much that is."""
        position = 0
        if self._have < 4:
            position = min(4 - self._have, len(view))
            self._store(view[:position])
            if self._have < 4:
                return position
            (size,) = _SIZE.unpack_from(self._buffer)
            if not 0 <= size <= self.limit_bytes:
                self._refuse(size)
            self._need = 4 + size
        taken = view[position : position + self._need - self._have]
        self._store(taken)
        if self._have == self._need:
            frames.append(memoryview(self._buffer)[4 : self._need])
            self._expect(self._need)
            self._give_back()
            self._have, self._need = 0, 4
        return position + len(taken)

    def _expect(self, size: int) -> None:
        self._expected = size if EXPECTED_FROM_BYTES <= size <= EXPECTED_BYTES else 0

    def _give_back(self) -> None:
        """The frames in the buffer are read until the turn ends."""
        if self._pool is not None:
            self._pool.give_at_turn_end(self._buffer)
        self._buffer = bytearray()

    def _store(self, piece: memoryview) -> None:
        have = self._have + len(piece)
        if piece.obj is not self._buffer:  # else it was received into our room
            self._grow(have)
            self._buffer[self._have : have] = piece
        self._have = have

    def _grow(self, size: int) -> None:
        """Grow to four times the received bytes: few copies, and little memory for a large claim
        with few bytes.
        """
        if size <= len(self._buffer):
            return
        room = max(size, min(self._need, max(4 * self._have, 4096)))
        larger = self._pool.take(room, self._need) if self._pool is not None else bytearray(room)
        larger[: self._have] = memoryview(self._buffer)[: self._have]
        if self._pool is not None and self._buffer:
            self._pool.give_at_turn_end(self._buffer)
        self._buffer = larger

    def _refuse(self, size: int) -> NoReturn:
        start = _SIZE.pack(size)
        stranger = next(
            (name for bytes_, name in _STRANGERS.items() if start.startswith(bytes_)), None
        )
        what = (
            f"{stranger} instead of Kafka's protocol"
            if stranger
            else f"a frame of {size} bytes, {self.limit_bytes} are possible"
        )
        raise ProtocolError(what, REQUEST_BYTES if size > 0 and stranger is None else None)
