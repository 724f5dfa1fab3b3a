"""Each event that matters is one line in one log, with what one must know to act on it."""

import io
import json
from dataclasses import replace

import pytest

from raftka.broker.telemetry.event_log import (
    LINES_A_SECOND,
    QUIET_S,
    BoundedRate,
    Events,
    LimitHits,
)
from raftka.limits import OUTPUT_BYTES, REQUESTS_IN_HAND
from raftka.metadata.image import Delta
from raftka.metadata.records import ConfigSet
from raftka.wire.messages.produce import PRODUCE
from tests.broker.requests import batch, produce, produced
from tests.broker.stage import Stage


def told(stage: Stage, event: str) -> list[dict[str, object]]:
    """Of all nodes, also of those that are gone."""
    lines = [
        json.loads(line) for log in stage.logs.values() for line in log.getvalue().splitlines()
    ]
    return [line for line in lines if line["event"] == event]


def test_the_life_of_a_cluster_in_its_logs() -> None:
    with Stage(nodes=3) as stage:
        assert len(told(stage, "controller_active")) == 1
        assert {line["broker"] for line in told(stage, "broker_registered")} == {1, 2, 3}
        assert {line["broker"] for line in told(stage, "broker_unfenced")} == {1, 2, 3}

        stage.create("t", partitions=3, replication_factor=3)
        (created,) = told(stage, "topic_created")
        assert (created["topic"], created["partitions"], created["replication_factor"]) == (
            "t",
            3,
            3,
        )

        gone = next(each for each in stage.nodes if each != stage.nodes[1].quorum.leader)
        led = [f"t-{i}" for i in range(3) if stage.leader("t", i) == gone]
        stage.kill(gone)
        stage.wait(lambda: not any(node.image.alive(gone) for node in stage.nodes.values()))
        stage.world.run(stage.world.now + 1.0)
        (fenced,) = told(stage, "broker_fenced")
        assert fenced["broker"] == gone
        (moved,) = told(stage, "leaders_changed")
        assert (moved["count"], moved["partitions"]) == (len(led), led)
        assert sum(int(str(line["count"])) for line in told(stage, "isr_shrunk")) == 3 - len(led)

        stage.start(gone)
        stage.wait(
            lambda: sum(int(str(line["count"])) for line in told(stage, "isr_expanded")) == 3
        )
        stage.delete("t")
        stage.wait(lambda: len(told(stage, "topic_deleted")) == 1)


def test_partitions_without_a_leader_are_reported() -> None:
    with Stage(nodes=3, min_insync_replicas="1") as stage:
        stage.create("t", partitions=3, replication_factor=1)
        alone = next(i for i in range(3) if stage.leader("t", i) != stage.nodes[1].quorum.leader)
        stage.kill(stage.leader("t", alone))
        stage.wait(lambda: bool(told(stage, "partitions_offline")))

        (line,) = told(stage, "partitions_offline")
        assert (line["count"], line["partitions"]) == (1, [f"t-{alone}"])


def test_segments_come_and_go_in_one_line_each() -> None:
    with Stage(log_retention_check_interval_ms="1000") as stage:
        stage.create("t", configs={"segment_bytes": "1048576", "retention_bytes": "1048576"})
        wire = stage.wire()
        for _ in range(8):
            assert produced(wire.ask(PRODUCE, produce("t", batch(bytes(500_000))))).error_code == 0
        stage.wait(lambda: bool(stage.events("segments_deleted")))

        rolled = stage.events("segment_rolled")
        assert len(rolled) == stage.counted("raftka_segments_rolled_total") == 3
        assert [line["base_offset"] for line in rolled] == [2, 4, 6]
        assert sum(line["count"] for line in stage.events("segments_deleted")) == stage.counted(
            "raftka_segments_deleted_total"
        )


