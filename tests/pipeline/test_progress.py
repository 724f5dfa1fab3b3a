"""A query's progress as a group's offsets, on a cluster of three: tools see it, and nothing that
goes wrong with it is felt by the query.
"""

import logging
from contextlib import closing
from typing import Any

import pytest
from click.testing import CliRunner

from raftka.cli.commands import root
from raftka.pipeline.topics import progress
from raftka.pipeline.topics.options import source_options
from raftka.pipeline.topics.positions import Offsets
from raftka.pipeline.topics.progress import AGAIN_S, RETRY_S, Progress
from raftka.pipeline.topics.source import Stream
from raftka.testing import Cluster
from tests.pipeline.players import Player


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def options(cluster: Cluster, topic: str, **given: str) -> Any:
    return source_options(
        {
            "kafka.bootstrap.servers": cluster.bootstrap_servers,
            "subscribe": topic,
            "kafka.group.id": topic,
            **given,
        },
        streaming=True,
    )


def tell(given: Any, offsets: Offsets) -> None:
    with closing(Progress(given)) as told:
        told.publish(offsets)


def lag(cluster: Cluster, group: str) -> list[list[str]]:
    """Topic, partition, offset, end and lag, as `raftka groups describe` prints them."""
    done = CliRunner().invoke(
        root, ["groups", "describe", group, "--bootstrap-server", cluster.bootstrap_servers]
    )
    assert done.exit_code == 0, done.output
    lines = [line.split() for line in done.output.splitlines()]
    assert {line[1] for line in lines[1:]} == {"Empty"}
    return [line[2:7] for line in lines[1:]]


def test_tools_show_how_far_a_query_is(cluster: Cluster, player: Player) -> None:
    topic = cluster.create_topic(partitions=2)
    player.fill(topic, 100, 0)
    stream = Stream(
        options(cluster, topic, startingOffsets="earliest", maxOffsetsPerTrigger="40"),
        player.brokers,
    )
    first = stream.latest(stream.initial())
    assert lag(cluster, topic) == [[topic, "0", "0", "100", "100"], [topic, "1", "0", "0", "0"]]
    stream.committed(first)
    assert lag(cluster, topic) == [[topic, "0", "40", "100", "60"], [topic, "1", "0", "0", "0"]]
    stream.latest(stream.latest(first))
    assert lag(cluster, topic)[0] == [topic, "0", "80", "100", "20"]
    stream.stop()


def test_unchanged_offsets_are_not_committed_again(cluster: Cluster, player: Player) -> None:
    topic = cluster.create_topic()
    with closing(Progress(options(cluster, topic))) as told:
        told.publish({(topic, 0): 5})
        fault = cluster.fail_next("OffsetCommit", "UNKNOWN_SERVER_ERROR")
        told.publish({(topic, 0): 5})

    assert fault.hits == 0


def test_offsets_that_brokers_have_forgotten_are_committed_again(
    cluster: Cluster, player: Player
) -> None:
    """A query without new records for days: brokers remove what a group without members has
    committed.
    """
    topic, clock = cluster.create_topic(), Clock()
    with closing(Progress(options(cluster, topic), clock)) as told:
        told.publish({(topic, 0): 5})
        tell(options(cluster, topic), {(topic, 0): 0})
        clock.now = AGAIN_S
        told.publish({(topic, 0): 5})

    assert cluster.group(topic).offsets == {(topic, 0): 5}


def test_nothing_is_committed_without_a_group(cluster: Cluster, player: Player) -> None:
    topic = cluster.create_topic()
    fault = cluster.fail_next("FindCoordinator", "UNKNOWN_SERVER_ERROR")
    tell(player.with_options(topic), {(topic, 0): 5})

    assert fault.hits == 0


@pytest.mark.parametrize(
    ("api", "error"),
    [("OffsetCommit", "NOT_COORDINATOR"), ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE")],
)
def test_a_coordinator_that_moves_is_found_again(
    cluster: Cluster, player: Player, api: str, error: str
) -> None:
    topic = cluster.create_topic()
    player.fill(topic, 7)
    fault = cluster.fail_next(api, error, times=2)
    tell(options(cluster, topic), {(topic, 0): 5})

    assert fault.hits == 2
    assert lag(cluster, topic) == [[topic, "0", "5", "7", "2"]]


def test_a_coordinator_that_dies_is_followed_by_another(
    cluster: Cluster, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "WAIT_S", 20.0)
    topic = cluster.create_topic(replication_factor=3)
    with closing(Progress(options(cluster, topic))) as told:
        told.publish({(topic, 0): 1})
        cluster.kill(cluster.group(topic).coordinator)
        told.publish({(topic, 0): 2})

    assert cluster.group(topic).offsets == {(topic, 0): 2}


def test_a_failed_commit_is_a_warning_and_is_tried_again(
    cluster: Cluster,
    player: Player,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(progress, "WAIT_S", 0.1)
    topic, clock = cluster.create_topic(), Clock()
    told = Progress(options(cluster, topic), clock)
    fault = cluster.fail_next("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", times=2)
    with caplog.at_level(logging.WARNING):
        told.publish({(topic, 0): 1})
        told.publish({(topic, 0): 2})
        assert fault.hits == 1
        clock.now = RETRY_S
        told.publish({(topic, 0): 3})
    assert [record.getMessage() for record in caplog.records] == [
        f"the query goes on, but its progress could not be committed for the group {topic}: "
        "GROUP_AUTHORIZATION_FAILED"
    ]
    told.close()

    assert cluster.group(topic).offsets == {(topic, 0): 3}


def test_a_silent_broker_does_no_harm(
    cluster: Cluster,
    player: Player,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(progress, "WAIT_S", 0.1)
    topic = cluster.create_topic()
    cluster.lose_requests("FindCoordinator", times=10**6)
    tell(options(cluster, topic), {(topic, 0): 1})

    assert "the query goes on" in caplog.text


def test_a_group_with_members_keeps_its_offsets(
    cluster: Cluster, player: Player, caplog: pytest.LogCaptureFixture
) -> None:
    from kafka import KafkaConsumer

    topic = cluster.create_topic()
    player.fill(topic, 3)
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=topic,
        auto_offset_reset="earliest",
    )
    while not consumer.poll(timeout_ms=1000):
        pass
    consumer.commit()
    tell(options(cluster, topic), {(topic, 0): 1})
    consumer.close(autocommit=False)

    assert "the group has members of its own" in caplog.text
    assert cluster.group(topic).offsets == {(topic, 0): 3}
