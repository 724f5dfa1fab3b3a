"""The cluster that other projects' tests use: its faults hit whom they should, and nothing of it
stays.
"""

import socket
from collections.abc import Iterator
from select import select

import pytest

from raftka.cluster.ask import call
from raftka.testing import Cluster
from raftka.wire.errors import Code, KafkaError
from raftka.wire.frame import encode_request
from raftka.wire.messages.consumer_groups import CONSUMER_GROUP_HEARTBEAT
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.produce import PRODUCE, ProduceRequest
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.messages.topics import CREATE_TOPICS
from raftka.wire.records import build_batch
from raftka.wire.schema import AnyApi, Row

VERSION = 9


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(nodes=3) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    shared.heal()


def address(cluster: Cluster, node: int) -> tuple[str, int]:
    host, _, port = cluster.bootstrap_servers.split(",")[node - 1].rpartition(":")
    return host, int(port)


def produce(topic: str, value: bytes = b"x", acks: int = -1) -> ProduceRequest:
    rows = PRODUCE.request.topic_data
    partition = rows.partition_data(index=0, records=bytes(build_batch([(None, value, [], 1)])))
    return PRODUCE.request(
        acks=acks, timeout_ms=5000, topic_data=[rows(name=topic, partition_data=[partition])]
    )


def send(cluster: Cluster, topic: str, value: bytes = b"x", timeout: float = 10.0) -> Code:
    reply = call(
        address(cluster, cluster.leader(topic)),
        PRODUCE,
        produce(topic, value),
        version=VERSION,
        timeout=timeout,
    )
    return Code(reply.responses[0].partition_responses[0].error_code)


def values(cluster: Cluster, topic: str) -> list[bytes | None]:
    return [record.value for record in cluster.records(topic)]


