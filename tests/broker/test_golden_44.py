"""Exchanges recorded with Apache Kafka 4.4.0, about what is new since 4.3.1, asked again: the same
answers, but for those of a table. golden_44.jsonl has the form of golden.jsonl.
"""

import gzip
from collections.abc import Callable, Collection, Container
from functools import cache
from typing import Any
from uuid import UUID

import pytest

from raftka.broker.coordinators.partition import LOADED
from raftka.metadata.image import GROUP
from raftka.wire.frame import decode_request_header
from raftka.wire.messages.consumer_groups import CONSUMER_GROUP_HEARTBEAT
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.groups import JOIN_GROUP, SYNC_GROUP
from raftka.wire.messages.telemetry import PUSH_TELEMETRY
from tests.broker import golden_requests
from tests.broker.golden import (
    Differences,
    Exchange,
    Replay,
    all_found,
    not_meant,
    numbers_of,
)
from tests.broker.pushing import PUSHED
from tests.broker.stage import CONTROLLER_PORT, Stage, Wire
from tests.kit.broker.kafka_differences import OF_4_4
from tests.kit.broker.transactions import Client, settled

CLUSTER_ID = b"MkU3OEVBNTcwNTJENDM2Qg"  # of the recorded run
TOPICS = {
    "ta": UUID("0aae4ae2-dcf0-4728-b3d7-4b67b187e058").bytes,
    "tb": UUID("a381ccd3-d70b-4955-b133-4de97054b93a").bytes,
    "dtp-0": UUID("f0e4c2a1-f12b-4d70-b4f5-9af54ad32aca").bytes,
    "dtp-1": UUID("543d616c-f85b-485a-bd04-e988c7ab784a").bytes,
    "dtp-2": UUID("7a0ceed2-70bb-4b40-9fb1-4dbccf16b70a").bytes,
}
GIVEN: dict[str, Any] = {
    "group_initial_rebalance_delay_ms": "0",
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
    "log_dirs": "/var/lib/kaf/n1/data",
    # else members are asked for heartbeats sooner while something happens
    "raftka_group_consumer_busy_interval_ms": "0",
    "metrics_port": "0",  # a receiver of clients' metrics, as the recorded broker had
}
MEMBER_ID = "A" * 22  # of the consumer group
INSTANCE_ID, CLASSIC_MEMBER = "i1", b"i1-e94b2bb2-70da-4447-ae89-4d12d198e3c4"
CLOCK_MS = 1_795_738_600_000
CLOCKS_MS = {197: 1_795_738_682_150}
# by exchange: the connection that it shares with others
CONNECTIONS = {
    n: name
    for name, numbers in {
        "a": range(16, 19),
        "b": range(105, 110),
        "c": (*range(139, 154), *range(155, 160)),
        "d": (160, 161),
        "e": (163, 164),
    }.items()
    for n in numbers
}
# seconds before an exchange, where a client has to wait before it asks or pushes again
PAUSES = {
    139: 1.1,
    **dict.fromkeys((143, 144, 146, 147, 148, 149, 150, 151, 152), 1.2),
    155: 0.5,
}
OF_CONTROLLER = (20, 21, 22)  # exchanges at the controllers' listener
TOO_LARGE = 150  # its request was too long to be kept
# pushed bytes that the recorded receiver took, and ours does not: it reads OTLP
NO_OTLP = (b"abc", b"last")


class Replay44(Replay):
    newer_settings: Container[str] = ()
    not_announced: Collection[int] = ()
    newer_apis: Container[int] = ()

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, golden_requests.OF_4_4, TOPICS)
        cluster_id = stage.nodes[1].image.cluster_id
        assert cluster_id is not None
        self.ids[CLUSTER_ID] = cluster_id.encode()
        self.wires: dict[str, Wire] = {}
        self.producer: Client | None = None

    def prepare(self, n: int, wire: Wire) -> int:
        if n in PREPARED:
            PREPARED[n](self)
        if n in PAUSES:
            self.stage.world.run(self.stage.world.now + PAUSES[n])
        return CLOCKS_MS.get(n, CLOCK_MS)

    def ask(self, exchange: Exchange, wire: Wire) -> Differences:
        if exchange.n in OF_CONTROLLER:
            wire = Wire(self.stage.world, self.stage.runtime, "n1", CONTROLLER_PORT)
        name = CONNECTIONS.get(exchange.n)
        shared = wire if name is None else self.wires.setdefault(name, wire)
        return super().ask(exchange, shared)

    def _ours_too(self, name: str, row: Any) -> bool:
        """The listener of controllers has other APIs."""
        return name == "api_keys" or super()._ours_too(name, row)

    def request(self, exchange: Exchange) -> bytes:
        if exchange.key != PUSH_TELEMETRY.key:
            return super().request(exchange)
        return self.with_our_ids(_push(exchange))


def _push(exchange: Exchange) -> bytes:
    """The request, with OTLP in place of bytes that only the recorded receiver took."""
    like = next(each for each in golden_requests.OF_4_4 if each.n == TOO_LARGE - 1)
    given = exchange.request or like.request
    assert given is not None
    frame = memoryview(bytes.fromhex(given))
    _, position = decode_request_header(frame, flexible=True)
    row, _ = PUSH_TELEMETRY.decode_request(0, frame, position)
    metrics = bytes(row.metrics)
    if exchange.n == TOO_LARGE:
        metrics = bytes(2**20 + 1)
    elif metrics in NO_OTLP:
        metrics = PUSHED
    elif metrics.startswith(b"\x1f\x8b"):
        metrics = gzip.compress(PUSHED)
    row.metrics = metrics
    return bytes(frame[:position]) + PUSH_TELEMETRY.encode_request(0, row)


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


def _configs_of_a_group(replay: Replay44) -> None:
    replay.stage.set(GROUP, "tie", consumer_assignment_interval_ms="0")


def _topics_of_three_partitions(replay: Replay44) -> None:
    for name in ("dtp-0", "dtp-1", "dtp-2"):
        replay.create(name, 3)


PREPARED: dict[int, Callable[[Replay44], None]] = {
    23: _transaction,
    47: _committed,
    83: _another_topic,
    104: _configs_of_a_group,
    168: _topics_of_three_partitions,
}


@cache
def replayed() -> dict[int, Differences]:
    with Stage(**GIVEN) as stage:
        return Replay44(stage).run()


@pytest.mark.parametrize("exchange", golden_requests.OF_4_4, ids=lambda exchange: exchange.name)
def test_the_answer_is_kafkas(exchange: Exchange) -> None:
    assert not_meant(OF_4_4, exchange.n, replayed()[exchange.n]) == {}, exchange.comment


@pytest.mark.parametrize("n", numbers_of(OF_4_4))
def test_differences_that_are_meant_are_there(n: int) -> None:
    assert all_found(OF_4_4, n, replayed()[n])
