"""The largest timestamp of the records in a stored batch, whatever its header says. Knows no index
and no rule of retention.

A batch that this version appends has the right one in its header. Older versions of raftka stored
what the client had written, and clients have written -1 there, or less than the base timestamp. The
records of such a batch are walked.
"""

from raftka.limits import DECOMPRESSED_BYTES
from raftka.log.segments.scan import Header
from raftka.runtime.interfaces import File
from raftka.wire.compression import decompress
from raftka.wire.errors import ProtocolError
from raftka.wire.records import (
    BATCH_HEADER_BYTES,
    COMPRESSION_MASK,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    SIGN,
    BatchHeader,
    signed,
    timestamp_of,
)

NO_TIMESTAMP = -1
HELD = 0x4000  # attribute of a batch that waits for its time; Kafka gives out low bits
# with the first all records have the header's time, with the second the base is no record's
SET_BY_BROKER = LOG_APPEND_TIME | DELETE_HORIZON


def is_doubtful(header: Header) -> bool:
    """Return whether the header of a stored batch cannot have the largest timestamp of the
    records.
    """
    return header[8] < header[7] and header[12] > 0 and not header[5] & SET_BY_BROKER


def largest_time(header: Header, file: File, position: int) -> int:
    """Return the largest timestamp of the records, -1 if none of them has one, or if they are held:
    a search by time passes by them. `position`: of the batch in the file. Raises OSError.
    """
    if not header[12] or header[5] & HELD:
        return NO_TIMESTAMP
    if is_doubtful(header):
        return walked_time(file.read(position, header[1] + LOG_OVERHEAD_BYTES), header)
    return header[8]


def time_in(data: bytes | memoryview, at: int, header: Header) -> int:
    """As `largest_time`, of a batch in memory, at that place in the data."""
    if not header[12] or header[5] & HELD:
        return NO_TIMESTAMP
    if is_doubtful(header):
        return walked_time(data[at : at + header[1] + LOG_OVERHEAD_BYTES], header)
    return header[8]


def walked_time(batch: bytes | memoryview, header: Header) -> int:
    """As `largest_time`, by the records of the batch. Of a payload that cannot be read the header
    counts.
    """
    try:
        body = batch[BATCH_HEADER_BYTES : header[1] + LOG_OVERHEAD_BYTES]
        codec = header[5] & COMPRESSION_MASK
        deltas = _deltas(bytes(decompress(codec, body, DECOMPRESSED_BYTES.value)), header[12])
    except ProtocolError:
        return max(header[8], header[7], NO_TIMESTAMP)
    base = header[7]
    if base + min(deltas) >= -SIGN and base + max(deltas) < SIGN:
        return max(base + max(deltas), NO_TIMESTAMP)
    fields = BatchHeader._make(header)
    return max(NO_TIMESTAMP, *[timestamp_of(fields, delta) for delta in deltas])


def _deltas(body: bytes, count: int) -> list[int]:
    """Return the timestamp deltas of all records. Raises ProtocolError."""
    deltas: list[int] = []
    position = 0
    try:
        for _ in range(count):
            size = body[position]
            if size < 128:
                size, position = size >> 1, position + 1
            else:
                size, position = signed(body, position, 32)
            delta = body[position + 1]
            deltas.append(
                delta >> 1 ^ -(delta & 1) if delta < 128 else signed(body, position + 1)[0]
            )
            position += size
            if size < 1:
                raise ProtocolError(f"a record of {size} bytes")
    except IndexError as error:
        raise ProtocolError("a record ends behind its batch") from error
    return deltas
