"""The decoder of whole answers against the codec of single records, on batches of all kinds; and
what it says of broken ones.
"""

from datetime import UTC, datetime, timedelta
from itertools import combinations
from struct import Struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftka.limits import HEADERS_OF_RECORD
from raftka.wire.records import (
    ATTRIBUTES_POSITION,
    BATCH_HEADER_BYTES,
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    NewRecord,
    build_batch,
    iterate,
    put_signed,
    records_of,
    seal,
)

pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")

from raftka.pipeline.errors import CorruptBatch
from raftka.pipeline.records.batches import AbortedTransaction
from raftka.pipeline.records.decode import SCHEMA, SCHEMA_WITH_HEADERS, Decoder

EXAMPLES = settings(max_examples=40, deadline=None, derandomize=True, database=None)
OPTIONAL_BYTES = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=10), OPTIONAL_BYTES), max_size=3)
RECORDS = st.lists(
    st.tuples(OPTIONAL_BYTES, OPTIONAL_BYTES, HEADERS, st.integers(-1, 2**42)),
    min_size=1,
    max_size=20,
)
ATTRIBUTES = Struct(">h")
FIRST: NewRecord = (b"k", b"v", (), 1000)

Row = dict[str, Any]


def decoded(
    data: bytes | bytearray, start: int = 0, stop: int = 2**62, **options: Any
) -> list[Row]:
    rows: list[Row] = []
    for batch in Decoder(data, "trucks", 3, start, stop, headers=True, **options).batches():
        batch.validate(full=True)
        rows += batch.to_pylist()
    return rows


def expected(data: bytes | bytearray, start: int = 0, stop: int = 2**62) -> list[tuple[Any, ...]]:
    """By the codec of the broker; the columns in Spark's order."""
    return [
        (
            r.key,
            r.value,
            "trucks",
            3,
            r.offset,
            r.timestamp * 1000,
            int(bool(header.attributes & LOG_APPEND_TIME)),
            list(r.headers) or None,
        )
        for header, batch in iterate(memoryview(bytes(data)))
        for r in records_of(batch)
        if start <= r.offset < stop
    ]


def told(row: Row) -> tuple[Any, ...]:
    headers = (
        None
        if row["headers"] is None
        else [(each["key"], each["value"]) for each in row["headers"]]
    )
    us = (row["timestamp"] - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return (
        *[row[name] for name in ("key", "value", "topic", "partition", "offset")],
        us,
        row["timestampType"],
        headers,
    )


@EXAMPLES
@given(
    st.lists(
        st.tuples(RECORDS, st.integers(0, 4), st.integers(0, 1), st.integers(0, 5)), max_size=5
    ),
    st.integers(0, 60),
    st.integers(0, 100),
)
def test_the_decoder_equals_the_brokers_codec(
    batches: list[tuple[list[NewRecord], int, int, int]], start: int, length: int
) -> None:
    data, base = bytearray(), 0
    for records, codec, timestamp_type, gap in batches:
        base += gap
        data += build_batch(
            records, base_offset=base, compression=codec, timestamp_type=timestamp_type
        )
        base += len(records)

    assert [told(row) for row in decoded(data)] == expected(data)
    assert [told(row) for row in decoded(data, start, start + length)] == expected(
        data, start, start + length
    )


@pytest.mark.parametrize("size", [0, 63, 64, 127, 128, 8191, 8192, 100_000, 3_000_000])
@pytest.mark.parametrize("codec", [0, 4])
def test_sizes_around_the_ends_of_varints(size: int, codec: int) -> None:
    data = build_batch(
        [(b"k" * size, b"v" * size, [("h", b"x" * size)], 5)] * 3,
        base_offset=2**40,
        compression=codec,
    )

    assert [told(row) for row in decoded(data)] == expected(data)


def test_offsets_and_timestamps_far_from_the_first_of_their_batch() -> None:
    data = build_batch([(None, b"%d" % at, (), 1_700_000_000_000 - at**3) for at in range(20_000)])

    assert [told(row) for row in decoded(data)] == expected(data)


def test_the_columns_are_those_of_sparks_kafka_source() -> None:
    data = build_batch([FIRST])
    (plain,), (with_headers,) = (
        Decoder(data, "t", 0, 0, 9).batches(),
        Decoder(data, "t", 0, 0, 9, headers=True).batches(),
    )

    assert plain.schema.equals(SCHEMA)
    assert with_headers.schema.equals(SCHEMA_WITH_HEADERS)
    assert plain.schema.names == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
    ]


def test_invalid_header_names_become_the_same_text_as_in_java() -> None:
    data = build_batch([(None, None, [("né", b"1")], 0)])
    data[data.index("é".encode())] = 0xFF
    seal(data)

    assert decoded(data)[0]["headers"][0]["key"] == "n\ufffd\ufffd"


# what has no rows, and where reading goes on


