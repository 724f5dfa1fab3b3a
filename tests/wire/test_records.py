"""Record batches against kafka-python's builder and reader; walking over what was cut, and refusing
what is none.

kafka-python has gzip alone without further libraries; the other codecs are held against recorded
bytes of other writers: see test_golden.py and test_compression.py.
"""

import warnings
from importlib.machinery import PathFinder
from typing import Any

import crc32c as package
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftka import checksum
from raftka.limits import HEADERS_OF_RECORD
from raftka.wire.errors import ProtocolError
from raftka.wire.records import (
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    NewRecord,
    Record,
    build_batch,
    crc_matches,
    iterate,
    put_signed,
    read_header,
    records_of,
    seal,
    signed,
)

with warnings.catch_warnings():
    # it reads its schemas with importlib.resources.read_text
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatchBuilder
    from kafka.record.memory_records import MemoryRecords

EXAMPLES = settings(max_examples=25, deadline=None, derandomize=True, database=None)
OPTIONAL_BYTES = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=10), OPTIONAL_BYTES), max_size=3)
RECORDS = st.lists(
    st.tuples(OPTIONAL_BYTES, OPTIONAL_BYTES, HEADERS, st.integers(0, 2**42)),
    min_size=1,
    max_size=20,
)


@EXAMPLES
@given(RECORDS, st.sampled_from([0, 1]), st.booleans())
def test_kafka_python_reads_ours(records: list[NewRecord], codec: int, transactional: bool) -> None:
    producer: dict[str, Any] = (
        {"producer_id": 5, "producer_epoch": 2, "base_sequence": 9, "transactional": True}
        if transactional
        else {}
    )

    data = build_batch(records, base_offset=100, compression=codec, leader_epoch=3, **producer)

    batch = MemoryRecords(bytes(data)).next_batch()
    assert batch.validate_crc()
    assert (
        batch.base_offset,
        batch.leader_epoch,
        batch.compression_type,
        batch.is_transactional,
    ) == (100, 3, codec, transactional)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (
        (5, 2, 9) if transactional else (-1, -1, -1)
    )
    assert (batch.first_timestamp, batch.max_timestamp) == (
        records[0][3],
        max(r[3] for r in records),
    )
    read = [(r.key, r.value, r.headers, r.timestamp, r.offset) for r in batch]
    assert read == [
        (key, value, headers, timestamp, 100 + at)
        for at, (key, value, headers, timestamp) in enumerate(records)
    ]


@EXAMPLES
@given(RECORDS, st.sampled_from([0, 1]))
def test_we_read_kafka_pythons(records: list[NewRecord], codec: int) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=False,
        producer_id=7,
        producer_epoch=1,
        base_sequence=3,
        batch_size=1_000_000,
    )
    for at, (key, value, headers, timestamp) in enumerate(records):
        builder.append(at, timestamp, key, value, headers)
    data = bytes(builder.build())

    ((header, batch),) = iterate(memoryview(data))

    assert crc_matches(batch, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.count) == (
        7,
        1,
        3,
        len(records),
    )
    expected = [
        Record(at, timestamp, key, value, headers)
        for at, (key, value, headers, timestamp) in enumerate(records)
    ]
    assert list(records_of(batch)) == expected
    if codec == 0:
        assert (
            build_batch(records, leader_epoch=0, producer_id=7, producer_epoch=1, base_sequence=3)
            == data
        )


ONE: list[NewRecord] = [(b"key", b"value", [("h", b"x"), ("n", None)], 1000)]


@pytest.mark.parametrize("codec", range(5))
def test_all_codecs_there_and_back(codec: int) -> None:
    records: list[NewRecord] = [(b"k%d" % at, b"v" * at, [], 1000 + at) for at in range(500)]

    data = build_batch(records, compression=codec)

    assert [
        (r.key, r.value, r.headers, r.timestamp) for r in records_of(memoryview(data))
    ] == records


def test_a_log_append_time_batch_gives_its_maximum_to_all() -> None:
    data = build_batch([(None, b"a", [], 1000), (None, b"b", [], 2000)], timestamp_type=1)
    assert read_header(data).attributes == LOG_APPEND_TIME
    assert [r.timestamp for r in records_of(memoryview(data))] == [2000, 2000]


def test_the_header_is_61_bytes_and_reads_as_written() -> None:
    data = build_batch(
        ONE,
        base_offset=2**40,
        leader_epoch=9,
        transactional=True,
        producer_id=2**33,
        producer_epoch=3,
        base_sequence=4,
    )

    header = read_header(data)

    assert BATCH_HEADER_BYTES == 61
    assert header == BatchHeader(
        2**40, len(data) - 12, 9, 2, header.crc, TRANSACTIONAL, 0, 1000, 1000, 2**33, 3, 4, 1
    )
    assert (header.size_bytes, header.last_offset) == (len(data), 2**40)


def test_offset_and_leader_epoch_are_not_under_the_crc_and_all_else_is() -> None:
    data = build_batch(ONE)
    data[0:8], data[12:16] = (77).to_bytes(8, "big"), (5).to_bytes(4, "big")
    assert crc_matches(memoryview(data), read_header(data))
    for at in range(21, len(data)):
        data[at] ^= 1
        assert not crc_matches(memoryview(data), read_header(data)), at
        data[at] ^= 1


