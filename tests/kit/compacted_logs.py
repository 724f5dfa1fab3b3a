"""Batches as a cleaner leaves them."""

from raftka.log.log import Log
from raftka.wire.records import BATCH_HEADER, BATCH_HEADER_BYTES, iterate
from raftka.wire.records import seal as sealed
from tests.log.compacting import pairs_batch
from tests.log.given import NOW, content

A, B, C = b"a", b"b", b"c"


def first(
    log: Log, offset: int, up_to: int | None = None, max_bytes: int = 1 << 20
) -> tuple[int, int]:
    """Base offset and number of records of the first batch that a consumer gets."""
    spans, size = log.read_for_consumer(
        offset, max_bytes, log.end_offset if up_to is None else up_to
    )
    data = content(spans)
    assert len(data) == size
    header = next(header for header, _ in iterate(memoryview(data)))
    return header.base_offset, header.count


def without_records(number: int, from_offset: int = 0, epoch: int = 0) -> memoryview:
    """Batches without records, as a cleaner leaves one for each producer."""
    batches = bytearray()
    for offset in range(from_offset, from_offset + number):
        batch = bytearray(BATCH_HEADER_BYTES)
        BATCH_HEADER.pack_into(
            batch, 0, offset, BATCH_HEADER_BYTES - 12, epoch, 2, 0, 0, 0, NOW, NOW, offset, 0, 0, 0
        )
        sealed(batch)
        batches += batch
    return memoryview(batches)


def copied(log: Log, *batches: memoryview, epoch: int = 0) -> None:
    for each in batches:
        log.append_as_follower(each, epoch)
        log.write_staged()


def at(offset: int, epoch: int = 0) -> memoryview:
    batch = pairs_batch((C, b"1"))
    batch[:8], batch[12:16] = offset.to_bytes(8, "big"), epoch.to_bytes(4, "big")
    return batch
