"""Readers and producers on a cluster of three: what is planned is read, once, whatever happens to
leaders and connections; what is gone is told.
"""

import threading
from dataclasses import replace
from typing import Any

import pytest

from raftka.log.log import Log

pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")

from raftka.client.blocking.connection import Connection
from raftka.client.blocking.producer import Producer, murmur2
from raftka.pipeline.errors import CorruptBatch, DataLoss, PipelineError, Unreachable
from raftka.pipeline.topics.planning import Range, batch
from raftka.pipeline.topics.reader import _Reading
from raftka.pipeline.topics.sink import partition_counts
from raftka.pipeline.topics.source import read_task
from raftka.testing import Cluster
from raftka.wire.errors import KafkaError
from tests.pipeline.players import Player


def offsets(rows: list[dict[str, Any]]) -> list[int]:
    return [row["offset"] for row in rows]


@pytest.mark.parametrize("compression", range(5))
def test_a_range_is_read_in_many_fetches(
    cluster: Cluster, player: Player, compression: int
) -> None:
    topic = cluster.create_topic(partitions=2)
    player.fill(topic, 5000, 0, compression=compression)
    player.fill(topic, 100, 1, compression=compression)

    rows = player.rows(player.plan(topic), fetch_bytes=65536)

    assert [(row["partition"], row["offset"]) for row in rows] == [
        (0, at) for at in range(5000)
    ] + [(1, at) for at in range(100)]
    assert [row["key"] for row in rows[:5000]] == [b"k%09d" % at for at in range(5000)]
    assert {row["topic"] for row in rows} == {topic}


def test_a_part_of_a_batch(cluster: Cluster, player: Player) -> None:
    topic = cluster.create_topic()
    player.fill(topic, 1000)
    (whole,) = player.plan(topic)

    assert offsets(
        player.rows([whole._replace(start=300, stop=303), whole._replace(start=999)])
    ) == [300, 301, 302, 999]


def test_a_connection_is_used_again(cluster: Cluster, player: Player) -> None:
    topic = cluster.create_topic()
    player.fill(topic, 10)
    brokers, plan = player.more_brokers(), player.plan(topic)
    player.rows(plan, brokers)
    before = {id(each) for idle in brokers._idle.values() for each in idle}
    player.rows(plan, brokers)

    assert {id(each) for idle in brokers._idle.values() for each in idle} == before


def test_a_kept_connection_that_died_is_made_again(cluster: Cluster, player: Player) -> None:
    topic = cluster.create_topic()
    player.fill(topic, 10)
    plan = player.plan(topic)
    player.rows(plan)
    for idle in player.brokers._idle.values():
        for connection in idle:
            connection._socket.shutdown(2)

    assert offsets(player.rows(plan)) == list(range(10))


def test_the_leader_changes_between_plan_and_read(cluster: Cluster, player: Player) -> None:
    topic = cluster.create_topic(replication_factor=3)
    player.fill(topic, 500)
    plan = player.plan(topic)
    cluster.kill(cluster.leader(topic))

    assert offsets(player.rows(plan)) == list(range(500))


@pytest.mark.parametrize(
    "error",
    [
        "NOT_LEADER_OR_FOLLOWER",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "OFFSET_OUT_OF_RANGE",
    ],
)
def test_an_error_that_passes_is_waited_for(cluster: Cluster, player: Player, error: str) -> None:
    topic = cluster.create_topic()
    player.fill(topic, 50)
    plan = player.plan(topic)
    fault = cluster.fail_next("Fetch", error, times=2)

    assert offsets(player.rows(plan)) == list(range(50))
    assert fault.hits == 2


def test_answers_that_are_lost_are_asked_for_again(cluster: Cluster, player: Player) -> None:
    topic = cluster.create_topic()
    player.fill(topic, 3000)
    plan = player.plan(topic)
    cluster.lose_answers("Fetch", times=2)
    cluster.lose_requests("Fetch", times=1)

    assert offsets(player.rows(plan, fetch_bytes=65536)) == list(range(3000))


