"""Exchanges recorded with Apache Kafka 4.3.1, asked again of a fresh node: field by field the same
answers, but for those of a table.

A line of golden.jsonl: number, what it shows, API key, version, frames in hex without their sizes.
Topic ids are paired as they come, the node's wall clock stands where the recorded one stood, order
in arrays is not compared where the real broker has none. The table must stay true.
"""

from collections.abc import Callable
from functools import cache

import pytest

from raftka.broker.coordinators.partition import LOADED
from raftka.metadata.image import BROKER_LOGGER
from raftka.wire.frame import decode_request_header
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.offsets import OFFSET_COMMIT
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import build_batch, iterate
from tests.broker.golden import (
    Differences,
    Exchange,
    Replay,
    all_found,
    append,
    not_meant,
    numbers_of,
)
from tests.broker.golden_requests import BY_NUMBER, EXCHANGES
from tests.broker.requests import produce
from tests.broker.stage import Stage, Wire
from tests.kit.broker.kafka_differences import REQUESTS

GIVEN = {  # the recorded broker's file, beside where it is and who it is
    "advertised.listeners": "PLAINTEXT://n1:9092",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "group.initial.rebalance.delay.ms": "0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "log.dirs": "/var/lib/kafka1/n1/data",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "super.users": "User:ANONYMOUS",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    # else members are asked for heartbeats sooner while something happens
    "raftka.group.consumer.busy.interval.ms": "0",
    # else records are not looked into, and two of the answers are others
    "raftka.validation": "records",
}
CLOCK_MS = 1_795_249_727_000
TRANSACTION_BEGAN_MS, COMMITTED_MS = 1_795_249_747_005, 1_795_249_747_669
ABORTED_MS = 1_795_249_748_176
CLOCKS_MS = {
    249: TRANSACTION_BEGAN_MS,
    281: COMMITTED_MS - 1,  # the marker follows
    288: ABORTED_MS - 2,
    142: 1_795_249_739_226,
    156: 1_795_249_742_800,
    392: CLOCK_MS + 1_500,
    482: 1_795_249_752_238,
}


class Recorded(Stage):
    """A node with the file that the recorded broker had."""

    def properties(self, node_id: int) -> dict[str, str]:
        planned = super().properties(node_id)
        return {
            name: planned[name]
            for name in planned
            if name not in ("min.insync.replicas", "default.replication.factor")
        } | GIVEN


class WholeReplay(Replay):
    sent_back = (298,)

    def prepare(self, n: int, wire: Wire) -> int:
        if n in PREPARED:
            PREPARED[n](self, wire)
        return CLOCKS_MS.get(n, CLOCK_MS)

    def request(self, exchange: Exchange) -> bytes:
        return (
            super().request(exchange)
            if exchange.request is not None
            else self.with_our_ids(_large(exchange))
        )


def _large(exchange: Exchange) -> bytes:
    """The request whose frame was too long to be kept."""
    assert exchange.n == 150
    records = build_batch([(None, bytes(1_100_000), (), CLOCK_MS)])
    api = PRODUCE
    header = bytes.fromhex("0000000900000001ffff00")
    return header + api.encode_request(9, produce("p", bytes(records)))


# what was done between the exchanges


def _fresh_cluster(replay: Replay, wire: Wire) -> None:
    """Its log was at WARN."""
    replay.stage.set(BROKER_LOGGER, "1", root="WARN")


def _offsets_topic(replay: Replay, wire: Wire) -> None:
    """It was asked for by 15."""
    stage = replay.stage
    runtime = stage.nodes[1].groups.runtime.partitions
    stage.wait(
        lambda: (
            len(runtime) == 50
            and all(coordinator.state in LOADED for coordinator in runtime.values())
        )
    )
    replay.ids[replay.recorded_ids["__consumer_offsets"]] = stage.nodes[1].image.topic_ids[
        "__consumer_offsets"
    ]


def _offset_of_a_transaction(replay: Replay, wire: Wire) -> None:
    request = OFFSET_COMMIT.request
    partition = request.topics.partitions(
        partition_index=0, committed_offset=5, committed_metadata="m"
    )
    wire.ask(
        OFFSET_COMMIT,
        request(group_id="tg", topics=[request.topics(name="tx", partitions=[partition])]),
        9,
    )


