"""Frames out of a stream that is cut anywhere, headers in both forms, and answers in as many pieces
as their records need.
"""

import tracemalloc
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from raftka.limits import PARTIAL_BYTES, REQUEST_BYTES, LimitExceeded
from raftka.runtime.interfaces import FileSpan
from raftka.wire.errors import ProtocolError
from raftka.wire.frame import (
    EXPECTED_BYTES,
    EXPECTED_FROM_BYTES,
    FrameBuffer,
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request,
    encode_response,
)
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.metadata import METADATA


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


BODIES = [b"", b"a", b"four", b"x" * 300, b"", b"y" * 5000, b"end"]
STREAM = b"".join(map(framed, BODIES))


def fed(buffer: FrameBuffer, pieces: list[bytes]) -> list[bytes]:
    """Every piece comes in the same receive buffer: what is kept must have been copied."""
    shared = bytearray(len(STREAM))
    frames = []
    for piece in pieces:
        shared[: len(piece)] = piece
        frames += [bytes(frame) for frame in buffer.feed(memoryview(shared)[: len(piece)])]
        shared[: len(piece)] = b"?" * len(piece)
    return frames


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 100, 4096, len(STREAM)])
def test_pieces_of_one_size(size: int) -> None:
    buffer = FrameBuffer()
    assert fed(buffer, [STREAM[at : at + size] for at in range(0, len(STREAM), size)]) == BODIES
    assert (buffer.pending_bytes, buffer.buffer_bytes) == (0, 0)


def test_every_cut_into_two() -> None:
    stream = STREAM[:330]
    whole = fed(FrameBuffer(), [stream])
    for at in range(len(stream)):
        assert fed(FrameBuffer(), [stream[:at], stream[at:]]) == whole


class Turns:
    """A pool that gives the same buffer again after a turn, and knows what is out."""

    def __init__(self) -> None:
        self.free: list[bytearray] = []
        self.returned: list[bytearray] = []
        self.out = 0

    def take(self, size: int, total: int) -> bytearray:
        self.out += 1
        assert size <= total
        kept = next((at for at, buffer in enumerate(self.free) if len(buffer) >= size), None)
        return bytearray(size + 7) if kept is None else self.free.pop(kept)

    def give_at_turn_end(self, buffer: bytearray) -> None:
        self.out -= 1
        self.returned.append(buffer)

    def discard(self, buffer: bytearray) -> None:
        self.out -= 1

    def end(self) -> None:
        for buffer in self.returned:
            buffer[:] = b"?" * len(buffer)
        self.free, self.returned = self.free + self.returned, []


def test_random_cuts_with_a_pool() -> None:
    random = Random(1)
    pool = Turns()
    for _ in range(50):
        cuts = sorted(random.choices(range(len(STREAM)), k=6))
        assert (
            fed(
                FrameBuffer(pool=pool),
                [STREAM[a:b] for a, b in zip([0, *cuts], [*cuts, len(STREAM)], strict=True)],
            )
            == BODIES
        )
        pool.end()
    assert pool.out == 0
    assert len(pool.free) < 20


def test_a_frame_in_pieces_stays_until_the_turn_ends() -> None:
    pool = Turns()
    buffer = FrameBuffer(pool=pool)
    first, second = framed(b"a" * 5000), framed(b"b" * 5000)

    buffer.feed(memoryview(first[:4000]))
    (frame,) = buffer.feed(memoryview(first[4000:]))
    buffer.feed(memoryview(second[:4000]))

    assert bytes(frame) == b"a" * 5000
    assert pool.out == 1
    buffer.drop()
    assert (pool.out, buffer.pending_bytes) == (0, 0)
    assert [bytes(f) for f in buffer.feed(memoryview(framed(b"new")))] == [b"new"]


@pytest.mark.parametrize("ignored", [False, True])
def test_room_for_a_large_frame(ignored: bool) -> None:
    body = bytes(range(256)) * 1000
    stream = framed(body) + framed(b"next") + framed(body)
    random = Random(2)
    buffer = FrameBuffer()
    frames, rooms = [], 0
    while stream:
        room = None if ignored else buffer.room()
        size = random.randint(1, 30_000) if room is None else min(len(room), 40_000)
        piece = memoryview(bytearray(stream[:size]))
        if room is not None:
            rooms += 1
            room[: len(piece)] = piece
            piece = room[: len(piece)]
        stream = stream[len(piece) :]
        frames += [bytes(frame) for frame in buffer.feed(piece)]
    assert frames == [body, b"next", body]
    assert bool(rooms) is not ignored


