"""Record batches, version 2 (KIP-98): build them, walk over them, read what is in them. Knows no
log and no partition.

The CRC covers everything from the attributes on, so a leader sets base offset and leader epoch in
place without touching it.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple, Protocol

from raftka.checksum import crc32c
from raftka.limits import DECOMPRESSED_BYTES, HEADERS_OF_RECORD
from raftka.runtime.interfaces import Buffer
from raftka.wire.errors import ProtocolError

BATCH_HEADER = Struct(">qiibIhiqqqhii")
BATCH_HEADER_BYTES = BATCH_HEADER.size  # 61
BATCH_START = Struct(">qiib")  # of the header: what the CRC does not cover
BATCH_REST = Struct(">hiqqqhii")  # of the header, from the attributes on
LOG_OVERHEAD_BYTES = 12  # base offset and length: what the length does not count
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21  # the CRC begins here
MAGIC = 2
NO_CONTENT = b"\1"  # the size -1

SIGN = 1 << 63  # timestamps are numbers of Java's: what is too large begins again below

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40  # KIP-534: the base timestamp is when the tombstones of the batch may go


class EndlessSize(ProtocolError):
    """The size of a record does not end where one must."""


RecordHeaders = Sequence[tuple[str, bytes | None]]
# key, value, headers, timestamp (ms)
NewRecord = tuple[bytes | None, bytes | None, RecordHeaders, int]


class BatchHeader(NamedTuple):
    """The 61 bytes in front of the records; `length` counts what follows it."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # of the records; hides tuple's method

    @property
    def size_bytes(self) -> int:
        return self.length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK


class Record(NamedTuple):
    offset: int
    timestamp: int  # ms
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders


def read_header(view: Buffer, position: int = 0) -> BatchHeader:
    """Raises ProtocolError when there are fewer than 61 bytes. Checks nothing else."""
    try:
        return BatchHeader._make(BATCH_HEADER.unpack_from(view, position))
    except struct_error as error:
        raise ProtocolError(f"{len(view) - position} bytes are no record batch") from error


def crc_matches(batch: memoryview, header: BatchHeader) -> bool:
    return bool(crc32c(batch[ATTRIBUTES_POSITION : header.size_bytes]) == header.crc)


