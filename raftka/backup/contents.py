"""The batches in a backup, read and checked: each CRC, the order of offsets, and the ends."""

from collections.abc import Iterator

from raftka.backup.errors import Damaged
from raftka.backup.manifest import Partition, Segment
from raftka.backup.places import Place
from raftka.checksum import crc32c
from raftka.limits import MIB
from raftka.log.segments.scan import MAGIC_POSITION, SMALLEST_LENGTH, Header
from raftka.wire.records import BATCH_HEADER, BATCH_HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC

PART_BYTES = 4 * MIB
CRC_FROM = 21  # of a batch: what its CRC is of begins there


def parts_of(place: Place, segment: Segment) -> Iterator[bytes]:
    """Read a file in parts. Raises Damaged when it is too short, or its checksum is wrong."""
    position, checksum = 0, 0
    while position < segment.size:
        try:
            part = place.read(segment.file, position, min(PART_BYTES, segment.size - position))
        except FileNotFoundError:
            part = b""
        if not part:
            raise Damaged(f"{place.where}/{segment.file} is missing, or too short")
        checksum = crc32c(part, checksum)
        position += len(part)
        yield part
    if segment.crc is not None and segment.crc != checksum:
        raise Damaged(f"{place.where}/{segment.file}: its checksum is wrong")


def batches_of(place: Place, partition: Partition) -> Iterator[tuple[Segment, Header, memoryview]]:
    """Yield the batches of a partition in order, with the files that have them; each is whole and
    sound. Raises Damaged.
    """
    expected = None
    for segment in partition.segments:
        where = f"{place.where}/{segment.file}"
        if expected is not None and segment.base_offset < expected:
            raise Damaged(f"{where} begins before offset {expected}")
        expected = segment.base_offset
        for header, batch in _whole_batches(parts_of(place, segment), where):
            if header[0] < expected or header[6] < 0:
                raise Damaged(f"{where}: a batch of offset {header[0]} behind {expected}")
            if crc32c(batch[CRC_FROM:]) != header[4]:
                raise Damaged(f"{where}: the batch at offset {header[0]} is damaged")
            expected = header[0] + header[6] + 1
            yield segment, header, batch
    if partition.segments and expected != partition.end_offset:
        raise Damaged(f"{partition.name} ends at {expected}, not at {partition.end_offset}")
    if not partition.segments and partition.start_offset != partition.end_offset:
        raise Damaged(f"{partition.name} has no records")


def _whole_batches(parts: Iterator[bytes], where: str) -> Iterator[tuple[Header, memoryview]]:
    rest = b""
    for part in parts:
        view, at = memoryview(rest + part if rest else part), 0
        while len(view) - at >= BATCH_HEADER_BYTES:
            header: Header = BATCH_HEADER.unpack_from(view, at)
            size = header[1] + LOG_OVERHEAD_BYTES
            if header[1] < SMALLEST_LENGTH or view[at + MAGIC_POSITION] != MAGIC:
                raise Damaged(f"{where}: there is no batch where one was written")
            if len(view) - at < size:
                break
            yield header, view[at : at + size]
            at += size
        rest = bytes(view[at:])
    if rest:
        raise Damaged(f"{where} ends inside a batch")
