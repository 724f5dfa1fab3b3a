"""Times of the records of a client's batch, and the batch as a delayed topic stores it. Knows no
log: the present time and the topic's rules are arguments.
"""

from collections.abc import Iterator
from typing import NamedTuple

from raftka.log.config import DeliveryRules
from raftka.log.segments.times import HELD
from raftka.runtime.interfaces import Buffer
from raftka.wire.errors import Code, KafkaError, ProtocolError
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
    opened,
    read_header,
    read_record,
    seal,
    size_of_record,
)

DELIVER_AT = "raftka.deliver.at"  # a record's header: milliseconds since 1970, as text
HELD_OFFSET = "raftka.held.offset"  # of a delivered record: the offset of its first life, as text
DELIVERING = 0x2000  # attribute of a batch with records of held batches
CODEC_SHIFT = 9  # of the attributes of a held batch: there is the codec with which it came
OTHER_ATTRIBUTES = 0x18  # that a held batch keeps: the timestamp type, and of a transaction
AT_ONCE = 0  # the time of a record that is not delayed, in a batch with others that are
MOST_DIGITS = 18


class Due(NamedTuple):
    """A record of a held batch."""

    delta: int  # its offset behind the batch's first one
    at_ms: int  # when it is due; AT_ONCE: it was not to be delayed
    place: int  # in the held batch: bytes from the batch's begin to the record's size


class Timed(NamedTuple):
    """A batch, and when its records are due."""

    batch: memoryview  # a held batch, or the given one
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
    """Return the held batch of a sound one, and when its records are due. Raises WrongTime,
    ProtocolError.

    A held batch is not compressed, so that each record can be read by itself, and remembers the
    codec. Its records that get the topic's delay have a header with their time.
    """
    header = read_header(batch)
    pieces: list[Buffer] = []
    due: list[Due] = []
    place = BATCH_HEADER_BYTES
    for index, (record, given) in enumerate(placed_records(opened(batch), header)):
        piece: Buffer = given
        try:
            at_ms = deliver_at(record.headers)
        except ValueError:
            raise WrongTime(
                index, f"{DELIVER_AT} must be milliseconds since 1970, as text"
            ) from None
        if at_ms is None and rules.delay_ms:
            at_ms = now_ms + rules.delay_ms
            headers = *record.headers, (DELIVER_AT, b"%d" % at_ms)
            new = record.key, record.value, headers, record.timestamp
            piece = encode_record(record.offset, header.base_timestamp, new)
        if at_ms is not None and at_ms - now_ms > rules.most_ms:
            raise WrongTime(
                index,
                f"the record is due in {at_ms - now_ms} ms, and raftka.delivery.max.ms is "
                f"{rules.most_ms}",
            )
        due.append(Due(record.offset, AT_ONCE if at_ms is None else at_ms, place))
        pieces.append(piece)
        place += len(piece)
    if max((each.at_ms for each in due), default=AT_ONCE) <= now_ms:
        return Timed(batch, ())
    if header.attributes & TRANSACTIONAL:
        raise WrongTime(0, "records of a transaction cannot be delayed")
    return Timed(_held(header, b"".join(pieces)), tuple(due))


def placed_records(body: Buffer, header: BatchHeader) -> Iterator[tuple[Record, memoryview]]:
    """Yield each record with its bytes, the size included. `body`: of a batch with that header, not
    compressed. Raises ProtocolError.
    """
    view, end = memoryview(body), 0
    try:
        for _ in range(header.count):
            size, start = size_of_record(body, end)
            yield read_record(body, start, start + size, header), view[end : start + size]
            end = start + size
    except IndexError as error:
        raise ProtocolError("a record ends behind its batch") from error


def _held(header: BatchHeader, body: bytes) -> memoryview:
    batch = bytearray(BATCH_HEADER_BYTES) + body
    attributes = header.attributes & OTHER_ATTRIBUTES | HELD | header.compression << CODEC_SHIFT
    fields = header._replace(length=len(batch) - LOG_OVERHEAD_BYTES, attributes=attributes)
    BATCH_HEADER.pack_into(batch, 0, *fields)
    seal(batch)
    return memoryview(batch)


def codec_of(header: BatchHeader) -> int:
    """Return the codec with which a held batch came."""
    return header.attributes >> CODEC_SHIFT & COMPRESSION_MASK
