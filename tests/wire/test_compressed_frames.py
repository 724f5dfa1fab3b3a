"""Frames as Java's clients read them: what they take is opened, what they refuse is refused."""

import gzip
import zlib
from struct import pack

import cramjam
import pytest

from raftka.limits import MIB
from raftka.wire.compressed_frames import zstd_claimed, zstd_least
from raftka.wire.compression import GZIP, LZ4, SNAPPY, ZSTD, decompress, pieces
from raftka.wire.errors import ProtocolError

SMALL, LARGE = b"0123456789" * 50, bytes(range(256)) * 9_000  # opened at once, and in pieces
both = pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])


def opened(codec: int, data: bytes) -> bytes:
    found = b"".join(bytes(piece) for piece in pieces(codec, data))
    assert found == bytes(decompress(codec, data)), "the two ways agree"
    return found


def refused(codec: int, data: bytes) -> str:
    with pytest.raises(ProtocolError) as one:
        decompress(codec, data)
    with pytest.raises(ProtocolError):
        list(pieces(codec, data))
    return str(one.value)


def skippable(size: int, number: int = 0) -> bytes:
    return bytes((0x50 + number,)) + bytes.fromhex("2a4d18") + pack("<I", size) + b"s" * size


# zstd


def zstd(content: bytes, *, states_size: bool = True) -> bytes:
    if states_size:
        return bytes(cramjam.zstd.compress(content))
    compressor = cramjam.zstd.Compressor()
    compressor.compress(content)
    return bytes(compressor.finish())


@both
@pytest.mark.parametrize("states_size", [True, False])
@pytest.mark.parametrize("where", ["before", "between", "behind", "many", "empty"])
def test_skippable_frames_of_zstd_are_passed_by(
    content: bytes, where: str, states_size: bool
) -> None:
    frame, half = zstd(content, states_size=states_size), len(content) // 2
    data = {
        "before": skippable(2_000_000) + frame,
        "between": zstd(content[:half])
        + skippable(3, 15)
        + zstd(content[half:], states_size=states_size),
        "behind": frame + skippable(7),
        "many": b"".join(skippable(size) for size in range(40)) + frame,
        "empty": skippable(0) + zstd(b"") + frame + zstd(b"", states_size=False),
    }[where]

    assert opened(ZSTD, data) == content


def test_many_records_behind_a_skippable_frame_are_no_bomb() -> None:
    data = skippable(8) + zstd(b"r" * 1000 * 2300)

    assert zstd_least(data, 1 << 40) == zstd_claimed(data) == 2_300_000
    assert len(opened(ZSTD, data)) == 2_300_000


def test_sizes_are_added_over_all_frames() -> None:
    frame = zstd(bytes(5 * MIB))
    data = frame + skippable(4) + zstd(bytes(6 * MIB), states_size=False) + frame

    assert 10 * MIB < zstd_least(data, 1 << 40) <= 16 * MIB
    with pytest.raises(ProtocolError, match="more than"):
        list(pieces(ZSTD, data, 15 * MIB))
    assert sum(map(len, pieces(ZSTD, data, 16 * MIB))) == 16 * MIB


@both
@pytest.mark.parametrize(
    "rest", [b"\0", b"\0" * 9, b"garbage", skippable(9)[:-1], skippable(1)[:5], b"\x28\xb5\x2f\xfd"]
)
def test_garbage_behind_zstd_is_refused(content: bytes, rest: bytes) -> None:
    refused(ZSTD, zstd(content) + rest)


def test_zstd_that_java_has_no_memory_or_no_dictionary_for_is_refused() -> None:
    block = (1 | 5 << 3).to_bytes(3, "little") + b"hello"
    magic = bytes.fromhex("28b52ffd")
    assert opened(ZSTD, magic + bytes((0x00, 17 << 3)) + block) == b"hello"
    refused(ZSTD, magic + bytes((0x00, 18 << 3)) + block)
    refused(ZSTD, magic + bytes((0x21, 7, 5)) + block)
    refused(ZSTD, magic + bytes((0x20, 6)) + block)


# lz4


def lz4(content: bytes, *, linked: bool = False) -> bytes:
    compressor = cramjam.lz4.Compressor(level=1, block_linked=linked)
    compressor.compress(content)
    return bytes(compressor.finish())


