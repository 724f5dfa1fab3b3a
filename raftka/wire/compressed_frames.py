"""Frames of lz4 and zstd by their headers, as Java's clients read them: where a frame and its
blocks are, how large they open. Opens nothing.
"""

from collections.abc import Iterator
from typing import NamedTuple

from raftka.runtime.interfaces import Buffer
from raftka.wire.errors import ProtocolError

# lz4
LZ4_MAGIC = bytes.fromhex("04224d18")
FLAGS, BLOCK_SIZE = 4, 5  # places in a frame
LZ4_INDEPENDENT, LZ4_BLOCK_CHECKSUM, LZ4_CONTENT_SIZE, LZ4_CONTENT_CHECKSUM = 0x20, 0x10, 0x08, 0x04
# of the flags; the last: a dictionary, and a reserved bit
LZ4_VERSION, LZ4_VERSION_1, LZ4_MUST_BE_ZERO = 0xC0, 0x40, 0x03
LZ4_STORED = 1 << 31  # in the size of a block: it is not compressed
LZ4_END = bytes(4)
# zstd
ZSTD_MAGIC = bytes.fromhex("28b52ffd")
# behind a first byte of 0x50 to 0x5f; magic and size
SKIPPABLE, SKIPPABLE_HEAD_BYTES = bytes.fromhex("2a4d18"), 8
ZSTD_RAW, ZSTD_RLE = 0, 1  # kinds of blocks
ZSTD_CHECKSUM = 0x04
FRAMES_LOOKED_AT = 16  # for a size that is only a guess


class Lz4Frame(NamedTuple):
    head: bytes  # of a frame with one of the blocks
    first: int  # position of the first block
    block_bytes: int  # a block opens to that much at most
    block_checksums: bool
    content_checksum: bool
    independent: bool


def lz4_frame(view: memoryview) -> Lz4Frame:
    """The first frame. Raises ProtocolError for one that Java's clients do not take: skippable and
    legacy frames, a dictionary, a wrong checksum.
    """
    if len(view) < BLOCK_SIZE + 2 or view[:4] != LZ4_MAGIC:
        raise ProtocolError("compressed records: no lz4 frame")
    flags, size = view[FLAGS], view[BLOCK_SIZE]
    first = BLOCK_SIZE + 2 + 8 * bool(flags & LZ4_CONTENT_SIZE)
    if (
        flags & LZ4_VERSION != LZ4_VERSION_1
        or flags & LZ4_MUST_BE_ZERO
        or size & 0x8F
        or size < 0x40
    ):
        raise ProtocolError(f"compressed records: an lz4 frame with flags {flags:#x} and {size:#x}")
    if len(view) < first or view[first - 1] != _header_checksum(bytes(view[FLAGS : first - 1])):
        raise ProtocolError("compressed records: the checksum of an lz4 frame's header is wrong")
    plain = bytes((LZ4_VERSION_1 | LZ4_INDEPENDENT | flags & LZ4_BLOCK_CHECKSUM, size))
    head = LZ4_MAGIC + plain + bytes((_header_checksum(plain),))
    block_bytes = 1 << 2 * (size >> 4) + 8
    checksums = bool(flags & LZ4_BLOCK_CHECKSUM), bool(flags & LZ4_CONTENT_CHECKSUM)
    return Lz4Frame(head, first, block_bytes, *checksums, bool(flags & LZ4_INDEPENDENT))


def lz4_blocks(view: memoryview, frame: Lz4Frame) -> Iterator[memoryview]:
    """Each block with its size and its checksum. What lies behind the frame is ignored, and what
    its content checksum says, as in Java.
    """
    position = frame.first
    while True:
        size = (
            int.from_bytes(view[position : position + 4], "little")
            if position + 4 <= len(view)
            else -1
        )
        stop = (
            position
            + 4
            + (size & ~LZ4_STORED)
            + 4 * (frame.block_checksums if size else frame.content_checksum)
        )
        if size < 0 or stop > len(view):
            raise ProtocolError("compressed records: the end of a frame is missing")
        if not size:
            return
        if size & ~LZ4_STORED > frame.block_bytes:
            raise ProtocolError(
                f"compressed records: an lz4 block of more than {frame.block_bytes} bytes"
            )
        yield view[position:stop]
        position = stop