def test_an_unclean_election_is_reported_and_counted() -> None:
    with Stage() as stage:
        stage.create("t")
        node = stage.nodes[1]
        before = node.image
        (topic,) = before.topics.values()
        partition = topic.partitions[0]._replace(leader=9, isr=(9,), replicas=(1, 9))
        after = replace(before, topics={topic.topic_id: topic._replace(partitions=(partition,))})
        node.metadata_events.publish(before, after, Delta(partitions_changed=[(topic.topic_id, 0)]))

        (line,) = stage.events("unclean_election")
        assert (line["partition"], line["leader"], line["isr_before"]) == ("t-0", 9, [1])
        assert stage.counted("kafka_controller_controllerstats_uncleanleaderelections_total") == 1


def test_a_changed_config_is_reported_by_its_name() -> None:
    with Stage() as stage:
        stage.create("t")
        node = stage.nodes[1]
        after, delta = node.image.apply(
            node.image.offset + 1, [ConfigSet(2, "t", "retention.ms", "5000")]
        )
        node.metadata_events.publish(node.image, after, delta)

        *_, line = stage.events("config_changed")
        assert (line["resource"], line["names"]) == ("t", ["retention.ms"])


def test_a_limit_that_is_hit_all_the_time_has_a_line_a_minute() -> None:
    log, now = io.StringIO(), [0.0]
    hits = LimitHits(Events(log, lambda: 0), lambda: now[0])
    for _ in range(3):
        for _ in range(1000):
            hits(OUTPUT_BYTES)
        hits(REQUESTS_IN_HAND)
        now[0] += QUIET_S

    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(line["limit"], line["times"]) for line in lines] == [
        ("output_bytes", 1),
        ("requests_in_hand", 1),
        ("output_bytes", 1000),
        ("requests_in_hand", 1),
        ("output_bytes", 1000),
        ("requests_in_hand", 1),
    ]
    assert lines[0]["allowed"] == OUTPUT_BYTES.value


def test_an_event_that_clients_cause_has_so_many_lines_a_second() -> None:
    log, now = io.StringIO(), [0.0]
    told = BoundedRate(Events(log, lambda: 0, "debug").debug, "batch_refused", lambda: now[0])
    for _ in range(2):
        for number in range(100):
            told(number=number)
        now[0] += 1.0

    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [line["number"] for line in lines] == [*range(LINES_A_SECOND)] * 2
    assert [line.get("left_out") for line in lines] == [
        *[None] * LINES_A_SECOND,
        100 - LINES_A_SECOND,
        *[None] * (LINES_A_SECOND - 1),
    ]


def test_a_refused_batch_is_reported_with_its_reason_and_its_client() -> None:
    with Stage(raftka_log_level="debug") as stage:
        stage.create("t", partitions=2)
        stage.wire().ask(PRODUCE, produce("t", batch(b"1")))
        stage.wire().ask(
            PRODUCE,
            produce(
                "t", batch(b"2", producer_id=7, producer_epoch=1, base_sequence=0), partition=1
            ),
        )
        stage.wire().ask(
            PRODUCE,
            produce(
                "t", batch(b"2", producer_id=7, producer_epoch=0, base_sequence=0), partition=1
            ),
        )
        stage.wire().ask(PRODUCE, produce("nope", batch(b"3"), partition=4))

        stale, unknown = stage.events("batch_refused")
        assert (stale["partition"], stale["error"], stale["client"], stale["bytes"]) == (
            "t-1",
            "INVALID_PRODUCER_EPOCH",
            "test",
            len(batch(b"2")),
        )
        assert (unknown["partition"], unknown["error"]) == ("nope-4", "UNKNOWN_TOPIC_OR_PARTITION")


@pytest.mark.parametrize(
    ("level", "expected"), [("debug", True), ("info", True), ("warning", False)]
)
def test_the_level_is_a_setting(level: str, expected: bool) -> None:
    with Stage(raftka_log_level=level) as stage:
        assert bool(stage.events("started")) is expected
        assert bool(stage.logs[1].getvalue()) is expected
