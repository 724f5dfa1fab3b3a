"""Fetch and ListOffsets: how much is sent, from where, to whom, and what a reader is told of
leaders and epochs.
"""

from typing import Any

import pytest

from raftka.wire.errors import Code
from raftka.wire.messages.epochs import OFFSET_FOR_LEADER_EPOCH
from raftka.wire.messages.fetch import FETCH, FetchRequest, PartitionData
from raftka.wire.messages.list_offsets import EARLIEST, LATEST, LIST_OFFSETS, MAX_TIMESTAMP
from raftka.wire.messages.produce import PRODUCE
from tests.broker.requests import batch, fetch, fetched, list_offsets, produce, produced
from tests.broker.stage import Stage
from tests.kit.broker.fetching import SIZE, VALUES, filled, values


def read(stage: Stage, row: FetchRequest, version: int | None = None) -> PartitionData:
    return fetched(stage.wire(stage.leader("t")).ask(FETCH, row, version))


# how much


@pytest.mark.parametrize(
    ("limits", "batches"),
    [
        ({}, 3),
        ({"partition_max_bytes": 0}, 1),
        ({"max_bytes": 0}, 1),
        ({"partition_max_bytes": SIZE - 1}, 1),
        ({"partition_max_bytes": 2 * SIZE}, 2),
        ({"partition_max_bytes": 3 * SIZE - 1}, 2),
        ({"max_bytes": 2 * SIZE + 5}, 2),
    ],
)
def test_whole_batches_up_to_the_limits_and_always_one(
    limits: dict[str, Any], batches: int
) -> None:
    with Stage() as stage:
        filled(stage)

        row = read(stage, fetch("t", **limits))

        assert values(row) == VALUES[: 2 * batches]
        assert len(row.records or b"") == batches * SIZE


@pytest.mark.parametrize("limits", [{"partition_max_bytes": -1}, {"max_bytes": -1}])
def test_negative_limits_are_an_error(limits: dict[str, Any]) -> None:
    with Stage() as stage:
        filled(stage)

        row = read(stage, fetch("t", **limits))

        assert (row.error_code, bytes(row.records or b"")) == (Code.UNKNOWN_SERVER_ERROR, b"")


def test_the_whole_answer_is_bounded_and_only_the_first_partition_gets_one_batch_in_any_case() -> (
    None
):
    with Stage() as stage:
        filled(stage, partitions=3)
        row = fetch("t", max_bytes=SIZE + 10)
        asked = FETCH.request.topics.partitions
        row.topics[0].partitions = [
            asked(partition=i, fetch_offset=0, partition_max_bytes=1 << 20) for i in (2, 0, 1)
        ]

        (topic,) = stage.wire().ask(FETCH, row).responses

        assert [(p.partition_index, len(p.records or b"")) for p in topic.partitions] == [
            (2, SIZE),
            (0, 0),
            (1, 0),
        ]
        assert all(p.high_watermark == 6 for p in topic.partitions)


def test_the_brokers_own_bound_holds_for_every_answer() -> None:
    with Stage(fetch_max_bytes="1024") as stage:
        stage.create("t")
        for i in range(4):
            stage.wire().ask(PRODUCE, produce("t", batch(b"%d" % i * 400)))
        wire = stage.wire()

        # the long way, the short way
        answers = [fetched(wire.ask(FETCH, fetch("t", offset))) for offset in (0, 2)]

        assert [len(values(row)) for row in answers] == [2, 2]


@pytest.mark.parametrize(("offset", "first"), [(0, 0), (1, 0), (2, 2), (3, 2), (5, 4)])
def test_from_the_middle_of_a_batch_the_whole_batch_comes(offset: int, first: int) -> None:
    with Stage() as stage:
        filled(stage)

        assert values(read(stage, fetch("t", offset))) == VALUES[first:]


@pytest.mark.parametrize("offset", [-1, 7, 1 << 40])
def test_outside_of_the_log_is_an_error(offset: int) -> None:
    with Stage() as stage:
        filled(stage)

        row = read(stage, fetch("t", offset, max_wait_ms=20_000, min_bytes=1))

        assert (
            row.error_code,
            row.high_watermark,
            row.last_stable_offset,
            row.log_start_offset,
        ) == (Code.OFFSET_OUT_OF_RANGE, -1, -1, -1)
        assert (row.aborted_transactions, bytes(row.records or b"")) == (None, b"")


