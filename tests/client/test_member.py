"""Members of a group through the blocking client: who reads what, what stays committed, and living
beside members of other libraries.
"""

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor

from raftka.client.blocking import member as members
from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.member import Member, assign_ranges
from raftka.security.client_security import ClientSecurity
from raftka.testing import Cluster
from tests.clients.sasl import PROPERTIES


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        yield cluster


@pytest.fixture
def cluster(three: Cluster) -> Iterator[Cluster]:
    yield three
    three.heal()


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(addresses_of(cluster.bootstrap_servers), "test") as client:
        yield client


def test_a_member_alone_has_everything_and_its_commits_stay(
    cluster: Cluster, client: Client
) -> None:
    topic = cluster.create_topic(partitions=3)
    with Member(client, topic, topic) as member:
        assert member.poll()
        assert not member.poll()
        assert member.assigned == tuple((topic, index) for index in range(3))
        member.commit({(topic, 0): 7, (topic, 2): 9})
        assert member.committed() == {(topic, 0): 7, (topic, 2): 9}
        (view,) = cluster.group(topic).members
        assert view.partitions == member.assigned

    assert cluster.group(topic).members == ()
    assert cluster.group(topic).offsets == {(topic, 0): 7, (topic, 2): 9}


def test_a_member_of_several_topics_has_them_all(cluster: Cluster, client: Client) -> None:
    topics = sorted(cluster.create_topic(partitions=2) for _ in range(2))
    with Member(client, topics[0], *topics) as member:
        assert member.poll()
        assert member.assigned == tuple((topic, index) for topic in topics for index in range(2))


def test_a_member_logs_in_as_its_client_does() -> None:
    """All of its connections: it joins, and its heartbeats keep it in the group."""
    security = ClientSecurity("SASL_PLAINTEXT", "PLAIN", "node", "node-secret")
    with Cluster(1, properties=PROPERTIES) as secured:
        topic = secured.create_topic()
        at = addresses_of(secured.bootstrap_servers)
        with Client(at, "test", 5.0, security=security) as client, Member(client, "g", topic) as me:
            assert me.poll()
            assert me.assigned == ((topic, 0),)
            me.commit({(topic, 0): 0})
            beats = secured.fail_next("Heartbeat", "REBALANCE_IN_PROGRESS")
            secured.wait_for(lambda: beats.hits)


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("JoinGroup", "NOT_COORDINATOR"),
        ("SyncGroup", "REBALANCE_IN_PROGRESS"),
        ("JoinGroup", "UNKNOWN_MEMBER_ID"),
    ],
)
def test_joining_is_tried_again(cluster: Cluster, client: Client, api: str, error: str) -> None:
    topic = cluster.create_topic()
    fault = cluster.fail_next(api, error, times=2)
    with Member(client, topic, topic) as member:
        member.poll()
        assert member.assigned == ((topic, 0),)

    assert fault.hits == 2


@pytest.mark.parametrize("error", ["ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS"])
def test_a_member_whose_commit_is_refused_joins_again(
    cluster: Cluster, client: Client, error: str
) -> None:
    topic = cluster.create_topic()
    with Member(client, topic, topic) as member:
        member.poll()
        cluster.fail_next("OffsetCommit", error)
        member.commit({(topic, 0): 1})
        assert member.committed() == {}
        assert member.poll()
        member.commit({(topic, 0): 1})

        assert member.committed() == {(topic, 0): 1}


def test_a_member_lives_through_the_death_of_its_coordinator(
    cluster: Cluster, client: Client
) -> None:
    topic = cluster.create_topic(replication_factor=3)
    with Member(client, topic, topic) as member:
        member.poll()
        member.commit({(topic, 0): 1})
        cluster.kill(cluster.group(topic).coordinator)
        member.commit({(topic, 0): 2})

        assert not member.poll()
        assert cluster.wait_for(lambda: cluster.group(topic)).offsets == {(topic, 0): 2}


def test_a_member_shares_with_one_of_another_library(
    cluster: Cluster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heartbeat tells of the other member; each leads the group once."""
    monkeypatch.setattr(members, "HEARTBEAT_S", 0.05)
    topic = cluster.create_topic(partitions=4)
    over = threading.Event()
    theirs: set[int] = set()

    def read() -> None:
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=topic,
            heartbeat_interval_ms=50,
        )
        while not over.is_set():
            consumer.poll(timeout_ms=20)
            theirs.clear()
            theirs.update(where.partition for where in consumer.assignment())
        consumer.close()

    with Member(client, topic, topic) as member:
        member.poll()
        assert len(member.assigned) == 4
        thread = threading.Thread(target=read)
        thread.start()
        cluster.wait_for(lambda: (member.poll(), len(member.assigned) == 2 and len(theirs) == 2)[1])
        assert {index for _, index in member.assigned} | theirs == {0, 1, 2, 3}
        over.set()
        cluster.wait_for(lambda: (member.poll(), len(member.assigned) == 4)[1])
        thread.join()


class Subscribed:
    """A member as kafka-python's assignor sees it."""

    def __init__(self, member_id: str, instance_id: str | None, topics: set[str]) -> None:
        self.member_id, self.group_instance_id, self.metadata = member_id, instance_id, self
        self.topics = topics


class Counts:
    def __init__(self, counts: dict[str, int]) -> None:
        self._counts = counts

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(range(self._counts[topic])) if topic in self._counts else None


TOPICS = st.sampled_from(["a", "b", "c"])


@given(
    st.dictionaries(
        st.text("xyz", min_size=1, max_size=3), st.sets(TOPICS, min_size=1), min_size=1, max_size=5
    ),
    st.dictionaries(TOPICS, st.integers(0, 9)),
)
def test_partitions_are_assigned_as_by_other_libraries(
    subscriptions: dict[str, set[str]], counts: dict[str, int]
) -> None:
    theirs = RangePartitionAssignor.assign(
        Counts(counts), [Subscribed(name, None, topics) for name, topics in subscriptions.items()]
    )
    ours = assign_ranges({name: (None, topics) for name, topics in subscriptions.items()}, counts)

    expected = {
        name: {topic: tuple(own) for topic, own in each.assigned_partitions if own}
        for name, each in theirs.items()
    }
    assert ours == expected
