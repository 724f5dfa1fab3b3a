"""The time of the first record that is not consumed, out of answers and out of a real log."""

import time
from collections.abc import Mapping

import pytest

from raftka.client.blocking.client import Client, Where
from raftka.client.blocking.every_broker import Answers
from raftka.console.groups.facts import next_records
from raftka.console.groups.memory import Memory
from raftka.console.groups.next_records import (
    FETCH_BY_NAME,
    LOG_STARTS_LATER,
    NO_TIME,
    ONLY_MARKERS,
    SHARE_BYTES,
    TOO_LARGE,
    UNREADABLE,
    Found,
    NextRecord,
    RecordTimes,
    find_first,
)
from raftka.console.view.view import View
from raftka.log.producers.markers import Marker, marker_batch
from raftka.testing import Cluster
from raftka.wire.compression import ZSTD
from raftka.wire.messages.delete_records import DELETE_RECORDS
from raftka.wire.messages.fetch import FETCH, FetchRequest, FetchResponse
from raftka.wire.records import DELETE_HORIZON, build_batch, seal
from tests.clients.hanging import begin
from tests.kit.groups import produce

TIMES = [1_000, 3_000, 2_000]


def batch(base_offset: int = 10, *, compression: int = 0, timestamp_type: int = 0) -> bytearray:
    records = [(None, b"value", (), time_ms) for time_ms in TIMES]
    return build_batch(
        records,
        base_offset=base_offset,
        compression=compression,
        timestamp_type=timestamp_type,
    )


def control(offset: int) -> bytearray:
    marker = Marker(producer_id=1, epoch=0, coordinator_epoch=0, commit=True, version=0)
    return marker_batch(marker, offset, 0, 500)


def first(records: bytes | bytearray, offset: int) -> Found:
    return find_first(memoryview(bytes(records)), offset)


@pytest.mark.parametrize("compression", [0, ZSTD])
@pytest.mark.parametrize("at", range(3))
def test_a_record_inside_a_batch(at: int, compression: int) -> None:
    found = first(batch(compression=compression), 10 + at)
    assert found.record == NextRecord(TIMES[at], 10 + at)


def test_batches_before_the_offset_and_markers_are_passed() -> None:
    assert first(batch(0) + control(3) + batch(4), 3).record == NextRecord(1_000, 4)
    assert first(batch(0) + control(3), 3) == Found(None, 4)


def test_the_header_of_a_cut_batch_has_the_first_time() -> None:
    whole = batch()
    assert first(whole[:70], 10).record == NextRecord(1_000, 10)
    assert first(whole[:70], 9).record == NextRecord(1_000, 10)
    assert first(whole[:70], 11) == Found(None, None)
    assert first(whole[:60], 10) == Found(None, None)


def test_a_log_append_time_is_that_of_all_records() -> None:
    assert first(batch(timestamp_type=1), 11).record == NextRecord(3_000, 11)
    assert first(batch(timestamp_type=1)[:70], 11).record == NextRecord(3_000, 11)


def test_a_delete_horizon_is_no_time() -> None:
    cut = batch()
    cut[22] |= DELETE_HORIZON
    seal(cut)
    assert first(cut[:70], 10) == Found(None, None)


def test_records_without_a_time_and_damaged_batches_are_named() -> None:
    old = build_batch([(None, b"value", (), -1)], base_offset=10)
    assert first(old, 10).record == NextRecord(None, 10, NO_TIME)
    damaged = batch()
    damaged[-1] ^= 1
    assert first(damaged, 10).record == NextRecord(None, why=UNREADABLE)
    damaged = batch()
    damaged[16] = 1  # an old version
    assert first(damaged, 10).record == NextRecord(None, why=UNREADABLE)


# a real log


