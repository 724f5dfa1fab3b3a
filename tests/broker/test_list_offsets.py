"""ListOffsets and OffsetForLeaderEpoch where who asks, and what is committed, make a difference;
the rest was recorded (golden.jsonl).
"""

from collections.abc import Iterator

import pytest

from raftka.broker.network.access.authorizer import AllowAll, Resource
from raftka.broker.network.session import Session
from raftka.chaos.simulated.workloads.workload import busy
from raftka.wire.errors import Code
from raftka.wire.messages.epochs import OFFSET_FOR_LEADER_EPOCH
from raftka.wire.messages.list_offsets import EARLIEST, LATEST, LIST_OFFSETS, MAX_TIMESTAMP
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import build_batch
from raftka.wire.rows import Row
from tests.broker.requests import batch, list_offsets, produce, produced
from tests.broker.stage import Stage, Wire
from tests.broker.turns import counting, most_calls

RECORDS, COMMITTED = 10, 6
CONSUMER, DEBUGGER = -1, -2
TIME_MS = 1_700_000_000_000  # of every record


class Allows(AllowAll):
    def __init__(self, *allowed: str) -> None:
        self.operations = allowed

    def allowed(self, session: Session, operation: str, resource: Resource) -> bool:
        return operation in self.operations


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Ten records on three nodes, of which the leader knows six to be committed."""
    with Stage(3) as stage:
        stage.create("t", replication_factor=3)
        wire = stage.wire(stage.leader("t"))
        for _ in range(RECORDS):
            assert produced(wire.ask(PRODUCE, produce("t", batch(b"x")))).error_code == 0
        leader = stage.partition("t").leader
        assert leader is not None
        leader.high_watermark = COMMITTED
        yield stage


def ask(stage: Stage, node_id: int, timestamp: int, replica_id: int) -> tuple[Code, int]:
    request = list_offsets("t", timestamp)
    request.replica_id = replica_id
    ((row,),) = [
        topic.partitions for topic in stage.wire(node_id).ask(LIST_OFFSETS, request).topics
    ]
    return Code(row.error_code), row.offset


def test_a_consumer_is_told_what_is_committed_and_only_by_the_leader(stage: Stage) -> None:
    leader = stage.leader("t")
    follower = next(node_id for node_id in stage.nodes if node_id != leader)

    assert ask(stage, leader, LATEST, CONSUMER) == (Code.NONE, COMMITTED)
    assert ask(stage, leader, TIME_MS, CONSUMER) == (Code.NONE, 0)
    assert ask(stage, leader, MAX_TIMESTAMP, CONSUMER) == (Code.NONE, 0)
    assert ask(stage, follower, LATEST, CONSUMER) == (Code.NOT_LEADER_OR_FOLLOWER, -1)


def test_a_follower_is_told_the_end_of_the_log_and_a_debugger_by_any_replica(stage: Stage) -> None:
    leader = stage.leader("t")
    follower = next(node_id for node_id in stage.nodes if node_id != leader)

    assert ask(stage, leader, LATEST, follower) == (Code.NONE, RECORDS)
    assert ask(stage, follower, LATEST, follower) == (Code.NOT_LEADER_OR_FOLLOWER, -1)
    assert [ask(stage, node_id, LATEST, DEBUGGER) for node_id in stage.nodes] == [
        (Code.NONE, RECORDS)
    ] * 3
    assert [ask(stage, node_id, EARLIEST, DEBUGGER) for node_id in stage.nodes] == [
        (Code.NONE, 0)
    ] * 3


def test_a_time_that_only_uncommitted_records_have_is_not_found(stage: Stage) -> None:
    leader = stage.partition("t").leader
    assert leader is not None
    leader.high_watermark = 0

    assert ask(stage, stage.leader("t"), TIME_MS, CONSUMER) == (Code.NONE, -1)
    assert ask(stage, stage.leader("t"), MAX_TIMESTAMP, CONSUMER) == (Code.NONE, -1)


@pytest.mark.parametrize(
    ("allowed", "code"),
    [
        ("CLUSTER_ACTION", Code.NONE),
        ("DESCRIBE", Code.NONE),
        ("READ", Code.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_epochs_are_told_to_brokers_and_to_who_may_describe_the_topic(
    stage: Stage, allowed: str, code: Code
) -> None:
    leader = stage.leader("t")
    stage.nodes[leader].dispatcher.authorizer = Allows(allowed)
    request = OFFSET_FOR_LEADER_EPOCH.request
    asked = request.topics.partitions(partition=0, leader_epoch=stage.partition("t").leader_epoch)

    answer = stage.wire(leader).ask(
        OFFSET_FOR_LEADER_EPOCH, request(topics=[request.topics(topic="t", partitions=[asked])])
    )

    ((row,),) = [topic.partitions for topic in answer.topics]
    assert isinstance(row, Row)
    assert (row.error_code, row.end_offset) == (code, -1 if code else RECORDS)


# a batch of very many records

MOST_CALLS = 45_000  # of a turn: a slice of 10,000, and one piece of the batch


def large(stage: Stage, count: int) -> Wire:
    """A topic with one batch, in which each record is a millisecond younger than the one before."""
    stage.create("large")
    wire = stage.wire()
    records = bytes(
        build_batch([(b"k", b"v", [], TIME_MS + at) for at in range(count)], compression=4)
    )
    assert produced(wire.ask(PRODUCE, produce("large", records))).error_code == 0
    return wire


@pytest.mark.parametrize("timestamp", [TIME_MS + 29_999, MAX_TIMESTAMP])
def test_a_search_within_a_large_batch_keeps_no_turn(timestamp: int) -> None:
    with counting() as calls, Stage() as stage:
        large(stage, 30_000)
        answer = most_calls(calls, stage, LIST_OFFSETS, list_offsets("large", timestamp))

        assert answer is not None
        assert answer.topics[0].partitions[0].offset == 29_999
        assert calls.total > 2 * MOST_CALLS
        assert calls.most <= MOST_CALLS


def test_a_search_ends_with_its_partition() -> None:
    with Stage() as stage:
        wire = large(stage, 30_000)
        with busy():
            wire.request(LIST_OFFSETS, list_offsets("large", TIME_MS + 29_999))
            replicas = stage.nodes[1].replicas
            stage.wait(lambda: stage.nodes[1].dispatcher.long_work.handled == "ListOffsets")
            there = replicas.partitions.pop(("large", 0))
            row = wire.answer(LIST_OFFSETS).topics[0].partitions[0]
            replicas.partitions["large", 0] = there

        assert (row.error_code, row.offset) == (Code.NOT_LEADER_OR_FOLLOWER, -1)
        assert not stage.nodes[1].logs.offline
