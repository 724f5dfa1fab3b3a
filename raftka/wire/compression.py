"""The compressions of record batches: gzip, snappy, lz4, zstd. Decompression never makes more than its limit. Knows no records.

`decompress` opens all at once, `pieces` piece by piece, so that its reader can refuse a bomb after little memory; `Packer` is the other direction.

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
from raftka.wire.errors import ProtocolError

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
GZIP_LEVEL, LZ4_LEVEL, ZSTD_LEVEL = 6, 9, 3
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

# Java's clients write snappy in the blocks of xerial's stream; librdkafka and others write one bare block. Both are read.
_XERIAL = b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_SIZE = Struct(">i")
GZIP_MAGIC = b"\x1f\x8b"
PIECE_BYTES = 4096
OPENED_PIECE_BYTES = 1024 * 1024  # of `pieces`; what opens to no more is opened at once
LZ4_HEAD_BYTES, FLAGS = 7, 4  # magic, flags, block size, checksum; the flags' place
LZ4_INDEPENDENT, LZ4_BLOCK_CHECKSUM, LZ4_CONTENT_SIZE, LZ4_CONTENT_CHECKSUM = 0x20, 0x10, 0x08, 0x04
LZ4_BLOCK_BYTES = 4 * 1024 * 1024  # at most
LZ4_STORED = 1 << 31  # in the size of a block: it is not compressed
# Heads of frames of one independent block of up to 4 MiB, by whether a checksum follows the block.
LZ4_HEADS = {0: bytes.fromhex("04224d18607073"), LZ4_BLOCK_CHECKSUM: bytes.fromhex("04224d18707072")}
ZSTD_FLAGS = 4  # behind the magic
ZSTD_RAW, ZSTD_RLE = 0, 1  # kinds of blocks
ZSTD_GROWTH = 8
BELIEVED = 64  # times what was received
# A buffer from this size on is mapped: to zero 64 MiB takes 40 ms in which no other thread runs, and a page that nobody writes costs nothing.
MAPPED_BYTES = 1024 * 1024
_TOO_SMALL = "failed to write whole buffer"


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """`level`: the codec's own, by default what Kafka has by default. Snappy has none."""
    import cramjam

    match codec:
        case 0:
            return bytes(data)
        case 1:
            return bytes(cramjam.gzip.compress(data, level=GZIP_LEVEL if level is None or level < 0 else level))
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
    """Compresses what is written to it, and keeps a megabyte of that at most. Raises ValueError for what is no codec."""

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
            return cramjam.gzip.Compressor(level=GZIP_LEVEL if level is None or level < 0 else level)
        case 3:  # Kafka's Java client refuses lz4 frames whose blocks refer to each other
            return cramjam.lz4.Compressor(level=LZ4_LEVEL if level is None else level, block_linked=False)
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
            return _into(cramjam.lz4.decompress_into, _first_frame(memoryview(data)), limit_bytes)
        case 4:
            return _into(cramjam.zstd.decompress_into, data, limit_bytes, _zstd_head(data)[0])
    raise ProtocolError(f"no compression {codec}")


def pieces(codec: int, data: Buffer, limit_bytes: int = DECOMPRESSED_BYTES.value) -> Iterator[Buffer]:
    """Yield the result of `decompress` piece by piece: a megabyte, or a block of lz4 (4 MiB) or snappy. Raises the same errors, at their place.

    cramjam has no stream for zstd: what begins well is opened anew into eight times as much memory, up to the limit.
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
            parts = _lz4_blocks(memoryview(data)) if has_independent_blocks(data) else iter((decompress(codec, data, limit_bytes),))
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
    """Into a buffer that does not grow by itself; when it was too small, again into a larger one. `claimed`: how much the data say they are, which is
    believed as far as memory goes with what was received."""
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
    """Bytes behind the last member are ignored, as in Java: zlib finds where they begin, at a tenth of the speed."""
    import cramjam

    try:
        return _into(cramjam.gzip.decompress_into, data, limit_bytes, int.from_bytes(data[-4:], "little"))
    except ProtocolError as error:
        if error.limit is not None:
            raise
        return b"".join(_within(limit_bytes, _members(data)))


def _zstd_head(data: Buffer) -> tuple[int, int]:
    """Return the opened size that the frame's header states (0: none), and the position of the first block."""
    if len(data) < ZSTD_FLAGS + 1:
        return 0, len(data)
    flags = data[ZSTD_FLAGS]
    is_single, width = flags >> 5 & 1, (1, 2, 4, 8)[flags >> 6]
    start = ZSTD_FLAGS + 1 + (1 - is_single) + (0, 1, 2, 4)[flags & 3]
    if width == 1 and not is_single:
        return 0, start
    return int.from_bytes(data[start : start + width], "little") + (256 if width == 2 else 0), start + width