def received(buffer: FrameBuffer, stream: bytes, at_most: Callable[[], int]) -> Iterator[bytes]:
    """The frames, as a network receives them: into the buffer's room where there is one, a turn for
    each piece.
    """
    while stream:
        size = at_most()
        room = buffer.room()
        piece = (
            memoryview(bytearray(stream[:size]))
            if room is None
            else room[: min(size, len(room), len(stream))]
        )
        if room is not None:
            piece[:] = stream[: len(piece)]
        stream = stream[len(piece) :]
        yield from [bytes(frame) for frame in buffer.feed(piece)]
        assert isinstance(buffer._pool, Turns)
        buffer._pool.end()


def test_a_large_frame_like_the_last_one_is_received_in_one_piece() -> None:
    pool = Turns()
    buffer = FrameBuffer(pool=pool)
    body = bytes(range(256)) * 400

    assert list(received(buffer, framed(body) * 3, lambda: len(framed(body)))) == [body] * 3

    assert len(pool.free) == 1  # the same memory each time
    assert len(buffer.room() or b"") == len(framed(body))
    buffer.drop()
    assert pool.out == 0


@pytest.mark.parametrize("seed", range(20))
def test_frames_of_all_sizes_in_the_room_that_the_last_one_had(seed: int) -> None:
    random = Random(seed)
    pool = Turns()
    buffer = FrameBuffer(pool=pool)
    bodies = [
        random.randbytes(random.choice([0, 3, 20_000, 70_000, 70_000, 70_000, 71_000, 90_000]))
        for _ in range(30)
    ]

    found = list(
        received(
            buffer,
            b"".join(map(framed, bodies)),
            lambda: random.choice([1, 2, 5, 5_000, 20_004, 70_004, 200_000]),
        )
    )

    assert found == bodies
    buffer.drop()
    assert pool.out == 0


@pytest.mark.parametrize("came", [1, 4, 5, 1_000])
def test_few_bytes_behind_a_large_frame_hold_little_memory(came: int) -> None:
    pool = Turns()
    buffer = FrameBuffer(pool=pool)
    large = framed(bytes(200_000))
    assert len(list(received(buffer, large, lambda: 1 << 20))) == 1

    assert list(received(buffer, large[:came], lambda: 1 << 20)) == []

    assert buffer.buffer_bytes <= max(4 * came, 4096) + 7  # as that pool rounds up
    assert pool.out == 1
    assert list(received(buffer, large[came:], lambda: 1 << 20)) == [bytes(200_000)]


def test_a_frame_that_is_larger_than_a_room_may_be_is_not_expected_again() -> None:
    buffer = FrameBuffer(pool=Turns())
    body = bytes(EXPECTED_BYTES)

    assert list(received(buffer, framed(body), lambda: 1 << 20)) == [body]

    assert buffer.room() is None


def test_small_frames_come_several_at_a_time_and_have_no_room_ahead() -> None:
    buffer = FrameBuffer(pool=Turns())
    body = bytes(EXPECTED_FROM_BYTES - 5)

    assert list(received(buffer, framed(body), lambda: 1 << 20)) == [body]

    assert buffer.room() is None


def test_where_no_memory_is_left_the_next_frame_has_no_room_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    buffer = FrameBuffer(pool=Turns())
    list(received(buffer, framed(bytes(100_000)), lambda: 1 << 20))
    assert buffer.room() is not None
    buffer.drop()

    def full(self: Turns, size: int, total: int) -> bytearray:
        raise LimitExceeded(PARTIAL_BYTES, size)

    monkeypatch.setattr(Turns, "take", full)
    assert buffer.room() is None


def test_room_follows_the_bytes_that_came() -> None:
    buffer = FrameBuffer()
    assert buffer.room() is None
    buffer.feed(memoryview((50_000_000).to_bytes(4, "big") + bytes(10)))
    room = buffer.room()
    assert room is not None
    assert len(room) < 5000


def test_whole_frames_are_not_copied() -> None:
    received = bytearray(framed(b"abc"))
    (frame,) = FrameBuffer().feed(memoryview(received))
    received[4] = ord("X")
    assert bytes(frame) == b"Xbc"


def test_memory_follows_the_bytes_that_came() -> None:
    start = (100 * 1024 * 1024).to_bytes(4, "big") + bytes(10)
    tracemalloc.start()
    try:
        buffers = [FrameBuffer() for _ in range(20)]
        for buffer in buffers:
            assert not buffer.feed(memoryview(start))
        assert tracemalloc.get_traced_memory()[1] < 20 * 8192
        for came in range(15, 200_000, 5000):
            assert not buffers[0].feed(memoryview(bytes(5000)))
            assert buffers[0].buffer_bytes <= 4 * came + 20_000
    finally:
        tracemalloc.stop()


def test_the_largest_frame_and_one_byte_more() -> None:
    buffer = FrameBuffer(limit_bytes=1000)
    assert len(buffer.feed(memoryview(framed(bytes(1000))))) == 1
    with pytest.raises(ProtocolError, match="1001 bytes, 1000 are possible") as caught:
        buffer.feed(memoryview(framed(bytes(1001))))
    assert caught.value.limit is REQUEST_BYTES


