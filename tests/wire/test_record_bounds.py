"""Records read while their batch is opened: the same as `records_of` reads, with little memory, and
bombs refused early.
"""

import tracemalloc
from collections.abc import Iterator
from typing import Any

import cramjam
import lz4.frame  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftka.limits import DECOMPRESSED_BYTES, MIB
from raftka.runtime.interfaces import Buffer
from raftka.wire import compression
from raftka.wire.compression import (
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    Packer,
    compress,
    decompress,
    pieces,
)
from raftka.wire.errors import ProtocolError
from raftka.wire.record_bounds import NotOpened, outlines
from raftka.wire.records import (
    BATCH_HEADER_BYTES,
    NewRecord,
    batch_of,
    build_batch,
    read_header,
    records_of,
)

CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]
COMPRESSED = CODECS[1:]
TIME = 1_700_000_000_000

content = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=5), content), max_size=2)
record = st.tuples(content, content, headers, st.integers(TIME - 200, TIME + 70_000))


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "OPENED_PIECE_BYTES", 64)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all pieces that were opened."""
    sizes: list[int] = []

    def counted(*arguments: Any) -> Iterator[Any]:
        for piece in pieces(*arguments):
            sizes.append(len(piece))
            yield piece

    monkeypatch.setattr("raftka.wire.record_bounds.pieces", counted)
    return sizes


def bomb(payload: Buffer, codec: int, count: int = 1) -> memoryview:
    return memoryview(batch_of(compress(codec, payload), count, codec, (TIME, TIME), (-1, -1, -1)))


@pytest.mark.parametrize("codec", CODECS)
@given(records=st.lists(record, min_size=1, max_size=20))
def test_they_say_what_the_records_are_and_write_them_as_a_leader_does(
    codec: int, records: list[NewRecord]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compression, "OPENED_PIECE_BYTES", 64)
        batch = memoryview(build_batch(records, compression=codec))
        out = bytearray()
        found = list(outlines(batch, out.extend))

    def size(part: bytes | None) -> int | None:
        return None if part is None else len(part)

    assert found == [
        (each.offset, each.timestamp, size(each.key), size(each.value))
        for each in records_of(batch)
    ]
    assert out == build_batch(records)[BATCH_HEADER_BYTES:]


@pytest.mark.parametrize("codec", CODECS)
def test_every_cut_and_every_byte_too_many_is_noticed(codec: int, small_pieces: None) -> None:
    body = build_batch([(b"key", bytes(range(99)), [("h", b"x")], TIME + i) for i in range(3)])[
        BATCH_HEADER_BYTES:
    ]
    assert len(list(outlines(bomb(body, codec, 3)))) == 3
    for wrong in (*(body[:size] for size in range(len(body))), body + b"\0"):
        with pytest.raises(ProtocolError):
            list(outlines(bomb(wrong, codec, 3)))


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_without_records_is_refused_after_its_first_piece(
    codec: int, opened: list[int]
) -> None:
    with pytest.raises(ProtocolError, match="a record of 0 bytes"):
        list(outlines(bomb(bytes(40 * MIB), codec)))

    assert sum(opened) <= MIB


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_record_above_the_limit_is_refused_at_its_head(codec: int, opened: list[int]) -> None:
    batch = memoryview(
        build_batch([(None, bytes(DECOMPRESSED_BYTES.value + 1), [], TIME)], compression=codec)
    )

    with pytest.raises(ProtocolError) as caught:
        list(outlines(batch))

    assert caught.value.limit is DECOMPRESSED_BYTES
    assert sum(opened) <= 2 * MIB


@pytest.mark.parametrize("codec", COMPRESSED)
def test_records_above_the_limit_together_are_refused_there(codec: int) -> None:
    batch = memoryview(build_batch([(None, bytes(MIB), [], TIME)] * 65, compression=codec))

    with pytest.raises(ProtocolError) as caught:
        list(outlines(batch))

    assert caught.value.limit is DECOMPRESSED_BYTES


def test_a_zstd_bomb_that_tells_its_size_is_opened_no_further_than_the_first_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its blocks tell it: each repeats one byte. The frame's head does not, with this level of the
    writer.
    """
    rooms: list[int] = []
    real = cramjam.zstd.decompress_into

    def counted(data: Any, out: Any) -> int:
        rooms.append(len(out))
        return real(data, out)

    monkeypatch.setattr(cramjam.zstd, "decompress_into", counted)
    packer = Packer(ZSTD)
    record = build_batch([(None, bytes(MIB), [], TIME)])[BATCH_HEADER_BYTES:]
    for _ in range(80):
        packer.write(record)
    batch = memoryview(batch_of(packer.finish(), 80, ZSTD, (TIME, TIME), (-1, -1, -1)))

    with pytest.raises(ProtocolError, match=f"more than {DECOMPRESSED_BYTES.value} bytes"):
        list(outlines(batch))
    assert max(rooms) <= MIB


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
@pytest.mark.parametrize("count", [1, 20], ids=["one record of 20 MiB", "20 records of 1 MiB"])
def test_what_is_large_when_opened_is_never_in_memory_as_a_whole(codec: int, count: int) -> None:
    """Read, and compressed anew. (For zstd there is no stream: it is opened into memory up to the
    limit.)
    """
    packed = build_batch([(None, bytes(20 * MIB // count), [], TIME)] * count, compression=codec)
    compress(LZ4, b"import")
    tracemalloc.start()
    try:
        packer = Packer(LZ4)
        assert len(list(outlines(memoryview(packed), packer.write))) == count
        assert len(packer.finish()) < 200_000
        assert tracemalloc.get_traced_memory()[1] < 12 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("payload", [b"", b"garbage" * 9])
def test_a_payload_that_is_not_of_its_codec(codec: int, payload: bytes) -> None:
    batch = memoryview(batch_of(payload, 1, codec, (TIME, TIME), (-1, -1, -1)))

    with pytest.raises(NotOpened):
        list(outlines(batch))


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("place", [0.5, 0.9, 1.0])
def test_a_large_payload_that_is_damaged_or_cut(codec: int, place: float) -> None:
    values: list[NewRecord] = [(None, b"%07d" % at * 1000, [], TIME) for at in range(400)]
    whole = build_batch(values, compression=codec)
    at = BATCH_HEADER_BYTES + int((len(whole) - BATCH_HEADER_BYTES) * place) - 1
    cut = bytearray(whole[:at])
    cut[8:12] = (len(cut) - 12).to_bytes(4, "big")

    assert len(list(outlines(memoryview(whole)))) == len(values)
    with pytest.raises(ProtocolError):
        list(outlines(memoryview(cut)))


@pytest.mark.parametrize("codec", CODECS)
def test_the_pieces_are_what_is_opened_at_once(codec: int) -> None:
    data = b"".join(b"%09d" % at for at in range(400_000)) + bytes(4 * MIB)
    packed = compress(codec, data)

    assert b"".join(pieces(codec, packed)) == data
    assert codec == NONE or max(len(piece) for piece in pieces(codec, packed)) <= MIB
    with pytest.raises(ProtocolError, match="more than 5000000 bytes"):
        list(pieces(codec or GZIP, packed if codec else compress(GZIP, data), 5_000_000))


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("size", [lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX4MB])
@pytest.mark.parametrize("linked", [False, True])
def test_lz4_of_another_writer_in_pieces(checked: bool, size: int, linked: bool) -> None:
    data = b"".join(b"%09d" % at for at in range(700_000))
    packed = lz4.frame.compress(
        data, block_size=size, block_linked=linked, block_checksum=checked, content_checksum=True
    )

    assert b"".join(pieces(LZ4, packed)) == data
    if checked:
        damaged = bytearray(packed)
        damaged[len(packed) // 2] ^= 1
        with pytest.raises(ProtocolError):
            list(pieces(LZ4, damaged))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 100, MIB - 1, MIB, 5 * MIB])
def test_what_is_packed_piece_by_piece_opens_to_the_same(codec: int, size: int) -> None:
    data = (b"".join(b"%09d" % at for at in range(size // 9 + 1)))[:size]
    packer = Packer(codec)
    for at in range(0, size, 100_003):
        packer.write(data[at : at + 100_003])

    assert bytes(decompress(codec, packer.finish())) == data


@pytest.mark.parametrize("codec", [-1, 5])
def test_there_is_no_such_codec(codec: int) -> None:
    with pytest.raises(ProtocolError, match=f"no compression {codec}"):
        list(pieces(codec, b"abc"))
    with pytest.raises(ValueError, match=f"no compression {codec}"):
        Packer(codec).finish()


def test_a_header_of_the_batch_is_believed_as_by_records_of() -> None:
    """With LogAppendTime all records have the batch's time."""
    batch = memoryview(
        build_batch(
            [(b"k", b"v", [], TIME), (b"k", b"v", [], TIME + 5)], timestamp_type=1, base_offset=7
        )
    )

    assert [each[:2] for each in outlines(batch)] == [
        (7, read_header(batch).max_timestamp),
        (8, read_header(batch).max_timestamp),
    ]