def _zstd_least(data: Buffer, enough: int) -> int:
    """Return a lower bound of the opened size, by the first frame's header or by blocks that state theirs (most bombs do), up to `enough`."""
    least, position = _zstd_head(data)
    told = 0
    while told <= enough and position + 3 <= len(data):
        head = int.from_bytes(data[position : position + 3], "little")
        is_last, kind, size = head & 1, head >> 1 & 3, head >> 3
        if kind in (ZSTD_RAW, ZSTD_RLE):
            told += size
        position += 4 if kind == ZSTD_RLE else 3 + size
        if is_last:
            break
    return max(least, told)


def _growing(data: Buffer, limit_bytes: int) -> Iterator[Buffer]:
    """Open zstd into the memory at hand, then again into more, and yield the new part each time."""
    import cramjam

    if _zstd_least(data, limit_bytes) > limit_bytes:
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
    """Open gzip in pieces. zlib gets little at a time: it copies the rest of its input, and there may be fifty thousand members in a megabyte."""
    view = memoryview(data)
    position = 0
    try:
        while not position or view[position : position + 2] == GZIP_MAGIC:
            member = zlib.decompressobj(zlib.MAX_WBITS | 16)
            while not member.eof:
                given = view[position : position + PIECE_BYTES]
                piece = member.decompress(given, OPENED_PIECE_BYTES)
                if not given and not piece and not member.eof:
                    raise ProtocolError("compressed records: the end of a member is missing")
                position += len(given) - len(member.unconsumed_tail) - len(member.unused_data)
                if piece:
                    yield piece
    except zlib.error as error:
        raise ProtocolError(f"compressed records: {error}") from error


def has_independent_blocks(data: Buffer) -> bool:
    """Return whether the blocks of an lz4 frame are independent. Java's clients read nothing else."""
    return len(data) > FLAGS and bool(data[FLAGS] & LZ4_INDEPENDENT)


def _lz4_blocks(view: memoryview) -> Iterator[Buffer]:
    """Yield each block of a frame, whose head was checked, as a frame of its own. A checksum behind all blocks is ignored, as in Java."""
    import cramjam

    flags = view[FLAGS]
    checked = flags & LZ4_BLOCK_CHECKSUM
    position = LZ4_HEAD_BYTES + 8 * bool(flags & LZ4_CONTENT_SIZE)
    while True:
        size = int.from_bytes(view[position : position + 4], "little")
        stop = position + 4 + (size & ~LZ4_STORED) + 4 * bool(checked)
        if stop > len(view):
            raise ProtocolError("compressed records: the end of a frame is missing")
        if not size:
            return
        yield _into(cramjam.lz4.decompress_into, b"".join((LZ4_HEADS[checked], view[position:stop], bytes(4))), LZ4_BLOCK_BYTES)
        position = stop


def _first_frame(view: memoryview) -> memoryview:
    """Return the first lz4 frame, as Java reads it; bytes behind it are ignored. A malformed frame is returned whole: the decoder names the error."""
    if len(view) <= FLAGS:
        return view
    flags = view[FLAGS]
    position = LZ4_HEAD_BYTES + 8 * bool(flags & LZ4_CONTENT_SIZE)
    while position + 4 <= len(view):
        size = int.from_bytes(view[position : position + 4], "little") & 0x7FFFFFFF
        position += 4
        if not size:
            return view[: position + 4 * bool(flags & LZ4_CONTENT_CHECKSUM)]
        position += size + 4 * bool(flags & LZ4_BLOCK_CHECKSUM)
    return view


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
            if size > 64 * len(block):  # 21:1 is the most that snappy can: it claims what it does not have
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
    if len(view) < len(_XERIAL):
        raise ProtocolError("compressed records: a snappy stream that ends in its head")
    position = len(_XERIAL)
    while position < len(view):
        if view[position : position + 8] == _XERIAL[:8]:  # a stream behind the stream
            position += len(_XERIAL)
            continue
        size = _BLOCK_SIZE.unpack_from(view, position)[0]
        position += _BLOCK_SIZE.size
        if not 0 < size <= len(view) - position:
            raise ProtocolError(f"a snappy block of {size} bytes with {len(view) - position} to come")
        yield view[position : position + size]
        position += size