def test_at_the_end_there_is_nothing() -> None:
    with Stage() as stage:
        filled(stage)

        row = read(stage, fetch("t", 6))

        assert (row.error_code, row.high_watermark, bytes(row.records or b"")) == (0, 6, b"")


# who may see what


def uncommitted(stage: Stage) -> int:
    """A record that no follower has; its leader."""
    filled(stage)
    leader = stage.leader("t")
    for node_id in stage.nodes:
        if node_id != leader:
            stage.world.network.cut(f"n{leader}", f"n{node_id}")
    assert (
        produced(stage.wire(leader).ask(PRODUCE, produce("t", batch(b"new"), acks=1))).base_offset
        == 6
    )
    return leader


@pytest.mark.parametrize("replica", [-1, -2])
def test_consumers_read_what_is_committed(replica: int) -> None:
    with Stage(3, replica_lag_time_max_ms="60000", broker_session_timeout_ms="60000") as stage:
        leader = uncommitted(stage)

        row = fetched(stage.wire(leader).ask(FETCH, fetch("t", replica_id=replica)))

        assert (values(row), row.high_watermark) == (VALUES, 6)
        assert stage.partition("t", node_id=leader).log.end_offset == 7


@pytest.mark.parametrize("version", [12, 15, 17])
@pytest.mark.parametrize("replica", ["itself", "follower", "nobody"])
def test_who_only_says_to_be_a_replica_is_refused(version: int, replica: str) -> None:
    """Else it could move the high watermark, and read what is not committed: an id is believed with
    the broker's epoch alone.
    """
    with Stage(3) as stage:
        topic_id = filled(stage)
        leader = stage.leader("t")
        claimed = {
            "itself": leader,
            "follower": next(i for i in stage.nodes if i != leader),
            "nobody": 77,
        }[replica]
        state = FETCH.request.replica_state(replica_id=claimed, replica_epoch=1)

        row = read(
            stage,
            fetch("t", 0, topic_id=topic_id, replica_id=claimed, replica_state=state),
            version,
        )

        assert (row.error_code, bytes(row.records or b"")) == (Code.NOT_LEADER_OR_FOLLOWER, b"")


def test_another_node_names_the_leader() -> None:
    with Stage(3) as stage:
        topic_id = filled(stage)
        leader = stage.leader("t")
        other = next(i for i in stage.nodes if i != leader)

        answer = stage.wire(other).ask(FETCH, fetch("t", topic_id=topic_id), 16)

        row = fetched(answer)
        assert (row.error_code, row.current_leader.leader_id, row.current_leader.leader_epoch) == (
            Code.NOT_LEADER_OR_FOLLOWER,
            leader,
            0,
        )
        assert [(e.node_id, e.host, e.port) for e in answer.node_endpoints] == [
            (leader, f"n{leader}", 9092)
        ]


def test_a_produce_to_another_node_names_the_leader() -> None:
    with Stage(3) as stage:
        filled(stage)
        leader = stage.leader("t")
        other = next(i for i in stage.nodes if i != leader)

        answer = stage.wire(other).ask(PRODUCE, produce("t", batch(b"1")))

        row = produced(answer)
        assert (row.error_code, row.current_leader.leader_id, row.current_leader.leader_epoch) == (
            Code.NOT_LEADER_OR_FOLLOWER,
            leader,
            0,
        )
        assert [(e.node_id, e.host, e.port) for e in answer.node_endpoints] == [
            (leader, f"n{leader}", 9092)
        ]


# epochs


def second_epoch(stage: Stage) -> int:
    """The leader of epoch 0 was killed and came back: the leader of a later one."""
    first = stage.leader("t")
    stage.kill(first)
    stage.wait(lambda: stage.leader("t") not in (first, -1))
    stage.start(first)
    stage.wait(
        lambda: stage.nodes[first].ready.is_set() and len(stage.partition("t").image.isr) == 3
    )
    leader = stage.leader("t")
    assert produced(stage.wire(leader).ask(PRODUCE, produce("t", batch(b"new")))).base_offset == 6
    return leader