def marker(offset: int, producer_id: int, *, commit: bool) -> bytearray:
    batch = build_batch(
        [((0).to_bytes(2) + int(commit).to_bytes(2), bytes(6), (), 0)],
        base_offset=offset,
        producer_id=producer_id,
        transactional=True,
    )
    ATTRIBUTES.pack_into(batch, ATTRIBUTES_POSITION, TRANSACTIONAL | CONTROL)
    seal(batch)
    return batch


def of(producer_id: int, offset: int) -> bytearray:
    return build_batch(
        [(None, b"of %d" % producer_id, (), 0)],
        base_offset=offset,
        producer_id=producer_id,
        transactional=True,
    )


def offsets(
    data: bytes | bytearray, aborted: list[AbortedTransaction] | None, start: int = 0
) -> list[int]:
    return [row["offset"] for row in decoded(data, start, aborted=aborted)]


LOG = b"".join(
    [
        of(7, 0),
        of(8, 1),
        of(7, 2),
        marker(3, 7, commit=False),
        of(7, 4),
        marker(5, 8, commit=True),
        marker(6, 7, commit=True),
        of(9, 7),
    ]
)


def test_read_committed_skips_aborted_transactions() -> None:
    assert offsets(LOG, [(7, 0)]) == [1, 4, 7]
    assert offsets(LOG, []) == [0, 1, 2, 4, 7]
    assert offsets(LOG, [(7, 0)], start=2) == [4, 7]


def test_read_uncommitted_skips_only_markers() -> None:
    assert offsets(LOG, None) == [0, 1, 2, 4, 7]


def test_a_marker_of_a_commit_does_not_end_an_aborted_transaction_of_the_same_producer() -> None:
    log = b"".join(
        [of(7, 0), marker(1, 7, commit=True), of(7, 2), marker(3, 7, commit=False), of(7, 4)]
    )

    assert offsets(log, [(7, 2)]) == [0, 4]


def test_reading_goes_on_behind_markers_and_gaps() -> None:
    gap = build_batch([FIRST, FIRST], base_offset=10)
    gap[23:27] = (89).to_bytes(4)  # compaction took what followed: the last offset is 99
    seal(gap)

    assert Decoder(LOG[:-10], "t", 0, 0, 2**62).next_offset == 7  # the last one is cut
    assert Decoder(LOG, "t", 0, 0, 4).next_offset == 4
    assert Decoder(gap, "t", 0, 0, 2**62).next_offset == 100
    assert Decoder(b"", "t", 0, 5, 2**62).next_offset == 5


def emptied(offset: int, attributes: int = 0) -> bytearray:
    """A batch without its records, as compaction keeps it for its sequence numbers."""
    batch = build_batch([FIRST], base_offset=offset)[:BATCH_HEADER_BYTES]
    batch[8:12] = (BATCH_HEADER_BYTES - 12).to_bytes(4)
    ATTRIBUTES.pack_into(batch, ATTRIBUTES_POSITION, attributes)
    batch[57:61] = bytes(4)
    seal(batch)
    return batch


@pytest.mark.parametrize("attributes", [*range(5), TRANSACTIONAL, TRANSACTIONAL | CONTROL])
def test_a_batch_that_compaction_has_emptied_has_no_row(attributes: int) -> None:
    batch = emptied(0, attributes)

    assert decoded(batch + build_batch([FIRST], base_offset=1))[0]["offset"] == 1
    assert offsets(batch + build_batch([FIRST], base_offset=1), []) == [1]
    assert decoded(batch) == []
    assert Decoder(batch, "t", 0, 0, 9).next_offset == 1


# compacted logs: batches are whole, and there are gaps between them; ranges may begin and end
# anywhere

COMPACTED = b"".join(
    [
        build_batch([FIRST] * 3, base_offset=10),
        emptied(20),
        marker(30, 7, commit=True),
        build_batch([FIRST] * 2, base_offset=40),
    ]
)


def test_each_range_of_a_compacted_log_is_read_to_its_end() -> None:
    for start, stop in combinations(range(43), 2):
        found = Decoder(COMPACTED, "t", 0, start, stop)
        read = [row["offset"] for batch in found.batches() for row in batch.to_pylist()]

        assert read == [at for at in (10, 11, 12, 40, 41) if start <= at < stop]
        assert found.next_offset == stop


@pytest.mark.parametrize(("start", "stop"), [(0, 10), (3, 7), (13, 40), (31, 40)])
def test_a_range_in_a_gap_ends_at_the_next_whole_batch(start: int, stop: int) -> None:
    """As brokers answer: from the first batch on that ends at or behind the offset."""
    behind = build_batch([FIRST] * 2, base_offset=40, compression=4)

    assert Decoder(behind, "t", 0, start, stop).next_offset == stop
    assert Decoder(behind, "t", 0, start, stop, aborted=[(7, 0)]).next_offset == stop
    # a cut batch proves nothing
    assert Decoder(behind[:-1], "t", 0, start, stop).next_offset == start


