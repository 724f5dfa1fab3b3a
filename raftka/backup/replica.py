"""Write one replica's log from a backup, with the batches as they are, and end what was open at the
cut. The result depends on the backup alone: all replicas of a partition are equal.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from raftka.backup.manifest import Partition, Segment
from raftka.backup.state import OFFSETS, TRANSACTIONS, committed_offsets, transactions_of
from raftka.coordinator.machine import Record
from raftka.coordinator.records import (
    offset_key,
    offset_prefix,
    offset_topic_prefix,
    offset_value,
)
from raftka.coordinator.transactions.records import State, transaction_record
from raftka.coordinator.transactions.transaction import fenced
from raftka.log.checkpoints import PARTITION_METADATA, encode_partition_metadata
from raftka.log.config import LogConfig
from raftka.log.log import Log
from raftka.log.producers.markers import VERSION_1, Marker
from raftka.log.segments.scan import Header
from raftka.log.segments.segment import segment_path
from raftka.runtime.interfaces import File, Files
from raftka.wire.records import BATCH_HEADER, build_batch, iterate

READ_BYTES = 1 << 20
RECORDS_OF_BATCH = 1_000
EndOf = Callable[[str, int], int | None]  # of a partition; None: it is not restored


@dataclass(slots=True)
class Replica:
    end_offset: int
    aborted: int = 0
    dropped_offsets: int = 0


def write_replica(
    batches: Iterable[tuple[Segment, Header, memoryview]],
    partition: Partition,
    files: Files,
    directory: str,
    now_ms: int,
    end_of: EndOf,
) -> Replica:
    """Make the log in `directory`, durable. `now_ms`: of the batches that are added. Raises
    OSError, and the errors of `batches`.
    """
    files.make_directory(directory, durable=False)
    _copy(batches, files, directory)
    topic_id = bytes.fromhex(partition.topic_id)
    files.replace(f"{directory}/{PARTITION_METADATA}", encode_partition_metadata(topic_id))
    log = Log.open(
        files,
        directory,
        LogConfig(),
        now_ms,
        clean_shutdown=True,
        recovery_point=partition.end_offset,
        start_offset=partition.start_offset,
    )
    try:
        for segment in log.segments[:-1]:
            segment.offset_index  # noqa: B018  # makes the files of the indexes
        replica = Replica(log.end_offset)
        _abort_transactions(log, partition.leader_epoch, now_ms, replica)
        if partition.topic == TRANSACTIONS:
            _fence_producers(log, partition.leader_epoch, now_ms)
        elif partition.topic == OFFSETS:
            _mend_offsets(log, partition.leader_epoch, now_ms, end_of, replica)
        log.write_staged()
        replica.end_offset = log.end_offset
    finally:
        log.close(clean=True)
    files.sync_directory(directory)
    return replica


def _copy(
    batches: Iterable[tuple[Segment, Header, memoryview]], files: Files, directory: str
) -> None:
    file: File | None = None
    of: Segment | None = None
    parts: list[memoryview] = []
    size = 0
    for segment, _, batch in batches:
        if segment is not of:
            _end(file, parts)
            parts, size, of = [], 0, segment
            file = files.open(segment_path(directory, segment.base_offset, ".log"), create=True)
        parts.append(batch)
        size += len(batch)
        if size >= READ_BYTES and file is not None:
            file.append(parts)
            parts, size = [], 0
    _end(file, parts)


def _end(file: File | None, parts: list[memoryview]) -> None:
    if file is not None:
        if parts:
            file.append(parts)
        file.sync()
        file.close()


def _abort_transactions(log: Log, leader_epoch: int, now_ms: int, replica: Replica) -> None:
    for producer_id, producer in sorted(log.producers.producers.items()):
        if producer.transactional:
            epoch = max(producer.coordinator_epoch, 0)
            marker = Marker(producer_id, producer.epoch, epoch, commit=False, version=VERSION_1)
            log.append_marker(marker, leader_epoch, now_ms)
            replica.aborted += 1


def _fence_producers(log: Log, leader_epoch: int, now_ms: int) -> None:
    """Abort the open transactions of all ids here, under a raised epoch. As of a moment before the
    cut there are commits without a marker anywhere: their records are aborted too.
    """
    records = [
        transaction_record(transactional_id, fenced(its, now_ms))
        for transactional_id, its in transactions_of(_batches(log)).items()
        if its.state in (State.ONGOING, State.PREPARE_COMMIT)
    ]
    _append(log, records, leader_epoch, now_ms)


def _mend_offsets(
    log: Log, leader_epoch: int, now_ms: int, end_of: EndOf, replica: Replica
) -> None:
    """Remove committed offsets of partitions that are not restored, and set those behind an end to
    it: as of a moment before the cut there may be some, where clocks differ.
    """
    records = []
    for (group, topic, index), value in committed_offsets(_batches(log)).items():
        key = offset_key(offset_topic_prefix(offset_prefix(group), topic), index)
        end = end_of(topic, index)
        if end is None:
            records.append(Record(key, None))
            replica.dropped_offsets += 1
        elif value.offset > end:
            mended = value._replace(offset=end, leader_epoch=-1)
            records.append(Record(key, offset_value(*mended)))
    _append(log, records, leader_epoch, now_ms)


def _append(log: Log, records: list[Record], leader_epoch: int, now_ms: int) -> None:
    for at in range(0, len(records), RECORDS_OF_BATCH):
        rows = [(key, value, (), now_ms) for key, value in records[at : at + RECORDS_OF_BATCH]]
        log.append_of_coordinator(memoryview(build_batch(rows)), leader_epoch)


def _batches(log: Log) -> Iterator[tuple[Header, memoryview]]:
    log.write_staged()
    position = log.start_offset
    while position < log.end_offset:
        spans, _ = log.read(position, READ_BYTES, log.end_offset)
        if not spans:
            return
        for span in spans:
            for header, batch in iterate(memoryview(span.file.read(span.position, span.size))):
                yield BATCH_HEADER.unpack_from(batch), batch
                position = header.last_offset + 1
