"""Exchanges recorded with Apache Kafka 4.4.0, asked again: share groups, from the side of the group
and of administrators. golden_share_groups.jsonl has the form of golden.jsonl.
"""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from raftka.broker.network.dispatch import HANDLERS
from raftka.share.state import SharePartitionKey, StateBatch
from raftka.wire.messages.offsets import OFFSET_COMMIT
from raftka.wire.messages.produce import PRODUCE
from tests.broker.golden import Differences, Exchange, Replay, append, not_meant, recorded
from tests.broker.golden_shares import batches_of
from tests.broker.group_requests import commit
from tests.broker.requests import batch, produce
from tests.broker.stage import BY_NAME, Stage, Wire
from tests.kit.broker.kafka_differences import SHARES
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
    if exchange.key in HANDLERS or exchange.key < 0
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
OF_CONSUMER = (407, 415, 416)  # exchanges of one connection
LAST_OF_GA = 418  # before the group is deleted; its connection ends
# of ga, by acknowledgements that test_golden_share_fetch.py replays, and the end of all locks
ACKNOWLEDGED = (
    StateBatch(13, 19, 0, 1),
    StateBatch(20, 26, 2, 1),
    StateBatch(27, 28, 4, 1),
    StateBatch(29, 29, 0, 1),
    StateBatch(30, 30, 2, 2),
    StateBatch(31, 31, 0, 3),
    StateBatch(32, 33, 4, 1),
    StateBatch(34, 36, 2, 1),
    StateBatch(37, 39, 0, 1),
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
        self.consumer = stage.wire()

    def prepare(self, n: int, wire: Wire) -> int:
        if n in PREPARED:
            PREPARED[n](self)
        if n in LATER_S:
            self.stage.world.run(self.stage.world.now + LATER_S[n])
        return CLOCK_MS + round(self.stage.world.now * 1000)

    def ask(self, exchange: Exchange, wire: Wire) -> Differences:
        used = self.consumer if exchange.n in OF_CONSUMER else wire
        found = super().ask(exchange, used)
        if exchange.n == LAST_OF_GA:
            used.close()
        return found

    def append(self, topic: str, count: int) -> None:
        values = [b"r%d" % number for number in range(count)]
        answer = self.stage.wire().ask(
            PRODUCE, produce(topic, batch(*values)), BY_NAME[PRODUCE.key]
        )
        assert answer.responses[0].partition_responses[0].error_code == 0

    def write(self, group: str, topic: str, start: int, batches: Sequence[StateBatch]) -> None:
        """Acknowledge records, as the partition's leader does."""
        complete_count = sum(each.last - each.first + 1 for each in batches if each.state != 0)
        node = self.stage.nodes[1]
        key = SharePartitionKey(group, self.ids[TOPICS[topic]], 0)
        done: list[object] = []
        node.share_persister.write(key, 2, 0, start, complete_count, batches, done.append)
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
    replay.create("ack")
    for records in batches_of(RECORDED, TOPICS["ack"]).values():
        append(replay.stage.wire(), "ack", memoryview(records))
    replay.append("st", 5)
    for group, topic, start, batches in (("ga", "ack", 13, ACKNOWLEDGED), ("gl", "st", 3, ())):
        join(replay.stage, replay.wire, group, topic)
        leave(replay.wire, group)
        replay.write(group, topic, start, batches)
    replay.create("lim")


def _configs_of_groups(replay: ReplayShareGroups) -> None:
    """All groups of the recorded run that have configs."""
    (exchange,) = (each for each in RECORDED if each.n == 465)
    for row in exchange.answer.config_resources:
        replay.stage.set(GROUP_CONFIG, row.resource_name, share_auto_offset_reset="earliest")


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
    418: lambda replay: replay.consumer.close(),
    419: _member_again,
    465: _configs_of_groups,
}


@cache
def replayed() -> dict[int, Differences]:
    with serving_share_groups(), Stage(**GIVEN) as stage:
        return ReplayShareGroups(stage).run()


@pytest.mark.parametrize("exchange", RECORDED, ids=lambda exchange: exchange.name)
def test_the_answer_is_kafkas(exchange: Any) -> None:
    assert not_meant(SHARES, exchange.n, replayed()[exchange.n]) == {}, exchange.comment
