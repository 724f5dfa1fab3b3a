"""Batches that a leader's log takes from a client, those that it refuses with a code, and those
that it repairs (Kafka's produce rules that the log owns).
"""

from collections.abc import Callable
from struct import pack_into

import pytest

from raftka.log import validation
from raftka.log.validation import RefusedRecords, TakesLong
from raftka.wire.errors import Code, KafkaError
from raftka.wire.records import (
    LOG_APPEND_TIME,
    NewRecord,
    build_batch,
    crc_matches,
    read_header,
    records_of,
    seal,
)
from tests.log.given import NOW, append, batch, content, offsets, open_log, read_all

HOUR = 3_600_000


def with_field(format: str, position: int, value: int, *, sealed: bool = True) -> memoryview:
    changed = batch(3)
    pack_into(format, changed, position, value)
    if sealed:
        seal(changed)
    return changed


def claiming(count: int) -> memoryview:
    """So many records, which are three."""
    changed = with_field(">i", 57, count)
    pack_into(">i", changed, 23, count - 1)
    seal(changed)
    return changed


def longer(extra: bytes) -> memoryview:
    return memoryview(bytearray(bytes(batch(3)) + extra))


def test_offsets_follow_each_other_and_the_leader_sets_offset_and_epoch() -> None:
    log = open_log()

    assert log.client_batches.append(batch(3), 7, NOW) == (0, 3, -1, False)
    assert log.client_batches.append(batch(1), 7, NOW) == (3, 4, -1, False)

    first, second = read_all(log)
    assert (first.base_offset, first.last_offset, first.leader_epoch) == (0, 2, 7)
    assert (second.base_offset, second.leader_epoch) == (3, 7)
    assert log.latest_epoch == 7


def test_what_is_stored_is_what_was_sent_but_for_offset_and_epoch() -> None:
    log, sent = open_log(), batch(3, compression=1)
    before = bytes(sent)

    append(log, sent)

    stored = content(log.read(0, 1000, 3)[0])
    assert stored[17:] == before[17:]
    assert crc_matches(memoryview(stored), read_header(stored))