def with_head(frame: bytes, flags: int, size: int, more: bytes = b"") -> bytes:
    """The frame with another head, whose checksum is right: tried out."""
    head = frame[:4] + bytes((flags, size)) + more
    for checksum in range(256):
        made = head + bytes((checksum,)) + frame[7:]
        try:
            cramjam.lz4.decompress_into(made, bytearray(len(LARGE) + 1))
        except cramjam.DecompressionError as error:
            if "headerChecksum" not in str(error):
                return made
        else:
            return made
    raise AssertionError("no checksum is right")


@both
def test_lz4_is_opened_up_to_the_end_of_its_first_frame(content: bytes) -> None:
    frame = lz4(content)

    for rest in (b"", b"x", frame, skippable(3), bytes(99)):
        assert opened(LZ4, frame + rest) == content


@both
def test_the_content_checksum_of_lz4_is_not_looked_at(content: bytes) -> None:
    frame = bytearray(lz4(content))
    assert frame[4] & 4
    frame[-1] ^= 1

    assert opened(LZ4, bytes(frame)) == content
    refused(LZ4, bytes(frame[:-1]))


@both
def test_the_content_size_of_lz4_is_not_looked_at(content: bytes) -> None:
    frame = lz4(content)

    assert (
        opened(LZ4, with_head(frame, frame[4] | 8, frame[5], pack("<Q", len(content)))) == content
    )


@both
@pytest.mark.parametrize(
    "change",
    [
        lambda frame: skippable(5) + frame,
        lambda frame: bytes.fromhex("02214c18") + frame[4:],  # a legacy frame
        lambda frame: frame[:4] + bytes((frame[4] | 1,)) + frame[5:],
        lambda frame: frame[:4] + bytes((frame[4] | 2,)) + frame[5:],
        lambda frame: frame[:4] + bytes((frame[4] ^ 0xC0,)) + frame[5:],
        lambda frame: frame[:5] + bytes((frame[5] | 1,)) + frame[6:],
        lambda frame: frame[:5] + bytes((0x30,)) + frame[6:],
        lambda frame: frame[:6] + bytes((frame[6] ^ 1,)) + frame[7:],
        lambda frame: frame[:-8],
    ],
    ids=[
        "skippable",
        "legacy",
        "dictionary",
        "reserved",
        "version",
        "reserved size",
        "small blocks",
        "header checksum",
        "no end",
    ],
)
def test_lz4_that_java_does_not_read_is_refused(content: bytes, change: "type[bytes]") -> None:
    refused(LZ4, change(lz4(content)))


def test_a_block_of_lz4_that_is_larger_than_its_frame_says_is_refused() -> None:
    large = lz4(b"\xa5\x17" * 100_000)
    wider = with_head(large, large[4], 0x70)
    assert (large[5], opened(LZ4, wider)) == (0x40, b"\xa5\x17" * 100_000)

    block = bytes(cramjam.lz4.compress_block(bytes(100_000), store_size=False))
    frame = large[:7] + pack("<I", len(block)) + block + bytes(8)
    assert opened(LZ4, with_head(frame, 0x60, 0x50)) == bytes(100_000)
    refused(LZ4, with_head(frame, 0x60, 0x40))


@both
def test_blocks_of_lz4_that_refer_to_each_other_are_read_where_nothing_checks_them(
    content: bytes,
) -> None:
    assert opened(LZ4, lz4(content, linked=True) + b"rest") == content


# gzip and snappy


@both
def test_what_is_no_member_behind_gzip_is_ignored(content: bytes) -> None:
    data = gzip.compress(content)

    for rest in (
        b"",
        b"\0",
        b"garbage",
        b"\x1f\x8b\x07\x00garbage....",
        b"\x1f\x8b\x08\xe0garbage....",
    ):
        assert opened(GZIP, data + rest) == content
    assert opened(GZIP, data + gzip.compress(b"") + gzip.compress(b"more")) == content + b"more"
    refused(GZIP, b"\x1f\x8b\x07\x00garbage....")
    refused(GZIP, data[:-1])
    refused(GZIP, data + gzip.compress(content)[:-3])


def test_deflate_alone_is_not_gzip() -> None:
    refused(GZIP, zlib.compress(SMALL))


def test_a_snappy_stream_of_a_version_that_java_does_not_read_is_refused() -> None:
    block = bytes(cramjam.snappy.compress_raw(SMALL))
    assert opened(SNAPPY, block) == SMALL
    for version, right in ((1, True), (2, True), (0, False), (-1, False)):
        data = b"\x82SNAPPY\0" + pack(">ii", version, 1) + pack(">i", len(block)) + block
        if right:
            assert opened(SNAPPY, data) == SMALL
        else:
            refused(SNAPPY, data)