def test_a_broken_batch_does_not_end_a_range_in_a_gap() -> None:
    behind = build_batch([FIRST], base_offset=40)
    behind[-1] ^= 1

    assert "its checksum is another one" in broken_in(behind, 3, 7)


# broken ones


def broken(data: bytes | bytearray) -> str:
    return broken_in(data, 0, 2**62)


def broken_in(data: bytes | bytearray, start: int, stop: int) -> str:
    with pytest.raises(CorruptBatch) as raised:
        decoded(data, start, stop)
    return str(raised.value)


def test_a_byte_that_changed_is_found_wherever_it_is() -> None:
    good, bad = build_batch([FIRST]), build_batch([FIRST] * 3, base_offset=1)
    for at in range(ATTRIBUTES_POSITION - 4, len(bad)):
        data = bytearray(good + bad)
        data[len(good) + at] ^= 4

        said = broken(data)

        assert said.startswith("trucks-3: the batch of offsets 1 to "), said
        assert "start from offset" in said


def sealed(body: bytes, count: int = 1, attributes: int = 0) -> bytearray:
    """A batch with the right checksum over anything."""
    batch = build_batch([FIRST])[:BATCH_HEADER_BYTES] + body
    batch[8:12] = (len(batch) - 12).to_bytes(4)
    ATTRIBUTES.pack_into(batch, ATTRIBUTES_POSITION, attributes)
    batch[57:61] = count.to_bytes(4, signed=True)
    seal(batch)
    return batch


def varint(value: int) -> bytes:
    out = bytearray()
    put_signed(out, value)
    return bytes(out)


RECORD = b"\0\0\0\1\1\0"  # attributes, deltas, no key, no value, no headers
ENDLESS = b"\xff" * 12
BROKEN = {
    "no records": sealed(b""),
    "fewer than it says": sealed(varint(6) + RECORD, 2),
    "more than it says": sealed((varint(6) + RECORD) * 2, 1),
    "as many as there are numbers": sealed(varint(6) + RECORD, 2**31 - 1),
    "below none": sealed(b"", -1),
    "a size below zero": sealed(varint(-5) + RECORD),
    "a large size below zero": sealed(varint(-(2**30)) + RECORD),
    "a size without end": sealed(ENDLESS),
    "a size beyond the batch": sealed(varint(7) + RECORD),
    "an empty record": sealed(b"\0"),
    "a key beyond its record": sealed(varint(6) + b"\0\0\0" + varint(50) + b"\1\0"),
    "a key of two gigabytes": sealed(varint(10) + b"\0\0\0" + varint(2**31 - 1) + b"\1\0"),
    "a record that goes on": sealed(varint(7) + RECORD + b"\0"),
    "a header without a name": sealed(varint(8) + b"\0\0\0\1\1" + varint(1) + b"\1\1"),
    "headers below zero": sealed(varint(6) + b"\0\0\0\1\1" + varint(-1)),
    "headers without number": sealed(
        varint(8) + b"\0\0\0\1\1" + varint(HEADERS_OF_RECORD.value + 1)
    ),
    "a timestamp without end": sealed(varint(17) + b"\0" + ENDLESS + RECORD[2:]),
    "what is not of its codec": sealed(b"plain text", attributes=4),
    "a codec that is none": sealed(RECORD, attributes=5),
}


@pytest.mark.parametrize("what", BROKEN)
def test_malformed_records_are_reported(what: str) -> None:
    with pytest.raises(CorruptBatch, match="trucks-3: the batch of offsets 0 to 0 is corrupt"):
        decoded(BROKEN[what])


@EXAMPLES
@given(st.binary(max_size=40), st.integers(0, 4), st.integers(0, 9), st.booleans())
def test_the_decoder_refuses_what_the_codec_refuses(
    body: bytes, codec: int, count: int, behind_another: bool
) -> None:
    from raftka.wire.errors import ProtocolError

    data = sealed(body, count, codec)
    if not body and not count:  # as in Kafka's consumer: its codec says nothing
        assert decoded(data) == []
        return
    try:
        rows = expected(data)
    except ProtocolError:
        with pytest.raises(CorruptBatch):
            decoded((build_batch([FIRST], base_offset=-1) if behind_another else b"") + data)
    else:
        assert [told(row) for row in decoded(data)] == rows


def test_a_batch_of_an_older_version_is_reported() -> None:
    batch = build_batch([FIRST])
    batch[16] = 1

    assert "only batches of version 2" in broken(batch)


def test_a_timestamp_beyond_sparks_range() -> None:
    with pytest.raises(CorruptBatch, match="offset 0 has the timestamp 9223372036854775807 ms"):
        decoded(build_batch([(None, None, (), 2**63 - 1)]))
