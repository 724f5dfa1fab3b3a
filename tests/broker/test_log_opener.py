"""Thousands of partitions at once: their logs are opened some a turn, and whatever becomes of them
meanwhile, nothing is left over.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from raftka.broker.node import Node
from raftka.broker.replica.log_opener import OPENED_IN_A_TURN
from raftka.log.log import Log
from raftka.log.manager import LogManager
from raftka.metadata.records import TopicDeleted
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.topics import CREATE_TOPICS, DELETE_TOPICS
from tests.broker.requests import batch, produce, produced
from tests.broker.stage import Stage

MANY = 4 * OPENED_IN_A_TURN + 1


def opened(stage: Stage) -> int:
    return len(stage.nodes[1].replicas.partitions)


def directories(stage: Stage) -> list[str]:
    return [name for name in stage.nodes[1].runtime.files.list("/data") if name.startswith("many-")]


def begun(stage: Stage) -> None:
    """The image has all partitions, the broker not yet."""
    topic = CREATE_TOPICS.request.topics(name="many", num_partitions=MANY, replication_factor=1)
    stage.wire().request(CREATE_TOPICS, CREATE_TOPICS.request(topics=[topic]))
    assert stage.world.run(lambda: opened(stage) > 0, at_most_s=5.0)
    assert opened(stage) == OPENED_IN_A_TURN


def deleted_now(node: Node) -> None:
    """As the next entry of the metadata log, which takes no time here."""
    topic = node.image.topic_named("many")
    assert topic is not None
    node.metadata.image, delta = node.image.apply(
        node.image.offset + 1, [TopicDeleted(topic.topic_id)]
    )
    node.replicas.on_image(node.image, delta)


def test_no_turn_opens_more_than_some() -> None:
    with Stage() as stage:
        begun(stage)
        counts = [opened(stage)]
        stage.world.run(lambda: counts.append(opened(stage)) or counts[-1] == MANY, at_most_s=5.0)  # type: ignore[func-returns-value]
        assert counts[-1] == MANY
        assert max(later - earlier for earlier, later in pairwise(counts)) <= OPENED_IN_A_TURN


def test_a_partition_whose_turn_has_not_come_is_as_one_that_is_led_elsewhere() -> None:
    with Stage() as stage:
        begun(stage)
        with pytest.raises(KafkaError) as refused:
            stage.nodes[1].replicas.find("many", MANY - 1)
        assert refused.value.code == Code.NOT_LEADER_OR_FOLLOWER
        stage.wait(lambda: opened(stage) == MANY)
        assert (
            produced(
                stage.wire().ask(PRODUCE, produce("many", batch(b"1"), partition=MANY - 1))
            ).error_code
            == Code.NONE
        )


@pytest.mark.parametrize("again", [False, True])
def test_a_topic_that_is_deleted_before_it_was_opened_leaves_nothing(again: bool) -> None:
    """`again`: what waits is on disk already, as after a start."""
    with Stage() as stage:
        begun(stage)
        if again:
            stage.wait(lambda: opened(stage) == MANY)
            stage.kill(1)
            stage.start(1)
            assert stage.world.run(lambda: 0 < opened(stage) < MANY, at_most_s=10.0)
        deleted_now(stage.nodes[1])
        stage.world.run(stage.world.now + 1.0)
        assert opened(stage) == 0
        assert [name for name in directories(stage) if not name.endswith("-delete")] == []


def test_logs_that_lie_on_the_disk_are_opened_off_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them may have gigabytes to be read again. The broker is fenced until all are open, for
    one may have lost what others have.
    """
    off_the_loop: list[bool] = []
    at_work: list[bool] = [False]
    open_log, prepare = Log.open, LogManager.prepare

    def open_watched(*arguments: Any, **bounds: Any) -> Log:
        off_the_loop.append(at_work[0])
        return open_log(*arguments, **bounds)

    def prepared(self: LogManager, wanted: Any) -> Callable[[], None]:
        work = prepare(self, wanted)

        def watched() -> None:
            at_work[0] = True
            work()
            at_work[0] = False

        return watched

    with Stage() as stage:
        begun(stage)
        stage.wait(lambda: opened_all(stage))
        stage.kill(1)
        monkeypatch.setattr(Log, "open", open_watched)
        monkeypatch.setattr(LogManager, "prepare", prepared)
        node = stage.start(1)
        stage.wait(lambda: node.metadata.published)
        assert node.lifecycle.withdrawn
        assert len(off_the_loop) == 0
        stage.wait(lambda: opened_all(stage))
        assert off_the_loop == [True] * MANY
        stage.wait(node.ready.is_set)
        assert not node.lifecycle.withdrawn


def opened_all(stage: Stage) -> bool:
    return opened(stage) == MANY


def test_topics_deleted_together_cost_a_directory_one_sync(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Stage() as stage:
        names = [f"topic-{number}" for number in range(5)]
        for name in names:
            stage.create(name)
        files, syncs = stage.nodes[1].runtime.files, []
        sync = files.sync_directory

        def counted(path: str) -> None:
            syncs.append(path)
            sync(path)

        monkeypatch.setattr(files, "sync_directory", counted)
        rows = [DELETE_TOPICS.request.topics(name=name) for name in names]
        stage.wire().ask(DELETE_TOPICS, DELETE_TOPICS.request(topics=rows, timeout_ms=5000))
        stage.wait(lambda: opened(stage) == 0)

        assert syncs.count("/data") == 1