def _auto_created(replay: Replay, wire: Wire) -> None:
    replay.stage.wait(lambda: replay.stage.nodes[1].image.topic_named("auto") is not None)


def _topics_to_produce_to(replay: Replay, wire: Wire) -> None:
    replay.create("p", 2)
    replay.create("pc", cleanup_policy="compact")
    replay.create("pl", message_timestamp_type="LogAppendTime")
    replay.create("pz", compression_type="gzip")


def _unanswered(topic: str) -> Callable[[Replay, Wire], None]:
    def send(replay: Replay, wire: Wire) -> None:
        wire.request(PRODUCE, produce(topic, _request_records(117), acks=0), 9)

    return send


def _topic_to_fetch_from(replay: Replay, wire: Wire) -> None:
    replay.create("f", 2)
    (partition,) = BY_NUMBER[163].answer.responses[0].partitions
    append(wire, "f", partition.records)


def _one_more(replay: Replay, wire: Wire) -> None:
    (partition,) = BY_NUMBER[189].answer.responses[0].partitions
    *_, (_, last) = iterate(partition.records)
    append(wire, "f", last)


def _request_records(n: int) -> bytes:
    exchange = BY_NUMBER[n]
    assert exchange.request is not None
    frame = memoryview(bytes.fromhex(exchange.request))
    _, position = decode_request_header(frame, flexible=exchange.version in PRODUCE.flexible)
    row, _ = PRODUCE.decode_request(exchange.version, frame, position)
    return bytes(row.topic_data[0].partition_data[0].records or b"")


def _topic_of_coordinators(replay: Replay, wire: Wire, name: str, key_type: int, key: str) -> None:
    """The first request for a coordinator creates it; it was sent until it was answered."""
    stage = replay.stage
    request = FIND_COORDINATOR.request(key_type=key_type, coordinator_keys=[key])
    wire.ask(FIND_COORDINATOR, request)
    stage.wait(lambda: stage.nodes[1].image.topic_named(name) is not None)
    replay.ids[replay.recorded_ids[name]] = stage.nodes[1].image.topic_ids[name]


def _transaction_topic(replay: Replay, wire: Wire) -> None:
    _topic_of_coordinators(replay, wire, "__transaction_state", 1, "any")


def _topics_of_groups(replay: Replay, wire: Wire) -> None:
    """Those of groups whose exchanges are not recorded."""
    _topic_of_coordinators(replay, wire, "__share_group_state", 2, f"g:{'A' * 22}:0")
    for name, partitions in (("gman", 2), ("gt2", 3), ("gt7", 3)):
        replay.create(name, partitions)


def _marker_at(offset: int) -> Callable[[Replay, Wire], None]:
    """The answer to EndTxn comes before the marker."""
    return lambda replay, wire: replay.stage.wait(
        lambda: replay.stage.partition("tx").high_watermark > offset
    )


PREPARED: dict[int, Callable[[Replay, Wire], None]] = {
    25: _auto_created,
    34: _fresh_cluster,
    16: _offsets_topic,
    19: _transaction_topic,
    117: _topics_to_produce_to,
    160: _unanswered("p"),
    161: _unanswered("nope"),
    162: _topic_to_fetch_from,
    183: _one_more,
    228: lambda replay, wire: replay.create("i"),
    239: lambda replay, wire: replay.create("tx", 2),
    282: _marker_at(2),
    285: _offset_of_a_transaction,
    289: _marker_at(5),
    526: _topics_of_groups,
}


# the tests


@cache
def replayed() -> dict[int, Differences]:
    with Recorded() as stage:
        return WholeReplay(
            stage, EXCHANGES, {t.name: t.topic_id for t in BY_NUMBER[526].answer.topics}
        ).run()


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange.name)
def test_the_answer_is_kafkas(exchange: Exchange) -> None:
    assert not_meant(REQUESTS, exchange.n, replayed()[exchange.n]) == {}, exchange.comment


@pytest.mark.parametrize("n", numbers_of(REQUESTS))
def test_what_is_said_to_differ_does(n: int) -> None:
    assert all_found(REQUESTS, n, replayed()[n])
