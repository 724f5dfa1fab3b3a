"""Reasons to refuse a batch from a client, with Kafka's code and in Kafka's order. Knows no log:
bounds come as arguments.

The log's own append checks all of this at once and comes here only when something is wrong, or must
be repaired.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from raftka.limits import DECOMPRESSED_BYTES, MIB
from raftka.log.compaction.batch import kept_beside, rebuilt
from raftka.log.config import FOREVER, LogConfig, SchemaRules
from raftka.log.delivery.due import DELIVERING, Due, WrongTime, find_due
from raftka.log.rows import all_rows, body_of
from raftka.log.segments.times import HELD
from raftka.wire.compressed_frames import has_independent_blocks
from raftka.wire.compression import LZ4, ZSTD, Packer, decompress
from raftka.wire.errors import Code, KafkaError, ProtocolError
from raftka.wire.record_bounds import NotOpened, Outline, Write, outlines
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
    EndlessSize,
    batch_of,
    read_header,
    seal,
)

CODECS = 5
KNOWN_ATTRIBUTES = 0x7F
MARKS = HELD | DELIVERING  # the log's own: in a delayed topic no client sets them
SMALLEST_OVERHEAD = 14  # of a record of any version there ever was, behind its offset and size
SMALLEST_SIZE = LOG_OVERHEAD_BYTES + SMALLEST_OVERHEAD
SMALLEST_RECORD_BYTES = 7  # of this version
# walked within a turn: some milliseconds
AT_ONCE_BYTES, AT_ONCE_OPENED_BYTES, AT_ONCE_RECORDS = 8 * 1024, 64 * 1024, 500
OPENED_RECORD_BYTES = 150  # of a small record, as Python objects
QUICK_RECORDS, QUICK_BYTES = 10_000, 2 * MIB  # walked as rows: ten megabytes of them
MAGIC_POSITION = 16
MAX_TIMESTAMP_POSITION = 35
# "producer" is not here: the batch keeps its own codec
CODEC_OF_TOPIC = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


class RefusedRecords(KafkaError):
    """The log refuses a batch whose CRC is right. The answer carries the log start offset and,
    where Kafka does so, the wrong records, each with its error.
    """

    def __init__(
        self,
        code: Code,
        message: str | None = None,
        record_errors: tuple[tuple[int, str], ...] = (),
    ) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors  # (index in the batch, text)


class Prepared(NamedTuple):
    """A batch for the log. If `largest_ms` is None, its records were not walked, and its codec may
    not be the topic's.
    """

    batch: memoryview
    largest_ms: int | None  # the largest timestamp of its records
    schemas: SchemaRules | None = None  # that its records were compared with
    has_holes: bool = False  # records were taken out: it has more offsets than records
    due: tuple[Due, ...] | None = None  # when its records are due; None: not looked at


def opened_bytes(batch: memoryview) -> int:
    """Estimate the memory that the records take when they are decompressed: a thousand times the
    size of the batch is possible.
    """
    return max(
        len(batch), min(read_header(batch).count * OPENED_RECORD_BYTES, DECOMPRESSED_BYTES.value)
    )


class NeedsSchemas(KafkaError):
    """The records must be compared with schemas first. The caller then appends a Prepared with
    these rules.
    """

    def __init__(
        self, batch: memoryview, now_ms: int, config: LogConfig, partition: str, rules: SchemaRules
    ) -> None:
        super().__init__(Code.UNKNOWN_SERVER_ERROR)
        self.batch = batch
        self.rules = rules
        self._rest = now_ms, config, partition

    @property
    def is_small(self) -> bool:
        """Return whether its records may be read within a turn."""
        header = read_header(self.batch)
        is_short = header.count <= AT_ONCE_RECORDS and len(self.batch) <= AT_ONCE_BYTES
        return is_short and (
            not header.compression or _opens_within(self.batch, AT_ONCE_OPENED_BYTES)
        )

    def without(self, indexes: Container[int]) -> Prepared:
        """Return the batch without some of its records. The others keep their offsets, and the
        producer its sequence. Raises RefusedRecords.

        May be called off the loop. All records are walked first, and the result has the topic's
        codec.
        """
        now_ms, config, partition = self._rest
        batch, _, *_ = walked(self.batch, now_ms, replace(config, delivery=None), partition)
        header = BATCH_HEADER.unpack_from(batch)
        made = memoryview(rebuilt(header, kept_beside(bytes(batch), header, indexes), None))
        largest_ms = BATCH_HEADER.unpack_from(made)[8]
        return _timed(Prepared(made, largest_ms, self.rules, has_holes=True), now_ms, config)


class TakesLong(KafkaError):
    """The records must be walked or compressed again, and a turn has no time for that.

    `prepared` may be called while the bytes of the batch are still there, also off the loop.
    """

    def __init__(self, batch: memoryview, now_ms: int, config: LogConfig, partition: str) -> None:
        super().__init__(Code.UNKNOWN_SERVER_ERROR)
        self.batch = batch
        self._rest = now_ms, config, partition
        self._schemas = config.schemas

    @property
    def opened_bytes(self) -> int:
        return opened_bytes(self.batch)

    def prepared(self) -> Prepared:
        """Return the batch for the log to append as it is. Raises RefusedRecords."""
        return walked(self.batch, *self._rest)._replace(schemas=self._schemas)


def one_batch(records: memoryview) -> memoryview:
    """Return the batch in a produce request's records, without the bytes behind it that Kafka
    ignores: up to 11 bytes, or the beginning of a batch that is cut. Raises KafkaError.
    """
    size = _size_at(records, 0)
    if size is None:
        raise KafkaError(Code.INVALID_RECORD)
    if size < SMALLEST_SIZE:
        raise KafkaError(
            Code.CORRUPT_MESSAGE,
            f"Record size {size - LOG_OVERHEAD_BYTES} is less than the minimum record overhead "
            f"({SMALLEST_OVERHEAD})",
        )
    if len(records) <= MAGIC_POSITION:
        raise KafkaError(Code.INVALID_RECORD)
    magic = _magic_at(records, 0)
    if not 0 <= magic <= MAGIC:
        raise KafkaError(Code.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")
    if size > len(records) or magic < MAGIC:
        raise KafkaError(Code.INVALID_RECORD)
    if size < BATCH_HEADER_BYTES:
        raise KafkaError(Code.CORRUPT_MESSAGE)
    following = _size_at(records, size)
    if following is not None:
        if following < SMALLEST_SIZE or (
            len(records) - size > MAGIC_POSITION and not 0 <= _magic_at(records, size) <= MAGIC
        ):
            raise KafkaError(Code.CORRUPT_MESSAGE)
        if following <= len(records) - size:
            raise KafkaError(Code.INVALID_RECORD)
    return records[:size]


def _magic_at(records: memoryview, position: int) -> int:
    return int.from_bytes(
        records[position + MAGIC_POSITION : position + MAGIC_POSITION + 1], signed=True
    )


def _size_at(records: memoryview, position: int) -> int | None:
    if len(records) - position < LOG_OVERHEAD_BYTES:
        return None
    return (
        int.from_bytes(records[position + 8 : position + 12], "big", signed=True)
        + LOG_OVERHEAD_BYTES
    )


def repair(
    batch: memoryview,
    now_ms: int,
    config: LogConfig,
    partition: str,
    prepared: Prepared | None = None,
) -> tuple[memoryview, int, int | None, tuple[Due, ...]]:
    """Return the batch as the topic stores it, its largest timestamp, the attributes for
    `restamp` when the batch is appended, None if no `restamp` is needed, and when the records of a
    held batch are due.

    Raises RefusedRecords, NeedsSchemas and TakesLong. `partition`: its name in error texts;
    `prepared`: this batch, made after a TakesLong or a NeedsSchemas. As in Kafka, the timestamp
    type, the largest timestamp and the codec are repaired. Records are walked only if a check needs
    it.
    """
    has_holes = prepared is not None and prepared.has_holes
    _check_header(batch, has_holes=has_holes)
    if config.schemas is not None and (prepared is None or prepared.schemas != config.schemas):
        raise NeedsSchemas(batch, now_ms, config, partition, config.schemas)
    _, _, _, _, _, attributes, _, base_timestamp, timestamp, producer_id, epoch, _, count = (
        BATCH_HEADER.unpack_from(batch)
    )
    stamped = config.message_timestamp_type == "LogAppendTime"
    out_of_range = (
        timestamp - now_ms > config.message_timestamp_after_max_ms
        or now_ms - base_timestamp > config.message_timestamp_before_max_ms
    )
    codec = attributes & COMPRESSION_MASK
    largest = timestamp
    other_codec = codec != CODEC_OF_TOPIC.get(config.compression_type, codec) and not has_holes
    is_wrong = not stamped and is_wrong_time(base_timestamp, timestamp, count)
    due: tuple[Due, ...] = ()
    if prepared is not None and prepared.largest_ms is not None and not other_codec:
        largest, due = prepared.largest_ms, prepared.due or ()
    elif (
        other_codec
        or attributes & LOG_APPEND_TIME
        or (out_of_range and not stamped)
        or is_wrong
        or config.compacted
        or config.delivery is not None
        or (codec and config.bounds_opened)
        or config.validation == "records"
    ):
        if (
            count > AT_ONCE_RECORDS
            or len(batch) > AT_ONCE_BYTES
            or (codec and (other_codec or not _opens_within(batch, AT_ONCE_OPENED_BYTES)))
        ):
            raise TakesLong(batch, now_ms, config, partition)
        made = walked(batch, now_ms, config, partition)
        batch, largest, due = made.batch, made.largest_ms or 0, made.due or ()
        _, _, _, _, _, attributes, _, _, timestamp, *_ = BATCH_HEADER.unpack_from(batch)
    kept = attributes if due or config.delivery is None else attributes & ~MARKS
    new_attributes = kept | LOG_APPEND_TIME if stamped else kept & ~LOG_APPEND_TIME
    if stamped:
        largest = now_ms
    if len(batch) > config.segment_bytes:
        raise RefusedRecords(Code.RECORD_LIST_TOO_LARGE)
    if producer_id >= 0 and epoch < -1:  # Kafka accepts -1 too
        raise RefusedRecords(Code.INVALID_PRODUCER_EPOCH)
    is_changed = (new_attributes, largest) != (attributes, timestamp)
    # unknown attributes are cleared, as in Kafka
    known = new_attributes if due else new_attributes & KNOWN_ATTRIBUTES
    return batch, largest, known if is_changed else None, due


def is_wrong_time(base_timestamp: int, timestamp: int, count: int) -> bool:
    """Return whether a client's header cannot have the largest timestamp of its records, or says
    that they have none.

    Sarama up to 1.45.0 writes -1. One record alone has the base timestamp.
    """
    return not 0 <= base_timestamp <= timestamp or (count == 1 and base_timestamp != timestamp)


def _check_header(batch: memoryview, *, has_holes: bool = False) -> None:
    """Check the header fields behind the CRC. Raises RefusedRecords."""
    base, _, _, _, _, attributes, delta, _, _, producer_id, _, sequence, count = (
        BATCH_HEADER.unpack_from(batch)
    )
    if attributes & COMPRESSION_MASK >= CODECS:
        raise RefusedRecords(Code.UNKNOWN_SERVER_ERROR)
    if (
        base != 0
        or attributes & CONTROL
        or ((count < 0 or delta < count) if has_holes else (count < 1 or delta != count - 1))
    ):
        raise RefusedRecords(Code.INVALID_RECORD)
    if (
        not attributes & COMPRESSION_MASK
        and count * SMALLEST_RECORD_BYTES > len(batch) - BATCH_HEADER_BYTES
    ):
        raise RefusedRecords(Code.INVALID_RECORD)
    if producer_id >= 0 and sequence < 0:
        raise RefusedRecords(Code.INVALID_RECORD)
    if producer_id < 0 and attributes & TRANSACTIONAL:
        raise RefusedRecords(Code.INVALID_TXN_STATE)


def check_records(batch: memoryview, now_ms: int, config: LogConfig, partition: str) -> int:
    """Walk the records and return their largest timestamp. Raises RefusedRecords."""
    rule = _Rule(batch, now_ms, config, partition)
    most_bytes = config.max_decompressed_message_bytes if config.bounds_opened else None
    is_quick = config.validation != "records" and most_bytes is None and _is_small(batch)
    if is_quick and (found := _largest_of_sound(batch, rule)) is not None:
        return found
    errors: list[tuple[int, str]] = []
    late = False
    largest = -1
    in_order = True
    for index, record in enumerate(_outlines(batch, most_bytes=most_bytes)):
        largest = max(largest, record.timestamp)
        in_order = in_order and record.offset == index
        if config.compacted and record.key_bytes is None:
            errors.append(
                (
                    index,
                    "Compacted topic cannot accept message without key in topic partition "
                    f"{partition}",
                )
            )
        elif (text := rule.wrong_time(record)) is not None:
            errors.append((index, text))
            late = True
    if late:
        raise RefusedRecords(
            Code.INVALID_TIMESTAMP,
            "One or more records have been rejected due to invalid timestamp",
            tuple(errors),
        )
    if errors:
        raise wrong_records(errors)
    if rule.compressed and not in_order and (is_quick or config.validation == "records"):
        # as in Kafka, which accepts this in batches that are not compressed
        raise RefusedRecords(Code.UNKNOWN_SERVER_ERROR)
    return largest


def wrong_records(errors: Sequence[tuple[int, str]], total: int | None = None) -> RefusedRecords:
    """Return the refusal of a batch for its records, in Kafka's words. `errors`: (index in the
    batch, text); `total`: the number of errors, if `errors` does not have all.
    """
    shown = ", ".join(
        f"RecordError(batchIndex={index}, message='{text}')" for index, text in errors[:3]
    )
    start = (
        "One or more records have been rejected due to "
        f"{len(errors) if total is None else total} record errors in total"
    )
    return RefusedRecords(
        Code.INVALID_RECORD,
        f"{start}, and only showing the first three errors at most: [{shown}]",
        tuple(errors),
    )


class _Rule:
    """Rules for the records of one batch."""

    def __init__(self, batch: memoryview, now_ms: int, config: LogConfig, partition: str) -> None:
        attributes = read_header(batch).attributes
        self.keyed = config.compacted
        self.compressed = bool(attributes & COMPRESSION_MASK)
        self.lowest = now_ms - config.message_timestamp_before_max_ms
        self.highest = now_ms + config.message_timestamp_after_max_ms
        self.stamped = config.message_timestamp_type == "LogAppendTime"
        self.mistyped = self.stamped and bool(attributes & LOG_APPEND_TIME)

    def wrong_time(self, record: Outline) -> str | None:
        if self.mistyped:
            text = (
                f"{'Partial' * self.compressed}DefaultRecord(offset={record.offset}, "
                f"timestamp={record.timestamp}, "
            )
            none = -1 if self.compressed else 0
            key, value = (
                none if size is None else size for size in (record.key_bytes, record.value_bytes)
            )
            text += f"key={key} bytes, value={value} bytes)"
            return (
                f"Invalid timestamp type in message {text}. Producer should not set timestamp "
                "type to LogAppendTime."
            )
        if (
            self.stamped
            or record.timestamp == -1
            or self.lowest <= record.timestamp <= self.highest
        ):
            return None
        text = (
            f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. "
        )
        return f"{text}The timestamp should be within [{self.lowest}, {self.highest}]"


def _is_small(batch: memoryview) -> bool:
    return read_header(batch).count <= QUICK_RECORDS and len(batch) <= QUICK_BYTES


def _largest_of_sound(batch: memoryview, rule: _Rule) -> int | None:
    """Return the largest timestamp if all times and keys are right: six times as fast as the walk.
    None: the caller must walk the records, to find out what is wrong.

    All records are in memory meanwhile, as rows.
    """
    header = BATCH_HEADER.unpack_from(batch)
    if header[5] & LOG_APPEND_TIME:
        return None
    try:
        rows = all_rows(*body_of(bytes(batch), 0, header, QUICK_BYTES), header)
    except ProtocolError:
        return None
    base = header[7]
    times = [base + (row[2] >> 1 ^ -(row[2] & 1)) for row in rows]
    first, last = min(times), max(times)
    in_time = (rule.stamped and first >= -FOREVER and last <= FOREVER) or (
        rule.lowest <= first and last <= rule.highest
    )
    return (
        max(last, -1)
        if in_time and not (rule.keyed and any(row[4] is None for row in rows))
        else None
    )


def _outlines(
    batch: memoryview, write: Write | None = None, most_bytes: int | None = None
) -> Iterator[Outline]:
    """Yield the outlines. Raises RefusedRecords with Kafka's codes."""
    header = read_header(batch)
    if header.compression == ZSTD and len(batch) == BATCH_HEADER_BYTES:
        # Kafka's zstd opens an empty payload; its other codecs fail below
        raise RefusedRecords(Code.INVALID_RECORD)
    try:
        if header.compression == LZ4 and not has_independent_blocks(batch[BATCH_HEADER_BYTES:]):
            raise NotOpened("lz4 blocks that refer to each other, which Java's clients do not read")
        yield from outlines(batch, write, most_bytes)
    except NotOpened as error:
        # as Kafka answers if the codec cannot open the payload
        raise RefusedRecords(Code.UNKNOWN_SERVER_ERROR) from error
    except EndlessSize as error:
        # as in Kafka, where the code depends on the compression
        raise RefusedRecords(
            Code.INVALID_RECORD if header.compression else Code.UNKNOWN_SERVER_ERROR
        ) from error
    except ProtocolError as error:
        # producers split such a batch, and the parts may be taken
        if error.limit is DECOMPRESSED_BYTES:
            raise RefusedRecords(Code.MESSAGE_TOO_LARGE, str(error)) from error
        raise RefusedRecords(Code.INVALID_RECORD) from error