def test_an_unreachable_cluster_is_reported(cluster: Cluster, player: Player) -> None:
    topic = cluster.create_topic()
    player.fill(topic, 5)
    plan = player.plan(topic)
    cluster.fail_next("Fetch", "NOT_LEADER_OR_FOLLOWER", times=10**9)

    with pytest.raises(
        Unreachable,
        match=(
            f"{topic}-0 at offset 0: nobody answered for 0.3 s; last: "
            "NOT_LEADER_OR_FOLLOWER.*checkpoint stays"
        ),
    ):
        player.rows(plan, player.more_brokers(0.3))


def test_retention_that_took_the_start_is_reported_or_passed_by(
    cluster: Cluster, player: Player
) -> None:
    topic = cluster.create_topic()
    for _ in range(3):
        player.fill(topic, 10)
    plan = player.plan(topic)
    player.delete_records(topic, 20)

    with pytest.raises(
        DataLoss,
        match=(
            f"{topic}-0 begins at offset 20 now, but was to be read from 0.*Next step: "
            "failOnDataLoss=false"
        ),
    ):
        player.rows(plan)
    assert offsets(player.rows(plan, fail_on_data_loss=False)) == list(range(20, 30))
    # nothing beyond the plan
    assert offsets(player.rows([plan[0]._replace(stop=15)], fail_on_data_loss=False)) == []


def make_again(cluster: Cluster, player: Player, topic: str, partitions: int = 1) -> None:
    """Other clients than the player's may keep what they know of the old topic."""
    cluster.delete_topic(topic)
    cluster.create_topic(topic, partitions=partitions)
    player.brokers.forget_leaders(topic)


