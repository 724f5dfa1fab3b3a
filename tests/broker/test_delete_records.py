"""DeleteRecords: every replica's log starts later, the answer waits for all that live, and it stays
so.
"""

from collections.abc import Iterator

import pytest

from raftka.broker.replica.partition import Partition
from raftka.broker.work import long_work
from raftka.metadata.image import TOPIC
from raftka.replication.partition import LeaderState
from raftka.runtime.simulated.clock import READING_S
from raftka.wire.errors import Code
from raftka.wire.messages.delete_records import (
    DELETE_RECORDS,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
)
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.list_offsets import EARLIEST, LIST_OFFSETS
from raftka.wire.messages.produce import PRODUCE
from tests.broker.requests import batch, fetch, fetched, list_offsets, produce, produced
from tests.broker.stage import Stage

RECORDS = 10


@pytest.fixture
def three() -> Iterator[Stage]:
    """A topic of ten records on three nodes; no follower is slower than its leader's longest wait
    makes it.
    """
    with Stage(3, replica_fetch_wait_max_ms="20000", replica_lag_time_max_ms="20000") as stage:
        stage.create("t", replication_factor=3)
        fill(stage)
        stage.wait(lambda: len(leader_state(stage).isr) == 3)
        yield stage
        assert not stage.world.failures


def fill(stage: Stage) -> None:
    wire = stage.wire(stage.leader("t"))
    for _ in range(RECORDS):
        assert produced(wire.ask(PRODUCE, produce("t", batch(b"x")))).error_code == 0


def leader_state(stage: Stage) -> LeaderState:
    leader = stage.partition("t").leader
    assert leader is not None
    return leader


def deletion(
    offset: int, partition: int = 0, *, topic: str = "t", timeout_ms: int = 5000
) -> DeleteRecordsRequest:
    request = DELETE_RECORDS.request
    asked = request.topics.partitions(partition_index=partition, offset=offset)
    return request(topics=[request.topics(name=topic, partitions=[asked])], timeout_ms=timeout_ms)


def told(answer: DeleteRecordsResponse) -> tuple[int, Code]:
    ((partition,),) = [topic.partitions for topic in answer.topics]
    return partition.low_watermark, Code(partition.error_code)


def starts(stage: Stage) -> list[int]:
    return [stage.partition("t", node_id=node_id).log.start_offset for node_id in stage.nodes]


def test_all_replicas_follow_before_it_is_answered_and_none_is_waited_for_too_long(
    three: Stage,
) -> None:
    wire = three.wire(three.leader("t"))
    began = three.world.now

    answer = wire.ask(DELETE_RECORDS, deletion(4))

    assert told(answer) == (4, Code.NONE)
    assert starts(three) == [4, 4, 4]
    assert three.world.now - began < 1.0, "the followers were woken"
    ((first,),) = [
        topic.partitions for topic in wire.ask(LIST_OFFSETS, list_offsets("t", EARLIEST)).topics
    ]
    assert first.offset == 4
    assert fetched(wire.ask(FETCH, fetch("t", 3))).error_code == Code.OFFSET_OUT_OF_RANGE
    assert fetched(wire.ask(FETCH, fetch("t", 4))).log_start_offset == 4
    assert told(wire.ask(DELETE_RECORDS, deletion(2))) == (4, Code.NONE)
    assert told(wire.ask(DELETE_RECORDS, deletion(-1))) == (RECORDS, Code.NONE)
    assert produced(wire.ask(PRODUCE, produce("t", batch(b"y")))).base_offset == RECORDS
    assert starts(three) == [RECORDS] * 3


def test_a_follower_that_does_not_hear_of_it_is_waited_for(three: Stage) -> None:
    leader = three.leader("t")
    deaf = next(node_id for node_id in three.nodes if node_id != leader)
    wire = three.wire(leader)
    three.nodes[deaf].replicas.fetchers.by_leader[leader].follows.clear()

    wire.request(DELETE_RECORDS, deletion(4, timeout_ms=1000))
    three.wait(lambda: sorted(starts(three)) == [0, 4, 4])

    assert told(wire.answer(DELETE_RECORDS)) == (0, Code.REQUEST_TIMED_OUT)
    assert len(three.partition("t").delayed_by_low_watermark) == 0


def test_who_does_not_live_is_not_waited_for_and_follows_when_it_is_back(three: Stage) -> None:
    leader = three.leader("t")
    dead = next(node_id for node_id in three.nodes if node_id != leader)
    wire = three.wire(leader)
    three.kill(dead)

    wire.request(DELETE_RECORDS, deletion(4, timeout_ms=60_000))

    assert told(wire.answer(DELETE_RECORDS)) == (4, Code.NONE)
    assert not three.nodes[leader].image.alive(dead)
    three.start(dead)
    three.wait(
        lambda: (
            three.nodes[dead].ready.is_set()
            and ("t", 0) in three.nodes[dead].replicas.partitions
            and starts(three) == [4, 4, 4]
        )
    )


def test_one_that_had_left_the_isr_before_it_died_is_not_waited_for_either(three: Stage) -> None:
    leader = three.leader("t")
    deaf = next(node_id for node_id in three.nodes if node_id != leader)
    three.nodes[deaf].replicas.fetchers.by_leader[leader].follows.clear()
    wire = three.wire(leader)
    wire.ask(PRODUCE, produce("t", batch(b"x"), acks=1))
    three.wait(lambda: deaf not in leader_state(three).isr)

    wire.request(DELETE_RECORDS, deletion(4, timeout_ms=60_000))
    three.wait(lambda: len(three.partition("t").delayed_by_low_watermark) > 0)
    three.kill(deaf)

    assert told(wire.answer(DELETE_RECORDS)) == (4, Code.NONE)


