"""The compressions of record batches: gzip, snappy, lz4, zstd. Decompression never makes more than
its limit. Knows no records.

`decompress` opens all at once, `pieces` piece by piece, so that its reader can refuse a bomb after
little memory; `Packer` is the other direction.

cramjam is imported at first use: a broker that stores what it is given never needs it.
"""

import zlib
from collections.abc import Iterator
from mmap import mmap
from struct import Struct
from struct import error as struct_error
from typing import Any

from raftka.limits import DECOMPRESSED_BYTES
from raftka.runtime.interfaces import Buffer
from raftka.wire.compressed_frames import (
    LZ4_END,
    lz4_blocks,
    lz4_end,
    lz4_frame,
    zstd_claimed,
    zstd_least,
)
from raftka.wire.errors import ProtocolError

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
GZIP_LEVEL, LZ4_LEVEL, ZSTD_LEVEL = 6, 9, 3
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

# Java's clients write snappy in the blocks of xerial's stream; librdkafka and others write one bare
# block. Both are read.
_XERIAL = b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_SIZE = Struct(">i")
GZIP_MAGIC = b"\x1f\x8b"
ERRORS_OF_HEADER = (
    "unknown compression method",
    "unknown header flags",
    "header crc mismatch",
    "incorrect header check",
)
PIECE_BYTES = 4096
OPENED_PIECE_BYTES = 1024 * 1024  # of `pieces`; what opens to no more is opened at once
ZSTD_GROWTH = 8
BELIEVED = 64  # times what was received
# A buffer from this size on is mapped: to zero 64 MiB takes 40 ms in which no other thread runs,
# and a page that nobody writes costs nothing.
MAPPED_BYTES = 1024 * 1024
_TOO_SMALL = "failed to write whole buffer"


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """`level`: the codec's own, by default what Kafka has by default. Snappy has none."""
    import cramjam

    match codec:
        case 0:
            return bytes(data)
        case 1:
            return bytes(
                cramjam.gzip.compress(
                    data, level=GZIP_LEVEL if level is None or level < 0 else level
                )
            )
        case 2:
            return _xerial(data)
        case 3:
            compressor = _compressor(LZ4, level)
            compressor.compress(bytes(data))
            return bytes(compressor.finish())
        case 4:
            return bytes(cramjam.zstd.compress(data, level=ZSTD_LEVEL if level is None else level))
    raise ValueError(f"no compression {codec}")


class Packer:
    """Compresses what is written to it, and keeps a megabyte of that at most. Raises ValueError for
    what is no codec.
    """

    def __init__(self, codec: int, level: int | None = None) -> None:
        self._codec = codec
        self._level = level
        self._waiting = bytearray()
        self._out: list[bytes] = []
        self._stream: Any = None
        self.size_bytes = 0  # of what came out so far

    def write(self, data: Buffer) -> None:
        self._waiting += data
        if len(self._waiting) >= OPENED_PIECE_BYTES:
            self._put(self._compressed())
            self._waiting = bytearray()

    def finish(self) -> bytes:
        """All that came out. What is small is compressed as by `compress`."""
        if not self._out:
            return compress(self._codec, self._waiting, self._level)
        self._put(self._compressed())
        if self._stream is not None:
            self._put(bytes(self._stream.finish()))
        return b"".join(self._out)

    def _put(self, out: bytes) -> None:
        self._out.append(out)
        self.size_bytes += len(out)

    def _compressed(self) -> bytes:
        if self._codec == NONE:
            return bytes(self._waiting)
        if self._codec == SNAPPY:
            return _xerial(self._waiting)[len(_XERIAL) if self._out else 0 :]
        if self._stream is None:
            self._stream = _compressor(self._codec, self._level)
        self._stream.compress(bytes(self._waiting))
        return bytes(self._stream.flush())


def _compressor(codec: int, level: int | None) -> Any:
    import cramjam

    match codec:
        case 1:
            return cramjam.gzip.Compressor(
                level=GZIP_LEVEL if level is None or level < 0 else level
            )
        case 3:  # Kafka's Java client refuses lz4 frames whose blocks refer to each other
            return cramjam.lz4.Compressor(
                level=LZ4_LEVEL if level is None else level, block_linked=False
            )
        case 4:
            return cramjam.zstd.Compressor(level=ZSTD_LEVEL if level is None else level)
    raise ValueError(f"no compression {codec}")


