"""Exchanges recorded with Apache Kafka 4.4.0 about descriptions of topologies (KIP-1331), asked
again: the same answers, but where the recorded broker's plugin failed, by the name of the group.
golden_streams_plugin.jsonl has the form of golden.jsonl.
"""

from collections.abc import Container
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from raftka.metadata.image import GROUP
from raftka.wire.messages.streams_groups import STREAMS_GROUP_HEARTBEAT
from tests.broker.golden import (
    Differences,
    Exchange,
    Replay,
    all_found,
    not_meant,
    numbers_of,
    recorded,
)
from tests.broker.stage import Stage, Wire
from tests.kit.broker.kafka_differences import TOPOLOGY_DESCRIPTIONS
from tests.kit.broker.share_groups import load_groups

RECORDED = recorded(Path(__file__).parent / "golden_streams_plugin.jsonl")
GROUPS = ("p1", "p-perm", "p-trans", "p-odd", "p-noget", "p-nodel")
GIVEN: dict[str, Any] = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
    "group_streams_topology_description_plugin_class": "memory",
}
DELETED = 283  # that its members have left is not recorded
CLOCK_MS = 1_795_738_440_000


class Replayed(Replay):
    newer_settings: Container[str] = ()

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, RECORDED, {"in1": b"1" * 16})
        self.create("in1", 3)
        load_groups(stage)
        for group_id in GROUPS:
            stage.set(
                GROUP,
                group_id,
                streams_initial_rebalance_delay_ms="0",
                streams_assignment_interval_ms="0",
            )

    def prepare(self, n: int, wire: Wire) -> int:
        if n == DELETED:
            for member_id in ("A" * 22, "B" * 22):
                beat = STREAMS_GROUP_HEARTBEAT.request(
                    group_id="p1", member_id=member_id, member_epoch=-1
                )
                assert wire.ask(STREAMS_GROUP_HEARTBEAT, beat).error_code == 0
        return CLOCK_MS


@cache
def replayed() -> dict[int, Differences]:
    with Stage(**GIVEN) as stage:
        return Replayed(stage).run()


@pytest.mark.parametrize("exchange", RECORDED, ids=lambda exchange: exchange.name)
def test_the_answer_is_kafkas(exchange: Exchange) -> None:
    found = not_meant(TOPOLOGY_DESCRIPTIONS, exchange.n, replayed()[exchange.n])
    assert found == {}, exchange.comment


@pytest.mark.parametrize("n", numbers_of(TOPOLOGY_DESCRIPTIONS))
def test_differences_that_are_meant_are_there(n: int) -> None:
    assert all_found(TOPOLOGY_DESCRIPTIONS, n, replayed()[n])