@pytest.mark.parametrize(
    ("start", "says"),
    [
        (b"\xff\xff\xff\xff", "-1 bytes"),
        (b"\x80\0\0\0", "-2147483648 bytes"),
        (b"\x7f\xff\xff\xff", "2147483647 bytes"),
        (b"GET / HTTP/1.1\r\n", "HTTP instead of Kafka"),
        (b"\x16\x03\x01\x02\0\x01\0\x01", "TLS instead of Kafka"),
    ],
)
def test_sizes_that_are_none(start: bytes, says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        FrameBuffer().feed(memoryview(start))
    buffer = FrameBuffer()
    assert not buffer.feed(memoryview(start[:2]))
    with pytest.raises(ProtocolError, match=says):
        buffer.feed(memoryview(start[2:]))


HEADER = b"\0\3\0\x09\0\0\0\x2a"


@pytest.mark.parametrize(
    ("rest", "client_id", "flexible"),
    [
        (b"\0\3abc", "abc", False),
        (b"\0\3abc\0", "abc", True),
        (b"\xff\xff", None, False),
        (b"\xff\xfe\0", None, True),
        (b"\0\1\xff", "�", False),
        (b"\0\0\2\x63\1?\x05\0", "", True),
        (b"\0\0\xff\xff\xff\xff\x0f", "", True),
    ],
)
def test_request_headers(rest: bytes, client_id: str | None, flexible: bool) -> None:
    frame = memoryview(HEADER + rest + b"body")

    header, position = decode_request_header(frame, flexible=flexible)

    assert header == RequestHeader(3, 9, 42, client_id)
    assert bytes(frame[position:]) == b"body"


@pytest.mark.parametrize(
    "rest",
    [b"", b"\0", b"\0\3ab", b"\x7f\xff", b"\0\3abc", b"\0\0\1\x63\5abc", b"\0\0\1" + b"\xff" * 9],
)
def test_request_headers_that_are_none(rest: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_request_header(memoryview(HEADER + rest), flexible=True)


@pytest.mark.parametrize("client_id", ["me", "", None])
@pytest.mark.parametrize("version", [8, 9])
def test_a_request_there_and_back(version: int, client_id: str | None) -> None:
    (frame,) = FrameBuffer().feed(
        memoryview(encode_request(METADATA, version, 7, client_id, METADATA.request(topics=None)))
    )

    header, position = decode_request_header(frame, flexible=version in METADATA.flexible)
    row, end = METADATA.decode_request(version, frame, position)

    assert header == RequestHeader(3, version, 7, client_id)
    assert row.topics is None
    assert end == len(frame)


def test_the_response_header_of_api_versions_never_has_tags() -> None:
    row = API_VERSIONS.response(error_code=35)
    assert encode_response(API_VERSIONS, 3, 7, row) == [
        b"\0\0\0\x0c" + b"\0\0\0\7" + b"\0\x23" + b"\1" + bytes(4) + b"\0"
    ]

    (whole,) = encode_response(METADATA, 9, 7, METADATA.response(cluster_id="c"))
    assert isinstance(whole, bytes)
    frame = memoryview(whole)[4:]
    correlation_id, position = decode_response_header(frame, METADATA, 9)
    assert (correlation_id, position) == (7, 5)
    assert METADATA.decode_response(9, frame, position)[0].cluster_id == "c"


class Nothing:
    """A file that nobody reads."""

    path = "00000000000000000000.log"


@pytest.mark.parametrize("version", [4, 12])
def test_records_stay_in_their_files(version: int) -> None:
    span = FileSpan(Nothing(), 1000, 20_000)  # type: ignore[arg-type]
    large = memoryview(bytes(9000))
    response, partition = FETCH.response.responses, FETCH.response.responses.partitions
    contents: list[Any] = [span, large, b"small", [span, b"tail"], None, b"", []]
    row = FETCH.response(
        responses=[
            response(topic="t", partitions=[partition(records=records) for records in contents])
        ]
    )

    pieces = encode_response(FETCH, version, 7, row)

    assert [piece for piece in pieces if piece is span] == [span, span]
    assert any(piece is large for piece in pieces)
    assert len(pieces) == 7, "everything small between them is one piece each time"
    whole = b"".join(
        bytes(piece.size) if isinstance(piece, FileSpan) else bytes(piece) for piece in pieces
    )
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    frame = memoryview(whole)[4:]
    decoded, end = FETCH.decode_response(
        version, frame, decode_response_header(frame, FETCH, version)[1]
    )
    assert end == len(frame)
    sizes = [None if p.records is None else len(p.records) for p in decoded.responses[0].partitions]
    assert sizes == [20_000, 9000, 5, 20_004, None, 0, 0]
