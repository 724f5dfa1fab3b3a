"""Exchanges recorded with Apache Kafka 4.4.0, about what is new since 4.3.1, asked again: the same
answers, without an exception. golden_44.jsonl has the form of golden.jsonl.
"""

from collections.abc import Callable, Container
from functools import cache
from typing import Any
from uuid import UUID

import pytest

from raftka.broker.coordinators.partition import LOADED
from raftka.wire.messages.consumer_groups import CONSUMER_GROUP_HEARTBEAT
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.groups import JOIN_GROUP, SYNC_GROUP
from tests.broker.golden import Differences, Exchange, Replay
from tests.broker.golden_requests import OF_4_4
from tests.broker.stage import Stage, Wire
from tests.kit.broker.transactions import Client, settled

CLUSTER_ID = b"MkU3OEVBNTcwNTJENDM2Qg"  # of the recorded run
TOPICS = {
    "ta": UUID("0aae4ae2-dcf0-4728-b3d7-4b67b187e058").bytes,
    "tb": UUID("a381ccd3-d70b-4955-b133-4de97054b93a").bytes,
}
GIVEN: dict[str, Any] = {
    "group_initial_rebalance_delay_ms": "0",
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
}
MEMBER_ID = "A" * 22  # of the consumer group
INSTANCE_ID, CLASSIC_MEMBER = "i1", b"i1-e94b2bb2-70da-4447-ae89-4d12d198e3c4"
CLOCK_MS = 1_795_738_600_000
SAME_CONNECTION = (17, 18)  # as the exchange before


class Replay44(Replay):
    newer_settings: Container[str] = ()

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, OF_4_4, TOPICS)
        cluster_id = stage.nodes[1].image.cluster_id
        assert cluster_id is not None
        self.ids[CLUSTER_ID] = cluster_id.encode()
        self.wire: Wire | None = None
        self.producer: Client | None = None

    def prepare(self, n: int, wire: Wire) -> int:
        if n in PREPARED:
            PREPARED[n](self)
        if n not in SAME_CONNECTION:
            self.wire = wire
        return CLOCK_MS

    def ask(self, exchange: Exchange, wire: Wire) -> Differences:
        assert self.wire is not None
        return super().ask(exchange, self.wire)


def _transaction(replay: Replay44) -> None:
    """A transactional producer, and two groups with one member each."""
    replay.create("ta", 2)
    replay.producer = Client(replay.stage, "tx")
    assert replay.producer.init().error_code == 0
    assert replay.producer.pair == (0, 0)
    wire, beat = replay.stage.wire(), CONSUMER_GROUP_HEARTBEAT.request
    wire.ask(FIND_COORDINATOR, FIND_COORDINATOR.request(key_type=0, coordinator_keys=["cg"]))
    groups = replay.stage.nodes[1].groups.runtime.partitions
    replay.stage.wait(
        lambda: len(groups) == 50 and all(each.state in LOADED for each in groups.values())
    )
    joined = wire.ask(
        CONSUMER_GROUP_HEARTBEAT,
        beat(
            group_id="cg",
            member_id=MEMBER_ID,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["ta"],
            topic_partitions=[],
        ),
    )
    assert (joined.error_code, joined.member_epoch) == (0, 2)
    join = JOIN_GROUP.request(
        group_id="clg",
        group_instance_id=INSTANCE_ID,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JOIN_GROUP.request.protocols(name="range", metadata=b"")],
    )
    member_id = wire.ask(JOIN_GROUP, join, 7).member_id
    sync = SYNC_GROUP.request(
        group_id="clg", generation_id=1, member_id=member_id, group_instance_id=INSTANCE_ID
    )
    assert wire.ask(SYNC_GROUP, sync, 3).error_code == 0
    replay.ids[CLASSIC_MEMBER] = member_id.encode()


def _committed(replay: Replay44) -> None:
    assert replay.producer is not None
    settled(replay.producer, "CompleteCommit")


def _another_topic(replay: Replay44) -> None:
    replay.create("tb")


PREPARED: dict[int, Callable[[Replay44], None]] = {
    23: _transaction,
    47: _committed,
    83: _another_topic,
}


@cache
def replayed() -> dict[int, Differences]:
    with Stage(**GIVEN) as stage:
        return Replay44(stage).run()


@pytest.mark.parametrize("exchange", OF_4_4, ids=lambda exchange: exchange.name)
def test_the_answer_is_kafkas(exchange: Exchange) -> None:
    assert replayed()[exchange.n] == {}, exchange.comment