def lz4_end(view: memoryview, frame: Lz4Frame) -> int:
    """The position behind the frame. Raises ProtocolError."""
    position = frame.first
    for block in lz4_blocks(view, frame):
        position += len(block)
    return position + 4 + 4 * frame.content_checksum


def has_independent_blocks(data: Buffer) -> bool:
    """Return whether the blocks of an lz4 frame are independent. Java's clients read nothing
    else.
    """
    return len(data) > FLAGS and bool(data[FLAGS] & LZ4_INDEPENDENT)


def _header_checksum(descriptor: bytes) -> int:
    """The second byte of XXH32 of less than 16 bytes."""
    h, whole = 0x165667B1 + len(descriptor), len(descriptor) & ~3
    for at in range(0, whole, 4):
        h = h + int.from_bytes(descriptor[at : at + 4], "little") * 0xC2B2AE3D & 0xFFFFFFFF
        h = (h << 17 | h >> 15) * 0x27D4EB2F & 0xFFFFFFFF
    for byte in descriptor[whole:]:
        h = h + byte * 0x165667B1 & 0xFFFFFFFF
        h = (h << 11 | h >> 21) * 0x9E3779B1 & 0xFFFFFFFF
    h = (h ^ h >> 15) * 0x85EBCA77 & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE3D & 0xFFFFFFFF
    return (h ^ h >> 16) >> 8 & 0xFF


def zstd_claimed(data: Buffer) -> int:
    """The opened size that the first frame with content states, 0 if it states none: a guess, of
    little cost.
    """
    position = 0
    for _ in range(FRAMES_LOOKED_AT):
        if not _is_skippable(data, position):
            return _zstd_head(data, position)[0]
        position = _behind_skippable(data, position)
    return 0


def zstd_least(data: Buffer, enough: int) -> int:
    """A lower bound of the opened size of all frames, by their headers and by blocks that state
    theirs (most bombs do), up to `enough`.
    """
    position = least = 0
    while position < len(data) and least <= enough:
        if _is_skippable(data, position):
            position = _behind_skippable(data, position)
        elif data[position : position + 4] == ZSTD_MAGIC:
            size, position = _zstd_least_of_frame(data, position, enough - least)
            least += size
        else:
            break  # the decoder names the error
    return least


def _zstd_least_of_frame(data: Buffer, position: int, enough: int) -> tuple[int, int]:
    """And the position behind the frame, or somewhere in it when there is enough."""
    has_checksum = len(data) > position + 4 and data[position + 4] & ZSTD_CHECKSUM
    stated, position = _zstd_head(data, position)
    told = 0
    while max(stated, told) <= enough and position + 3 <= len(data):
        head = int.from_bytes(data[position : position + 3], "little")
        is_last, kind, size = head & 1, head >> 1 & 3, head >> 3
        if kind in (ZSTD_RAW, ZSTD_RLE):
            told += size
        position += 4 if kind == ZSTD_RLE else 3 + size
        if is_last:
            return max(stated, told), position + (4 if has_checksum else 0)
    return max(stated, told), len(data)


def _zstd_head(data: Buffer, position: int) -> tuple[int, int]:
    """The opened size that the header of the frame states (0: none), and the position of the first
    block.
    """
    start = position + len(ZSTD_MAGIC)
    if len(data) <= start:
        return 0, len(data)
    flags = data[start]
    is_single, width = flags >> 5 & 1, (1, 2, 4, 8)[flags >> 6]
    start += 1 + (1 - is_single) + (0, 1, 2, 4)[flags & 3]
    if width == 1 and not is_single:
        return 0, start
    return int.from_bytes(data[start : start + width], "little") + (
        256 if width == 2 else 0
    ), start + width


def _is_skippable(data: Buffer, position: int) -> bool:
    return (
        len(data) >= position + SKIPPABLE_HEAD_BYTES
        and data[position] & 0xF0 == 0x50
        and data[position + 1 : position + 4] == SKIPPABLE
    )


def _behind_skippable(data: Buffer, position: int) -> int:
    size = int.from_bytes(data[position + 4 : position + SKIPPABLE_HEAD_BYTES], "little")
    return position + SKIPPABLE_HEAD_BYTES + size
