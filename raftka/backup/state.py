"""The state that records in a backup's coordinator topics add up to: committed offsets of groups,
and transactional ids.
"""

from collections.abc import Iterable, Iterator

from raftka.backup.contents import batches_of
from raftka.backup.manifest import Manifest
from raftka.backup.places import Place
from raftka.coordinator.records import (
    OFFSET_COMMIT_KEYS,
    CommittedOffset,
    kind,
    read_offset_key,
    read_offset_value,
)
from raftka.coordinator.transactions.records import (
    TRANSACTION_KEY,
    Transaction,
    read_key,
    read_value,
)
from raftka.log.producers.markers import read_marker
from raftka.log.segments.scan import Header
from raftka.wire.records import CONTROL, TRANSACTIONAL, records_of

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
OffsetKey = tuple[str, str, int]  # group, topic, partition
Batches = Iterable[tuple[Header, memoryview]]


def offsets_in(place: Place, manifest: Manifest) -> dict[OffsetKey, CommittedOffset]:
    """Return all committed offsets; those of transactions that were open at the cut are none."""
    found: dict[OffsetKey, CommittedOffset] = {}
    for partition in manifest.partitions:
        if partition.topic == OFFSETS:
            found |= committed_offsets(
                (header, batch) for _, header, batch in batches_of(place, partition)
            )
    return found


def transactions_in(place: Place, manifest: Manifest) -> dict[str, Transaction]:
    found: dict[str, Transaction] = {}
    for partition in manifest.partitions:
        if partition.topic == TRANSACTIONS:
            found |= transactions_of(
                (header, batch) for _, header, batch in batches_of(place, partition)
            )
    return found


def committed_offsets(batches: Batches) -> dict[OffsetKey, CommittedOffset]:
    """Return the offsets that the batches of one partition of __consumer_offsets leave. Raises
    NewerFormat, ProtocolError, ValueError.
    """
    found: dict[OffsetKey, CommittedOffset] = {}
    pending: dict[int, list[tuple[OffsetKey, CommittedOffset | None]]] = {}
    for header, batch in batches:
        if header[5] & CONTROL:
            marker = read_marker(batch)
            if marker is not None:
                ended = pending.pop(marker.producer_id, [])
                for key, value in ended if marker.commit else ():
                    _put(found, key, value)
            continue
        changes = list(_offset_changes(batch))
        if header[5] & TRANSACTIONAL:
            pending.setdefault(header[9], []).extend(changes)
        else:
            for key, value in changes:
                _put(found, key, value)
    return found


def _offset_changes(batch: memoryview) -> Iterator[tuple[OffsetKey, CommittedOffset | None]]:
    for record in records_of(batch):
        if record.key is not None and kind(record.key) in OFFSET_COMMIT_KEYS:
            value = None if record.value is None else read_offset_value(record.value)
            yield read_offset_key(record.key), value


def _put(
    found: dict[OffsetKey, CommittedOffset], key: OffsetKey, value: CommittedOffset | None
) -> None:
    if value is None:
        found.pop(key, None)
    else:
        found[key] = value


def transactions_of(batches: Batches) -> dict[str, Transaction]:
    """Return the transactional ids that the batches of one partition of __transaction_state leave.
    Raises NewerFormat, ProtocolError, ValueError.
    """
    found: dict[str, Transaction] = {}
    for _, batch in batches:
        for record in records_of(batch):
            if record.key is None or kind(record.key) != TRANSACTION_KEY:
                continue
            if record.value is None:
                found.pop(read_key(record.key), None)
            else:
                found[read_key(record.key)] = read_value(record.value)
    return found
