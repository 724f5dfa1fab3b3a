"""Requests that wait: produces for the in-sync replicas, fetches for more to read; what ends each
wait, and what it is answered.
"""

import pytest

from raftka.limits import PARKED_REQUESTS
from raftka.wire.errors import Code
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.fetch import FETCH, FetchRequest
from raftka.wire.messages.produce import PRODUCE
from tests.broker.conftest import Lower
from tests.broker.requests import batch, fetch, fetched, produce, produced
from tests.broker.stage import Stage, Wire

LONG_MS = 20_000


def parked(stage: Stage, wire: Wire, row: FetchRequest, node_id: int = 1) -> None:
    """The fetch is sent and waits."""
    before = stage.nodes[node_id].metrics.parked_fetches
    wire.request(FETCH, row)
    stage.wait(lambda: stage.nodes[node_id].metrics.parked_fetches == before + 1)


def appended(stage: Stage, topic: str, *values: bytes) -> None:
    for value in values:
        assert (
            produced(
                stage.wire(stage.leader(topic)).ask(PRODUCE, produce(topic, batch(value)))
            ).error_code
            == 0
        )


def followers(stage: Stage, topic: str) -> list[int]:
    partition = stage.partition(topic)
    return [replica for replica in partition.image.replicas if replica != partition.image.leader]


# produces


def test_acks_all_waits_for_the_followers_and_no_longer_than_its_time() -> None:
    with Stage(3, replica_lag_time_max_ms="60000", broker_session_timeout_ms="60000") as stage:
        stage.create("t")
        leader = stage.leader("t")
        appended(stage, "t", b"1")
        away = followers(stage, "t")
        for node_id in away:
            stage.world.network.cut(f"n{leader}", f"n{node_id}")
        begin = stage.world.now

        answer = produced(
            stage.wire(leader).ask(PRODUCE, produce("t", batch(b"2"), timeout_ms=1500))
        )

        assert (answer.error_code, answer.base_offset) == (Code.REQUEST_TIMED_OUT, -1)
        assert begin + 1.5 <= stage.world.now <= begin + 1.75
        assert stage.partition("t", node_id=leader).high_watermark == 1


def test_what_a_new_epoch_of_the_same_leader_commits_is_answered() -> None:
    with Stage(
        3,
        replica_lag_time_max_ms="60000",
        broker_session_timeout_ms="60000",
        min_insync_replicas="1",
    ) as stage:
        stage.create("t")
        leader = stage.leader("t")
        for node_id in followers(stage, "t"):
            stage.world.network.cut(f"n{leader}", f"n{node_id}")
        wire, partition = stage.wire(leader), stage.partition("t", node_id=leader)
        wire.request(PRODUCE, produce("t", batch(b"1"), timeout_ms=LONG_MS))
        stage.wait(
            lambda: len(partition.delayed_by_commit) == 1 and partition.log.flushed_offset == 1
        )
        begin = stage.world.now

        alone = partition.image._replace(
            isr=(leader,),
            leader_epoch=partition.leader_epoch + 1,
            partition_epoch=partition.image.partition_epoch + 1,
        )
        partition.image = alone
        stage.nodes[leader].replicas._lead(partition, alone)

        answer = produced(wire.answer(PRODUCE))
        assert (answer.error_code, answer.base_offset) == (Code.NONE, 0)
        assert stage.world.now < begin + 1.0


def test_what_timed_out_may_yet_be_committed() -> None:
    with Stage(3, replica_lag_time_max_ms="60000") as stage:
        stage.create("t")
        leader = stage.leader("t")
        (one, other) = followers(stage, "t")
        for node_id in (one, other):
            stage.world.pause(f"n{node_id}")
        assert (
            produced(
                stage.wire(leader).ask(PRODUCE, produce("t", batch(b"1"), timeout_ms=300))
            ).error_code
            == Code.REQUEST_TIMED_OUT
        )
        for node_id in (one, other):
            stage.world.resume(f"n{node_id}")

        stage.wait(lambda: stage.partition("t", node_id=leader).high_watermark == 1)


def test_acks_1_does_not_wait_for_followers() -> None:
    with Stage(3, replica_lag_time_max_ms="60000", broker_session_timeout_ms="60000") as stage:
        stage.create("t")
        leader = stage.leader("t")
        stage.world.network.isolate(f"n{followers(stage, 't')[0]}")
        begin = stage.world.now

        answer = produced(stage.wire(leader).ask(PRODUCE, produce("t", batch(b"1"), acks=1)))

        assert (answer.error_code, answer.base_offset) == (0, 0)
        assert stage.world.now < begin + 0.1