def restamp(batch: memoryview, attributes: int, max_timestamp: int) -> None:
    """Write the topic's timestamp type and the largest timestamp into the stored header, and seal
    it with a new CRC.
    """
    batch[ATTRIBUTES_POSITION : ATTRIBUTES_POSITION + 2] = attributes.to_bytes(2, "big")
    batch[MAX_TIMESTAMP_POSITION : MAX_TIMESTAMP_POSITION + 8] = max_timestamp.to_bytes(
        8, "big", signed=True
    )
    seal(batch)


def _opens_within(batch: memoryview, most_bytes: int) -> bool:
    header = read_header(batch)
    try:
        decompress(header.compression, batch[BATCH_HEADER_BYTES:], most_bytes)
    except ProtocolError as error:
        return error.limit is None  # what cannot be opened at all is soon refused
    return True


def walked(batch: memoryview, now_ms: int, config: LogConfig, partition: str) -> Prepared:
    """Walk the records and compress them by the topic's own codec, if it has one; find out when
    they are due. Takes some 0.3 s for a megabyte of small records.

    Raises RefusedRecords.
    """
    largest = check_records(batch, now_ms, config, partition)
    before = read_header(batch).compression
    codec = CODEC_OF_TOPIC.get(config.compression_type, before)
    if codec != before:
        level = {1: config.gzip_level, 3: config.lz4_level, 4: config.zstd_level}.get(codec)
        batch = recompress(batch, codec, level, config.max_message_bytes)
        largest = BATCH_HEADER.unpack_from(batch)[8]
    return _timed(Prepared(batch, largest), now_ms, config)


