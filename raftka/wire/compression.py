"""The compressions of record batches: gzip, snappy, lz4, zstd. Decompression never makes more than its limit. Knows no records.

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
LZ4_HEAD_BYTES, FLAGS = 7, 4  # magic, flags, block size, checksum; the flags' place
LZ4_INDEPENDENT, LZ4_BLOCK_CHECKSUM, LZ4_CONTENT_SIZE, LZ4_CONTENT_CHECKSUM = 0x20, 0x10, 0x08, 0x04
ZSTD_FLAGS = 4  # behind the magic
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
            return _independent_blocks(data, LZ4_LEVEL if level is None else level)
        case 4:
            return bytes(cramjam.zstd.compress(data, level=ZSTD_LEVEL if level is None else level))
    raise ValueError(f"no compression {codec}")


def _independent_blocks(data: Buffer, level: int) -> bytes:
    """Kafka's Java client refuses lz4 frames whose blocks refer to each other."""
    import cramjam

    compressor = cramjam.lz4.Compressor(level=level, block_linked=False)
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


def decompress(codec: int, data: Buffer, limit_bytes: int = DECOMPRESSED_BYTES.value) -> Buffer:
    """Raises ProtocolError for what is not of that codec, and for more than `limit_bytes`."""
    import cramjam

    match codec:
        case 0:
            return data
        case 1:
            return _gzip(data, limit_bytes)
        case 2:
            return _snappy(data, limit_bytes)
        case 3:
            return _into(cramjam.lz4.decompress_into, _first_frame(memoryview(data)), limit_bytes)
        case 4:
            return _into(cramjam.zstd.decompress_into, data, limit_bytes, _zstd_size(data))
    raise ProtocolError(f"no compression {codec}")


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
    """What is behind the last member is ignored, as Java does: zlib finds where that is, at a tenth of the speed."""
    import cramjam

    try:
        return _into(cramjam.gzip.decompress_into, data, limit_bytes, int.from_bytes(data[-4:], "little"))
    except ProtocolError as error:
        if error.limit is not None:
            raise
        return _members(data, limit_bytes)


def _zstd_size(data: Buffer) -> int:
    """What the frame's header says, if it does; 0 otherwise."""
    if len(data) < ZSTD_FLAGS + 1:
        return 0
    flags = data[ZSTD_FLAGS]
    is_single, width = flags >> 5 & 1, (1, 2, 4, 8)[flags >> 6]
    if width == 1 and not is_single:
        return 0
    start = ZSTD_FLAGS + 1 + (1 - is_single) + (0, 1, 2, 4)[flags & 3]
    return int.from_bytes(data[start : start + width], "little") + (256 if width == 2 else 0)


def _members(data: Buffer, limit_bytes: int) -> bytes:
    """In pieces: what is behind a member is copied each time, and there may be fifty thousand of them in a megabyte."""
    view = memoryview(data)
    out: list[bytes] = []
    position, left = 0, limit_bytes
    try:
        while not out or view[position : position + 2] == GZIP_MAGIC:
            member = zlib.decompressobj(zlib.MAX_WBITS | 16)
            while not member.eof:
                piece = view[position : position + PIECE_BYTES]
                if not piece:
                    raise ProtocolError("compressed records: the end of a member is missing")
                out.append(member.decompress(piece, left + 1))
                left -= len(out[-1])
                if left < 0:
                    raise _too_much(limit_bytes)
                position += len(piece) - len(member.unused_data)
    except zlib.error as error:
        raise ProtocolError(f"compressed records: {error}") from error
    return b"".join(out)


def has_independent_blocks(data: Buffer) -> bool:
    """Of lz4. Java's clients read nothing else."""
    return len(data) > FLAGS and bool(data[FLAGS] & LZ4_INDEPENDENT)


def _first_frame(view: memoryview) -> memoryview:
    """Of lz4, as Java reads it: what is behind is ignored. All of it where that does not go on as it should: the decoder says what is wrong."""
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


def _snappy(data: Buffer, limit_bytes: int) -> Buffer:
    import cramjam

    view = memoryview(data)
    out: list[Buffer] = []
    left = limit_bytes
    try:
        for block in _blocks(view):
            size = cramjam.snappy.decompress_raw_len(block)
            if size > 64 * len(block):  # 21:1 is the most that snappy can: it claims what it does not have
                raise ProtocolError(f"a snappy block of {len(block)} bytes that claims {size}")
            if size > left:
                raise _too_much(limit_bytes)
            left -= size
            out.append(bytes(cramjam.snappy.decompress_raw(block)))
    except (cramjam.DecompressionError, struct_error) as error:
        raise ProtocolError(f"compressed records: {error}") from error
    return out[0] if len(out) == 1 else b"".join(out)


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
