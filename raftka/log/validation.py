"""Why a batch from a client is refused, with Kafka's code and in Kafka's order. Knows no log: bounds come as arguments.

The log's own append checks all of this at once and comes here only when something is wrong, or must be repaired.
"""

from collections.abc import Iterator

from raftka.log.config import FOREVER, LogConfig
from raftka.log.rows import all_rows, body_of
from raftka.wire.errors import Code, KafkaError, ProtocolError
from raftka.wire.records import (
    ATTRIBUTES_POSITION,
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    COMPRESSION_MASK,
    CONTROL,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL,
    Record,
    build_batch,
    opened,
    read_header,
    records_in,
    seal,
)

CODECS = 5
SMALLEST_SIZE = LOG_OVERHEAD_BYTES + 14  # of a record of any version there ever was
MAGIC_POSITION = 16
MAX_TIMESTAMP_POSITION = 35
CODEC_OF_TOPIC = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}  # "producer" is not among them: as it comes


class RefusedRecords(KafkaError):
    """Refused by the log, behind the CRC: the answer carries the log start offset, and what is wrong with which record where Kafka tells it."""

    def __init__(self, code: Code, message: str | None = None, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors  # (index in the batch, text)


def one_batch(records: memoryview) -> memoryview:
    """The batch in a produce request's records, without what Kafka ignores behind it: up to 11 bytes, or the beginning of a batch that is cut."""
    size = _size_at(records, 0)
    if size is None or size > len(records) or len(records) <= MAGIC_POSITION:
        raise KafkaError(Code.INVALID_RECORD)
    magic = records[MAGIC_POSITION]
    if size < SMALLEST_SIZE or magic > MAGIC:
        raise KafkaError(Code.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}" if magic > MAGIC else None)
    if magic < MAGIC:
        raise KafkaError(Code.INVALID_RECORD)
    if size < BATCH_HEADER_BYTES:
        raise KafkaError(Code.CORRUPT_MESSAGE)
    following = _size_at(records, size)
    if following is not None:
        if following < SMALLEST_SIZE:
            raise KafkaError(Code.CORRUPT_MESSAGE)
        if following <= len(records) - size:
            raise KafkaError(Code.INVALID_RECORD)
    return records[:size]


def _size_at(records: memoryview, position: int) -> int | None:
    if len(records) - position < LOG_OVERHEAD_BYTES:
        return None
    return int.from_bytes(records[position + 8 : position + 12], "big", signed=True) + LOG_OVERHEAD_BYTES


def repair(batch: memoryview, now_ms: int, config: LogConfig, partition: str) -> tuple[memoryview, int, int]:
    """The batch as the topic stores it, its length field and largest timestamp; raises RefusedRecords. `partition`: as texts name it.

    Repaired as in Kafka: the timestamp type, the largest timestamp, the codec. Records are walked only where something needs it.
    """
    _check_header(batch)
    _, _, _, _, _, attributes, _, base_timestamp, timestamp, *_ = BATCH_HEADER.unpack_from(batch)
    keys_in = partition if config.compacted else None
    thorough = config.validation == "records"
    if config.message_timestamp_type == "LogAppendTime":
        if keys_in is not None or thorough:
            check_records(batch, now_ms, FOREVER, FOREVER, keys_in, thorough)
        restamp(batch, attributes | LOG_APPEND_TIME, now_ms)
        timestamp = now_ms
    else:
        before_ms, after_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
        suspect = attributes & LOG_APPEND_TIME or timestamp - now_ms > after_ms or now_ms - base_timestamp > before_ms
        if attributes & LOG_APPEND_TIME:
            attributes &= ~LOG_APPEND_TIME
            restamp(batch, attributes, timestamp)
        if suspect or keys_in is not None or thorough:
            largest = check_records(batch, now_ms, before_ms, after_ms, keys_in, thorough)
            if largest != timestamp:
                restamp(batch, attributes, largest)
                timestamp = largest
    codec = CODEC_OF_TOPIC.get(config.compression_type)
    if codec is not None and codec != attributes & COMPRESSION_MASK:
        batch = recompress(batch, codec, {1: config.gzip_level, 3: config.lz4_level, 4: config.zstd_level}.get(codec))
        if len(batch) > config.max_message_bytes:
            raise RefusedRecords(Code.MESSAGE_TOO_LARGE)
    if len(batch) > config.segment_bytes:
        raise RefusedRecords(Code.RECORD_LIST_TOO_LARGE)
    return batch, len(batch) - LOG_OVERHEAD_BYTES, timestamp


def _check_header(batch: memoryview) -> None:
    """What must be so in every batch of a client, behind the CRC."""
    base, _, _, _, _, attributes, delta, _, _, producer_id, epoch, sequence, count = BATCH_HEADER.unpack_from(batch)
    if attributes & COMPRESSION_MASK >= CODECS:
        raise RefusedRecords(Code.UNKNOWN_SERVER_ERROR)
    if base != 0 or count < 1 or delta != count - 1 or attributes & CONTROL:
        raise RefusedRecords(Code.INVALID_RECORD)
    if producer_id >= 0 and (epoch < 0 or sequence < 0):
        raise RefusedRecords(Code.INVALID_RECORD)


def check_records(batch: memoryview, now_ms: int, before_ms: int, after_ms: int, keys_in: str | None, thorough: bool) -> int:
    """Walk the records; returns their largest timestamp. `keys_in` names the compacted partition whose records must have keys."""
    lowest, highest = now_ms - before_ms, now_ms + after_ms
    if not thorough and (found := _largest_of_sound(batch, lowest, highest, keys_in is not None)) is not None:
        return found
    late: list[tuple[int, str]] = []
    keyless: list[tuple[int, str]] = []
    largest = -1
    in_order = True
    compressed = batch[ATTRIBUTES_POSITION + 1] & COMPRESSION_MASK
    for index, record in enumerate(_walk(batch)):
        largest = max(largest, record.timestamp)
        in_order = in_order and record.offset == index
        if keys_in is not None and record.key is None:
            keyless.append((index, f"Compacted topic cannot accept message without key in topic partition {keys_in}"))
        elif record.timestamp != -1 and not lowest <= record.timestamp <= highest:
            text = f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. "
            late.append((index, f"{text}The timestamp should be within [{lowest}, {highest}]"))
    if late:
        raise RefusedRecords(Code.INVALID_TIMESTAMP, "One or more records have been rejected due to invalid timestamp", tuple(late))
    if keyless:
        shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index, text in keyless[:3])
        start = f"One or more records have been rejected due to {len(keyless)} record errors in total"
        raise RefusedRecords(Code.INVALID_RECORD, f"{start}, and only showing the first three errors at most: [{shown}]", tuple(keyless))
    if compressed and not in_order:
        raise RefusedRecords(Code.UNKNOWN_SERVER_ERROR)  # Kafka's own answer, and its own difference
    return largest


