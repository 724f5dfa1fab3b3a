"""raftka.validation=records: for each way in which records can be wrong, what Apache Kafka 4.3.1 answered to the same bytes."""

import gzip
from struct import pack
from typing import Any

import pytest

from raftka.log.validation import RefusedRecords
from raftka.wire.errors import Code
from raftka.wire.records import build_batch, read_header, seal
from tests.log.given import NOW, open_log

SENT_MS = NOW - 1000
NONE, GZIP = 0, 1


def varint(value: int) -> bytes:
    value = value << 1 ^ value >> 63
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    delta: int,
    *,
    headers: tuple[tuple[bytes | None, bytes], ...] = (),
    count: int | None = None,
    behind: bytes = b"",
    longer: int = 0,
    value: bytes | None = b"v",
    time: int = 0,
    attributes: int = 0,
) -> bytes:
    """`count` of headers, `longer` than it is: what it says of itself."""
    content = bytes([attributes]) + varint(time) + varint(delta) + sized(None) + sized(value) + varint(len(headers) if count is None else count)
    content += b"".join(sized(name) + sized(data) for name, data in headers) + behind
    return varint(len(content) + longer) + content


def batch(payload: bytes, codec: int, max_timestamp: int = SENT_MS) -> memoryview:
    """Two records, as its header says."""
    made = bytearray(build_batch([(None, b"", (), SENT_MS)] * 2)[:61])
    made += gzip.compress(payload) if codec == GZIP else payload
    made[8:12] = pack(">i", len(made) - 12)
    made[21:23] = pack(">h", codec)
    made[35:43] = pack(">q", max_timestamp)
    view = memoryview(made)
    seal(view)
    return view


def answer(view: memoryview, **config: Any) -> Code:
    log = open_log(validation="records", **config)
    try:
        log.append_as_leader(view, 0, NOW)
    except RefusedRecords as error:
        assert log.end_offset == 0
        return error.code
    return Code.NONE


GOOD = record(0) + record(1)
CASES = {
    "one too few": (record(0), 87, 87),
    "one too many": (GOOD + record(2), 87, 87),
    "bytes behind the last": (GOOD + b"xyz", 87, 87),
    "bytes behind its headers": (record(0) + record(1, behind=b"zz"), 87, 87),
    "the same offset twice": (record(0) + record(0), 0, -1),
    "offsets that go back": (record(1) + record(0), 0, -1),
    "offsets with a gap": (record(0) + record(5), 0, -1),
    "an offset before the batch": (record(0) + record(-1), 0, -1),
    "a header without a name": (record(0) + record(1, headers=((None, b"x"),)), 87, 87),
    "fewer than no headers": (record(0) + record(1, count=-1), 87, 87),
    "more headers than there are": (record(0) + record(1, count=3), 87, 87),
    "no value": (record(0, value=None) + record(1), 0, 0),
    "attributes that mean nothing": (record(0, attributes=7) + record(1), 0, 0),
    "nothing": (b"", 87, 87),
    "one of tomorrow": (record(0) + record(1, time=100_000_000), 32, 32),
    "one before all time": (record(0) + record(1, time=-SENT_MS - 5), 0, 0),
    "one without a time": (record(0) + record(1, time=-SENT_MS - 1), 0, 0),
}


@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize("case", CASES)
def test_the_answer_is_kafkas(case: str, codec: int) -> None:
    payload, *codes = CASES[case]

    assert answer(batch(payload, codec)) == codes[codec]


@pytest.mark.parametrize(("longer", "plain"), [(-1, 87), (1, 87)])
def test_a_record_that_is_not_as_long_as_it_says_is_refused_compressed_too(longer: int, plain: int) -> None:
    """Kafka takes it when it is compressed, and its consumers then choke on it."""
    payload = record(0) + record(1, longer=longer)

    assert [answer(batch(payload, codec)) for codec in (NONE, GZIP)] == [plain, Code.INVALID_RECORD]


def test_a_time_that_cannot_be_written_again_is_refused_where_it_must_be() -> None:
    payload = record(0) + record(1, time=-SENT_MS - 5)

    assert answer(batch(payload, NONE), compression_type="gzip") == Code.UNKNOWN_SERVER_ERROR
    assert answer(batch(payload, GZIP), compression_type="gzip") == Code.NONE


@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize("said", [-1, SENT_MS - 5, SENT_MS + 5000, SENT_MS + 100_000_000])
def test_the_largest_time_is_what_the_records_say(said: int, codec: int) -> None:
    log = open_log(validation="records")
    view = batch(GOOD, codec, max_timestamp=said)

    log.append_as_leader(view, 0, NOW)
    log.write_staged()

    spans, _ = log.read(0, 1 << 20, 2)
    stored = memoryview(b"".join(span.file.read(span.position, span.size) for span in spans))
    assert read_header(stored).max_timestamp == SENT_MS
