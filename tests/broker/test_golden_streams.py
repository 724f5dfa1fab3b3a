"""Exchanges recorded with Apache Kafka 4.4.0 about streams groups, asked again: the same answers,
but for those of a table. golden_streams.jsonl has the form of golden.jsonl.
"""

from collections.abc import Callable, Container
from functools import cache
from typing import Any
from uuid import UUID

import pytest

from raftka.broker.coordinators.partition import LOADED
from raftka.broker.coordinators.streams_topics import StreamsTopics
from raftka.coordinator.groups import GroupCoordinator
from raftka.coordinator.streams.configured import MissingTopic
from raftka.coordinator.streams.group import StreamsGroup
from raftka.metadata.image import GROUP
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.partitions import CREATE_PARTITIONS
from raftka.wire.messages.streams_groups import STREAMS_GROUP_HEARTBEAT
from tests.broker.golden import (
    Differences,
    Exchange,
    Replay,
    all_found,
    not_meant,
    numbers_of,
)
from tests.broker.golden_requests import OF_STREAMS
from tests.broker.stage import Stage, Wire
from tests.kit.broker import kafka_differences

TOPICS = {
    "in1": UUID("963560d2-270c-4178-a2f4-2d8a4bf9eeee").bytes,
    "in2": b"2" * 16,  # ids that no exchange has
    "in4": b"4" * 16,
    "later": b"L" * 16,
    "g10-s-changelog": b"G" * 16,
}
GIVEN: dict[str, Any] = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
}
CLOCK_MS = 1_795_738_349_000
A, B, C = "A" * 22, "B" * 22, "C" * 22
AT_ONCE: dict[str, Any] = {
    "streams_initial_rebalance_delay_ms": "0",
    "streams_assignment_interval_ms": "0",
}
MEANT = kafka_differences.STREAMS
PASSES_S = {37: 0.4, 44: 3.0, 107: 5.7}  # before an exchange


class HeldTopics(StreamsTopics):
    """Internal topics are created when the recorded run had them."""

    held: list[MissingTopic]

    def create(self, topic: MissingTopic) -> None:
        if topic not in self.held:
            self.held.append(topic)

    def release(self) -> None:
        for topic in self.held:
            super().create(topic)
        self.held = []


class StreamsReplay(Replay):
    newer_settings: Container[str] = ()

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, OF_STREAMS, TOPICS)
        self.node = stage.nodes[1]
        before = self.node.groups.streams_topics
        self.topics = HeldTopics(before._context, before._creation)
        self.topics.held = []
        self.node.groups.streams_topics = self.topics

    def prepare(self, n: int, wire: Wire) -> int:
        if n in PREPARED:
            PREPARED[n](self)
        self.stage.world.run(lambda: False, at_most_s=PASSES_S.get(n, 0.01))
        return CLOCK_MS + round(self.stage.world.now * 1000)

    def beat(self, group_id: str, member_id: str, epoch: int, **fields: Any) -> None:
        request = STREAMS_GROUP_HEARTBEAT.request(
            group_id=group_id, member_id=member_id, member_epoch=epoch, **fields
        )
        wire = self.stage.wire()
        wire.client_id = "golden"
        answer = wire.ask(STREAMS_GROUP_HEARTBEAT, request)
        assert answer.error_code == 0, answer

    def empty(self, *group_ids: str) -> None:
        """The members of these groups leave."""
        for group_id in group_ids:
            group = self.group(group_id)
            for member in list(group.members.values()) if group is not None else ():
                self.beat(group_id, member.member_id, -1, instance_id=member.said.instance_id)

    def group(self, group_id: str) -> StreamsGroup | None:
        for coordinator in self.node.groups.runtime.partitions.values():
            assert isinstance(coordinator.machine, GroupCoordinator)
            found = coordinator.machine.groups.get(group_id)
            if isinstance(found, StreamsGroup):
                return found
        return None

    def at_once(self, *group_ids: str, **configs: Any) -> None:
        for group_id in group_ids:
            self.stage.set(GROUP, group_id, **AT_ONCE, **configs)

    def created(self) -> None:
        names = [topic.name for topic in self.topics.held]
        self.topics.release()
        self.stage.wait(lambda: not any(map(self.topics.is_wanted, names)))


