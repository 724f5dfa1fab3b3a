"""Exchanges recorded with Apache Kafka 4.4.0, asked again: share groups, from the side of the group
and of administrators. golden_share_groups.jsonl has the form of golden.jsonl.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from raftka.broker.network.dispatch import HANDLERS
from raftka.share.state import SharePartitionKey
from raftka.wire.messages.offsets import OFFSET_COMMIT
from raftka.wire.messages.produce import PRODUCE
from tests.broker.golden import Differences, Meant, Replay, not_meant, recorded
from tests.broker.group_requests import commit
from tests.broker.requests import batch, produce
from tests.broker.stage import BY_NAME, Stage, Wire
from tests.kit.broker.share_groups import (
    beat,
    join,
    leave,
    load_groups,
    serving_share_groups,
)

GROUP_CONFIG = 32  # the type of the resource
RECORDED = [
    exchange
    for exchange in recorded(Path(__file__).parent / "golden_share_groups.jsonl")
    if exchange.key in HANDLERS
]
TOPICS = {
    "sa": UUID("35b52748-2cf8-482a-9812-db1ec7b90d6a").bytes,
    "sb": UUID("bc0bad15-7241-44e5-ba5f-d67b611a5188").bytes,
    "st": UUID("47a7d0ea-8b12-44a4-b5e8-1eadd982fc6c").bytes,
    "ack": UUID("2eead34c-9cc9-48ce-8ff1-035743c0a27f").bytes,
    "lim": b"lim".ljust(16),  # its id is in no answer
}
GIVEN: dict[str, Any] = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
    "group_share_min_record_lock_duration_ms": "1000",
    "group_share_min_session_timeout_ms": "1000",
    "group_share_min_heartbeat_interval_ms": "500",
}
CLOCK_MS = 1_795_737_700_000
MEANT: Meant = (
    ((54,), r"\.topics\(not-there\)\.configs\(min\.insync\.replicas\)\.config_source", "the stage"),
    ((467,), r"\.results\(0\)\.configs\(.*\)\.documentation", "our own words"),
)
# seconds that pass before an exchange
LATER_S = {
    15: 1.2,
    34: 1.2,
    35: 1.5,
    39: 1.2,
    55: 1.5,
    56: 0.4,
    57: 0.7,
    60: 1.2,
    67: 3.5,
}


class ReplayShareGroups(Replay):
    newer_settings = ()

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, RECORDED, TOPICS)
        self.wire: Wire = stage.wire()
        self.held: list[Callable[[], None]] = []

    def prepare(self, n: int, wire: Wire) -> int:
        if n in PREPARED:
            PREPARED[n](self)
        if n in LATER_S:
            self.stage.world.run(self.stage.world.now + LATER_S[n])
        return CLOCK_MS + round(self.stage.world.now * 1000)

    def append(self, topic: str, count: int) -> None:
        values = [b"r%d" % number for number in range(count)]
        answer = self.stage.wire().ask(
            PRODUCE, produce(topic, batch(*values)), BY_NAME[PRODUCE.key]
        )
        assert answer.responses[0].partition_responses[0].error_code == 0

    def write(self, group: str, topic: str, start: int, complete_count: int) -> None:
        """Acknowledge records, as the partition's leader does."""
        node = self.stage.nodes[1]
        key = SharePartitionKey(group, self.ids[TOPICS[topic]], 0)
        done: list[object] = []
        node.share_persister.write(key, 2, 0, start, complete_count, (), done.append)
        self.stage.wait(lambda: bool(done))
        assert done == [None]


def _first_groups(replay: ReplayShareGroups) -> None:
    """The state of share partitions has been needed once; its topic is there."""
    load_groups(replay.stage)
    replay.create("sa", 2)
    replay.create("sb")
    replay.create("st")
    join(replay.stage, replay.wire, "warm", "st")
    leave(replay.wire, "warm")


def _share_coordinator_is_silent(replay: ReplayShareGroups) -> None:
    persister = replay.stage.nodes[1].share_persister
    initialize = persister.initialize
    held = replay.held

    def hold(*arguments: Any) -> None:
        held.append(lambda: initialize(*arguments))

    persister.initialize = hold  # type: ignore[assignment,method-assign]


def _share_coordinator_answers(replay: ReplayShareGroups) -> None:
    del replay.stage.nodes[1].share_persister.initialize
    for ask in replay.held:
        ask()


def _offsets(replay: ReplayShareGroups) -> None:
    assert (
        replay.wire.ask(OFFSET_COMMIT, commit("offs", "sa"), 9).topics[0].partitions[0].error_code
        == 0
    )


def _settings_of_a_group(replay: ReplayShareGroups) -> None:
    replay.stage.set(
        GROUP_CONFIG, "gto", share_heartbeat_interval_ms="1000", share_session_timeout_ms="3000"
    )


def _full(replay: ReplayShareGroups) -> None:
    for number in range(200):
        assert beat(replay.wire, "gfull", 0, ["sa"], f"member-{number}").error_code == 0


def _acknowledged(replay: ReplayShareGroups) -> None:
    for name, records, group, start, complete_count in (
        ("ack", 40, "ga", 13, 15),
        ("st", 5, "gl", 3, 0),
    ):
        if name != "st":  # it is there
            replay.create(name)
        replay.append(name, records)
        join(replay.stage, replay.wire, group, name)
        leave(replay.wire, group)
        replay.write(group, name, start, complete_count)
    replay.create("lim")


def _member_again(replay: ReplayShareGroups) -> None:
    join(replay.stage, replay.wire, "ga", "ack")


PREPARED: dict[int, Callable[[ReplayShareGroups], None]] = {
    2: _first_groups,
    13: _share_coordinator_is_silent,
    35: _share_coordinator_answers,
    52: _offsets,
    66: _settings_of_a_group,
    69: _full,
    396: _acknowledged,
    408: _member_again,
    419: _member_again,
}


@cache
def replayed() -> dict[int, Differences]:
    with serving_share_groups(), Stage(**GIVEN) as stage:
        return ReplayShareGroups(stage).run()


@pytest.mark.parametrize("exchange", RECORDED, ids=lambda exchange: exchange.name)
def test_the_answer_is_kafkas(exchange: Any) -> None:
    assert not_meant(MEANT, exchange.n, replayed()[exchange.n]) == {}, exchange.comment