def _largest_of_sound(batch: memoryview, lowest: int, highest: int, keyed: bool) -> int | None:
    """Their largest timestamp when nothing is wrong with times and keys: six times as fast. None: look again, and say what is wrong."""
    header = BATCH_HEADER.unpack_from(batch)
    try:
        rows = all_rows(*body_of(bytes(batch), 0, header), header)
    except ProtocolError:
        return None
    base = header[7]
    times = [base + (row[2] >> 1 ^ -(row[2] & 1)) for row in rows]
    sound = lowest <= min(times) and max(times) <= highest and not (keyed and any(row[4] is None for row in rows))
    return max(times) if sound else None


def _walk(batch: memoryview) -> Iterator[Record]:
    try:
        body = opened(batch)
    except ProtocolError as error:
        if error.limit is not None:  # producers split such a batch, and the parts may be taken
            raise RefusedRecords(Code.MESSAGE_TOO_LARGE, str(error)) from error
        raise RefusedRecords(Code.UNKNOWN_SERVER_ERROR) from error  # Kafka's own answer to a payload that its codec does not take
    try:
        yield from records_in(body, read_header(batch))
    except ProtocolError as error:
        raise RefusedRecords(Code.INVALID_RECORD) from error


def restamp(batch: memoryview, attributes: int, max_timestamp: int) -> None:
    """The stored header says what the topic says; these fields are under the CRC."""
    batch[ATTRIBUTES_POSITION : ATTRIBUTES_POSITION + 2] = attributes.to_bytes(2, "big", signed=True)
    batch[MAX_TIMESTAMP_POSITION : MAX_TIMESTAMP_POSITION + 8] = max_timestamp.to_bytes(8, "big", signed=True)
    seal(batch)


def recompress(batch: memoryview, codec: int, level: int | None = None) -> memoryview:
    """The same records under the topic's own codec, with the same producer fields."""
    _, _, _, _, _, attributes, _, _, _, producer_id, epoch, sequence, _ = BATCH_HEADER.unpack_from(batch)
    records = [(record.key, record.value, record.headers, record.timestamp) for record in _walk(batch)]
    if any(record[3] < -1 for record in records):
        raise RefusedRecords(Code.UNKNOWN_SERVER_ERROR)  # Kafka's own answer
    again = build_batch(
        records,
        compression=codec,
        level=level,
        timestamp_type=1 if attributes & LOG_APPEND_TIME else 0,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=bool(attributes & TRANSACTIONAL),
    )
    return memoryview(again)