def decompress(codec: int, data: Buffer, limit_bytes: int = DECOMPRESSED_BYTES.value) -> Buffer:
    """Raises ProtocolError for what is not of that codec, and for more than `limit_bytes`."""
    import cramjam

    match codec:
        case 0:
            return data
        case 1:
            return _gzip(data, limit_bytes)
        case 2:
            parts = list(_within(limit_bytes, _snappy(data, limit_bytes)))
            return parts[0] if len(parts) == 1 else b"".join(parts)
        case 3:
            parts = list(_within(limit_bytes, _lz4(memoryview(data), limit_bytes)))
            return parts[0] if len(parts) == 1 else b"".join(parts)
        case 4:
            return _into(cramjam.zstd.decompress_into, data, limit_bytes, zstd_claimed(data))
    raise ProtocolError(f"no compression {codec}")


def pieces(
    codec: int, data: Buffer, limit_bytes: int = DECOMPRESSED_BYTES.value
) -> Iterator[Buffer]:
    """Yield the result of `decompress` piece by piece: a megabyte, or a block of lz4 (4 MiB) or
    snappy. Raises the same errors, at their place.

    cramjam has no stream for zstd: what begins well is opened anew into eight times as much memory,
    up to the limit.
    """
    try:
        opened = decompress(codec, data, min(OPENED_PIECE_BYTES, limit_bytes))
    except ProtocolError as error:
        if error.limit is None or limit_bytes <= OPENED_PIECE_BYTES:
            raise
    else:
        yield opened
        return
    parts: Iterator[Buffer] = iter(())
    match codec:
        case 1:
            parts = _members(data)
        case 2:
            parts = _snappy(data, limit_bytes)
        case 3:
            parts = _lz4(memoryview(data), limit_bytes)
        case 4:
            yield from _growing(data, limit_bytes)
            return
    for part in _within(limit_bytes, parts):
        view = memoryview(part)
        for at in range(0, len(view), OPENED_PIECE_BYTES):
            yield view[at : at + OPENED_PIECE_BYTES]


def _within(limit_bytes: int, parts: Iterator[Buffer]) -> Iterator[Buffer]:
    left = limit_bytes
    for part in parts:
        left -= len(part)
        if left < 0:
            raise _too_much(limit_bytes)
        yield part


def _into(decompress_into: Any, data: Buffer, limit_bytes: int, claimed: int = 0) -> Buffer:
    """Into a buffer that does not grow by itself; when it was too small, again into a larger one.
    `claimed`: how much the data say they are, which is believed as far as memory goes with what was
    received.
    """
    import cramjam

    room = min(max(8 * len(data), 4096, min(claimed, BELIEVED * len(data))), limit_bytes)
    while True:
        out: Buffer = bytearray(room) if room < MAPPED_BYTES else memoryview(mmap(-1, room))
        try:
            return memoryview(out)[: decompress_into(data, out)]
        except cramjam.DecompressionError as error:
            del out  # before the next is made; and the error's frames would keep it
            if _TOO_SMALL not in str(error):
                raise ProtocolError(f"compressed records: {error}") from error
        if room == limit_bytes:
            raise _too_much(limit_bytes)
        room = min(8 * room, limit_bytes)


def _gzip(data: Buffer, limit_bytes: int) -> Buffer:
    """Bytes behind the last member are ignored, as in Java: zlib finds where they begin, at a tenth
    of the speed.
    """
    import cramjam

    try:
        return _into(
            cramjam.gzip.decompress_into, data, limit_bytes, int.from_bytes(data[-4:], "little")
        )
    except ProtocolError as error:
        if error.limit is not None:
            raise
        return b"".join(_within(limit_bytes, _members(data)))


