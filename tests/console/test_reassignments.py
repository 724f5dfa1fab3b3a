"""The API of reassignments and preferred leaders, on a cluster of three nodes."""

from collections.abc import Iterator

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.reassignments import alter_reassignments
from raftka.json_values import Json
from raftka.testing import Cluster
from tests.kit.console import Api, console_of


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(addresses_of(cluster.bootstrap_servers), "test", 10.0) as client:
        yield client


@pytest.fixture
def api(cluster: Cluster) -> Iterator[Api]:
    with console_of(cluster) as console:
        yield Api(console.url)


def test_reassignment_to_a_broker_that_is_away_is_shown_and_cancelled(
    cluster: Cluster, client: Client, api: Api
) -> None:
    topic = cluster.create_topic("stuck", replication_factor=1)
    leader = cluster.leader(topic)
    target = next(each for each in (1, 2, 3) if each != leader)
    with cluster.killed(target):
        assert alter_reassignments(client, {(topic, 0): [target]}) == [((topic, 0), 0)]
        found = api.get("/api/reassignments")
        (row,) = found["reassignments"]
        assert (row["topic"], row["partition"], row["removing"]) == (topic, 0, [leader])
        assert row["adding"] == [{"broker": target, "bytes": None, "behind": None}]
        assert row["leader"] == leader
        assert row["leader_bytes"] is not None
        assert api.get("/api/reassignments", search="other")["total"] == 0

        body = {"partitions": [{"topic": topic, "partition": 0}]}
        with console_of(cluster, read_only=True) as console:
            path = "/api/reassignments/cancel"
            assert Api(console.url).ask("POST", path, body=body).status == 403
        assert api.post("/api/reassignments/cancel", **body) == {"done": ["stuck-0"], "refused": {}}
        assert api.get("/api/reassignments")["total"] == 0
        again = api.post("/api/reassignments/cancel", **body)
        assert again == {"done": [], "refused": {"stuck-0": "no reassignment in progress"}}


def test_preferred_leaders_are_elected(cluster: Cluster, client: Client, api: Api) -> None:
    topic = cluster.create_topic("turned", replication_factor=3)
    leader = cluster.leader(topic)
    turned = [*(each for each in (1, 2, 3) if each != leader), leader]
    assert alter_reassignments(client, {(topic, 0): turned}) == [((topic, 0), 0)]

    def rows() -> Json:
        return api.get("/api/leaders", search=topic)["partitions"]

    (row,) = cluster.wait_for(rows)
    assert row == {
        "id": "turned-0",
        "topic": topic,
        "partition": 0,
        "leader": leader,
        "preferred": turned[0],
        "can": True,
    }
    body = {"partitions": [{"topic": topic, "partition": 0}, {"topic": "nope", "partition": 7}]}
    done = api.post("/api/leaders/elect", **body)
    assert done["done"] == ["turned-0"]
    assert list(done["refused"]) == ["nope-7"]
    cluster.wait_for(lambda: cluster.leader(topic) == turned[0])
    cluster.wait_for(lambda: not rows())


@pytest.mark.parametrize(
    "partitions",
    [[], [{"topic": "a"}], [{"topic": "a", "partition": "0"}], [{"topic": 1, "partition": 0}]],
)
def test_partitions_that_are_none_are_refused(api: Api, partitions: Json) -> None:
    for path in ("/api/leaders/elect", "/api/reassignments/cancel"):
        assert api.ask("POST", path, body={"partitions": partitions}).status == 400
