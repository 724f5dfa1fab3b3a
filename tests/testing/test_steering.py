"""Leaders move and groups rebalance when a test says so, as real clients see it."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from raftka.testing import Cluster
from raftka.wire.errors import KafkaError
from tests.testing.wire import coordinator


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(
        nodes=3,
        group_consumer_heartbeat_interval_ms=100,
        group_consumer_min_heartbeat_interval_ms=100,
        group_consumer_assignment_interval_ms=0,
    ) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    shared.heal()


def test_a_leader_moves_to_the_node_that_was_named_and_to_any(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=2)
    other = cluster.leader(topic, 1)
    for to in (3, 1, 2):
        assert cluster.move_leader(topic, 0, to=to) == cluster.leader(topic) == to
    moved = cluster.move_leader(topic)
    assert moved == cluster.leader(topic) != 2
    assert cluster.leader(topic, 1) == other


def test_a_leader_does_not_move_where_it_cannot_lead(cluster: Cluster) -> None:
    topic = cluster.create_topic(replication_factor=1)
    leader = cluster.leader(topic)
    other = leader % 3 + 1
    with pytest.raises(ValueError, match=f"node {other} cannot lead {topic}-0: no other node can"):
        cluster.move_leader(topic, to=other)
    with pytest.raises(ValueError, match="no other replica of its ISR"):
        cluster.move_leader(topic)
    with pytest.raises(ValueError, match="no topic 'nowhere'"):
        cluster.move_leader("nowhere")
    with pytest.raises(ValueError, match=r"no partition 5 of .*: it has 1"):
        cluster.move_leader(topic, 5)


def test_all_leaders_are_shuffled(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=4)
    before = [cluster.leader(topic, index) for index in range(4)]
    moved = cluster.shuffle_leaders(seed=5)
    after = [cluster.leader(topic, index) for index in range(4)]
    assert all(was != now for was, now in zip(before, after, strict=True))
    assert [moved[topic, index] for index in range(4)] == after


def consumer(cluster: Cluster, group: str, protocol: str) -> Consumer:
    options = {"session.timeout.ms": 6000} if protocol == "classic" else {}
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "group.protocol": protocol,
            "heartbeat.interval.ms": 100,
            **options,
        }
        if protocol == "classic"
        else {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "group.protocol": protocol,
        }
    )


def test_a_classic_group_rebalances_and_its_consumer_is_told(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    events: list[str] = []
    client = consumer(cluster, "classic", "classic")
    client.subscribe(
        [topic],
        on_assign=lambda *_: events.append("assigned"),
        on_revoke=lambda *_: events.append("revoked"),
    )
    try:
        cluster.wait_for(lambda: client.poll(0.02) or "assigned" in events)
        cluster.force_rebalance("classic")
        cluster.wait_for(lambda: client.poll(0.02) or events == ["assigned", "revoked", "assigned"])
    finally:
        client.close()
    assert "a forced rebalance" in cluster.timeline()


def test_members_of_a_consumer_group_are_given_the_partitions_that_a_test_says(
    cluster: Cluster,
) -> None:
    topic = cluster.create_topic(partitions=2)
    clients = [consumer(cluster, "new", "consumer") for _ in range(2)]
    for client in clients:
        client.subscribe([topic])

    def held() -> list[list[int]]:
        for client in clients:
            client.poll(0.02)
        return [sorted(each.partition for each in client.assignment()) for client in clients]

    try:
        cluster.wait_for(lambda: sorted(held()) == [[0], [1]])
        first = clients[0].memberid()
        members = {each.member_id for each in cluster.group("new").members}
        assert first in members
        (second,) = members - {first}
        cluster.assign("new", {first: [(topic, 0), (topic, 1)], second: []})
        cluster.wait_for(lambda: held() == [[0, 1], []])
        cluster.force_rebalance("new")  # the broker's assignor decides again
        cluster.wait_for(lambda: sorted(held()) == [[0], [1]])
    finally:
        for client in clients:
            client.close()


def test_a_coordinator_moves_and_its_group_goes_on(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    client = consumer(cluster, "moves", "classic")
    client.assign([TopicPartition(topic, 0)])
    try:
        client.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
        before = cluster.group("moves").coordinator
        after = cluster.move_coordinator("moves")
        assert before != after == cluster.wait_for(lambda: cluster.group("moves").coordinator)
        client.commit(offsets=[TopicPartition(topic, 0, 6)], asynchronous=False)
        assert cluster.group("moves").offsets == {(topic, 0): 6}
    finally:
        client.close()


def test_a_group_that_there_is_not_is_named(cluster: Cluster) -> None:
    coordinator(cluster, "none")
    with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
        cluster.force_rebalance("none")
    with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
        cluster.assign("none", {})
    with pytest.raises(ValueError, match="of='topic': group or transaction"):
        cluster.move_coordinator("none", of="topic")


def test_a_broker_joins_takes_replicas_and_leaves_again(cluster: Cluster) -> None:
    node = cluster.add_node()
    assert node == 4
    assert cluster.nodes == cluster.alive == [1, 2, 3, 4]
    assert len(cluster.bootstrap_servers.split(",")) == 4
    topic = cluster.create_topic(partitions=4, replication_factor=3)
    cluster.wait_for(lambda: any(cluster.leader(topic, index) == node for index in range(4)))
    with cluster.fail_next("Metadata", "UNKNOWN_SERVER_ERROR", nodes=[node]):
        pass

    cluster.remove_node(node)

    assert cluster.nodes == [1, 2, 3]
    assert {cluster.leader(topic, index) for index in range(4)} <= {1, 2, 3}
    with pytest.raises(ValueError, match="node 1 was not added: none can be removed"):
        cluster.remove_node(1)
    assert f"node {node}: unregistered" in cluster.timeline()


def test_a_healed_cluster_has_its_first_nodes(cluster: Cluster) -> None:
    node = cluster.add_node()
    cluster.kill(node)
    cluster.heal()
    assert cluster.alive == [1, 2, 3]
