"""Topics of `raftka.topics`: made once, before clients are told that the node is ready."""

from typing import Any

from raftka.broker.exporter.health import health
from raftka.metadata.image import TOPIC, TopicImage
from tests.broker.stage import Stage


def topics(stage: Stage, node_id: int = 1) -> dict[str, TopicImage]:
    return {topic.name: topic for topic in stage.nodes[node_id].image.topics.values()}


def told(stage: Stage, node_id: int = 1) -> dict[str, Any]:
    return health(stage.nodes[node_id].services)


def test_a_node_is_ready_when_its_topics_are_there() -> None:
    names = [f"t{i}" for i in range(9)]  # more than a command has
    with Stage(raftka_topics=",".join(["orders:3,payments:1:compact", *names])) as stage:
        found = topics(stage)

        assert set(found) == {"orders", "payments", *names}
        assert [len(found[name].partitions) for name in ("orders", "payments", "t0")] == [3, 1, 1]
        assert stage.nodes[1].image.config(TOPIC, "payments") == {"cleanup.policy": "compact"}
        assert all(each.leader == 1 for topic in found.values() for each in topic.partitions)
        assert told(stage)["status"] == "ok"


def test_three_nodes_with_the_same_list_make_each_topic_once() -> None:
    with Stage(3, raftka_topics="orders:3,payments:2") as stage:
        assert set(topics(stage)) == {"orders", "payments"}
        assert all(len(each.replicas) == 3 for each in topics(stage)["orders"].partitions)
        ids = [{name: each.topic_id for name, each in topics(stage, i).items()} for i in (1, 2, 3)]
        assert ids[0] == ids[1] == ids[2]
        created = [event for i in (1, 2, 3) for event in stage.events("starting_topic_differs", i)]
        assert created == []


def test_a_topic_that_exists_stays_as_it_is() -> None:
    with Stage() as stage:
        before = stage.create("orders", partitions=2)
        stage.kill(1)
        stage.settings["raftka_topics"] = "orders:5:compact,new:1"
        node = stage.start(1)
        stage.wait(node.ready.is_set)

        orders = topics(stage)["orders"]
        assert (orders.topic_id, len(orders.partitions)) == (before, 2)
        assert stage.nodes[1].image.config(TOPIC, "orders") == {}
        (event,) = stage.events("starting_topic_differs")
        assert (event["topic"], event["partitions"], event["wanted"]) == ("orders", 2, 5)
        assert "new" in topics(stage)


def test_health_says_which_topic_is_missing_and_why() -> None:
    with Stage(wait=False, raftka_topics="orders:1:replication.factor=2") as stage:
        stage.wait(lambda: bool(stage.events("starting_topic_refused")))
        stage.wait(lambda: stage.nodes[1].image.alive(1))

        assert not stage.nodes[1].ready.is_set()
        found = told(stage)
        assert found["status"] == "unavailable"
        assert found["reason"].startswith("topic orders of raftka.topics is not there yet: ")
        assert "replication factor" in found["reason"].lower()
        # said once, however often it is tried
        stage.world.run(lambda: False, at_most_s=10)
        assert len(stage.events("starting_topic_refused")) == 1


def test_a_refused_topic_is_made_when_another_broker_has_come() -> None:
    with Stage(wait=False, raftka_topics="orders:1:replication.factor=2") as stage:
        stage.wait(lambda: bool(stage.events("starting_topic_refused")))
        assert not stage.nodes[1].ready.is_set()

        added = {"process.roles": "broker", "listeners": "PLAINTEXT://n2:9092", "raftka.topics": ""}
        node = stage.start(2, added)
        stage.wait(lambda: node.ready.is_set() and stage.nodes[1].ready.is_set())
        assert set(topics(stage)) == {"orders"}
        assert told(stage)["status"] == "ok"


def test_a_topic_without_a_leader_is_not_there_yet() -> None:
    with Stage(3) as stage:
        stage.create("orders", partitions=3, replication_factor=1)
        away = stage.leader("orders", 0)
        here = next(node_id for node_id in (1, 2, 3) if node_id != away)
        stage.kill(away)
        stage.wait(lambda: stage.leader("orders", 0) < 0)
        stage.kill(here)
        node = stage.start(here, {"raftka.topics": "orders"})
        stage.wait(lambda: node.metadata.published and node.image.alive(here))

        assert not node.ready.is_set()
        waits_for = "topic orders of raftka.topics has a partition without a leader"
        assert told(stage, here)["reason"] == waits_for
        stage.start(away)
        stage.wait(node.ready.is_set)
        assert told(stage, here)["status"] == "ok"


CLUSTER, ANOTHER = "4L6g3nShT-eMCtK--X86sw", "MkU3OEVBNTcwNTJENDM2Qk"


def test_the_cluster_gets_the_id_of_the_settings_and_no_other_node_joins() -> None:
    with Stage(raftka_cluster_id=CLUSTER) as stage:
        assert stage.nodes[1].image.cluster_id == CLUSTER
        broker = {"process.roles": "broker", "listeners": "PLAINTEXT://n2:9092"}
        stage.start(2, {**broker, "raftka.cluster.id": ANOTHER})
        stage.wait(lambda: bool(stage.world.failures))

        (failure,) = stage.world.failures
        assert f"this node is of cluster {CLUSTER}, raftka.cluster.id is {ANOTHER}" in str(failure)
        stage.kill(1)
        stage.start(1, {"raftka.cluster.id": ANOTHER})
        stage.wait(lambda: 1 in stage.refused)
        assert f"raftka.cluster.id is {ANOTHER}" in str(stage.refused[1])
