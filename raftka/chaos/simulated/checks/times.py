"""The times of a stored batch by its records alone: what its header says is not believed. Each
batch is walked once.
"""

from raftka.log.segments.scan import Header
from raftka.log.segments.segment import Segment
from raftka.wire.errors import ProtocolError
from raftka.wire.records import LOG_APPEND_TIME, LOG_OVERHEAD_BYTES, records_of

KEPT = 200_000  # batches whose times are remembered
_known: dict[Header, tuple[int, bool]] = {}  # the header has the CRC


def times_of(segment: Segment, position: int, header: Header) -> tuple[int, bool]:
    """The largest timestamp of the records, -1 if none has one; and whether some have none."""
    if not header[12]:
        return -1, False
    if header[5] & LOG_APPEND_TIME:
        return header[8], False
    found = _known.get(header)
    if found is None:
        if len(_known) >= KEPT:
            _known.clear()
        found = _known[header] = _walked(
            segment.file.read(position, header[1] + LOG_OVERHEAD_BYTES), header
        )
    return found


def _walked(batch: bytes, header: Header) -> tuple[int, bool]:
    try:
        times = [record.timestamp for record in records_of(memoryview(batch))]
    except ProtocolError:
        return header[8], header[8] < 0
    return max(-1, *times), min(times) < 0
