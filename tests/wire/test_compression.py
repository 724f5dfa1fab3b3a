"""The five codecs: against bytes of other writers, against garbage, and against bombs.

librdkafka.jsonl holds one batch of 40 equal records from librdkafka 2.16 in each codec (its snappy
is one bare block, Java's in test_golden.py is xerial's stream). gzip is also held against zlib,
both ways.
"""

import gzip
import json
import random
import traceback
import tracemalloc
import zlib
from mmap import mmap
from pathlib import Path
from typing import Any

import cramjam
import pytest

from raftka.limits import DECOMPRESSED_BYTES
from raftka.wire import compression
from raftka.wire.compression import GZIP, LZ4, NAMES, SNAPPY, ZSTD, compress, decompress
from raftka.wire.errors import ProtocolError
from raftka.wire.records import build_batch, crc_matches, iterate, records_of

CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
LIBRDKAFKA = [
    json.loads(line)
    for line in (Path(__file__).parent / "librdkafka.jsonl").read_text().splitlines()
]
MIB = 1024 * 1024


@pytest.mark.parametrize("seen", LIBRDKAFKA, ids=lambda seen: seen["codec"])
def test_batches_of_librdkafka(seen: dict[str, str]) -> None:
    ((header, batch),) = iterate(memoryview(bytes.fromhex(seen["batch"])))

    assert NAMES[header.compression] == seen["codec"]
    assert crc_matches(batch, header)
    read = [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in records_of(batch)]
    assert read == [
        (i, 1700000000000 + i, b"key-%d" % i, b"the same value again and again", [("h", b"x")])
        for i in range(40)
    ]


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("size", [0, 1, 100, 32 * 1024, 32 * 1024 + 1, 3 * MIB])
def test_there_and_back(codec: int, size: int) -> None:
    data = (b"some text %d " * 8 % tuple(range(8)) * (size // 80 + 1))[:size]
    for given in (data, bytearray(data), memoryview(data)):
        assert bytes(decompress(codec, compress(codec, given))) == data


def test_gzip_members_that_lie_one_behind_the_other_and_what_is_behind_them() -> None:
    text = random.Random(1).randbytes(3 * compression.PIECE_BYTES)
    stream = gzip.compress(text) + gzip.compress(b"") + gzip.compress(b"end") + b"what Java ignores"

    assert bytes(decompress(GZIP, stream)) == text + b"end"
    with pytest.raises(ProtocolError, match="more than 100 bytes"):
        decompress(GZIP, stream, 100)
    with pytest.raises(ProtocolError, match="the end of a member is missing"):
        decompress(GZIP, stream[: compression.PIECE_BYTES])


def test_tens_of_thousands_of_empty_gzip_members_are_looked_at_once_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """zlib copies the bytes behind a member: all of them each time would be seconds for a
    megabyte.
    """
    given = 0
    make = zlib.decompressobj

    def counted(bits: int) -> Any:
        member = make(bits)

        class Counted:
            eof = property(lambda self: member.eof)
            unused_data = property(lambda self: member.unused_data)
            unconsumed_tail = property(lambda self: member.unconsumed_tail)

            def decompress(self, data: bytes, limit: int) -> bytes:
                nonlocal given
                given += len(data)
                return member.decompress(data, limit)

        return Counted()

    monkeypatch.setattr(zlib, "decompressobj", counted)
    members = 50_000

    assert bytes(decompress(GZIP, gzip.compress(b"") * members + b"x")) == b""
    assert given <= members * compression.PIECE_BYTES


def test_gzip_against_zlib() -> None:
    assert gzip.decompress(compress(GZIP, b"abc" * 99)) == b"abc" * 99
    assert bytes(decompress(GZIP, gzip.compress(b"abc" * 99))) == b"abc" * 99


@pytest.mark.parametrize("codec", [-1, 5, 7])
def test_codecs_that_are_none(codec: int) -> None:
    with pytest.raises(ProtocolError, match=f"no compression {codec}"):
        decompress(codec, b"abc")
    with pytest.raises(ValueError, match=f"no compression {codec}"):
        compress(codec, b"abc")


XERIAL = compress(SNAPPY, b"")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"garbage" * 9,
        bytes(99),
        b"\xff" * 99,
        XERIAL + b"\0",
        XERIAL + b"\x7f\xff\xff\xff??",
        XERIAL + b"\xff\xff\xff\xff??",
    ],
)
def test_garbage(codec: int, data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decompress(codec, data)


@pytest.mark.parametrize("codec", CODECS)
def test_every_cut_is_noticed(codec: int) -> None:
    whole = compress(codec, bytes(range(256)) * 4)
    # xerial's stream has no end mark: behind a block it is whole
    blocks = {len(XERIAL)} if codec == SNAPPY else set()
    for size in set(range(len(whole))) - blocks:
        with pytest.raises(ProtocolError):
            decompress(codec, whole[:size])


ZEROS = bytes(40 * MIB)
BOMBS = {
    GZIP: bytes(cramjam.gzip.compress(ZEROS)),
    SNAPPY: bytes(cramjam.snappy.compress_raw(ZEROS)),
    LZ4: bytes(cramjam.lz4.compress(ZEROS)),
    ZSTD: bytes(cramjam.zstd.compress(ZEROS)),
}


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_stops_at_the_limit(codec: int) -> None:
    assert len(decompress(codec, BOMBS[codec], len(ZEROS))) == len(ZEROS)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="more than 1048576 bytes") as caught:
            decompress(codec, BOMBS[codec], MIB)
        assert tracemalloc.get_traced_memory()[1] < 1.5 * MIB
    finally:
        tracemalloc.stop()
    assert caught.value.limit is DECOMPRESSED_BYTES


