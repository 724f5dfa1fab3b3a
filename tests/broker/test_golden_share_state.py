"""Exchanges with a share coordinator recorded with Apache Kafka 4.4.0 (83-87, FindCoordinator of a
share partition), asked again: the same answers, but for one. golden_share_state.jsonl has the form
of golden.jsonl.
"""

from base64 import urlsafe_b64encode
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from raftka.share.state import NO_START, SharePartitionKey
from raftka.wire.errors import Code
from tests.broker.golden import Differences, Exchange, Replay, not_meant, recorded
from tests.broker.stage import Stage, Wire
from tests.kit.broker.kafka_differences import SHARES
from tests.kit.broker.share_states import coordinated, initialize

EXCHANGES = recorded(Path(__file__).parent / "golden_share_state.jsonl")
TOPICS = {
    "st": UUID("47a7d0ea-8b12-44a4-b5e8-1eadd982fc6c").bytes,
    "sa": UUID("35b52748-2cf8-482a-9812-db1ec7b90d6a").bytes,
    "sb": UUID("bc0bad15-7241-44e5-ba5f-d67b611a5188").bytes,
}
CLOCK_MS = 1_795_737_877_000
EMPTY_BATCH = 369


def in_base64(topic_id: bytes) -> bytes:
    return urlsafe_b64encode(topic_id).rstrip(b"=")


class ReplayShareStates(Replay):
    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, EXCHANGES, TOPICS)
        for name, partitions in (("st", 1), ("sa", 2), ("sb", 1)):
            self.create(name, partitions)
            recorded_id = TOPICS[name]
            self.ids[in_base64(recorded_id)] = in_base64(self.ids[recorded_id])
        coordinated(stage)
        for name, index in (("sa", 0), ("sa", 1), ("sb", 0)):
            initialize(stage, SharePartitionKey("g1", self.ids[TOPICS[name]], index), 4, NO_START)

    def prepare(self, n: int, wire: Wire) -> int:
        return CLOCK_MS

    def same(self, path: str, name: str, recorded: Any, ours: Any) -> bool:
        if name == "key":
            recorded = self.with_our_ids(recorded.encode()).decode()
        return super().same(path, name, recorded, ours)


@cache
def replayed() -> dict[int, Differences]:
    with Stage() as stage:
        return ReplayShareStates(stage).run()


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange.name)
def test_the_answer_is_kafkas(exchange: Exchange) -> None:
    assert not_meant(SHARES, exchange.n, replayed()[exchange.n]) == {}, exchange.comment


def test_a_batch_without_an_offset_is_invalid() -> None:
    """Kafka has a NullPointerException."""
    codes, texts = replayed()[EMPTY_BATCH].values()

    assert codes == (Code.UNKNOWN_SERVER_ERROR, Code.INVALID_REQUEST)
    assert texts[1] == "The batch of offsets 30 to 29 has no offset."