def test_a_topic_that_was_made_again_is_reported_or_passed_by(
    cluster: Cluster, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftka.pipeline.topics.reader.UNKNOWN_S", 0.2)
    topic = cluster.create_topic()
    player.fill(topic, 10)
    plan = player.plan(topic)
    make_again(cluster, player, topic)
    player.fill(topic, 20)

    with pytest.raises(
        DataLoss, match=f"topic {topic} was deleted and made again before offsets 0 to 9"
    ):
        player.rows(plan)
    assert player.rows(plan, fail_on_data_loss=False) == []


def test_a_worker_reads_the_new_topic_with_the_metadata_of_the_old_one(
    cluster: Cluster, player: Player
) -> None:
    """The plan is right, and what this worker has kept is old."""
    topic, worker = cluster.create_topic(partitions=2, replication_factor=3), player.more_brokers()
    for partition in (0, 1):
        player.fill(topic, 100, partition)
    assert len(player.rows(player.plan(topic), worker)) == 200
    make_again(cluster, player, topic, partitions=3)
    for partition in range(3):
        player.fill(topic, 500, partition)

    for strict in (True, False):
        rows = player.rows(player.plan(topic), worker, fail_on_data_loss=strict)
        assert [(row["partition"], row["offset"]) for row in rows] == [
            (partition, at) for partition in range(3) for at in range(500)
        ]


def test_a_broker_that_is_the_last_to_hear_of_the_new_topic_is_asked_again(
    cluster: Cluster, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, worker = cluster.create_topic(), player.more_brokers()
    player.fill(topic, 10)
    player.rows(player.plan(topic), worker)
    old = worker.topic_id(topic)
    make_again(cluster, player, topic)
    player.fill(topic, 20)
    answers = iter([old] * 4)
    monkeypatch.setattr(
        worker, "topic_id", lambda name: next(answers, type(worker).topic_id(worker, name))
    )

    assert offsets(player.rows(player.plan(topic), worker)) == list(range(20))


def test_a_broker_whose_fetch_has_names_alone_is_not_read_by_old_metadata(
    cluster: Cluster, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka 2.8 and 3.0: topics have ids, Fetch has names. The plan is of the old topic, and so are
    the metadata that were kept.
    """
    monkeypatch.setattr("raftka.pipeline.topics.reader.UNKNOWN_S", 0.2)
    topic, worker = cluster.create_topic(), player.more_brokers()
    player.fill(topic, 10)
    plan, leader = player.plan(topic), cluster.leader(topic)
    player.rows(plan, worker)
    make_again(cluster, player, topic)
    while cluster.leader(topic) != leader:  # another one would say so
        make_again(cluster, player, topic)
    player.fill(topic, 20)
    version_of = Connection.version_of
    monkeypatch.setattr(
        Connection,
        "version_of",
        lambda connection, api, cap=None: min(version_of(connection, api, cap), 12),
    )

    with pytest.raises(
        DataLoss, match=f"topic {topic} was deleted and made again before offsets 0 to 9"
    ):
        player.rows(plan, worker)


def test_ranges_of_a_topic_that_is_gone_wait_once_in_a_task(
    cluster: Cluster, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftka.pipeline.topics.reader.UNKNOWN_S", 0.2)
    topic = cluster.create_topic(partitions=3)
    for partition in range(3):
        player.fill(topic, 5, partition)
    plan = player.plan(topic)
    make_again(cluster, player, topic)
    over: list[bool] = []
    is_over = _Reading._is_over

    def noted(reading: _Reading, why: str) -> bool:
        over.append(is_over(reading, why))
        return over[-1]

    monkeypatch.setattr(_Reading, "_is_over", noted)
    monkeypatch.setattr("raftka.pipeline.topics.source.brokers_of", lambda options: player.brokers)

    assert list(read_task(replace(player.options, fail_on_data_loss=False), plan)) == []
    assert over.count(True) == 1


def test_a_topic_that_is_gone_is_reported(
    cluster: Cluster, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftka.pipeline.topics.reader.UNKNOWN_S", 0.2)
    topic = cluster.create_topic()
    player.fill(topic, 10)
    plan = player.plan(topic)
    cluster.delete_topic(topic)

    with pytest.raises(
        DataLoss, match=f"topic {topic} was deleted before offsets 0 to 9 of {topic}-0 were read"
    ):
        player.rows(plan)


def test_a_log_that_is_shorter_than_the_plan_is_reported(
    cluster: Cluster, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftka.pipeline.topics.reader.UNKNOWN_S", 0.2)
    topic = cluster.create_topic()
    player.fill(topic, 10)
    (whole,) = player.plan(topic)

    with pytest.raises(DataLoss, match="ends at offset 10, but was to be read from 50 to 60"):
        player.rows([whole._replace(start=50, stop=60)])


def test_a_log_that_ends_within_the_plan_is_reported_or_passed_by(
    cluster: Cluster, player: Player
) -> None:
    topic = cluster.create_topic()
    player.fill(topic, 10)
    (whole,) = player.plan(topic)
    wanted = [whole._replace(stop=15)]

    with pytest.raises(
        DataLoss,
        match=(
            r"ends at offset 10, but offsets 10 to 14 of .* were to be read: its log became "
            r"shorter"
        ),
    ):
        player.rows(wanted, player.more_brokers(0.3))
    assert offsets(player.rows(wanted, player.more_brokers(0.3), fail_on_data_loss=False)) == list(
        range(10)
    )


def test_records_that_come_late_are_waited_for(cluster: Cluster, player: Player) -> None:
    """The plan was made by a leader that knew more than the one that answers."""
    topic = cluster.create_topic()
    player.fill(topic, 10)
    (whole,) = player.plan(topic)
    found: list[int] = []
    thread = threading.Thread(
        target=lambda: found.extend(
            offsets(player.rows([whole._replace(stop=20)], player.more_brokers()))
        )
    )
    thread.start()
    player.fill(topic, 10)
    thread.join()

    assert found == list(range(20))


def test_an_end_that_no_record_has_is_reached(
    cluster: Cluster, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As compaction may leave it: the broker goes on to offset 20, and has nothing from 10 on."""
    topic = cluster.create_topic()
    player.fill(topic, 10)
    player.fill(topic, 10)
    (whole,) = player.plan(topic)
    read = Log.read
    monkeypatch.setattr(
        Log,
        "read",
        lambda log, offset, *rest, **more: (
            read(log, offset, *rest, **more) if offset < 10 else ((), 0)
        ),
    )

    assert offsets(player.rows([whole], fetch_bytes=1)) == list(range(10))


def test_no_record_is_left_out_when_the_bytes_are_broken(
    cluster: Cluster, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cluster.create_topic()
    player.fill(topic, 10)
    monkeypatch.setattr("raftka.pipeline.records.batches.crc_matches", lambda *_: False)

    with pytest.raises(CorruptBatch, match="its checksum is another one"):
        player.rows(player.plan(topic))


def test_broken_once_is_fetched_again(
    cluster: Cluster, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cluster.create_topic()
    player.fill(topic, 10)
    answers = iter([False])
    monkeypatch.setattr(
        "raftka.pipeline.records.batches.crc_matches", lambda *_: next(answers, True)
    )

    assert offsets(player.rows(player.plan(topic))) == list(range(10))


def test_a_partition_that_is_not_there(
    cluster: Cluster, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PipelineError, match="nobody answered"):
        player.rows([Range(cluster.create_topic(), "", 7, 0, 1)], player.more_brokers(0.3))


# the producer


def test_a_batch_whose_answer_was_lost_is_there_once(cluster: Cluster, player: Player) -> None:
    topic = cluster.create_topic(replication_factor=3)
    fault = cluster.lose_answers("Produce", times=3)
    player.fill(topic, 200)

    assert fault.hits == 3
    assert [record.key for record in cluster.records(topic)] == [b"k%09d" % at for at in range(200)]


def test_many_batches_while_leaders_change(cluster: Cluster, player: Player) -> None:
    topic = cluster.create_topic(partitions=3, replication_factor=3)
    producer = Producer(player.brokers, max_batch_bytes=2000)
    for at in range(3000):
        if at == 1000:
            cluster.kill(cluster.leader(topic, 1))
        producer.add((topic, at % 3), (None, b"%d" % at, (), at))
    producer.flush()

    for partition in range(3):
        assert [int(record.value or b"") for record in cluster.records(topic, partition)] == list(
            range(partition, 3000, 3)
        )


def test_a_sink_writes_to_a_topic_that_was_made_again(cluster: Cluster, player: Player) -> None:
    """With the leaders of the first one, which has more partitions."""
    topic = cluster.create_topic(partitions=3)
    sink = player.more_brokers()
    for partition in range(3):
        Producer(sink).add((topic, partition), (None, b"x", (), 1))
        assert sink.leader((topic, partition)) is not None
    cluster.delete_topic(topic)
    cluster.create_topic(topic)
    producer = Producer(sink)
    producer.add((topic, 0), (None, b"new", (), 1))
    producer.flush()

    assert [record.value for record in cluster.records(topic)] == [b"new"]
    assert partition_counts(sink, [topic]) == {topic: 1}
    assert {where for where in sink._leaders if where[0] == topic} == {(topic, 0)}


def test_a_driver_plans_a_topic_that_was_made_again(cluster: Cluster, player: Player) -> None:
    topic, driver = cluster.create_topic(partitions=3), player.more_brokers()
    player.fill(topic, 10, 2)
    assert [each.partition for each in batch(player.with_options(topic), driver)] == [2]
    make_again(cluster, player, topic, partitions=2)
    player.fill(topic, 5, 1)

    (planned,) = batch(player.with_options(topic), driver)
    assert (planned.partition, planned.start, planned.stop, planned.topic_id) == (
        1,
        0,
        5,
        player.more_brokers().topics([topic])[topic].topic_id,
    )


def test_a_record_that_is_too_large_is_reported(cluster: Cluster, player: Player) -> None:
    topic = cluster.create_topic(max_message_bytes=5000)

    with pytest.raises(
        KafkaError,
        match=(
            r"takes no batch of \d+ bytes with 1 records, the largest of 9010: raise the "
            r"topic's max.message.bytes"
        ),
    ):
        player.fill(topic, 1, size=9000)


def test_keys_go_where_other_clients_put_them() -> None:
    from kafka.partitioner.default import murmur2 as theirs

    for size in range(20):
        key = bytes(range(7 * size, 8 * size))
        assert murmur2(key) == theirs(key) & 0xFFFFFFFF