@pytest.mark.parametrize(("codec", "name"), [(GZIP, "gzip"), (ZSTD, "zstd")])
@pytest.mark.parametrize("size", [3000, 14_000, 100_000])
def test_what_says_its_size_is_decompressed_once(
    codec: int, name: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where it is 8 to 64 times as large as the received bytes."""
    data = b"".join(b"k%09d" % at for at in range(size // 30)) + bytes(size - size // 30 * 10)
    packed = compress(codec, data)
    assert size < 4096 or 8 < size / len(packed) < 64
    module, rooms = getattr(cramjam, name), []
    real = module.decompress_into

    def counted(given: Any, out: Any) -> int:
        rooms.append(len(out))
        return int(real(given, out))

    monkeypatch.setattr(module, "decompress_into", counted)
    assert bytes(decompress(codec, packed)) == data
    assert len(rooms) == 1


@pytest.mark.parametrize(
    ("codec", "lie"),
    [
        (GZIP, bytes(cramjam.gzip.compress(b"abc"))[:-4] + b"\xff\xff\xff\x05"),
        (ZSTD, b"\x28\xb5\x2f\xfd\xa0\xff\xff\xff\x05garbage"),
    ],
)
def test_a_size_that_is_only_claimed_takes_no_memory(codec: int, lie: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            decompress(codec, lie[: 15 + 8 * (codec == GZIP)])
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_many_snappy_blocks_are_limited_together() -> None:
    block = bytes(cramjam.snappy.compress_raw(bytes(60_000)))
    stream = XERIAL + (len(block).to_bytes(4, "big") + block) * 20

    assert len(decompress(SNAPPY, stream, 1_200_000)) == 1_200_000
    with pytest.raises(ProtocolError, match="more than 1199999 bytes"):
        decompress(SNAPPY, stream, 1_199_999)


def test_a_snappy_block_that_lies_about_its_size_costs_nothing() -> None:
    lie = b"\xff\xff\xff\x1f" + b"garbage"  # 64 MiB - 1
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="that claims 67108863"):
            decompress(SNAPPY, lie)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS)
def test_records_are_read_within_the_limit(codec: int) -> None:
    batch = memoryview(build_batch([(None, bytes(MIB), [], 0)], compression=codec))
    assert len(next(records_of(batch)).value or b"") == MIB
    with pytest.raises(ProtocolError, match="more than 1000000 bytes"):
        next(records_of(batch, 1_000_000))


def test_an_error_does_not_keep_the_buffer() -> None:
    with pytest.raises(ProtocolError) as caught:
        decompress(GZIP, random.Random(1).randbytes(1_000_000))

    chain: list[BaseException] = [caught.value]
    while (before := chain[-1].__context__) is not None:
        chain.append(before)
    kept = [
        value
        for error in chain
        for frame, _ in traceback.walk_tb(error.__traceback__)
        for value in frame.f_locals.values()
    ]
    assert not [
        value
        for value in kept
        if isinstance(value, bytearray | memoryview) and len(value) > 1_000_000
    ]


def test_a_large_buffer_takes_only_the_memory_that_is_written() -> None:
    opened = decompress(ZSTD, compress(ZSTD, bytes(2 << 20)))

    assert isinstance(opened, memoryview)
    assert isinstance(opened.obj, mmap)