@pytest.mark.parametrize("gone", ["topic", "leadership"])
def test_what_becomes_of_who_waits(three: Stage, gone: str) -> None:
    leader = three.leader("t")
    deaf = next(node_id for node_id in three.nodes if node_id != leader)
    wire = three.wire(leader)
    three.nodes[deaf].replicas.fetchers.by_leader[leader].follows.clear()
    wire.request(DELETE_RECORDS, deletion(4, timeout_ms=60_000))
    three.wait(lambda: len(three.partition("t").delayed_by_low_watermark) > 0)

    if gone == "topic":
        three.delete("t")
    else:
        three.nodes[leader].lifecycle.withdraw("a test")

    expected = Code.UNKNOWN_TOPIC_OR_PARTITION if gone == "topic" else Code.NOT_LEADER_OR_FOLLOWER
    assert told(wire.answer(DELETE_RECORDS))[1] is expected


def test_a_replica_that_does_not_lead_refuses(three: Stage) -> None:
    other = next(node_id for node_id in three.nodes if node_id != three.leader("t"))

    assert told(three.wire(other).ask(DELETE_RECORDS, deletion(4))) == (
        -1,
        Code.NOT_LEADER_OR_FOLLOWER,
    )
    assert told(three.wire(other).ask(DELETE_RECORDS, deletion(4, partition=1))) == (
        -1,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
    )


def test_nothing_that_is_not_committed_is_deleted(three: Stage) -> None:
    leader_state(three).high_watermark = 7
    wire = three.wire(three.leader("t"))

    assert told(wire.ask(DELETE_RECORDS, deletion(8))) == (-1, Code.OFFSET_OUT_OF_RANGE)
    assert three.partition("t").log.start_offset == 0


@pytest.mark.parametrize("how", ["power loss", "kill"])
def test_it_outlives(how: str) -> None:
    with Stage() as stage:
        stage.create("t")
        fill(stage)
        assert told(stage.wire().ask(DELETE_RECORDS, deletion(4))) == (4, Code.NONE)
        stage.world.run(stage.world.now + 6.0)  # the checkpoint

        stage.kill(1, power_loss=how == "power loss")
        stage.start(1)
        stage.wait(stage.nodes[1].ready.is_set)

        assert starts(stage) == [4]


def test_compacted_topics_keep_theirs_unless_they_delete_too() -> None:
    with Stage() as stage:
        stage.create("t")
        fill(stage)
        stage.set(TOPIC, "t", cleanup_policy="compact")
        assert told(stage.wire().ask(DELETE_RECORDS, deletion(4))) == (-1, Code.POLICY_VIOLATION)
        stage.set(TOPIC, "t", cleanup_policy="compact,delete")
        assert told(stage.wire().ask(DELETE_RECORDS, deletion(4))) == (4, Code.NONE)


def test_a_partition_that_is_named_many_times_waits_once(three: Stage) -> None:
    leader = three.leader("t")
    deaf = next(node_id for node_id in three.nodes if node_id != leader)
    wire = three.wire(leader)
    three.nodes[deaf].replicas.fetchers.by_leader[leader].follows.clear()
    row = deletion(1, timeout_ms=1000)
    row.topics[0].partitions = [
        deletion(offset).topics[0].partitions[0] for offset in range(RECORDS, 0, -1)
    ]

    wire.request(DELETE_RECORDS, row)
    three.wait(lambda: len(three.partition("t").delayed_by_low_watermark) > 0)

    assert len(three.partition("t").delayed_by_low_watermark) == 1
    assert told(wire.answer(DELETE_RECORDS)) == (0, Code.REQUEST_TIMED_OUT)


@pytest.mark.parametrize("nodes", [1, 3])
def test_thousands_of_partitions_are_some_a_turn(
    nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_work, "FIRST_STEPS", 2)
    monkeypatch.setattr(long_work, "STEPS", 1)
    monkeypatch.setattr(long_work, "SLICE_S", 3.5 * READING_S)
    deleted: list[float] = []
    delete_before = Partition.delete_before

    with Stage(nodes) as stage:

        def counted(self: Partition, offset: int) -> int:
            deleted.append(stage.world.now)
            return delete_before(self, offset)

        monkeypatch.setattr(Partition, "delete_before", counted)
        stage.create("t", partitions=12 * nodes)
        leader = stage.leader("t")
        led = [index for index in range(12 * nodes) if stage.leader("t", index) == leader]
        wire = stage.wire(leader)
        for index in led:
            assert produced(wire.ask(PRODUCE, produce("t", batch(b"x"), index))).error_code == 0
        row = deletion(1)
        row.topics[0].partitions = [
            deletion(1, index).topics[0].partitions[0] for index in [*led, 99]
        ]
        (topic,) = wire.ask(DELETE_RECORDS, row).topics

        answers = {
            each.partition_index: (each.low_watermark, Code(each.error_code))
            for each in topic.partitions
        }
        assert answers == {
            **dict.fromkeys(led, (1, Code.NONE)),
            99: (-1, Code.UNKNOWN_TOPIC_OR_PARTITION),
        }
        assert len(deleted) == len(led) > 10
        assert max(deleted.count(when) for when in set(deleted)) <= 5
        assert not any(len(stage.partition("t", index).delayed_by_low_watermark) for index in led)