def test_below_min_insync_replicas_acks_all_is_refused_and_others_are_not() -> None:
    with Stage(3) as stage:
        stage.create("t", replication_factor=2, configs={"min_insync_replicas": "2"})
        appended(stage, "t", b"1")
        leader = stage.leader("t")
        stage.kill(followers(stage, "t")[0])
        stage.wait(lambda: stage.partition("t", node_id=leader).image.isr == (leader,))
        wire = stage.wire(leader)

        refused = produced(wire.ask(PRODUCE, produce("t", batch(b"2"))))
        taken = produced(wire.ask(PRODUCE, produce("t", batch(b"3"), acks=1)))

        assert (refused.error_code, refused.base_offset, refused.log_start_offset) == (
            Code.NOT_ENOUGH_REPLICAS,
            -1,
            0,
        )
        assert (taken.error_code, taken.base_offset) == (0, 1)
        # KIP-966: nor is that shown to consumers
        assert stage.partition("t", node_id=leader).high_watermark == 1


def test_who_waits_while_the_isr_shrinks_below_the_minimum_is_not_told_that_all_is_well() -> None:
    with Stage(3) as stage:
        stage.create("t", replication_factor=2, configs={"min_insync_replicas": "2"})
        leader = stage.leader("t")
        wire = stage.wire(leader)
        wire.ask(
            API_VERSIONS,
            API_VERSIONS.request(client_software_name="test", client_software_version="1"),
        )
        stage.kill(followers(stage, "t")[0], power_loss=True)

        answer = produced(wire.ask(PRODUCE, produce("t", batch(b"1"), timeout_ms=10_000)))

        assert answer.error_code in (Code.REQUEST_TIMED_OUT, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        assert stage.partition("t", node_id=leader).image.isr == (leader,)


def test_who_waits_hears_at_once_that_the_leader_is_another() -> None:
    with Stage(3) as stage:
        stage.create("t")
        leader = stage.leader("t")
        producing, reading = stage.wire(leader), stage.wire(leader)
        parked(stage, reading, fetch("t", 0, max_wait_ms=LONG_MS, min_bytes=1), leader)
        for node_id in followers(stage, "t"):
            stage.world.network.cut(f"n{node_id}", f"n{leader}", one_way=False)
        producing.request(PRODUCE, produce("t", batch(b"1"), timeout_ms=LONG_MS))
        stage.wait(lambda: bool(stage.partition("t", node_id=leader).delayed_by_commit))
        stage.wait(lambda: stage.leader("t") != leader)
        stage.world.network.heal()

        assert produced(producing.answer(PRODUCE)).error_code == Code.NOT_LEADER_OR_FOLLOWER
        assert fetched(reading.answer(FETCH)).error_code == Code.NOT_LEADER_OR_FOLLOWER


def test_who_waits_hears_at_once_that_the_topic_is_gone() -> None:
    with Stage(3, replica_lag_time_max_ms="60000", broker_session_timeout_ms="60000") as stage:
        stage.create("t")
        leader = stage.leader("t")
        producing, reading = stage.wire(leader), stage.wire(leader)
        parked(stage, reading, fetch("t", 0, max_wait_ms=LONG_MS, min_bytes=1), leader)
        controller = next(
            i
            for i, node in stage.nodes.items()
            if node.quorum.host is not None and node.quorum.host.active
        )
        quiet = next(i for i in followers(stage, "t") if i != controller)
        stage.world.network.isolate(f"n{quiet}")
        producing.request(PRODUCE, produce("t", batch(b"1"), timeout_ms=LONG_MS))
        stage.wait(lambda: bool(stage.partition("t", node_id=leader).delayed_by_commit))
        begin = stage.world.now

        stage.delete("t", controller)

        assert produced(producing.answer(PRODUCE)).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
        answer = fetched(reading.answer(FETCH))
        assert (answer.error_code, answer.high_watermark, answer.aborted_transactions) == (
            Code.UNKNOWN_TOPIC_OR_PARTITION,
            -1,
            [],
        )
        assert stage.world.now < begin + 1.0


# fetches


def test_a_fetch_that_finds_nothing_is_answered_when_its_time_is_up() -> None:
    with Stage() as stage:
        stage.create("t")
        wire = stage.wire()
        parked(stage, wire, fetch("t", 0, max_wait_ms=700, min_bytes=1))
        begin = stage.world.now

        answer = fetched(wire.answer(FETCH))

        assert (answer.error_code, bytes(answer.records or b"")) == (0, b"")
        assert begin + 0.69 <= stage.world.now <= begin + 0.72
        assert stage.nodes[1].metrics.parked_fetches == 0


def test_a_produce_wakes_the_fetch_that_waits_for_it() -> None:
    with Stage() as stage:
        stage.create("t")
        wire = stage.wire()
        parked(stage, wire, fetch("t", 0, max_wait_ms=LONG_MS, min_bytes=1))
        begin = stage.world.now

        appended(stage, "t", b"1")

        assert len(fetched(wire.answer(FETCH)).records or b"") == len(batch(b"1"))
        assert stage.world.now < begin + 0.04


def test_a_consumer_is_woken_by_the_commit_and_not_by_the_append() -> None:
    with Stage(3, replica_lag_time_max_ms="60000") as stage:
        stage.create("t")
        leader = stage.leader("t")
        wire = stage.wire(leader)
        parked(stage, wire, fetch("t", 0, max_wait_ms=LONG_MS, min_bytes=1), leader)
        (one, other) = followers(stage, "t")
        stage.world.pause(f"n{one}")
        stage.wire(leader).ask(PRODUCE, produce("t", batch(b"1"), acks=1))
        stage.world.run(stage.world.now + 0.5)
        assert wire.frames == []
        assert stage.partition("t", node_id=other).log.end_offset == 1

        stage.world.resume(f"n{one}")
        assert fetched(wire.answer(FETCH)).high_watermark == 1


def test_a_fetch_waits_for_all_the_bytes_it_asked_for() -> None:
    with Stage() as stage:
        stage.create("t")
        wire, size = stage.wire(), len(batch(b"1"))
        parked(stage, wire, fetch("t", 0, max_wait_ms=LONG_MS, min_bytes=2 * size + 1))

        appended(stage, "t", b"1", b"2")
        assert wire.frames == []
        appended(stage, "t", b"3")
        assert len(fetched(wire.answer(FETCH)).records or b"") == 3 * size


def test_a_request_of_another_kind_behind_a_waiting_fetch_hurries_it() -> None:
    with Stage() as stage:
        stage.create("t")
        wire = stage.wire()
        client = API_VERSIONS.request(client_software_name="test", client_software_version="1")
        appended(stage, "t", b"1")
        parked(stage, wire, fetch("t", 0, max_wait_ms=LONG_MS, min_bytes=1_000_000))
        begin = stage.world.now

        wire.request(API_VERSIONS, client)

        # with what there is
        assert len(fetched(wire.answer(FETCH)).records or b"") == len(batch(b"1"))
        assert wire.answer(API_VERSIONS).error_code == 0
        assert stage.world.now < begin + 0.1


def test_a_fetch_behind_a_waiting_fetch_waits_with_it() -> None:
    with Stage() as stage:
        stage.create("t")
        wire = stage.wire()
        for waiting in (1, 2):
            wire.request(FETCH, fetch("t", 0, max_wait_ms=1000, min_bytes=1))
            stage.wait(lambda waiting=waiting: stage.nodes[1].metrics.parked_fetches == waiting)  # type: ignore[misc]
        stage.world.run(stage.world.now + 0.5)

        assert wire.frames == []
        assert [fetched(wire.answer(FETCH)).error_code for _ in range(2)] == [0, 0]


@pytest.mark.parametrize(("topic", "partition"), [("nope", 0), ("t", 9)])
def test_an_error_ends_the_wait_before_it_begins(topic: str, partition: int) -> None:
    with Stage() as stage:
        stage.create("t")
        row = fetch(topic, 0, partition, max_wait_ms=LONG_MS, min_bytes=1)
        row.topics = [*row.topics, *fetch("t", 0).topics]
        begin = stage.world.now

        found = stage.wire().ask(FETCH, row)

        assert [each.error_code for topic in found.responses for each in topic.partitions] == [
            Code.UNKNOWN_TOPIC_OR_PARTITION,
            0,
        ]
        assert stage.world.now < begin + 0.1


def test_who_closes_the_connection_does_not_stay_parked() -> None:
    with Stage() as stage:
        stage.create("t")
        wire = stage.wire()
        parked(stage, wire, fetch("t", 0, max_wait_ms=LONG_MS, min_bytes=1))
        begin = stage.world.now

        wire.close()

        stage.wait(lambda: stage.nodes[1].metrics.parked_fetches == 0)
        assert stage.world.now < begin + 0.1
        assert not stage.partition("t").idle_consumers


def test_a_fetch_that_meets_an_error_leaves_no_trace_where_it_waited() -> None:
    with Stage() as stage:
        for topic in ("t", "u"):
            stage.create(topic)
        row = fetch("t", 0, max_wait_ms=LONG_MS, min_bytes=1)
        row.topics = [*row.topics, *fetch("u", 0).topics]
        wire = stage.wire()
        parked(stage, wire, row)

        stage.delete("u")

        assert [each.partitions[0].error_code for each in wire.answer(FETCH).responses] == [
            0,
            Code.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert not stage.partition("t").idle_consumers
        assert stage.nodes[1].metrics.parked_fetches == 0


def test_too_many_waiting_fetches_are_answered_at_once(lowered: Lower) -> None:
    lowered(PARKED_REQUESTS, 2)
    with Stage() as stage:
        stage.create("t")
        for _ in range(2):
            parked(stage, stage.wire(), fetch("t", 0, max_wait_ms=LONG_MS, min_bytes=1))
        begin = stage.world.now

        answer = fetched(stage.wire().ask(FETCH, fetch("t", 0, max_wait_ms=LONG_MS, min_bytes=1)))

        assert answer.error_code == 0
        assert stage.world.now < begin + 0.1
        assert stage.counted(PARKED_REQUESTS.metric) == 1