def test_a_cut_tail_is_left_out() -> None:
    first, second = build_batch(ONE), build_batch(ONE, base_offset=1)
    both = bytes(first + second)
    for size in range(len(both) + 1):
        whole = list(iterate(memoryview(both)[:size]))
        assert len(whole) == (size >= len(first)) + (size == len(both))
    assert [header.base_offset for header, _ in whole] == [0, 1]


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (16, b"\1"),
        (16, b"\3"),
        (8, b"\xff\xff\xff\xff"),
        (8, (48).to_bytes(4, "big")),
        (8, bytes(4)),
    ],
)
def test_what_is_no_batch_of_version_2(at: int, value: bytes) -> None:
    data = build_batch(ONE)
    data[at : at + len(value)] = value
    with pytest.raises(ProtocolError, match="a batch of version"):
        list(iterate(memoryview(data)))


def test_a_header_needs_all_its_bytes() -> None:
    with pytest.raises(ProtocolError, match="60 bytes are no record batch"):
        read_header(bytes(60))


def batch_with(body: bytes, count: int = 1) -> memoryview:
    data = bytearray(BATCH_HEADER_BYTES) + body
    BATCH_HEADER.pack_into(
        data, 0, 0, len(data) - 12, 0, 2, 0, 0, count - 1, 0, 0, -1, -1, -1, count
    )
    seal(data)
    return memoryview(data)


def sized(body: bytes) -> bytes:
    out = bytearray()
    put_signed(out, len(body))
    return bytes(out + body)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b"", 1),
        (b"", -1),
        (b"", 2**31 - 1),
        (sized(b"\0\0\0\1\1\0"), 2),  # one is there
        (sized(b"\0\0\0\1\1\0"), 0),  # none should be
        (sized(b"\0\0\0\1\1\0") + b"?", 1),
        (sized(b"\0\0\0\1\1\0?"), 1),
        (b"\1", 1),  # size -1
        (b"\0", 1),  # size 0
        (b"\xff" * 30, 1),  # a varint without end
        (b"\xfe\xff\xff\xff\x0f" + bytes(20), 1),  # 2^31-1 bytes
        (sized(b"\0" + b"\xff" * 12), 1),
        (sized(b"\0\0\0\x20abc\1\0"), 1),  # a key of 16 bytes
        (sized(b"\0\0\0\xfe\xff\xff\xff\x0f\1\0"), 1),  # a key of 2^31-1
        (sized(b"\0\0\0\1\xfe\xff\xff\xff\x0f\0"), 1),
        (sized(b"\0\0\0\1\1\xfe\xff\xff\xff\x0f"), 1),  # 2^31-1 headers
        (sized(b"\0\0\0\1\1\1"), 1),  # -1 headers
        (sized(b"\0\0\0\1\1\2\1\1"), 1),  # a header without a name
        (sized(b"\0\0\0\1\1\2\4h"), 1),
    ],
)
def test_records_that_are_none(body: bytes, count: int) -> None:
    with pytest.raises(ProtocolError):
        list(records_of(batch_with(body, count)))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (sized(b"\0\0\0\x20abc\1\0"), "a field of 16 bytes with 5 to come"),
        (b"\x20\0\0\0\1\1\0", "a record of 16 bytes with 6 to come"),
        (b"\0\0\0\0\1\1\0", "a record of 0 bytes"),
    ],
)
def test_sizes_are_refused_before_anything_is_taken(body: bytes, says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        list(records_of(batch_with(body)))


def test_the_headers_of_a_record_are_limited() -> None:
    count = HEADERS_OF_RECORD.value

    def record(headers: int) -> memoryview:
        prefix = bytearray(b"\0\0\0\1\1")
        put_signed(prefix, headers)
        return batch_with(sized(bytes(prefix) + b"\0\1" * headers))

    assert len(next(records_of(record(count))).headers) == count
    with pytest.raises(ProtocolError) as caught:
        next(records_of(record(count + 1)))
    assert caught.value.limit is HEADERS_OF_RECORD


@pytest.mark.parametrize("length", [-100, -1, 0, 48, 2**31 - 1])
def test_a_batch_that_claims_another_length(length: int) -> None:
    data = build_batch(ONE)
    data[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(ProtocolError, match="a batch of length"):
        list(records_of(memoryview(data)))


@EXAMPLES
@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_there_and_back(value: int) -> None:
    out = bytearray()
    put_signed(out, value)
    assert signed(out, 0) == (value, len(out))
    assert len(out) <= 10


@pytest.mark.parametrize(("bits", "limit"), [(32, 5), (64, 10)])
def test_varints_have_an_end(bits: int, limit: int) -> None:
    with pytest.raises(ProtocolError, match=f"a varint of more than {limit} bytes"):
        signed(b"\x80" * 20, 0, bits)


CHECK_VALUE = 0xE3069283  # RFC 3720 calls it CRC-32C; of the digits 1 to 9


def test_the_checksum_is_that_of_the_package_that_it_comes_from() -> None:
    assert checksum.crc32c(b"123456789") == package.crc32c(b"123456789") == CHECK_VALUE
    data = bytes(range(256)) * 400
    for size in (0, 1, 9, 4096, len(data)):
        assert checksum.crc32c(data[:size], size) == package.crc32c(data[:size], size)


def test_the_whole_package_is_loaded_where_its_c_module_is_not_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PathFinder, "find_spec", lambda name, path=None: None)
    assert checksum._load()(b"123456789") == CHECK_VALUE