REFUSED: dict[str, tuple[Callable[[], memoryview], Code, bool]] = {
    "nothing": (lambda: memoryview(bytearray()), Code.INVALID_RECORD, False),
    "cut short": (lambda: batch(3)[:-1], Code.INVALID_RECORD, False),
    "half a header": (lambda: batch(3)[:40], Code.INVALID_RECORD, False),
    "magic 0": (lambda: with_field(">b", 16, 0), Code.INVALID_RECORD, False),
    "magic 1": (lambda: with_field(">b", 16, 1), Code.INVALID_RECORD, False),
    "magic 3": (lambda: with_field(">b", 16, 3), Code.CORRUPT_MESSAGE, False),
    "two batches": (lambda: longer(bytes(batch(1))), Code.INVALID_RECORD, False),
    "twenty zeros behind": (lambda: longer(bytes(20)), Code.CORRUPT_MESSAGE, False),
    "negative length": (lambda: with_field(">i", 8, -5), Code.CORRUPT_MESSAGE, False),
    "too large": (lambda: batch(1, size=2000), Code.MESSAGE_TOO_LARGE, False),
    "too large and corrupt": (
        lambda: memoryview(bytearray(bytes(batch(1, size=2000))[:-1] + b"!")),
        Code.MESSAGE_TOO_LARGE,
        False,
    ),
    "wrong CRC": (lambda: with_field(">I", 17, 1, sealed=False), Code.CORRUPT_MESSAGE, False),
    "base offset 7": (lambda: with_field(">q", 0, 7), Code.INVALID_RECORD, True),
    "last offset delta": (lambda: with_field(">i", 23, 3), Code.INVALID_RECORD, True),
    "count": (lambda: with_field(">i", 57, 2), Code.INVALID_RECORD, True),
    "no records": (lambda: with_field(">i", 57, 0), Code.INVALID_RECORD, True),
    "control batch": (lambda: with_field(">h", 21, 0x20), Code.INVALID_RECORD, True),
    "codec 5": (lambda: with_field(">h", 21, 5), Code.UNKNOWN_SERVER_ERROR, True),
    "codec 7": (lambda: with_field(">h", 21, 7), Code.UNKNOWN_SERVER_ERROR, True),
    "negative sequence": (
        lambda: batch(1, producer=4, epoch=0, sequence=-1),
        Code.INVALID_RECORD,
        True,
    ),
    "an epoch below none": (
        lambda: batch(1, producer=4, epoch=-2, sequence=0),
        Code.INVALID_PRODUCER_EPOCH,
        True,
    ),
    "more records than there is room for": (lambda: claiming(1 << 30), Code.INVALID_RECORD, True),
    "an hour ahead": (lambda: batch(3, timestamp=NOW + HOUR + 1), Code.INVALID_TIMESTAMP, True),
    "larger than a segment": (lambda: batch(1, size=900), Code.RECORD_LIST_TOO_LARGE, True),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    make, code, behind_crc = REFUSED[case]
    log = open_log(max_message_bytes=1500, segment_bytes=900)
    append(log, batch(2))

    with pytest.raises(KafkaError) as refusal:
        log.client_batches.append(make(), 0, NOW)

    assert refusal.value.code is code
    assert isinstance(refusal.value, RefusedRecords) == behind_crc, (
        "the answer tells the log start offset from the CRC on"
    )
    assert log.end_offset == 2
    assert offsets(log) == [(0, 1)]


def test_magic_3_is_named() -> None:
    with pytest.raises(KafkaError) as refusal:
        open_log().client_batches.append(with_field(">b", 16, 3), 0, NOW)

    assert refusal.value.message == "Invalid magic found in record: 3"


@pytest.mark.parametrize(
    "extra",
    [b"12345", bytes(11), bytes(batch(5))[:30]],
    ids=["5 bytes", "11 bytes", "the beginning of a batch"],
)
def test_what_kafka_ignores_behind_a_batch_is_not_stored(extra: bytes) -> None:
    log = open_log()

    append(log, longer(extra))

    assert log.size_bytes == len(batch(3))
    assert offsets(log) == [(0, 2)]


def test_a_timestamp_out_of_range_is_told_of_each_record() -> None:
    with pytest.raises(RefusedRecords) as refusal:
        open_log().client_batches.append(batch(3, timestamp=NOW + HOUR - 1), 0, NOW)

    assert [index for index, _ in refusal.value.record_errors] == [2]
    assert refusal.value.record_errors[0][1] == (
        f"Timestamp {NOW + HOUR + 1} of message with offset 2 is out of range. The timestamp "
        f"should be within [{NOW - (1 << 63) + 1}, {NOW + HOUR}]"
    )
    assert (
        refusal.value.message == "One or more records have been rejected due to invalid timestamp"
    )


def test_bounds_of_timestamps_are_the_topics() -> None:
    log = open_log(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=1000)

    append(
        log, batch(2, timestamp=NOW - 1000), batch(1, timestamp=NOW + 1000), batch(1, timestamp=-1)
    )
    for timestamp in NOW - 1001, NOW + 1001:
        with pytest.raises(RefusedRecords, match="INVALID_TIMESTAMP"):
            log.client_batches.append(batch(1, timestamp=timestamp), 0, NOW)

    assert log.end_offset == 4


def test_a_largest_timestamp_that_lies_ahead_but_is_no_records_is_repaired() -> None:
    log, sent = open_log(), batch(3)
    pack_into(">q", sent, 35, NOW + 10 * HOUR)
    seal(sent)

    append(log, sent)

    assert read_all(log)[0].max_timestamp == NOW + 2


def test_log_append_time_stamps_the_batch() -> None:
    log = open_log(message_timestamp_type="LogAppendTime")

    answer = log.client_batches.append(batch(2, timestamp=5), 0, NOW)
    log.write_staged()

    assert answer == (0, 2, NOW, False)
    header = read_all(log)[0]
    assert (header.attributes, header.base_timestamp, header.max_timestamp) == (
        LOG_APPEND_TIME,
        5,
        NOW,
    )
    assert crc_matches(memoryview(content(log.read(0, 1000, 2)[0])), header)


def test_log_append_time_on_a_create_time_topic_is_cleared() -> None:
    log = open_log()

    append(log, batch(2, timestamp=NOW - 9, timestamp_type=1))

    header = read_all(log)[0]
    assert header.attributes == 0
    assert header.max_timestamp == NOW - 8
    assert crc_matches(memoryview(content(log.read(0, 1000, 2)[0])), header)


def test_attribute_bits_that_mean_nothing_yet_stay() -> None:
    log = open_log()

    append(log, with_field(">h", 21, 0xC0))

    assert read_all(log)[0].attributes == 0xC0


def test_a_compacted_topic_wants_keys() -> None:
    log = open_log(cleanup_policy="compact")
    records: list[NewRecord] = [(b"k", b"1", [], NOW), (None, b"2", [], NOW)]

    with pytest.raises(RefusedRecords) as refusal:
        log.client_batches.append(memoryview(build_batch(records)), 0, NOW)

    text = "Compacted topic cannot accept message without key in topic partition t-0"
    assert refusal.value.code is Code.INVALID_RECORD
    assert refusal.value.record_errors == ((1, text),)
    assert refusal.value.message == (
        "One or more records have been rejected due to 1 record errors in total, and only showing "
        "the first three errors at most: "
        f"[RecordError(batchIndex=1, message='{text}')]"
    )
    append(log, memoryview(build_batch(records[:1])))


def test_a_topic_with_its_own_codec_recompresses() -> None:
    log = open_log(compression_type="gzip")
    sent = batch(5, producer=3, epoch=2, sequence=9, size=200)
    values = [record.value for record in records_of(sent)]

    append(log, sent)

    stored = memoryview(content(log.read(0, 10_000, 5)[0]))
    header = read_header(stored)
    assert (
        header.compression,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.count,
    ) == (1, 3, 2, 9, 5)
    assert crc_matches(stored, header)
    assert [record.value for record in records_of(stored)] == values


@pytest.mark.parametrize(
    ("topic", "sent", "stored"),
    [
        ("zstd", 4, 4),
        ("uncompressed", 0, 0),
        ("producer", 3, 3),
        ("uncompressed", 4, 0),
        ("lz4", 1, 3),
    ],
)
def test_it_is_recompressed_only_into_another_codec(topic: str, sent: int, stored: int) -> None:
    log, given = open_log(compression_type=topic), batch(5, compression=sent, size=200)
    body = bytes(given[61:])

    append(log, given)

    found = memoryview(content(log.read(0, 10_000, 5)[0]))
    assert read_header(found).compression == stored
    assert (bytes(found[61:]) == body) is (sent == stored)
    assert len(list(records_of(found))) == 5


def test_what_was_prepared_beside_the_loop_is_not_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = open_log(compression_type="lz4", cleanup_policy="compact", validation="records")
    with pytest.raises(TakesLong) as much:
        log.client_batches.append(batch(5, size=5000), 0, NOW)
    prepared = much.value.prepared()

    monkeypatch.setattr(validation, "check_records", None)
    assert log.client_batches.append_prepared(prepared, 0, NOW)[1] == 5


@pytest.mark.parametrize(
    ("codec", "name", "low", "high"),
    [("gzip", "gzip_level", 1, 9), ("lz4", "lz4_level", 1, 12), ("zstd", "zstd_level", -7, 19)],
)
def test_the_level_is_the_topics(codec: str, name: str, low: int, high: int) -> None:
    text = b" ".join(
        b"%d is %s" % (at * 7919 % 1000, (b"odd", b"even")[at % 2]) for at in range(2000)
    )
    sizes = []
    for level in low, high:
        log = open_log(compression_type=codec, **{name: level})  # type: ignore[arg-type]
        append(log, memoryview(build_batch([(b"k", text, [], NOW)])))
        sizes.append(log.size_bytes)

    assert sizes[1] < sizes[0] < len(text)


@pytest.mark.parametrize("validation", ["header", "records"])
def test_a_payload_that_its_codec_does_not_take(validation: str) -> None:
    log, sent = open_log(validation=validation), batch(3)
    pack_into(">h", sent, 21, 4)
    seal(sent)

    if validation == "header":
        append(log, sent)
    else:
        with pytest.raises(RefusedRecords, match="UNKNOWN_SERVER_ERROR"):
            log.client_batches.append(sent, 0, NOW)
    assert log.end_offset == (3 if validation == "header" else 0)


def test_a_refused_batch_is_not_changed() -> None:
    log, sent = open_log(), batch(1, producer=4, epoch=0, sequence=5)
    append(log, batch(1, producer=4, epoch=0, sequence=0))
    before = bytes(sent)

    with pytest.raises(KafkaError):
        log.client_batches.append(sent, 0, NOW)

    assert bytes(sent) == before


def test_a_producer_without_an_epoch_has_no_order() -> None:
    """As in Kafka: it is taken whatever its sequence, only what repeats one of the last five is
    known again.
    """
    log = open_log()

    ends = [
        log.client_batches.append(batch(1, producer=4, epoch=-1, sequence=sequence), 0, NOW)[1]
        for sequence in (7, 3, 9, 3)
    ]

    assert ends == [1, 2, 3, 2]
    with pytest.raises(KafkaError):
        log.client_batches.append(batch(1, producer=4, epoch=-2, sequence=0), 0, NOW)


def test_what_is_refused_by_its_sequence_is_as_it_came() -> None:
    """Whoever asks again with the same bytes hears the same: nothing of them has been stamped."""
    log = open_log(message_timestamp_type="LogAppendTime")
    log.client_batches.append(batch(1, producer=4, sequence=0), 0, NOW)
    later = batch(1, producer=4, sequence=5)
    before = bytes(later)

    with pytest.raises(KafkaError) as refusal:
        log.client_batches.append(later, 0, NOW)

    assert refusal.value.code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert bytes(later) == before