def test_an_error_comes_as_often_as_was_asked_for(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    fault = cluster.fail_next("produce", "NOT_LEADER_OR_FOLLOWER", times=2)

    assert [send(cluster, topic) for _ in range(3)] == [
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.NONE,
    ]
    assert (fault.hits, fault.over) == (2, True)
    assert values(cluster, topic) == [b"x"]


def test_followers_are_not_hit(cluster: Cluster) -> None:
    """An acks=all produce needs their fetches."""
    topic = cluster.create_topic()
    fault = cluster.fail_next("Fetch", "UNKNOWN_SERVER_ERROR", times=1000)

    assert send(cluster, topic) == Code.NONE
    assert fault.hits == 0


def test_a_fault_of_one_node_is_that_nodes(cluster: Cluster) -> None:
    request = METADATA.request(topics=[])
    fault = cluster.lose_requests("Metadata", times=5, nodes=[2])

    assert len(call(address(cluster, 1), METADATA, request).brokers) == 3
    with pytest.raises(OSError, match=r".*"):
        call(address(cluster, 2), METADATA, request)
    assert fault.hits == 1


def test_a_fault_outlives_its_node(cluster: Cluster) -> None:
    cluster.lose_requests("Metadata", nodes=[2])
    cluster.restart(2)

    with pytest.raises(OSError, match=r".*"):
        call(address(cluster, 2), METADATA, METADATA.request(topics=[]))


def test_a_lost_request_does_nothing_and_a_lost_answer_is_done(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    with cluster.lose_requests("Produce"), pytest.raises(OSError, match=r".*"):
        send(cluster, topic, b"request lost")
    with cluster.lose_answers("Produce"), pytest.raises(OSError, match=r".*"):
        send(cluster, topic, b"answer lost")
    assert send(cluster, topic, b"whole") == Code.NONE

    assert values(cluster, topic) == [b"answer lost", b"whole"]


def test_an_answer_is_lost_when_its_request_is_carried_out_and_no_sooner(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    leader = cluster.leader(topic)
    follower = next(node for node in cluster.nodes if node != leader)
    with (
        cluster.lose_answers("Produce") as fault,
        socket.create_connection(address(cluster, leader), timeout=10) as client,
    ):
        cluster.pause(follower)  # the record is to be on all replicas before there is an answer
        client.sendall(encode_request(PRODUCE, VERSION, 1, "t", produce(topic)))
        cluster.wait_for(lambda: fault.hits == 1)
        assert select([client], [], [], 0.2) == ([], [], [])
        cluster.resume(follower)
        assert client.recv(1) == b""

    assert values(cluster, topic) == [b"x"]


def test_a_command_to_the_controller_is_carried_out_although_its_answer_is_lost(
    cluster: Cluster,
) -> None:
    new = CREATE_TOPICS.request.topics(name="nobody-heard", num_partitions=1, replication_factor=1)
    with cluster.lose_answers("CreateTopics"), pytest.raises(OSError, match=r".*"):
        call(
            address(cluster, 1), CREATE_TOPICS, CREATE_TOPICS.request(topics=[new], timeout_ms=5000)
        )

    cluster.wait_for(lambda: "nobody-heard" in topics(cluster))


def test_the_answer_of_every_part_of_a_broker_can_be_lost(cluster: Cluster) -> None:
    """The handler is given what it has without the fault: producer ids are no part that the node
    itself has.
    """
    with cluster.lose_answers("InitProducerId"), pytest.raises(OSError, match=r".*"):
        call(
            address(cluster, 1),
            INIT_PRODUCER_ID,
            INIT_PRODUCER_ID.request(transaction_timeout_ms=1000),
        )

    after = call(
        address(cluster, 1), INIT_PRODUCER_ID, INIT_PRODUCER_ID.request(transaction_timeout_ms=1000)
    )
    assert (after.error_code, after.producer_id) == (0, 1)


def topics(cluster: Cluster) -> set[str]:
    return {
        str(topic.name)
        for topic in call(address(cluster, 1), METADATA, METADATA.request(topics=None)).topics
    }


def test_a_delayed_request_and_those_behind_it_wait(cluster: Cluster) -> None:
    """Three requests on one connection, two of which are delayed, are answered in their order."""
    topic = cluster.create_topic()
    requests: list[tuple[AnyApi, Row]] = [
        (PRODUCE, produce(topic, b"late")),
        (METADATA, METADATA.request(topics=[])),
        (FIND_COORDINATOR, FIND_COORDINATOR.request(key="g")),
    ]
    frames = b"".join(
        encode_request(api, 3, number, "t", request)
        for number, (api, request) in enumerate(requests, 1)
    )
    fault = cluster.delay("Produce", 100)
    cluster.delay("Metadata", 10)
    with socket.create_connection(address(cluster, cluster.leader(topic)), 10) as sock:
        sock.sendall(frames)
        cluster.wait_for(lambda: fault.hits)
        assert values(cluster, topic) == []

        with sock.makefile("rb") as stream:
            answers = [stream.read(int.from_bytes(stream.read(4))) for _ in range(3)]

    assert [int.from_bytes(each[:4]) for each in answers] == [1, 2, 3]
    assert values(cluster, topic) == [b"late"]


@pytest.mark.parametrize("leader", [1, 2, 3])
def test_a_paused_node_is_silent_and_continues_afterwards(cluster: Cluster, leader: int) -> None:
    """Whoever it is: how things are is asked of the others."""
    topic = cluster.create_topic(partitions=3)
    (partition,) = (index for index in range(3) if cluster.leader(topic, index) == leader)
    cluster.pause(leader)
    with pytest.raises(TimeoutError):
        call(address(cluster, leader), METADATA, METADATA.request(topics=[]), timeout=0.2)
    # the others go on without it
    cluster.wait_for(lambda: cluster.leader(topic, partition) not in {leader, -1})
    other = cluster.create_topic()

    cluster.resume(leader)

    assert len(call(address(cluster, leader), METADATA, METADATA.request(topics=[])).brokers) >= 2
    cluster.wait_for(lambda: send(cluster, other) == Code.NONE)


def test_a_killed_leader_takes_nothing_with_it(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    assert send(cluster, topic, b"kept") == Code.NONE
    leader = cluster.leader(topic)
    cluster.kill(leader)

    assert leader not in cluster.alive
    cluster.wait_for(lambda: cluster.leader(topic) not in {leader, -1})
    cluster.wait_for(lambda: values(cluster, topic) == [b"kept"])
    cluster.restart(leader)
    assert cluster.alive == [1, 2, 3]


def test_a_group_of_the_new_protocol_is_seen_like_others(cluster: Cluster) -> None:
    topic, request = cluster.create_topic(partitions=2), CONSUMER_GROUP_HEARTBEAT.request
    join = request(
        group_id="new",
        member_id="m",
        rebalance_timeout_ms=5000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )

    def joined() -> bool:
        call(address(cluster, 1), FIND_COORDINATOR, FIND_COORDINATOR.request(key="new"), version=3)
        return any(
            not call(address(cluster, node), CONSUMER_GROUP_HEARTBEAT, join, version=1).error_code
            for node in cluster.alive
        )

    cluster.wait_for(joined)
    group = cluster.group("new")
    assert (group.state, group.protocol) == ("Stable", "uniform")
    assert [(member.member_id, member.partitions) for member in group.members] == [
        ("m", ((topic, 0), (topic, 1)))
    ]


def test_impossible_requests_raise_an_error(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match=r"no API 'Prodce'; there are .*Produce"):
        cluster.fail_next("Prodce", "NONE")
    with pytest.raises(ValueError, match="no error 'LEADER_GONE'"):
        cluster.fail_next("Produce", "LEADER_GONE")
    with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
        cluster.create_topic(cluster.create_topic())
    with pytest.raises(TimeoutError, match=r"not so within 0.01 s; last: \[\]"):
        cluster.wait_for(list, timeout_s=0.01)


def test_a_cluster_that_can_not_start_says_why() -> None:
    with pytest.raises(ValueError, match="retention"):
        Cluster(log_retention_huors=1).start()


def test_a_node_that_is_not_there_is_named(cluster: Cluster) -> None:
    before = cluster.timeline()
    for method in (cluster.kill, cluster.restart, cluster.pause, cluster.resume, cluster.log):
        with pytest.raises(ValueError, match="there is no node 7: the cluster has 1, 2, 3"):
            method(7)
    assert cluster.timeline() == before


def test_a_topic_or_partition_that_is_not_there_has_no_leader(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    with pytest.raises(KafkaError, match="there is no topic 'lost'"):
        cluster.leader("lost")
    for partition in (1, -1):
        with pytest.raises(KafkaError, match=f"there is no partition {partition}: .* has 1"):
            cluster.leader(topic, partition)
