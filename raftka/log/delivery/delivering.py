"""The second life of held records: read them where they are, and make the batch that delivers
them.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from raftka.log.config import LogConfig
from raftka.log.delivery.due import DELIVERING, HELD_OFFSET, codec_of
from raftka.log.delivery.held import DueRecord
from raftka.log.segments.segment_list import SegmentList
from raftka.log.validation import CODEC_OF_TOPIC
from raftka.runtime.interfaces import Buffer, File
from raftka.wire.compression import compress
from raftka.wire.errors import ProtocolError
from raftka.wire.records import (
    BATCH_HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
    NewRecord,
    batch_of,
    encode_record,
    read_header,
    read_record,
    size_of_record,
)

MOST_LOCATED = 10_000  # batches whose place is remembered, of all logs of a node
READ_BYTES = 4096  # for a record whose size is not known yet


class HeldLog(Protocol):
    """The log that has the records."""

    config: LogConfig
    end_offset: int
    segments: SegmentList

    def write_staged(self) -> None: ...


class HeldRecord(NamedTuple):
    offset: int  # of its first life
    base: int  # the base offset of its held batch
    codec: int  # with which that batch came
    size: int  # in bytes, as it was held
    record: NewRecord  # with the header that names the offset


class _Located(NamedTuple):
    """A held batch in its file."""

    file: File
    position: int
    header: BatchHeader


class HeldReader:
    """Reads held records one by one, in any order, and remembers where their batches are."""

    __slots__ = ("_located",)

    def __init__(self) -> None:
        # by the log and the batch's base offset, the oldest first
        self._located: OrderedDict[tuple[HeldLog, int], _Located] = OrderedDict()

    def read(self, log: HeldLog, due: DueRecord) -> HeldRecord:
        """Return the record. Raises OSError, ProtocolError."""
        key = log, due.base
        located = self._located.get(key)
        if located is None:
            located = self._located[key] = _locate(log, due.base)
            if len(self._located) > MOST_LOCATED:
                self._located.popitem(last=False)
        file, position, header = located
        start = position + due.place
        data = file.read(start, min(READ_BYTES, header.size_bytes - due.place))
        size, head = size_of_record(data, 0)
        if head + size > len(data):
            data = file.read(start, head + size)
        found = read_record(data, head, head + size, header)
        if found.offset != due.offset:
            raise ProtocolError(f"there is the record {found.offset} in place of {due.offset}")
        headers = *found.headers, (HELD_OFFSET, b"%d" % due.offset)
        made = found.key, found.value, headers, found.timestamp
        return HeldRecord(due.offset, due.base, codec_of(header), size, made)

    def forget(self, log: HeldLog) -> None:
        """Forget where the batches of a log are: it may have been cut, or be gone."""
        for key in [key for key in self._located if key[0] is log]:
            del self._located[key]


def _locate(log: HeldLog, base: int) -> _Located:
    segment = log.segments[log.segments.slot_of(base)]
    log.write_staged()
    place = segment.locate(base, log.segments.written_size_of(segment))
    assert place is not None, f"no held batch reaches offset {base}"
    header = read_header(segment.file.read(place[0], BATCH_HEADER_BYTES))
    return _Located(segment.file, place[0], header)


def make_batch(
    records: Sequence[HeldRecord], config: LogConfig, now_ms: int, distance: int
) -> memoryview:
    """Return a batch that delivers these records, to be appended as it is.

    Its records have the time of their delivery, so that retention and searches by time count from
    there. `distance`: as `distance_to` has it. It stands in the place of the first sequence, which
    no reader looks at where no producer id is given.
    """
    base_timestamp = records[0].record[3]
    body: Buffer = b"".join(
        [encode_record(at, base_timestamp, each.record) for at, each in enumerate(records)]
    )
    codec = CODEC_OF_TOPIC.get(config.compression_type, records[0].codec)
    if codec:
        level = {1: config.gzip_level, 3: config.lz4_level, 4: config.zstd_level}.get(codec)
        body = compress(codec, body, level)
    attributes = codec | LOG_APPEND_TIME | DELIVERING
    times = base_timestamp, now_ms
    return memoryview(batch_of(body, len(records), attributes, times, (-1, -1, distance)))
