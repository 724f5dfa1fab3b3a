"""Effects of faults: lost and cut answers, held and delayed requests, throttle times, functions of
the test, answers that are not true.
"""

import socket
import threading
from collections.abc import Iterator
from select import select

import pytest

from raftka.testing import Cluster, shown
from raftka.testing.faults.effects import Received
from raftka.wire.errors import Code
from raftka.wire.frame import encode_request
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.metadata import METADATA, MetadataResponse
from raftka.wire.messages.produce import PRODUCE
from tests.testing.wire import Wire, address, connect, coordinator, fetch, produce


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(nodes=3) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    shared.heal()


def metadata(wire: Wire, topic: str, version: int = 9) -> MetadataResponse:
    rows = METADATA.request.topics
    return wire.ask(METADATA, version, METADATA.request(topics=[rows(name=topic)]))


@pytest.mark.parametrize("size", [1, 4, 11])
def test_an_answer_is_cut_after_so_many_bytes(cluster: Cluster, size: int) -> None:
    topic = cluster.create_topic()
    fault = cluster.lose_answers("Produce", after_bytes=size)
    with connect(cluster, cluster.leader(topic)) as wire:
        wire.send(PRODUCE, 9, produce({topic: [0]}))
        assert len(wire.read_raw(1000)) == size

    assert fault.hits == 1
    assert len(cluster.records(topic)) == 1