def test_leader_epochs_are_checked() -> None:
    with Stage(3) as stage:
        topic_id = filled(stage)
        leader = second_epoch(stage)
        epoch = stage.partition("t").leader_epoch
        wire = stage.wire(leader)

        def told(asked: int) -> PartitionData:
            return fetched(
                wire.ask(FETCH, fetch("t", topic_id=topic_id, current_leader_epoch=asked), 16)
            )

        assert [told(asked).error_code for asked in (-1, epoch)] == [0, 0]
        assert told(epoch + 1).error_code == Code.UNKNOWN_LEADER_EPOCH
        fenced = told(epoch - 1)
        assert fenced.error_code == Code.FENCED_LEADER_EPOCH
        assert (fenced.current_leader.leader_id, fenced.current_leader.leader_epoch) == (
            leader,
            epoch,
        )
        for asked, code in (
            (epoch + 1, Code.UNKNOWN_LEADER_EPOCH),
            (epoch - 1, Code.FENCED_LEADER_EPOCH),
            (epoch, Code.NONE),
        ):
            assert (
                wire.ask(LIST_OFFSETS, list_offsets("t", LATEST, current_leader_epoch=asked))
                .topics[0]
                .partitions[0]
                .error_code
                == code
            )


def test_the_divergence_of_logs_is_reported() -> None:
    """KIP-320: a reader that knows of records of epoch 0 which this log has not got."""
    with Stage(3) as stage:
        topic_id = filled(stage)
        second_epoch(stage)
        epoch = stage.partition("t").leader_epoch

        same = read(stage, fetch("t", 6, topic_id=topic_id, last_fetched_epoch=0), 17)
        beyond = read(
            stage,
            fetch("t", 7, topic_id=topic_id, last_fetched_epoch=0, max_wait_ms=20_000, min_bytes=1),
            17,
        )
        ahead = read(stage, fetch("t", 6, topic_id=topic_id, last_fetched_epoch=epoch + 1), 17)

        assert values(same) == [b"new"]
        assert (
            beyond.error_code,
            beyond.diverging_epoch.epoch,
            beyond.diverging_epoch.end_offset,
        ) == (0, 0, 6)
        assert ahead.error_code == Code.OFFSET_OUT_OF_RANGE
        request = OFFSET_FOR_LEADER_EPOCH.request
        row = request(
            topics=[
                request.topics(topic="t", partitions=[request.topics.partitions(leader_epoch=0)])
            ]
        )
        (ended,) = (
            stage.wire(stage.leader("t")).ask(OFFSET_FOR_LEADER_EPOCH, row).topics[0].partitions
        )
        assert (ended.leader_epoch, ended.end_offset) == (0, 6)


# ListOffsets


def test_the_ends_and_the_largest_timestamp() -> None:
    with Stage() as stage:
        filled(stage)
        wire = stage.wire()

        def found(timestamp: int) -> tuple[int, int, int]:
            (row,) = wire.ask(LIST_OFFSETS, list_offsets("t", timestamp)).topics[0].partitions
            return row.timestamp, row.offset, row.leader_epoch

        assert found(LATEST) == (-1, 6, 0)
        assert found(EARLIEST) == (-1, 0, 0)
        assert found(MAX_TIMESTAMP) == (1_700_000_000_000, 0, 0)
        assert found(0) == (1_700_000_000_000, 0, 0)
        assert found(1_700_000_000_001) == (-1, -1, -1)


def test_the_end_for_consumers_is_what_is_committed() -> None:
    with Stage(3, replica_lag_time_max_ms="60000", broker_session_timeout_ms="60000") as stage:
        leader = uncommitted(stage)

        (row,) = (
            stage.wire(leader).ask(LIST_OFFSETS, list_offsets("t", LATEST)).topics[0].partitions
        )

        assert (row.error_code, row.offset) == (0, 6)


def test_a_partition_asked_for_twice_is_refused_once() -> None:
    with Stage() as stage:
        filled(stage)
        row = list_offsets("t", LATEST)
        row.topics[0].partitions = [*row.topics[0].partitions] * 2

        (found,) = stage.wire().ask(LIST_OFFSETS, row).topics[0].partitions

        assert (found.error_code, found.offset) == (Code.INVALID_REQUEST, -1)
