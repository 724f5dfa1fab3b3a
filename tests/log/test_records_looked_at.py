"""raftka.validation=records, as the log sees it. All that can be wrong with a batch stands in
tests/broker/odd_batches.py, with Kafka's answers.
"""

import gzip
import tracemalloc
from struct import pack
from typing import Any, Literal

import pytest

from raftka.limits import MIB
from raftka.log.config import LogConfig
from raftka.log.validation import RefusedRecords, walked
from raftka.wire.errors import Code
from raftka.wire.records import build_batch, read_header, seal
from tests.broker.odd_batches import record
from tests.log.given import NOW, open_log

SENT_MS = NOW - 1000
NONE, GZIP = 0, 1


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
        log.client_batches.append(view, 0, NOW)
    except RefusedRecords as error:
        assert log.end_offset == 0
        return error.code
    return Code.NONE


GOOD = record(0) + record(1)


@pytest.mark.parametrize(("longer", "plain"), [(-1, 87), (1, 87)])
def test_a_record_that_is_not_as_long_as_it_says_is_refused_compressed_too(
    longer: int, plain: int
) -> None:
    """Kafka takes it when it is compressed, and its consumers then choke on it."""
    payload = record(0) + record(1, longer=longer)

    assert [answer(batch(payload, codec)) for codec in (NONE, GZIP)] == [plain, Code.INVALID_RECORD]


@pytest.mark.parametrize("validation", ["header", "records"])
def test_a_compressed_record_above_the_bound_is_refused(
    validation: Literal["header", "records"],
) -> None:
    payload = record(0) + record(1)
    size = len(record(0)) - 1  # without its own size
    for codec, most, code in (
        (GZIP, size, Code.NONE),
        (GZIP, size - 1, Code.INVALID_RECORD),
        (NONE, size - 1, Code.NONE),
    ):
        log = open_log(validation=validation, max_decompressed_message_bytes=most)
        found = Code.NONE
        try:
            log.client_batches.append(batch(payload, codec), 0, NOW)
        except RefusedRecords as error:
            found = error.code
        assert (found, log.end_offset) == (code, 0 if code else 2), (codec, most)


def test_a_time_that_cannot_be_written_again_is_refused_where_it_must_be() -> None:
    payload = record(0) + record(1, time=-SENT_MS - 5)

    assert answer(batch(payload, NONE), compression_type="gzip") == Code.UNKNOWN_SERVER_ERROR
    assert answer(batch(payload, GZIP), compression_type="gzip") == Code.NONE


@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize("said", [-1, SENT_MS - 5, SENT_MS + 5000, SENT_MS + 100_000_000])
def test_the_largest_time_is_what_the_records_say(said: int, codec: int) -> None:
    log = open_log(validation="records")
    view = batch(GOOD, codec, max_timestamp=said)

    log.client_batches.append(view, 0, NOW)
    log.write_staged()

    spans, _ = log.read(0, 1 << 20, 2)
    stored = memoryview(b"".join(span.file.read(span.position, span.size) for span in spans))
    assert read_header(stored).max_timestamp == SENT_MS


@pytest.mark.parametrize(
    "config", [{}, {"message_timestamp_type": "LogAppendTime"}], ids=["CreateTime", "LogAppendTime"]
)
@pytest.mark.parametrize("validation", ["header", "records"])
def test_a_time_beyond_all_numbers_is_no_mistake_of_ours(
    validation: str, config: dict[str, Any]
) -> None:
    """It begins again below, as Java's does, and is then one that cannot be written again."""
    log = open_log(validation=validation, compression_type="gzip", **config)

    with pytest.raises(RefusedRecords):
        log.client_batches.append(batch(record(0) + record(1, time=(1 << 63) - 1), NONE), 0, NOW)


@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize("stored", ["producer", "lz4", "gzip"])
@pytest.mark.parametrize("validation", ["header", "records"])
def test_many_small_records_take_little_memory(
    validation: Literal["header", "records"], stored: str, codec: int
) -> None:
    """As objects they would be a hundred times their bytes."""
    records = 30_000
    view = memoryview(build_batch([(b"k", b"", (), SENT_MS)] * records, compression=codec))
    config = LogConfig(validation=validation, cleanup_policy="compact", compression_type=stored)
    walked(memoryview(build_batch([(b"k", b"", (), SENT_MS)])), NOW, config, "t-0")
    tracemalloc.start()
    try:
        made = walked(view, NOW, config, "t-0")
        assert tracemalloc.get_traced_memory()[1] < 3 * MIB
    finally:
        tracemalloc.stop()
    assert (read_header(made.batch).count, made.largest_ms) == (records, SENT_MS)


def test_a_batch_that_opens_to_more_than_may_be_stored_is_refused_while_it_is_opened() -> None:
    records = [(b"k", bytes(MIB), (), SENT_MS)] * 40
    view = memoryview(build_batch(records, compression=GZIP))
    config = LogConfig(compression_type="uncompressed")
    tracemalloc.start()
    try:
        with pytest.raises(RefusedRecords) as caught:
            walked(view, NOW, config, "t-0")
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()
    assert caught.value.code is Code.MESSAGE_TOO_LARGE


SKIPPED = bytes.fromhex("502a4d18") + pack("<I", 5) + b"12345"


def behind_a_skippable_frame(codec: int, records: int) -> memoryview:
    made = bytearray(build_batch([(b"k", b"r" * 1000, (), SENT_MS)] * records, compression=codec))
    made[61:61] = SKIPPED
    made[8:12] = pack(">i", len(made) - 12)
    view = memoryview(made)
    seal(view)
    return view


@pytest.mark.parametrize("records", [3, 2300])
@pytest.mark.parametrize(
    "config",
    [{"cleanup_policy": "compact"}, {"validation": "records"}, {"compression_type": "gzip"}],
)
def test_skippable_frames_are_taken_where_java_reads_them(
    config: dict[str, Any], records: int
) -> None:
    lz4, zstd = (behind_a_skippable_frame(codec, records) for codec in (3, 4))

    assert (
        walked(zstd, NOW, LogConfig(max_message_bytes=10 * MIB, **config), "t-0").largest_ms
        == SENT_MS
    )
    with pytest.raises(RefusedRecords) as refusal:
        walked(lz4, NOW, LogConfig(max_message_bytes=10 * MIB, **config), "t-0")
    assert refusal.value.code == Code.UNKNOWN_SERVER_ERROR
