"""The second life of held records: read them where they are, and make the batch that delivers
them.
"""

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from raftka.log.config import LogConfig
from raftka.log.delivery.due import DELIVERING, HELD_OFFSET
from raftka.log.segments.search import Steps
from raftka.log.segments.segment_list import SegmentList
from raftka.log.validation import CODEC_OF_TOPIC
from raftka.runtime.interfaces import Buffer
from raftka.wire.compression import compress
from raftka.wire.records import (
    LOG_APPEND_TIME,
    BatchHeader,
    NewRecord,
    batch_of,
    encode_record,
    opened,
    read_header,
    read_record,
    size_of_record,
)

OPENED_BYTES = 16 * 1024 * 1024  # of batches that stay opened, of all logs of a node
RECORDS_OF_STEP = 256  # whose sizes are read: some 80 us


class HeldLog(Protocol):
    """The log that has the records."""

    config: LogConfig
    end_offset: int
    segments: SegmentList

    def write_staged(self) -> None: ...


class HeldRecord(NamedTuple):
    offset: int  # of its first life
    base: int  # the base offset of its held batch
    codec: int  # of that batch
    record: NewRecord  # with the header that names the offset


class _Opened(NamedTuple):
    """A held batch, opened."""

    header: BatchHeader
    body: Buffer
    offsets: dict[int, int] | None  # place of a record by its offset; None: there are no holes
    bounds: "array[int]"  # where each record begins, behind its size
    sizes: "array[int]"

    @property
    def bytes(self) -> int:
        return len(self.body) + 16 * len(self.sizes)


class HeldReader:
    """Reads held records one by one, in any order. The batches of the last ones stay opened."""

    __slots__ = ("_bytes", "_opened")

    def __init__(self) -> None:
        self._opened: OrderedDict[tuple[HeldLog, int], _Opened] = OrderedDict()
        self._bytes = 0

    def read(self, log: HeldLog, offset: int) -> Steps[HeldRecord]:
        """Return a record of a held batch. A large batch is opened in steps. Raises OSError,
        ProtocolError.
        """
        segment = log.segments[log.segments.slot_of(offset)]
        log.write_staged()
        place = segment.locate(offset, log.segments.written_size_of(segment))
        assert place is not None, f"no held batch reaches offset {offset}"
        position, base, size = place
        batch = self._opened.get((log, base))
        if batch is None:
            batch = yield from _open(memoryview(segment.file.read(position, size)))
            self._keep((log, base), batch)
        else:
            self._opened.move_to_end((log, base))
        index = offset - base if batch.offsets is None else batch.offsets[offset]
        start = batch.bounds[index]
        found = read_record(batch.body, start, start + batch.sizes[index], batch.header)
        headers = *found.headers, (HELD_OFFSET, b"%d" % offset)
        made = found.key, found.value, headers, found.timestamp
        return HeldRecord(offset, base, batch.header.compression, made)

    def forget(self, log: HeldLog) -> None:
        """Close all batches of a log."""
        for key in [key for key in self._opened if key[0] is log]:
            self._bytes -= self._opened.pop(key).bytes

    def _keep(self, key: tuple[HeldLog, int], batch: _Opened) -> None:
        self._opened[key] = batch
        self._bytes += batch.bytes
        while self._bytes > OPENED_BYTES and len(self._opened) > 1:
            _, oldest = self._opened.popitem(last=False)
            self._bytes -= oldest.bytes


def _open(batch: memoryview) -> Steps[_Opened]:
    header, body = read_header(batch), opened(batch)
    bounds, sizes, position = array("q"), array("q"), 0
    for number in range(header.count):
        if number % RECORDS_OF_STEP == RECORDS_OF_STEP - 1:
            yield
        size, position = size_of_record(body, position)
        bounds.append(position)
        sizes.append(size)
        position += size
    offsets = None
    if header.count != header.last_offset_delta + 1:
        offsets = {
            read_record(body, start, start + size, header).offset: index
            for index, (start, size) in enumerate(zip(bounds, sizes, strict=True))
        }
    return _Opened(header, body, offsets, bounds, sizes)


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