def test_held_requests_go_on_when_they_are_released(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    leader = cluster.leader(topic)
    held = cluster.hold("Produce", topic=topic, times=2)
    with connect(cluster, leader) as first, connect(cluster, leader) as second:
        for wire in (first, second):
            wire.send(PRODUCE, 9, produce({topic: [0]}))
        cluster.wait_for(lambda: held.hits == 2)
        assert cluster.records(topic) == []
        held.release()
        for wire in (first, second):
            assert wire.read(PRODUCE, 9).responses[0].partition_responses[0].error_code == 0

    assert len(cluster.records(topic)) == 2


def test_a_request_that_is_delayed_is_counted_once_and_meets_its_other_faults_later(
    cluster: Cluster,
) -> None:
    topic = cluster.create_topic()
    delay = cluster.delay("Produce", 20, topic=topic, times=1)
    error = cluster.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", topic=topic)
    with connect(cluster, cluster.leader(topic)) as wire:
        answers = [wire.ask(PRODUCE, 9, produce({topic: [0]})) for _ in range(2)]
        codes = [answer.responses[0].partition_responses[0].error_code for answer in answers]

    assert codes == [Code.NOT_LEADER_OR_FOLLOWER, Code.NONE]
    assert (delay.hits, delay.seen, error.hits, error.seen) == (1, 1, 1, 1)


def test_a_throttle_time_is_in_the_answer(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    cluster.throttle("Produce", 1234, topic=topic)
    with connect(cluster, cluster.leader(topic)) as wire:
        answers = [wire.ask(PRODUCE, 9, produce({topic: [0]})) for _ in range(2)]

    assert [answer.throttle_time_ms for answer in answers] == [1234, 0]
    assert len(cluster.records(topic)) == 2


def test_a_function_of_the_test_decides_on_each_request(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    seen: list[Received] = []

    def control(request: Received) -> object:
        seen.append(request)
        match len(seen):
            case 1:
                return None
            case 2:
                return "UNKNOWN_TOPIC_OR_PARTITION"
            case 3:
                return {"topics": [{"name": "made-up", "error_code": 29}], "controller_id": 9}
            case _:
                raise ConnectionError

    cluster.control("Metadata", control, client_id="t")  # type: ignore[arg-type]
    with connect(cluster) as wire:
        assert [each.error_code for each in metadata(wire, topic).topics] == [0]
        assert [each.error_code for each in metadata(wire, topic).topics] == [3]
        made = metadata(wire, topic)
        assert [(each.name, each.error_code) for each in made.topics] == [("made-up", 29)]
        assert made.controller_id == 9
        with pytest.raises(EOFError):
            metadata(wire, topic)

    assert [(each.api, each.version, each.node, each.client_id) for each in seen] == [
        ("Metadata", 9, 1, "t")
    ] * 4
    assert [each["name"] for each in seen[0].body["topics"]] == [topic]  # type: ignore[attr-defined]


def test_requests_are_recorded_also_those_of_short_ways(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    leader = cluster.leader(topic)
    with connect(cluster, leader, "recorded") as wire:
        for _ in range(3):
            wire.ask(PRODUCE, 9, produce({topic: [0]}))
        with cluster.record_requests(client_id="recorded") as recording:
            for _ in range(5):
                wire.ask(PRODUCE, 9, produce({topic: [0]}))
            metadata(wire, topic)
        wire.ask(PRODUCE, 9, produce({topic: [0]}))

    assert [(each.api, each.version, each.node) for each in recording.requests] == [
        ("Produce", 9, leader)
    ] * 5 + [("Metadata", 9, leader)]
    assert len({each.correlation_id for each in recording.requests}) == 6


def test_connections_of_a_client_are_cut_and_those_of_others_stay(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    with connect(cluster, 1, "mine") as mine, connect(cluster, 1, "other") as other:
        for wire in (mine, other):
            metadata(wire, topic)
        assert cluster.cut_connections("mine") == 1
        assert mine.read_raw(1) == b""
        assert len(metadata(other, topic).topics) == 1


def test_an_unreachable_node_leads_on_and_no_client_reaches_it(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    leader = cluster.leader(topic)
    other = next(node for node in cluster.nodes if node != leader)
    with connect(cluster, leader) as before:
        metadata(before, topic)
        with cluster.unreachable(leader):
            assert before.read_raw(1) == b""
            with connect(cluster, leader) as wire, pytest.raises((EOFError, OSError)):
                metadata(wire, topic)
            with connect(cluster, other) as wire:
                assert metadata(wire, topic).topics[0].partitions[0].leader_id == leader
    with connect(cluster, leader) as wire:
        assert wire.ask(PRODUCE, 9, produce({topic: [0]})).throttle_time_ms == 0
    assert cluster.leader(topic) == leader


def test_nodes_are_paused_and_killed_for_a_block(cluster: Cluster) -> None:
    with cluster.paused(2), socket.create_connection(address(cluster, 2), 10) as sock:
        sock.sendall(encode_request(METADATA, 9, 1, "t", METADATA.request(topics=[])))
        assert select([sock], [], [], 0.2) == ([], [], [])
    with cluster.killed(3):
        assert cluster.alive == [1, 2]
    assert cluster.alive == [1, 2, 3]


# answers that are not true


def test_stale_leaders_hidden_nodes_and_other_addresses_are_shown(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=2)
    leaders = [cluster.leader(topic, index) for index in range(2)]
    with connect(cluster) as wire:
        with cluster.show(shown.stale_leader(topic, 0, leader=99, leader_epoch=7)):
            parts = metadata(wire, topic).topics[0].partitions
            assert {each.partition_index: (each.leader_id, each.leader_epoch) for each in parts}[
                0
            ] == (99, 7)
            assert {each.partition_index: each.leader_id for each in parts}[1] == leaders[1]
        with cluster.show(shown.hidden_node(leaders[0])):
            answer = metadata(wire, topic)
            assert leaders[0] not in {each.node_id for each in answer.brokers}
            assert {each.partition_index: each.leader_id for each in answer.topics[0].partitions}[
                0
            ] == -1
        with cluster.show(shown.address(2, host="example.org", port=1, rack="r")):
            answer = metadata(wire, topic)
            assert [
                (each.node_id, each.host, each.port, each.rack)
                for each in answer.brokers
                if each.host != "127.0.0.1"
            ] == [(2, "example.org", 1, "r")]
        assert {each.leader_id for each in metadata(wire, topic).topics[0].partitions} == set(
            leaders
        )


@pytest.mark.parametrize("version", [3, 4])
def test_another_coordinator_is_shown(cluster: Cluster, version: int) -> None:
    true = coordinator(cluster, "g")
    other = next(node for node in cluster.nodes if node != true)
    cluster.show(shown.coordinator("g", other, cluster.bootstrap_servers))
    rows = FIND_COORDINATOR.request
    with connect(cluster) as wire:
        answer = wire.ask(
            FIND_COORDINATOR,
            version,
            rows(key="g") if version < 4 else rows(coordinator_keys=["g"]),
        )

    found = answer if version < 4 else answer.coordinators[0]
    assert (found.node_id, (found.host, found.port)) == (other, address(cluster, other))


def test_older_versions_are_shown_and_others_refused(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    cluster.show(shown.versions({"Metadata": (0, 8), "InitProducerId": None}))
    with connect(cluster) as wire:
        answer = wire.ask(
            API_VERSIONS,
            3,
            API_VERSIONS.request(client_software_name="t", client_software_version="1"),
        )
        announced = {each.api_key: each.max_version for each in answer.api_keys}
        assert announced[METADATA.key] == 8
        assert 22 not in announced
        assert announced[PRODUCE.key] == 13
        assert len(metadata(wire, topic, 8).topics) == 1
        with pytest.raises(EOFError):
            metadata(wire, topic, 9)
    with pytest.raises(ValueError, match="Metadata: versions 3 to 2"):
        shown.versions({"Metadata": (3, 2)})


def test_another_replica_and_other_watermarks_are_shown(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=2)
    leader = cluster.leader(topic)
    with connect(cluster, leader) as wire:
        wire.ask(PRODUCE, 9, produce({topic: [0]}))
        with cluster.show(shown.preferred_replica(topic, 0, 2)):
            (part,) = wire.ask(FETCH, 11, fetch(topic, [0])).responses[0].partitions
            assert (part.preferred_read_replica, bytes(part.records or b"")) == (2, b"")
        with cluster.show(shown.watermarks(topic, 0, high=77, start=5)):
            (part,) = wire.ask(FETCH, 11, fetch(topic, [0])).responses[0].partitions
            assert (part.high_watermark, part.log_start_offset) == (77, 5)
            assert part.records


def test_faults_are_set_by_any_thread(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    threads = [
        threading.Thread(target=cluster.delay, args=("Produce", 1), kwargs={"topic": topic})
        for _ in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cluster.clear_faults()
    with connect(cluster, cluster.leader(topic)) as wire:
        wire.ask(PRODUCE, 9, produce({topic: [0]}))
    assert len(cluster.records(topic)) == 1