def _first(replay: StreamsReplay) -> None:
    for name, partitions in (("in1", 3), ("in2", 3), ("in4", 4)):
        replay.create(name, partitions)
    wire = replay.stage.wire()
    wire.ask(FIND_COORDINATOR, FIND_COORDINATOR.request(key_type=0, coordinator_keys=["g1"]))
    groups = replay.node.groups.runtime.partitions
    replay.stage.wait(
        lambda: len(groups) == 50 and all(each.state in LOADED for each in groups.values())
    )
    subtopology = STREAMS_GROUP_HEARTBEAT.request.topology.subtopologies(
        subtopology_id="0", source_topics=["in1"]
    )
    topology = STREAMS_GROUP_HEARTBEAT.request.topology(subtopologies=[subtopology])
    nothing: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    replay.beat("warm", A, 0, rebalance_timeout_ms=5000, topology=topology, **nothing)
    replay.empty("warm")


def _settle_racks(replay: StreamsReplay) -> None:
    """The heartbeats between two exchanges, which are not recorded."""
    replay.created()
    replay.stage.world.run(lambda: False, at_most_s=1.0)  # between two assignments
    group = replay.group("g4r")
    assert group is not None
    row = STREAMS_GROUP_HEARTBEAT.request.active_tasks
    for _ in range(2):
        for member_id in (A, B, C):
            current = group.members[member_id].current
            tasks = [
                [row(subtopology_id=name, partitions=found) for name, found in each.items()]
                for each in current.assigned.tasks()
            ]
            owned = dict(zip(("active_tasks", "standby_tasks", "warmup_tasks"), tasks, strict=True))
            replay.beat("g4r", member_id, current.epoch, **owned)


def _grow_later(replay: StreamsReplay) -> None:
    request = CREATE_PARTITIONS.request
    rows = [request.topics(name="later", count=4, assignments=None)]
    answer = replay.stage.wire().ask(CREATE_PARTITIONS, request(topics=rows, timeout_ms=5000))
    assert answer.results[0].error_code == 0, answer


def _no_changelog(replay: StreamsReplay) -> None:
    replay.stage.delete("g6-s-changelog")


def _no_source(replay: StreamsReplay) -> None:
    replay.stage.delete("later")


def _moving(replay: StreamsReplay) -> None:
    replay.at_once("g2", "g3", "g5", "g6", "g7", "g8")
    replay.at_once("g4", streams_num_standby_replicas="1")


PREPARED: dict[int, Callable[[StreamsReplay], None]] = {
    1: _first,
    35: lambda replay: replay.empty(*(f"v{i}" for i in range(20))),
    37: StreamsReplay.created,
    90: _moving,
    119: lambda replay: replay.empty("g2"),
    122: StreamsReplay.created,
    128: lambda replay: replay.empty("g3"),
    130: StreamsReplay.created,
    140: lambda replay: replay.at_once("g4", streams_num_standby_replicas="0"),
    142: lambda replay: replay.empty("g4"),
    149: _settle_racks,
    150: lambda replay: replay.empty("g4r"),
    175: lambda replay: replay.create("later", 2),
    176: StreamsReplay.created,
    179: _grow_later,
    182: _no_changelog,
    183: StreamsReplay.created,
    185: _no_source,
    187: lambda replay: replay.empty("g6"),
    188: StreamsReplay.created,
    192: StreamsReplay.created,
    196: lambda replay: replay.create("g10-s-changelog", 9),
    198: lambda replay: replay.empty("g7", "g8", "g9", "g10"),
}


@cache
def replayed() -> dict[int, Differences]:
    with Stage(**GIVEN) as stage:
        return StreamsReplay(stage).run()


@pytest.mark.parametrize("exchange", OF_STREAMS, ids=lambda exchange: exchange.name)
def test_the_answer_is_kafkas(exchange: Exchange) -> None:
    assert not_meant(MEANT, exchange.n, replayed()[exchange.n]) == {}, exchange.comment


@pytest.mark.parametrize("n", numbers_of(MEANT))
def test_differences_that_are_meant_are_there(n: int) -> None:
    assert all_found(MEANT, n, replayed()[n])
