"""Lag of flows, on a cluster of three: ends are those of now, whatever a batch was planned with. No
Spark.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftka.client.blocking.producer import Producer
from raftka.pipeline.running import lag as lags
from raftka.pipeline.running.lag import Ends, Lag, LagWatch, committed_in, parsed, positions_of
from raftka.pipeline.topics.positions import Position
from raftka.testing import Cluster
from tests.pipeline.players import Player


@pytest.fixture
def ends(cluster: Cluster, player: Player) -> Iterator[Ends]:
    asking = Ends({}, {"kafka.bootstrap.servers": cluster.bootstrap_servers})
    yield asking
    asking.close()


def write(player: Player, topic: str, partition: int, at_ms: int, count: int = 1) -> None:
    producer = Producer(player.brokers)
    for _ in range(count):
        producer.add((topic, partition), (None, b"x", (), at_ms))
    producer.flush()


def lag(ends: Ends, *positions: Position, now_ms: float | None = None) -> Lag:
    return lags.lag_of(
        positions, ends.ask(positions), time.time() * 1000 if now_ms is None else now_ms
    )


def test_lag_is_counted_to_the_ends_of_now(cluster: Cluster, player: Player, ends: Ends) -> None:
    topic = cluster.create_topic(partitions=2)
    write(player, topic, 0, 1_000_000, 5)
    at = Position({(topic, 0): 5, (topic, 1): 0})
    assert lag(ends, at) == Lag(0, 0.0)

    write(player, topic, 0, 1_060_000, 3)
    write(player, topic, 0, 1_090_000, 4)
    write(player, topic, 1, 1_080_000)
    assert lag(ends, at, now_ms=1_180_000) == Lag(8, 120.0)  # the oldest that waits
    assert lag(ends, Position({(topic, 0): 8, (topic, 1): 0}), now_ms=1_180_000) == Lag(5, 100.0)


def test_lags_of_several_topics_are_added(cluster: Cluster, player: Player, ends: Ends) -> None:
    one, other = cluster.create_topic(), cluster.create_topic()
    write(player, one, 0, 1_000_000, 2)
    write(player, other, 0, 1_100_000, 3)

    assert lag(ends, Position({(one, 0): 0}), Position({(other, 0): 0}), now_ms=1_100_000) == Lag(
        5, 100.0
    )


def test_new_partitions_count_and_a_topic_made_again_counts_as_a_whole(
    cluster: Cluster, player: Player, ends: Ends
) -> None:
    topic = cluster.create_topic(partitions=2)
    write(player, topic, 0, 1_000_000, 5)
    write(player, topic, 1, 1_000_000, 4)
    player.delete_records(topic, 2)
    old = "0123456789abcdef" * 2

    assert lag(ends, Position({(topic, 0): 5}))[0] == 4
    assert lag(ends, Position({(topic, 0): 900, (topic, 1): 4}, {topic: old}))[0] == 3 + 4


def test_an_age_needs_a_time(cluster: Cluster, player: Player, ends: Ends) -> None:
    topic = cluster.create_topic()
    write(player, topic, 0, -1, 3)

    assert lag(ends, Position({(topic, 0): 0})) == Lag(3, None)


def test_what_is_not_known_is_no_zero(cluster: Cluster, player: Player, ends: Ends) -> None:
    topic = cluster.create_topic()

    assert lag(ends) == Lag()
    assert lag(ends, Position({("nowhere", 0): 3})) == Lag()
    assert lag(ends, Position({("nowhere", 0): 3}), Position({(topic, 0): 0})) == Lag()


def test_streams_of_another_cluster_are_asked_there(cluster: Cluster, player: Player) -> None:
    topic = cluster.create_topic()
    write(player, topic, 0, 1_000_000, 3)
    asking = Ends(
        {topic: {"kafka.bootstrap.servers": cluster.bootstrap_servers}},
        {"kafka.bootstrap.servers": "localhost:1"},
    )

    assert lag(asking, Position({(topic, 0): 1}))[0] == 2
    asking.close()


def test_a_look_asks_once_for_the_time_of_a_record(
    cluster: Cluster, player: Player, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cluster.create_topic(partitions=3)
    for partition in range(3):
        write(player, topic, partition, 1_000_000 + partition)
    asked: list[Any] = []
    stamp_of = lags.stamp_of

    def noted(*given: Any) -> int:
        asked.append(given[1:])
        return stamp_of(*given)

    monkeypatch.setattr(lags, "stamp_of", noted)
    monkeypatch.setattr(lags, "AGES_AT_ONCE", 2)
    at = Position({(topic, partition): 0 for partition in range(3)})

    assert [len(ends.ask([at]).stamps) for _ in range(3)] == [2, 3, 3]
    assert len(asked) == len(set(asked)) == 3


def test_a_watch_outlives_errors_and_old_ends_say_nothing(
    cluster: Cluster, player: Player, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, now = cluster.create_topic(), [0.0]
    write(player, topic, 0, 1_000_000, 3)
    positions = [Position({(topic, 0): 1})]
    monkeypatch.setattr(ends, "_clock", lambda: now[0])
    watch = LagWatch(ends, lambda: positions, lambda: now[0])
    assert watch.lag(positions) == Lag()
    watch.refresh()
    assert watch.lag(positions).offsets == 2

    def fail(_: Any) -> Any:
        raise KeyError("a bug")

    monkeypatch.setattr(ends, "ask", fail)
    watch.refresh()
    assert watch.lag(positions).offsets == 2
    now[0] = lags.FRESH_S + 1
    assert watch.lag(positions) == Lag()


# where a flow is


def test_a_position_is_read_in_reports_and_checkpoints() -> None:
    ours = {"t": {"0": 5}, "$raftka": {"topicIds": {"t": "ab"}}}

    for told in (ours, json.dumps(ours), json.dumps(json.dumps(ours))):
        assert parsed(told) == Position({("t", 0): 5}, {"t": "ab"})
    others: list[Any] = [
        None,
        "-",
        "no JSON",
        {"logOffset": 0},
        {"id": 7},
        {"$raftka": {}},
        7,
        {"t": {"0": "x"}},
    ]
    for other in others:
        assert parsed(other) is None
    assert positions_of([{"endOffset": ours}, {"endOffset": {"logOffset": 3}}]) == (
        Position({("t", 0): 5}, {"t": "ab"}),
    )


def test_a_checkpoint_says_what_is_committed(tmp_path: Path) -> None:
    def planned(batch: int, offsets: dict[str, int], **ours: Any) -> None:
        position = json.dumps({"t": offsets, "$raftka": {"topicIds": {"t": "ab"}, **ours}})
        (tmp_path / "offsets").mkdir(exist_ok=True)
        (tmp_path / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{position}')

    assert committed_in(str(tmp_path)) is None
    planned(0, {"0": 10}, began={"t": {"0": 3}})
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / ".0.crc").touch()
    assert committed_in(str(tmp_path)) == (Position({("t", 0): 3}, {"t": "ab"}, {("t", 0): 3}),)
    planned(1, {"0": 20})
    (tmp_path / "commits" / "0").touch()
    (found,) = committed_in(f"file:{tmp_path}") or ()
    assert found.offsets == {("t", 0): 10}
    assert committed_in("s3a://bucket/checkpoint") is None
