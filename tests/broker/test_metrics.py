"""Metrics of a node: requests and their times, however they are answered; bytes and records by
topic, over every change of leaders.
"""

from raftka.broker.telemetry.metrics import BOUNDS_S, Latency
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.produce import PRODUCE
from tests.broker.requests import batch, fetch, produce, produced
from tests.broker.stage import Stage

CLIENT = API_VERSIONS.request(client_software_name="test", client_software_version="1")


def test_a_time_falls_into_the_first_bucket_that_holds_it() -> None:
    latency = Latency()
    for took in (0.0001, 0.0007, 0.0007, 0.02, 31.0):
        latency.add(took)

    found = dict(zip((*BOUNDS_S, None), latency.buckets, strict=True))
    assert {bound: count for bound, count in found.items() if count} == {
        0.0005: 1,
        0.001: 2,
        0.025: 1,
        None: 1,
    }
    assert latency.count == 5
    assert round(latency.sum_s, 4) == 31.0215


def test_every_request_is_counted_once_however_it_is_answered() -> None:
    with Stage() as stage:
        stage.create("t")
        wire = stage.wire()
        before = {name: latency.count for name, latency in stage.nodes[1].metrics.requests.items()}
        for _ in range(5):  # the long way, then by plan; acks=all waits for the disk
            assert produced(wire.ask(PRODUCE, produce("t", batch(b"x")))).error_code == 0
        for _ in range(3):
            wire.ask(PRODUCE, produce("t", batch(b"x"), acks=1))
        wire.request(PRODUCE, produce("t", batch(b"x"), acks=0))
        for offset in range(4):
            wire.ask(FETCH, fetch("t", offset))
        wire.ask(FETCH, fetch("t", 9, max_wait_ms=50, min_bytes=1))  # parked until its time is up
        for _ in range(2):  # the second one waits behind the first
            wire.request(FETCH, fetch("t", 9, max_wait_ms=50, min_bytes=1))
        wire.request(METADATA, METADATA.request(topics=[]))
        wire.answer(FETCH)
        wire.answer(FETCH)
        wire.answer(METADATA)

        counted = {
            name: latency.count - before.get(name, 0)
            for name, latency in stage.nodes[1].metrics.requests.items()
        }
        assert {name: count for name, count in counted.items() if count} == {
            "Produce": 9,
            "Fetch": 7,
            "Metadata": 1,
        }


def test_an_answer_that_waited_took_as_long_as_it_waited() -> None:
    with Stage() as stage:
        stage.create("t")
        stage.wire().ask(FETCH, fetch("t", 0, max_wait_ms=2000, min_bytes=1))

        waited = stage.nodes[1].metrics.requests["Fetch"]
        assert waited.count == 1
        assert round(waited.sum_s, 1) == 2.0


def test_bytes_and_records_of_a_partition_survive_its_leaderships() -> None:
    with Stage(nodes=3) as stage:
        stage.create("t", replication_factor=3)
        data = batch(b"x", b"y")
        leader = stage.leader("t")
        partition = stage.partition("t", node_id=leader)
        wire = stage.wire(leader)
        for _ in range(3):
            assert produced(wire.ask(PRODUCE, produce("t", data))).error_code == 0
        assert (partition.messages_in, partition.bytes_in, partition.produced) == (
            6,
            3 * len(data),
            3,
        )

        stage.nodes[leader].lifecycle.withdraw("a test")  # others lead now
        stage.wait(lambda: stage.leader("t") != leader and partition.leader is None)
        other = stage.leader("t")
        stage.wait(lambda: stage.partition("t", node_id=other).leader is not None)
        for _ in range(2):
            assert produced(stage.wire(other).ask(PRODUCE, produce("t", data))).error_code == 0
        elsewhere = stage.partition("t", node_id=other)
        assert (partition.messages_in, partition.bytes_in, partition.produced) == (
            6,
            3 * len(data),
            3,
        )
        assert (elsewhere.messages_in, elsewhere.bytes_in, elsewhere.produced) == (
            4,
            2 * len(data),
            2,
        )


def test_what_is_appended_is_counted_also_behind_a_new_segment() -> None:
    with Stage() as stage:
        stage.create("t", configs={"segment_bytes": "1048576"})
        wire, partition, data = stage.wire(), stage.partition("t"), batch(bytes(300_000))
        for _ in range(10):
            assert produced(wire.ask(PRODUCE, produce("t", data))).error_code == 0

        assert len(partition.log.segments) > 2
        assert partition.bytes_in == 10 * len(data)


def test_reads_of_consumers_and_followers_are_counted_apart() -> None:
    with Stage(nodes=3) as stage:
        stage.create("t", replication_factor=3)
        leader, data = stage.leader("t"), batch(bytes(1000))
        wire, partition = stage.wire(leader), stage.partition("t")
        assert produced(wire.ask(PRODUCE, produce("t", data))).error_code == 0
        for _ in range(4):  # the long way, then by plan
            wire.ask(FETCH, fetch("t", 0))

        node = stage.nodes[leader]
        assert partition.bytes_out == 4 * len(data)
        assert node.metrics.replication_bytes_out == 2 * len(data)
        assert sum(stage.nodes[each].metrics.replication_bytes_in for each in (1, 2, 3)) == 2 * len(
            data
        )
        assert node.metrics.requests["Fetch"].count == 4
        assert node.metrics.requests["FetchFollower"].count > 0
        assert node.metrics.flushes.count > 0
