"""Times of the records of a client's batch, and the batch as a delayed topic stores it. Knows no
log: the present time and the topic's rules are arguments.
"""

from typing import NamedTuple

from raftka.log.config import DeliveryRules
from raftka.wire.compression import compress
from raftka.wire.errors import Code, KafkaError
from raftka.wire.records import (
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    COMPRESSION_MASK,
    LOG_OVERHEAD_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    Record,
    RecordHeaders,
    encode_record,
    read_header,
    records_of,
    seal,
)

DELIVER_AT = "raftka.deliver.at"  # a record's header: milliseconds since 1970, as text
HELD_OFFSET = "raftka.held.offset"  # of a delivered record: the offset of its first life, as text
DELIVERING = 0x2000  # attribute of a batch with records of held batches
AT_ONCE = 0  # the time of a record that is not delayed, in a batch with others that are
MOST_DIGITS = 18


class Due(NamedTuple):
    """A record of a held batch."""

    delta: int  # its offset behind the batch's first one
    at_ms: int  # when it is due; AT_ONCE: it was not to be delayed


class Timed(NamedTuple):
    """A batch, and when its records are due."""

    batch: memoryview  # its records name their times
    due: tuple[Due, ...]  # empty: none is delayed, and the batch is a plain one


class WrongTime(KafkaError):
    """A record may not be delayed like this."""

    def __init__(self, index: int, text: str) -> None:
        super().__init__(Code.INVALID_RECORD, text)
        self.index = index  # in the batch


def deliver_at(headers: RecordHeaders) -> int | None:
    """Return the time that the last such header names, in ms; None: there is none. Raises
    ValueError for a header that is no time.
    """
    for name, content in reversed(headers):
        if name == DELIVER_AT:
            text = content or b""
            if not text.isdigit() or len(text) > MOST_DIGITS:
                raise ValueError(text)
            return int(text)
    return None


def find_due(batch: memoryview, now_ms: int, rules: DeliveryRules) -> Timed:
    """Return when the records of a sound batch are due. Records that get the topic's delay have a
    header with their time in the returned batch. Raises WrongTime, ProtocolError.
    """
    header = read_header(batch)
    records, times, is_changed = [], [], False
    for index, record in enumerate(records_of(batch)):
        try:
            at_ms = deliver_at(record.headers)
        except ValueError:
            raise WrongTime(
                index, f"{DELIVER_AT} must be milliseconds since 1970, as text"
            ) from None
        if at_ms is None and rules.delay_ms:
            at_ms, is_changed = now_ms + rules.delay_ms, True
            named = *record.headers, (DELIVER_AT, b"%d" % at_ms)
            record = record._replace(headers=named)  # with its time
        if at_ms is not None and at_ms - now_ms > rules.most_ms:
            raise WrongTime(
                index,
                f"the record is due in {at_ms - now_ms} ms, and raftka.delivery.max.ms is "
                f"{rules.most_ms}",
            )
        records.append(record)
        times.append(AT_ONCE if at_ms is None else at_ms)
    if max(times, default=AT_ONCE) <= now_ms:
        return Timed(batch, ())
    if header.attributes & TRANSACTIONAL:
        raise WrongTime(0, "records of a transaction cannot be delayed")
    due = tuple([Due(record.offset, at) for record, at in zip(records, times, strict=True)])
    return Timed(_with_records(header, records) if is_changed else batch, due)


def _with_records(header: BatchHeader, records: list[Record]) -> memoryview:
    """Return the batch with these records in place of its own."""
    base = header.base_timestamp
    body = b"".join([encode_record(each.offset, base, _new(each)) for each in records])
    if codec := header.attributes & COMPRESSION_MASK:
        body = bytes(compress(codec, body))
    batch = bytearray(BATCH_HEADER_BYTES) + body
    length = len(batch) - LOG_OVERHEAD_BYTES
    BATCH_HEADER.pack_into(batch, 0, header.base_offset, length, *header[2:])
    seal(batch)
    return memoryview(batch)


def _new(record: Record) -> tuple[bytes | None, bytes | None, RecordHeaders, int]:
    return record.key, record.value, record.headers, record.timestamp
