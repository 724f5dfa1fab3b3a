"""Delayed delivery: records of delayed topics are hidden until their time, and delivered once."""

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from raftka import versions
from raftka.broker.delivery.delayed_delivery import BYTES_OF_BATCH
from raftka.limits import PENDING_RECORDS
from raftka.metadata.image import TOPIC
from raftka.wire.errors import Code
from raftka.wire.messages.configs import INCREMENTAL_ALTER_CONFIGS
from raftka.wire.messages.delete_records import DELETE_RECORDS
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.list_offsets import LATEST, LIST_OFFSETS, MAX_TIMESTAMP
from raftka.wire.messages.log_dirs import ALTER_REPLICA_LOG_DIRS
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.topics import CREATE_TOPICS
from raftka.wire.records import Record, build_batch, iterate, records_of, seal
from tests.broker.requests import fetch, fetched, list_offsets, produce, produced
from tests.broker.stage import Stage, Wire
from tests.kit.broker.share import ShareMember, configure, initialise, shares

DELAYED = {"raftka_delivery": "delayed"}
AT = "raftka.deliver.at"


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(log_retention_check_interval_ms="1000") as stage:
        stage.create("t", configs=DELAYED)
        yield stage
        assert not stage.world.failures


@pytest.fixture
def three() -> Iterator[Stage]:
    with Stage(3) as stage:
        stage.create("t", replication_factor=3, configs=DELAYED)
        yield stage
        assert not stage.world.failures


def now_ms(stage: Stage) -> int:
    return next(iter(stage.nodes.values())).runtime.clock.wall_ms()


def timed(stage: Stage, *delays_ms: int | None, **fields: Any) -> bytes:
    """A batch whose records have these delays, counted from now; None: no header. Each value is its
    place in the batch.
    """
    now = now_ms(stage)
    records = [
        (
            None,
            b"%d" % place,
            [] if delay is None else [("own", b"1"), (AT, b"%d" % (now + delay))],
            now,
        )
        for place, delay in enumerate(delays_ms)
    ]
    return bytes(build_batch(records, **fields))


def send(stage: Stage, batch: bytes, topic: str = "t") -> Any:
    return produced(stage.wire(stage.leader(topic)).ask(PRODUCE, produce(topic, batch)))


def records_in(data: bytes) -> list[Record]:
    return [each for _, batch in iterate(memoryview(data)) for each in records_of(batch)]


def readable(stage: Stage, offset: int = 0, topic: str = "t") -> list[Record]:
    """Everything that a consumer reads from there on."""
    found: list[Record] = []
    wire = stage.wire(stage.leader(topic))
    while True:
        row = fetched(wire.ask(FETCH, fetch(topic, offset, max_wait_ms=0)))
        if row.error_code == int(Code.OFFSET_NOT_AVAILABLE):
            pass_time(stage, 0.05)
            continue
        assert row.error_code == 0, row
        some = records_in(bytes(row.records or b""))
        if not some:
            return found
        found += [each for each in some if each.offset >= offset]
        offset = some[-1].offset + 1


def values(stage: Stage, topic: str = "t") -> list[bytes | None]:
    return [record.value for record in readable(stage, topic=topic)]


def pass_time(stage: Stage, seconds: float) -> None:
    until = stage.world.now + seconds
    stage.world.run(lambda: stage.world.now >= until, at_most_s=seconds + 1)


def end_of(stage: Stage, timestamp: int = LATEST) -> int:
    answer = stage.wire(stage.leader("t")).ask(LIST_OFFSETS, list_offsets("t", timestamp))
    row = answer.topics[0].partitions[0]
    assert row.error_code == 0, row
    return int(row.offset)


def test_a_record_is_hidden_until_its_time_and_then_delivered_once(stage: Stage) -> None:
    assert send(stage, timed(stage, 1000)).base_offset == 0
    assert values(stage) == []
    pass_time(stage, 0.9)
    assert values(stage) == []
    pass_time(stage, 0.2)
    (record,) = readable(stage)
    assert (record.offset, record.value) == (1, b"0")
    names = [name for name, _ in record.headers]
    assert names == ["own", AT, "raftka.held.offset"]
    assert record.headers[-1][1] == b"0"
    pass_time(stage, 5)
    assert len(readable(stage)) == 1