def iterate(view: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches of a fetch answer; its last one may be cut and is left out then. Raises
    ProtocolError for what is no batch of version 2.
    """
    position = 0
    while len(view) - position >= BATCH_HEADER_BYTES:
        header = read_header(view, position)
        stop = position + header.size_bytes
        if header.magic != MAGIC or header.length < BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES:
            raise ProtocolError(f"a batch of version {header.magic} and length {header.length}")
        if stop > len(view):
            return
        yield header, view[position:stop]
        position = stop


def build_batch(
    records: Sequence[NewRecord],
    *,
    base_offset: int = 0,
    compression: int = 0,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    leader_epoch: int = -1,
    timestamp_type: int = 0,
) -> bytearray:
    """One batch with its CRC. `timestamp_type` 1 is LogAppendTime. The offsets of the records
    follow each other without gaps.
    """
    base_timestamp = records[0][3]
    body = b"".join(
        [encode_record(at, base_timestamp, record) for at, record in enumerate(records)]
    )
    if compression:
        from raftka.wire.compression import compress

        body = compress(compression, body, level)
    attributes = (
        compression
        | (LOG_APPEND_TIME if timestamp_type else 0)
        | (TRANSACTIONAL if transactional else 0)
    )
    times = base_timestamp, max(record[3] for record in records)
    return batch_of(
        body,
        len(records),
        attributes,
        times,
        (producer_id, producer_epoch, base_sequence),
        base_offset,
        leader_epoch,
    )


def batch_of(
    payload: Buffer,
    count: int,
    attributes: int,
    times: tuple[int, int],
    producer: tuple[int, int, int],
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """A batch of records that are encoded already, and compressed as `attributes` tells, with its
    CRC.

    `times`: of the first record, and the largest; `producer`: its id, epoch and first sequence
    number.
    """
    batch = bytearray(BATCH_HEADER_BYTES)
    batch += payload
    BATCH_HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD_BYTES,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        count - 1,
        *times,
        *producer,
        count,
    )
    seal(batch)
    return batch


def seal(batch: bytearray | memoryview) -> None:
    """Write the CRC of a whole batch into it."""
    view = memoryview(batch)
    view[CRC_POSITION:ATTRIBUTES_POSITION] = crc32c(view[ATTRIBUTES_POSITION:]).to_bytes(4, "big")


def encode_record(offset_delta: int, base_timestamp: int, record: NewRecord) -> bytes:
    key, value, headers, timestamp = record
    # the first: attributes, unused
    pieces = [b"\0", varint_of(timestamp - base_timestamp), varint_of(offset_delta)]
    pieces += (NO_CONTENT,) if key is None else (varint_of(len(key)), key)
    pieces += (NO_CONTENT,) if value is None else (varint_of(len(value)), value)
    pieces.append(varint_of(len(headers)))
    for name, content in headers:
        encoded = name.encode()
        pieces += (varint_of(len(encoded)), encoded)
        pieces += (NO_CONTENT,) if content is None else (varint_of(len(content)), content)
    body = b"".join(pieces)
    return varint_of(len(body)) + body


@lru_cache(4096)
def varint_of(value: int) -> bytes:
    """A zigzag varint of up to 64 bits. Those of sizes and offsets come again and again."""
    out = bytearray()
    put_signed(out, value)
    return bytes(out)


def put_signed(out: bytearray, value: int) -> None:
    """A zigzag varint of up to 64 bits."""
    value = (value << 1) ^ (value >> 63)
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


class Indexed(Protocol):
    """Bytes that are asked for one by one."""

    def __getitem__(self, position: int, /) -> int: ...


def signed(view: Indexed, position: int, bits: int = 64) -> tuple[int, int]:
    """A zigzag varint: its value and the position behind it. IndexError at the end of the view,
    ProtocolError when it does not end.
    """
    byte = view[position]
    if byte < 0x80:  # most of them
        return (byte >> 1) ^ -(byte & 1), position + 1
    value = shift = 0
    while True:
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= (1 << bits) - 1
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift >= bits:
            raise ProtocolError(f"a varint of more than {shift // 7} bytes")


def records_of(batch: memoryview, limit_bytes: int = DECOMPRESSED_BYTES.value) -> Iterator[Record]:
    """The records of a batch, one by one. Raises ProtocolError for what is none, for the CRC not:
    ask crc_matches.
    """
    yield from records_in(opened(batch, limit_bytes), read_header(batch))


def opened(batch: memoryview, limit_bytes: int = DECOMPRESSED_BYTES.value) -> Buffer:
    """Return the bytes behind the header, decompressed. Raises ProtocolError."""
    header = read_header(batch)
    if not BATCH_HEADER_BYTES <= header.size_bytes <= len(batch) or header.count < 0:
        raise ProtocolError(
            f"a batch of length {header.length} with {header.count} records in {len(batch)} bytes"
        )
    body: Buffer = batch[BATCH_HEADER_BYTES : header.size_bytes]
    if header.compression:
        from raftka.wire.compression import decompress

        body = decompress(header.compression, body, limit_bytes)
    return body


def records_in(body: Buffer, header: BatchHeader) -> Iterator[Record]:
    """`body`: of a batch with that header. Raises ProtocolError."""
    position = 0
    try:
        for _ in range(header.count):
            size, position = size_of_record(body, position)
            stop = position + size
            yield read_record(body, position, stop, header)
            position = stop
    except IndexError as error:
        raise ProtocolError("a record ends behind its batch") from error
    if position != len(body):
        raise ProtocolError(f"{len(body) - position} bytes behind the last record")


def size_of_record(body: Indexed, position: int) -> tuple[int, int]:
    """And where the record begins. Raises EndlessSize."""
    try:
        return signed(body, position, 32)
    except ProtocolError as error:
        raise EndlessSize(str(error)) from error


def read_record(body: Buffer, position: int, stop: int, header: BatchHeader) -> Record:
    """The record between two positions, without its size. Raises ProtocolError, and IndexError
    behind the end of `body`.
    """
    if not position < stop <= len(body):
        raise ProtocolError(
            f"a record of {stop - position} bytes with {len(body) - position} to come"
        )
    timestamp_delta, position = signed(body, position + 1)
    offset_delta, position = signed(body, position, 32)
    key, position = _sized(body, position, stop)
    value, position = _sized(body, position, stop)
    count, position = signed(body, position, 32)
    if not 0 <= count <= min(stop - position, HEADERS_OF_RECORD.value):
        raise ProtocolError(f"a record with {count} headers", HEADERS_OF_RECORD)
    headers = []
    for _ in range(count):
        name, position = _sized(body, position, stop)
        content, position = _sized(body, position, stop)
        if name is None:
            raise ProtocolError("a record header without a name")
        headers.append((name.decode("utf-8", "replace"), content))
    if position != stop:
        raise ProtocolError(f"a record ends at byte {position} of {stop}")
    return Record(
        header.base_offset + offset_delta,
        timestamp_of(header, timestamp_delta),
        key,
        value,
        headers,
    )


def timestamp_of(header: BatchHeader, delta: int) -> int:
    """In ms, of a record with that delta."""
    timestamp = (
        header.max_timestamp
        if header.attributes & LOG_APPEND_TIME
        else header.base_timestamp + delta
    )
    if not -SIGN <= timestamp < SIGN:
        timestamp = ((timestamp + SIGN) & (2 * SIGN - 1)) - SIGN
    return timestamp


def _sized(body: Buffer, position: int, stop: int) -> tuple[bytes | None, int]:
    size, position = signed(body, position, 32)
    if size < 0:
        return None, position
    if size > stop - position:
        raise ProtocolError(f"a field of {size} bytes with {stop - position} to come")
    return bytes(body[position : position + size]), position + size