class Asked:
    """Counts the questions to brokers."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.partitions = 0

    def __call__(self, rows: Mapping[int, FetchRequest]) -> Answers[FetchResponse]:
        self.partitions += sum(
            len(topic.partitions) for row in rows.values() for topic in row.topics
        )
        return self._view.ask(FETCH, rows, FETCH_BY_NAME)


def read(view: View, memory: Memory, offsets: Mapping[Where, int]) -> dict[Where, NextRecord]:
    view.forget()
    found, missing = next_records(view, view.metadata(), memory.times, offsets)
    assert missing == {}
    return found


def test_times_of_many_partitions_are_exact(
    cluster: Cluster, client: Client, view: View, memory: Memory
) -> None:
    """Small batches in one answer, and large ones alone."""
    topic = cluster.create_topic(partitions=6)
    now = round(time.time() * 1000)
    offsets = {}
    for partition in range(6):
        times = [now - 1_000 * partition - 10 * at for at in range(40)]
        size = SHARE_BYTES // 10 if partition % 2 else 10
        produce(client, (topic, partition), times, size=size)
        offsets[topic, partition] = 7 * partition
    found = read(view, memory, offsets)
    assert found == {
        (topic, partition): NextRecord(now - 1_070 * partition, 7 * partition)
        for partition in range(6)
    }


def test_a_time_is_read_once(cluster: Cluster, client: Client, view: View) -> None:
    topic = cluster.create_topic(partitions=2)
    for partition in range(2):
        produce(client, (topic, partition), [1_000, 2_000, 3_000])
    times, asked = RecordTimes(), Asked(view)
    led = view.metadata().by_leader([(topic, 0), (topic, 1)])
    first_time, _ = times.read({(topic, 0): 1, (topic, 1): 1}, led, asked)
    again, _ = times.read({(topic, 0): 1, (topic, 1): 2}, led, asked)
    assert asked.partitions == 3
    assert first_time == {(topic, 0): NextRecord(2_000, 1), (topic, 1): NextRecord(2_000, 1)}
    assert again == {(topic, 0): NextRecord(2_000, 1), (topic, 1): NextRecord(3_000, 2)}


def test_what_is_left_may_be_markers_only(
    cluster: Cluster, client: Client, view: View, memory: Memory
) -> None:
    topic = cluster.create_topic(partitions=1)
    producer = begin(client, f"id-{topic}")
    producer.add(topic, 0)
    producer.send(topic, 0)
    assert producer.end(commit=True) == 0
    deadline = time.monotonic() + 30
    while view.metadata(0.0) and client.offsets({(topic, 0): -1})[topic, 0] < 2:
        assert time.monotonic() < deadline
    assert read(view, memory, {(topic, 0): 1}) == {(topic, 0): NextRecord(None, 2, ONLY_MARKERS)}


def test_a_log_that_starts_later_is_named(
    cluster: Cluster, client: Client, view: View, memory: Memory
) -> None:
    topic = cluster.create_topic(partitions=1)
    produce(client, (topic, 0), [1_000] * 5)
    rows = DELETE_RECORDS.request.topics
    client.ask_leader(
        (topic, 0),
        DELETE_RECORDS,
        DELETE_RECORDS.request(
            topics=[rows(name=topic, partitions=[rows.partitions(partition_index=0, offset=4)])],
            timeout_ms=10_000,
        ),
    )
    found = read(view, memory, {(topic, 0): 1})
    assert found == {(topic, 0): NextRecord(None, why=LOG_STARTS_LATER)}


def test_large_batches_end_at_the_bound(
    cluster: Cluster,
    client: Client,
    view: View,
    memory: Memory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from raftka.console.groups import next_records as module
    from raftka.limits import Limit

    monkeypatch.setattr(module, "TIMES_BYTES", Limit("", 100_000, ""))
    topic = cluster.create_topic(partitions=9)
    for partition in range(9):
        produce(client, (topic, partition), [1_000, 2_000], size=20_000)
    offsets = {(topic, partition): 1 for partition in range(9)}
    found = read(view, memory, offsets)
    reasons = [each.why for each in found.values()]
    assert 0 < reasons.count(TOO_LARGE) < 9
    assert {each.time_ms for each in found.values() if not each.why} == {2_000}
    for _ in range(8):  # each look goes on where the last one ended
        found = read(view, memory, offsets)
    assert {each.time_ms for each in found.values()} == {2_000}