def _growing(data: Buffer, limit_bytes: int) -> Iterator[Buffer]:
    """Open zstd into the memory at hand, then again into more, and yield the new part each time."""
    import cramjam

    if zstd_least(data, limit_bytes) > limit_bytes:
        raise _too_much(limit_bytes)
    done, room = 0, OPENED_PIECE_BYTES
    while done < limit_bytes:
        out = memoryview(mmap(-1, room))
        try:
            end, is_whole = cramjam.zstd.decompress_into(data, out), True
        except cramjam.DecompressionError as error:
            if _TOO_SMALL not in str(error):
                raise ProtocolError(f"compressed records: {error}") from error
            end, is_whole = room, False
        for at in range(done, end, OPENED_PIECE_BYTES):
            yield out[at : min(at + OPENED_PIECE_BYTES, end)]
        if is_whole:
            return
        del out  # before the next is made
        done, room = end, min(ZSTD_GROWTH * room, limit_bytes)
    raise _too_much(limit_bytes)


def _members(data: Buffer) -> Iterator[bytes]:
    """Open gzip in pieces. zlib gets little at a time: it copies the rest of its input, and there
    may be fifty thousand members in a megabyte.
    """
    view = memoryview(data)
    position = begin = 0
    try:
        while not position or view[position : position + 2] == GZIP_MAGIC:
            member, begin = zlib.decompressobj(zlib.MAX_WBITS | 16), position
            while not member.eof:
                given = view[position : position + PIECE_BYTES]
                piece = member.decompress(given, OPENED_PIECE_BYTES)
                if not given and not piece and not member.eof:
                    raise ProtocolError("compressed records: the end of a member is missing")
                # at the end both may have the same bytes
                position += len(given) - len(
                    member.unused_data if member.eof else member.unconsumed_tail
                )
                if piece:
                    yield piece
    except zlib.error as error:
        if begin and begin == position and any(text in str(error) for text in ERRORS_OF_HEADER):
            return  # a later member that is none is ignored too
        raise ProtocolError(f"compressed records: {error}") from error


def _lz4(view: memoryview, limit_bytes: int) -> Iterator[Buffer]:
    """Open the first frame block by block, as Java reads it: it looks at no content checksum and at
    nothing behind the frame.

    Blocks that refer to each other, which other readers know, are opened at once.
    """
    import cramjam

    frame = lz4_frame(view)
    if not frame.independent:
        yield _into(cramjam.lz4.decompress_into, view[: lz4_end(view, frame)], limit_bytes)
        return
    for block in lz4_blocks(view, frame):
        yield _into(
            cramjam.lz4.decompress_into, b"".join((frame.head, block, LZ4_END)), frame.block_bytes
        )


def _too_much(limit_bytes: int) -> ProtocolError:
    return ProtocolError(f"compressed records of more than {limit_bytes} bytes", DECOMPRESSED_BYTES)


def _xerial(data: Buffer) -> bytes:
    import cramjam

    parts = [_XERIAL]
    view = memoryview(data)
    for at in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK_BYTES]))
        parts += [_BLOCK_SIZE.pack(len(block)), block]
    return b"".join(parts)


def _snappy(data: Buffer, limit_bytes: int) -> Iterator[Buffer]:
    """Block by block; none is opened that claims more than `limit_bytes`."""
    import cramjam

    try:
        for block in _blocks(memoryview(data)):
            size = cramjam.snappy.decompress_raw_len(block)
            # 21:1 is the most that snappy can: it claims what it does not have
            if size > 64 * len(block):
                raise ProtocolError(f"a snappy block of {len(block)} bytes that claims {size}")
            if size > limit_bytes:
                raise _too_much(limit_bytes)
            yield memoryview(cramjam.snappy.decompress_raw(block))
    except (cramjam.DecompressionError, struct_error) as error:
        raise ProtocolError(f"compressed records: {error}") from error


def _blocks(view: memoryview) -> Iterator[memoryview]:
    if bytes(view[:8]) != _XERIAL[:8]:
        yield view
        return
    if len(view) < len(_XERIAL) or _BLOCK_SIZE.unpack_from(view, 8)[0] < 1:
        raise ProtocolError(
            "compressed records: a snappy stream whose head is cut, or of a version that Java "
            "does not read"
        )
    position = len(_XERIAL)
    while position < len(view):
        if view[position : position + 8] == _XERIAL[:8]:  # a stream behind the stream
            position += len(_XERIAL)
            continue
        size = _BLOCK_SIZE.unpack_from(view, position)[0]
        position += _BLOCK_SIZE.size
        if not 0 < size <= len(view) - position:
            raise ProtocolError(
                f"a snappy block of {size} bytes with {len(view) - position} to come"
            )
        yield view[position : position + size]
        position += size