def test_a_delivered_record_has_the_time_of_its_delivery(stage: Stage) -> None:
    before = now_ms(stage)
    send(stage, timed(stage, 1000))
    pass_time(stage, 2)
    (record,) = readable(stage)
    assert before + 1000 <= record.timestamp <= before + 1100


def test_records_are_delivered_in_the_order_of_their_times(stage: Stage) -> None:
    send(stage, timed(stage, 3000, 1000, 2000, 1000))
    pass_time(stage, 4)
    assert values(stage) == [b"1", b"3", b"2", b"0"]


def test_records_beside_delayed_ones_are_delivered_at_once(stage: Stage) -> None:
    send(stage, timed(stage, None, 1000, None))
    pass_time(stage, 0.1)
    assert values(stage) == [b"0", b"2"]
    pass_time(stage, 1)
    assert values(stage) == [b"0", b"2", b"1"]


def test_a_batch_without_delayed_records_is_a_plain_one(stage: Stage) -> None:
    send(stage, timed(stage, None, -1000))
    (first, second) = readable(stage)
    assert [each.offset for each in (first, second)] == [0, 1]
    assert second.headers[-1][0] == AT


def test_the_delay_of_the_topic_counts_from_the_append(stage: Stage) -> None:
    stage.create("d", configs={**DELAYED, "raftka_delivery_delay_ms": "2000"})
    send(stage, timed(stage, None, 500, compression=4), "d")
    pass_time(stage, 1)
    assert values(stage, "d") == [b"1"]
    pass_time(stage, 1.1)
    assert values(stage, "d") == [b"1", b"0"]


def test_a_retried_batch_is_delivered_once(stage: Stage) -> None:
    batch = timed(stage, 500, producer_id=7, producer_epoch=0, base_sequence=0)
    first, again = send(stage, batch), send(stage, batch)
    assert (again.error_code, again.base_offset) == (0, first.base_offset)
    pass_time(stage, 1)
    assert values(stage) == [b"0"]


@pytest.mark.parametrize(
    ("at", "text"), [(b"soon", "milliseconds since 1970"), (b"999999999999999999", "max.ms")]
)
def test_a_wrong_time_is_refused(stage: Stage, at: bytes, text: str) -> None:
    batch = bytes(build_batch([(None, b"x", [(AT, at)], now_ms(stage))]))
    row = send(stage, batch)
    assert row.error_code == Code.INVALID_RECORD
    assert text in row.error_message
    assert row.record_errors[0].batch_index == 0