def _timed(prepared: Prepared, now_ms: int, config: LogConfig) -> Prepared:
    """Find out when the records are due, if the topic is delayed. Raises RefusedRecords."""
    if config.delivery is None:
        return prepared
    try:
        batch, due = find_due(prepared.batch, now_ms, config.delivery)
    except WrongTime as error:
        raise wrong_records([(error.index, str(error.message))]) from None
    except ProtocolError as error:
        raise RefusedRecords(Code.INVALID_RECORD, str(error)) from error
    return prepared._replace(batch=batch, due=due)


def recompress(batch: memoryview, codec: int, level: int | None, most_bytes: int) -> memoryview:
    """Return the same records under the topic's own codec, with the same producer fields. Raises
    RefusedRecords, also above `most_bytes`.
    """
    _, _, _, _, _, attributes, _, _, _, producer_id, epoch, sequence, count = (
        BATCH_HEADER.unpack_from(batch)
    )
    packer = Packer(codec, level)
    times: tuple[int, ...] = ()  # the first, the least and the largest
    for record in _outlines(batch, packer.write):
        time = record.timestamp
        times = (
            (times[0], min(times[1], time), max(times[2], time)) if times else (time, time, time)
        )
        if packer.size_bytes > most_bytes:
            raise RefusedRecords(Code.MESSAGE_TOO_LARGE)
    first, least, largest = times
    if least < -1 or (producer_id >= 0 and epoch == -1):
        raise RefusedRecords(Code.UNKNOWN_SERVER_ERROR)  # as Kafka answers
    made = batch_of(
        packer.finish(),
        count,
        codec | attributes & TRANSACTIONAL,
        (first, largest),
        (producer_id, epoch, sequence),
    )
    if len(made) > most_bytes:
        raise RefusedRecords(Code.MESSAGE_TOO_LARGE)
    return memoryview(made)
