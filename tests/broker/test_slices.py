"""Events that hit thousands of partitions at once are handled a few partitions a turn: counted in
partitions, never in time.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from raftka.broker.replica import fetcher as replica_fetcher
from raftka.broker.replica.fetcher import ReplicaFetcher
from raftka.broker.replica.isr_shrinks import CHECKED_IN_A_TURN
from raftka.broker.replica.manager import PARTITIONS_OF_TURN, ReplicaManager
from raftka.broker.work.slices import Slices
from raftka.metadata.image import BROKER, Delta, TopicImage
from raftka.replication.follower import FollowerFetch
from raftka.replication.partition import LeaderState
from raftka.wire.messages.produce import PRODUCE
from tests.broker.requests import batch, produce
from tests.broker.stage import Stage

MANY = 3 * PARTITIONS_OF_TURN + 1


class Turns:
    """A clock whose calls wait until the next turn is asked for."""

    def __init__(self) -> None:
        self.due: list[Callable[[], Any]] = []

    def now(self) -> float:
        return 0.0

    def call_at(self, when: float, call: Callable[[], Any]) -> None:
        self.due.append(call)

    def next(self) -> None:
        due, self.due = self.due, []
        for call in due:
            call()


def test_no_turn_has_more_than_its_slice_however_often_some_are_added() -> None:
    clock, done = Turns(), list[list[int]]()
    slices = Slices[int](clock, 3, done.append)  # type: ignore[arg-type]

    slices.add([1, 2])
    slices.add([3, 4, 5])
    slices.add([6])
    assert done == [[1, 2], [3]]
    clock.next()
    assert done[2:] == [[4, 5, 6]]
    clock.next()
    slices.add([7])
    assert done[3:] == [[7]]


def test_what_waits_already_keeps_its_place() -> None:
    clock, done = Turns(), list[int]()
    slices = Slices[int](clock, 1, done.extend)  # type: ignore[arg-type]

    slices.add([1, 2, 3])
    slices.add([3, 2, 4])
    for _ in range(4):
        clock.next()

    assert done == [1, 2, 3, 4]
    assert len(slices) == 0


def test_work_that_adds_more_is_not_entered_twice() -> None:
    clock, done = Turns(), list[int]()

    def work(some: Sequence[int]) -> None:
        done.extend(some)
        if some[0] < 3:
            slices.add([some[0] + 1])

    slices = Slices[int](clock, 10, work)  # type: ignore[arg-type]
    slices.add([1])
    for _ in range(3):
        clock.next()

    assert done == [1, 2, 3]


def test_work_that_fails_does_not_keep_the_others_from_theirs() -> None:
    clock, done = Turns(), list[int]()

    def work(some: Sequence[int]) -> None:
        if some == [1]:
            raise OSError("no space")
        done.extend(some)

    slices = Slices[int](clock, 1, work)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="no space"):
        slices.add([1, 2])
    clock.next()

    assert done == [2]


def steps(stage: Stage, count: Callable[[], int], end: int) -> int:
    """Return how far `count` moves at most in a turn, on its way to `end`."""
    counts = [count()]
    assert stage.world.run(lambda: counts.append(count()) or counts[-1] == end, at_most_s=10.0)  # type: ignore[func-returns-value]
    return max(abs(later - earlier) for earlier, later in pairwise(counts))


def test_a_change_of_all_partitions_is_applied_some_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    with Stage() as stage:
        topic_id = stage.create("many", partitions=MANY)
        node, applied = stage.nodes[1], list[int]()
        on_partition = ReplicaManager._on_partition

        def counted(self: ReplicaManager, topic: TopicImage, index: int) -> None:
            applied.append(index)
            on_partition(self, topic, index)

        monkeypatch.setattr(ReplicaManager, "_on_partition", counted)
        stage.world.run(stage.world.now + 1.0)

        node.replicas.on_image(
            node.image, Delta(partitions_changed=[(topic_id, index) for index in range(MANY)])
        )

        assert len(applied) <= PARTITIONS_OF_TURN
        assert steps(stage, lambda: len(applied), MANY) <= PARTITIONS_OF_TURN
        assert applied == list(range(MANY))


def test_a_topic_is_deleted_some_partitions_a_turn() -> None:
    with Stage() as stage:
        stage.create("many", partitions=MANY)
        replicas = stage.nodes[1].replicas.partitions
        stage.delete("many")
        assert steps(stage, lambda: len(replicas), 0) <= PARTITIONS_OF_TURN
        stage.world.run(stage.world.now + 1.0)
        assert [
            name
            for name in stage.nodes[1].runtime.files.list("/data")
            if name.startswith("many-") and not name.endswith("-delete")
        ] == []


def test_a_topic_of_the_same_name_is_made_while_the_old_one_goes() -> None:
    with Stage() as stage:
        stage.create("many", partitions=MANY)
        replicas = stage.nodes[1].replicas.partitions
        stage.delete("many")
        topic_id = stage.create("many", partitions=MANY)
        stage.wait(
            lambda: (
                len(replicas) == MANY
                and all(partition.topic_id == topic_id for partition in replicas.values())
            )
        )
        stage.world.run(stage.world.now + 1.0)
        assert all(partition.topic_id == topic_id for partition in replicas.values())
        assert (
            len(
                [
                    name
                    for name in stage.nodes[1].runtime.files.list("/data")
                    if name.startswith("many-") and not name.endswith("-delete")
                ]
            )
            == MANY
        )


def test_a_default_of_all_topics_is_set_some_partitions_a_turn() -> None:
    with Stage() as stage:
        stage.create("many", partitions=MANY)
        replicas = stage.nodes[1].replicas.partitions
        stage.set(BROKER, "", log_retention_ms="12345")
        assert (
            steps(
                stage,
                lambda: sum(
                    partition.log.config.retention_ms == 12345 for partition in replicas.values()
                ),
                MANY,
            )
            <= PARTITIONS_OF_TURN
        )


def test_what_waits_when_the_node_ends_is_left() -> None:
    with Stage() as stage:
        topic_id = stage.create("many", partitions=MANY)
        node = stage.nodes[1]
        stage.world.run(stage.world.now + 1.0)
        node.replicas.on_image(
            node.image, Delta(partitions_changed=[(topic_id, index) for index in range(MANY)])
        )
        node.runtime.spawn(node.shutdown, "shutdown")
        stage.wait(lambda: node.context.stopped)
        stage.world.run(stage.world.now + 1.0)
        assert stage.world.failures == []
        assert all(partition.leader is None for partition in node.replicas.partitions.values())


@pytest.mark.parametrize("many", [1, 2 * CHECKED_IN_A_TURN + 1])
def test_lagging_followers_are_looked_for_some_partitions_a_turn(
    many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Stage() as stage:
        stage.create("t")
        replicas = stage.nodes[1].replicas
        partition = stage.partition("t")
        looked: list[float] = []
        deadline = LeaderState.deadline

        def counted(self: LeaderState) -> float:
            looked.append(stage.world.now)
            return deadline(self)

        monkeypatch.setattr(LeaderState, "deadline", counted)
        monkeypatch.setattr(replicas.isr_shrinks, "_partitions", Repeated(partition, many))
        replicas.isr_shrinks.later(stage.world.now + 1.0)
        stage.wait(lambda: len(looked) >= many)

        assert max(looked.count(when) for when in set(looked)) <= CHECKED_IN_A_TURN


def test_a_follower_asks_for_and_takes_some_partitions_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replica_fetcher, "OF_TURN", 5)
    asked: list[int] = []
    taken: list[float] = []
    ask, carry_out = ReplicaFetcher._send, FollowerFetch.answered

    def counted_request(self: ReplicaFetcher, follows: Any) -> None:
        asked.append(len(follows))
        ask(self, follows)

    with Stage(2, min_insync_replicas="1", replica_lag_time_max_ms="60000") as stage:

        def counted_answer(self: FollowerFetch, answer: Any, now: float) -> Any:
            taken.append(stage.world.now)
            return carry_out(self, answer, now)

        monkeypatch.setattr(ReplicaFetcher, "_send", counted_request)
        monkeypatch.setattr(FollowerFetch, "answered", counted_answer)
        stage.create("t", partitions=32)
        leader = stage.leader("t")
        led = [index for index in range(32) if stage.leader("t", index) == leader]
        follower = stage.nodes[3 - leader].replicas.partitions
        row = produce("t", batch(b"v"))
        parts = PRODUCE.request.topic_data.partition_data
        for number in (1, 2):
            row.topic_data[0].partition_data = [
                parts(index=index, records=batch(b"v")) for index in led
            ]
            (topic,) = stage.wire(leader).ask(PRODUCE, row).responses
            assert {partition.error_code for partition in topic.partition_responses} == {0}
            assert {follower["t", index].log.end_offset for index in led} == {number}

        assert len(led) > 10
        assert max(asked) <= 5
        assert max(taken.count(when) for when in set(taken)) <= 5 * 2, (
            "two followers, each in its own turn"
        )


class Repeated(dict[tuple[str, int], Any]):
    """One partition, so many times."""

    def __init__(self, partition: Any, times: int) -> None:
        super().__init__({(partition.topic, partition.index): partition})
        self.times = times

    def values(self) -> Any:
        return list(super().values()) * self.times