def test_too_many_pending_records_are_refused(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(stage, timed(stage, 1000, 1000))
    held = stage.partition("t").log.held
    assert held is not None
    stage.wait(lambda: held.pending is not None)
    monkeypatch.setattr("raftka.log.delivery.held.PENDING_RECORDS", _limit(3))
    row = send(stage, timed(stage, 1000, 1000))
    assert row.error_code == Code.POLICY_VIOLATION
    assert stage.counted(PENDING_RECORDS.metric) == 1
    assert send(stage, timed(stage, 1000)).error_code == 0


def _limit(value: int) -> Any:
    return type(PENDING_RECORDS)(PENDING_RECORDS.name, value, PENDING_RECORDS.reason)


def test_the_end_and_searches_by_time_pass_by_held_records(stage: Stage) -> None:
    send(stage, timed(stage, None))
    assert (end_of(stage), end_of(stage, MAX_TIMESTAMP)) == (1, 0)
    pass_time(stage, 1)
    since = now_ms(stage)
    send(stage, timed(stage, 1000, 1500))
    assert end_of(stage) == 1
    assert (end_of(stage, since), end_of(stage, MAX_TIMESTAMP)) == (-1, 0)
    pass_time(stage, 1.2)
    assert end_of(stage) == 4
    assert (end_of(stage, since), end_of(stage, MAX_TIMESTAMP)) == (3, 3)


def test_a_waiting_consumer_gets_a_record_when_it_is_due(stage: Stage) -> None:
    send(stage, timed(stage, 1000))
    began = stage.world.now
    wire = stage.wire()
    row = fetched(wire.ask(FETCH, fetch("t", 0, max_wait_ms=5000, min_bytes=1)))
    assert 0.99 <= stage.world.now - began < 1.1
    (record,) = records_in(bytes(row.records or b""))
    assert record.offset == 1


def test_no_client_can_hold_or_deliver_by_attributes(stage: Stage) -> None:
    for bit in (0x4000, 0x2000):
        batch = bytearray(timed(stage, None))
        batch[21:23] = bit.to_bytes(2, "big")
        seal(batch)
        assert send(stage, bytes(batch)).error_code == 0
    stage.kill(1)
    stage.start(1)
    stage.wait(stage.nodes[1].ready.is_set)
    assert [record.offset for record in readable(stage)] == [0, 1]


def lead(stage: Stage, node_id: int) -> None:
    """Let another node lead, by an end of the present leader."""
    stage.kill(node_id)
    stage.wait(lambda: stage.leader("t") not in (-1, node_id))


def test_the_next_leader_delivers_what_is_pending_and_nothing_else(three: Stage) -> None:
    send(three, timed(three, 500, 8000, 6000))
    pass_time(three, 1)
    assert values(three) == [b"0"]
    lead(three, three.leader("t"))
    assert values(three) == [b"0"]
    pass_time(three, 10)
    assert values(three) == [b"0", b"2", b"1"]


def test_a_cold_start_finds_what_is_pending(stage: Stage) -> None:
    for delay in (200, 300, 3_000, 400):
        send(stage, timed(stage, delay))
    pass_time(stage, 1)
    assert values(stage) == [b"0"] * 3
    stage.kill(1, power_loss=True)
    stage.start(1)
    stage.wait(stage.nodes[1].ready.is_set)
    pass_time(stage, 4)
    found = readable(stage)
    assert [record.headers[-1][1] for record in found] == [b"0", b"1", b"3", b"2"]


def test_too_few_replicas_deliver_nothing(three: Stage) -> None:
    send(three, timed(three, 2000))
    leader, log = three.leader("t"), three.partition("t").log
    other = next(node_id for node_id in three.nodes if node_id != leader)
    state = three.partition("t").leader
    assert state is not None
    three.set(TOPIC, "t", min_insync_replicas="3")
    three.kill(other)
    three.wait(lambda: state.under_min_isr)
    pass_time(three, 4)
    assert log.end_offset == 1
    three.start(other)
    three.wait(lambda: three.partition("t").high_watermark == 2)
    assert three.leader("t") == leader
    assert values(three) == [b"0"]


def test_retention_keeps_pending_records(stage: Stage) -> None:
    stage.set(TOPIC, "t", segment_ms="1000", retention_ms="2000", internal_segment_bytes="150")
    send(stage, timed(stage, None))
    assert send(stage, timed(stage, 600_000)).error_code == 0
    for _ in range(3):
        send(stage, timed(stage, None))
    assert len(stage.partition("t").log.segments) > 2
    stage.wait(lambda: stage.partition("t").log.start_offset == 1, at_most_s=400)
    pass_time(stage, 300)
    assert stage.partition("t").log.start_offset == 1
    assert len(readable(stage, 1)) == 3
    stage.wait(lambda: stage.partition("t").log.start_offset > 1, at_most_s=400)


def test_delete_records_stops_at_the_first_pending_record(stage: Stage) -> None:
    send(stage, timed(stage, None, None))
    send(stage, timed(stage, 5000))
    send(stage, timed(stage, None))
    held = stage.partition("t").log.held
    assert held is not None
    stage.wait(lambda: held.pending is not None)
    assert deleted(stage, 4) == 2
    pass_time(stage, 6)
    assert values_from(stage, 2) == [b"0", b"0"]
    assert deleted(stage, -1) == 5


def deleted(stage: Stage, offset: int) -> int:
    request = DELETE_RECORDS.request
    asked = request.topics.partitions(partition_index=0, offset=offset)
    topics = [request.topics(name="t", partitions=[asked])]
    answer = stage.wire().ask(DELETE_RECORDS, request(topics=topics, timeout_ms=5000))
    return int(answer.topics[0].partitions[0].low_watermark)


def values_from(stage: Stage, offset: int) -> list[bytes | None]:
    return [record.value for record in readable(stage, offset)]


def refusal(stage: Stage, topic: str, **configs: str | None) -> tuple[int, str]:
    """The answer to a change of a topic's settings."""
    request = INCREMENTAL_ALTER_CONFIGS.request
    row = request.resources.configs
    given = [
        row(name=key.replace("_", "."), config_operation=int(value is None), value=value)
        for key, value in configs.items()
    ]
    resource = request.resources(resource_type=TOPIC, resource_name=topic, configs=given)
    wire: Wire = stage.wire()
    (answer,) = wire.ask(INCREMENTAL_ALTER_CONFIGS, request(resources=[resource])).responses
    return answer.error_code, answer.error_message or ""


@pytest.mark.parametrize(
    ("topic", "configs", "text"),
    [
        ("t", {"raftka_delivery": None}, "stays as long as the topic"),
        ("t", {"raftka_delivery": "immediate"}, "stays as long as the topic"),
        ("t", {"cleanup_policy": "compact"}, "exclude each other"),
        ("t", {"cleanup_policy": "compact,delete"}, "exclude each other"),
        ("t", {"raftka_delivery_delay_ms": "604800001"}, "is above raftka.delivery.max.ms"),
        ("plain", {"raftka_delivery_delay_ms": "1"}, "needs raftka.delivery=delayed"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(
    stage: Stage, topic: str, configs: dict[str, str | None], text: str
) -> None:
    stage.create("plain")
    code, message = refusal(stage, topic, **configs)
    assert code == Code.INVALID_CONFIG
    assert text in message


def test_below_its_level_the_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(versions.SUPPORTED, versions.RAFTKA_VERSION, (1, 2))
    monkeypatch.setitem(versions.FORMED_WITH, versions.RAFTKA_VERSION, 2)
    with Stage() as stage:
        request = CREATE_TOPICS.request
        configs = [request.topics.configs(name="raftka.delivery", value="delayed")]
        topic = request.topics(name="t", num_partitions=1, replication_factor=1, configs=configs)
        (created,) = stage.wire().ask(CREATE_TOPICS, request(topics=[topic])).topics
        assert created.error_code == Code.INVALID_CONFIG
        assert "raftka.version 3" in (created.error_message or "")
        stage.create("plain")
        code, message = refusal(stage, "plain", raftka_delivery="delayed")
        assert code == Code.INVALID_CONFIG
        assert "raftka.version 3" in message


def test_it_can_be_switched_on_later(stage: Stage) -> None:
    stage.create("plain")
    send(stage, timed(stage, 1000), "plain")
    assert values(stage, "plain") == [b"0"]
    stage.set(TOPIC, "plain", raftka_delivery="delayed")
    send(stage, timed(stage, None, 1000), "plain")
    pass_time(stage, 0.5)
    assert values(stage, "plain") == [b"0", b"0"]
    pass_time(stage, 1)
    assert values(stage, "plain") == [b"0", b"0", b"1"]


def test_share_groups_get_delayed_records_at_their_time() -> None:
    settings: dict[str, Any] = {"group_share_min_record_lock_duration_ms": "1000"}
    with shares(), Stage(**settings) as stage:
        place = stage.create("t", configs=DELAYED), 0
        configure(stage, "g", share_auto_offset_reset="earliest")
        send(stage, timed(stage, None))
        send(stage, timed(stage, 1000, 1000))
        initialise(stage, "g", place)
        member = ShareMember(stage, "g")
        assert member.acquire(place) == [(0, 0, 1)]
        assert member.done(place, 0, 0) is Code.NONE
        assert member.acquire(place, max_wait_ms=100) == []
        assert member.acquire(place, max_wait_ms=3000) == [(3, 4, 1)]
        assert member.done(place, 3, 4) is Code.NONE
        assert member.acquire(place, max_wait_ms=100) == []
        assert not stage.world.failures


def test_the_metrics_count_pending_and_delivered_records(stage: Stage) -> None:
    send(stage, timed(stage, 500, 500, 9000))
    pass_time(stage, 2)
    held = stage.partition("t").log.held
    assert held is not None
    assert held.pending is not None
    assert len(held.pending) == 1
    assert stage.counted("raftka_delayed_records_delivered_total") == 2
    lateness = stage.nodes[1].metrics.lateness
    assert lateness.count == 2
    assert lateness.sum_s < 0.1


def test_many_records_due_at_once_keep_no_turn_long(stage: Stage) -> None:
    """100,000 records of one time are delivered in slices."""
    at = 3000 - now_ms(stage) % 1000
    for _ in range(100):
        send(stage, timed(stage, *[at] * 1000))
    log = stage.partition("t").log
    stage.wait(lambda: log.end_offset == 200_000)
    assert stage.nodes[1].dispatcher.long_work.slices > 100


def test_headers_count_to_the_size_of_a_delivered_batch(stage: Stage) -> None:
    at = b"%d" % (now_ms(stage) + 1000)
    record = (None, b"v", [("large", bytes(50_000)), (AT, at)], now_ms(stage))
    for _ in range(2):
        send(stage, bytes(build_batch([record] * 10)))
    pass_time(stage, 1.2)
    row = fetched(stage.wire(stage.leader("t")).ask(FETCH, fetch("t", 20)))
    sizes = [len(batch) for _, batch in iterate(memoryview(bytes(row.records or b"")))]
    assert len(sizes) == 10
    assert max(sizes) < BYTES_OF_BATCH


def test_a_topic_without_delays_costs_no_call() -> None:
    """Nothing of delayed delivery runs for a record or a fetch of another topic."""
    with Stage(3) as stage:
        stage.create("t")
        wire = stage.wire(stage.leader("t"))
        folders = ("/raftka/log/delivery/", "/raftka/broker/delivery/")
        called: list[str] = []

        def note(frame: FrameType, event: str, _: Any) -> None:
            if event == "call" and any(each in frame.f_code.co_filename for each in folders):
                called.append(frame.f_code.co_qualname)

        sys.setprofile(note)
        try:
            for _ in range(20):
                assert produced(wire.ask(PRODUCE, produce("t", timed(stage, None)))).error_code == 0
                fetched(wire.ask(FETCH, fetch("t", max_wait_ms=0)))
                wire.ask(LIST_OFFSETS, list_offsets("t", LATEST))
        finally:
            sys.setprofile(None)
        assert called == []


def test_a_follower_in_the_readers_rack_hides_held_records() -> None:
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    with Stage(3, replica_selector_class=selector, broker_rack="r") as stage:
        stage.create("t", replication_factor=3, configs=DELAYED)
        send(stage, timed(stage, None))
        send(stage, timed(stage, 3000))
        send(stage, timed(stage, None))
        follower = next(node_id for node_id in stage.nodes if node_id != stage.leader("t"))

        def read(offset: int) -> Any:
            asked = fetch("t", offset, rack_id="r", max_wait_ms=500)
            return fetched(stage.wire(follower).ask(FETCH, asked))

        stage.wait(lambda: stage.partition("t", node_id=follower).high_watermark == 3)
        row = read(0)
        assert [each.offset for each in records_in(bytes(row.records or b""))] == [0]
        stage.kill(follower)
        stage.start(follower)
        stage.wait(stage.nodes[follower].ready.is_set)
        stage.wait(lambda: read(1).error_code == 0 and bool(read(1).records))
        assert [each.offset for each in records_in(bytes(read(1).records or b""))] == [2]
        stage.wait(lambda: stage.partition("t", node_id=follower).high_watermark == 4)
        assert [each.offset for each in records_in(bytes(read(3).records or b""))] == [3]


def test_a_replica_that_moves_to_another_directory_goes_on() -> None:
    with Stage(log_dirs="/data,/more") as stage:
        stage.create("t", configs=DELAYED)
        send(stage, timed(stage, 2000, None))
        pass_time(stage, 0.5)
        partition = stage.partition("t")
        before, home = partition.log, partition.home
        other = "/more" if home.path == "/data" else "/data"
        request = ALTER_REPLICA_LOG_DIRS.request
        topics = [request.dirs.topics(name="t", partitions=[0])]
        row = request(dirs=[request.dirs(path=other, topics=topics)])
        stage.wire().ask(ALTER_REPLICA_LOG_DIRS, row)
        stage.wait(lambda: partition.log is not before)
        assert values(stage) == [b"1"]
        pass_time(stage, 3)
        assert values(stage) == [b"1", b"0"]
