"""The cluster's page of the API, of real nodes."""

from collections.abc import Iterator

import pytest

from raftka.json_values import Json
from raftka.testing import Cluster
from tests.kit.console import Api, console_of


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        cluster.create_topic("orders", partitions=6, replication_factor=3)
        yield cluster


@pytest.fixture
def api(cluster: Cluster) -> Iterator[Api]:
    with console_of(cluster) as console:
        yield Api(console.url)


def test_brokers_partitions_quorum_and_disks(api: Api, cluster: Cluster) -> None:
    def whole() -> Json:
        """The page, when all parts are there and no replica catches up from another test."""
        found = api.get("/api/cluster")
        is_settled = not found["partitions"]["under_replicated"] and len(found["directories"]) == 3
        return found if is_settled else None

    found = cluster.wait_for(whole)
    assert [each["id"] for each in found["brokers"]] == [1, 2, 3]
    assert {each["state"] for each in found["brokers"]} == {"up"}
    assert all(each["votes"] for each in found["brokers"])
    assert sum(each["leaders"] for each in found["brokers"]) == found["partitions"]["total"]
    assert found["partitions"]["offline"] == found["partitions"]["under_replicated"] == 0
    assert found["controller"] in (1, 2, 3)
    assert found["quorum"]["may_fail"] == 1
    assert found["quorum"]["voters"] == len(found["quorum"]["nodes"]) == 3
    assert all(each["endpoints"] for each in found["quorum"]["nodes"])
    assert [each["role"] for each in found["quorum"]["nodes"]].count("leader") == 1
    assert {each["broker"] for each in found["directories"]} == {1, 2, 3}
    assert found["missing"] == {}


def test_records_a_second_come_from_readings_of_ends(api: Api, cluster: Cluster) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    api.get("/api/cluster")

    def rate() -> float:
        for _ in range(100):
            producer.produce("orders", b"value")
        producer.flush()
        rates = api.get("/api/cluster")["rates"]
        return rates[-1] if rates else 0.0

    assert cluster.wait_for(lambda: rate() > 0)


def test_a_broker_that_is_gone(api: Api, cluster: Cluster) -> None:
    api.get("/api/cluster")
    with cluster.killed(3):
        found = cluster.wait_for(
            lambda: (page := api.get("/api/cluster"))["brokers"][2]["state"] == "gone" and page
        )
        assert found["brokers"][2]["leaders"] == 0
        assert found["missing"] == {}, "it is a finding"
        ids = {each["id"] for each in found["findings"]}
        assert "broker-3" in ids
        cluster.wait_for(lambda: any(each["kind"] == "shrunk" for each in moves_of(api)))
    cluster.wait_for(lambda: any(each["kind"] == "grown" for each in moves_of(api)))


def moves_of(api: Api) -> list[dict[str, object]]:
    found: list[dict[str, object]] = api.get("/api/cluster")["moves"]["latest"]
    return found


def test_partitions_below_min_isr_are_found_by_the_topics_setting(
    api: Api, cluster: Cluster
) -> None:
    cluster.create_topic("strict", replication_factor=3, min_insync_replicas=3)
    with cluster.killed(2):
        cluster.wait_for(
            lambda: "min-isr" in {each["id"] for each in api.get("/api/cluster")["findings"]}
        )


def test_turn_times_of_a_node_that_offers_metrics() -> None:
    with Cluster() as cluster, console_of(cluster) as console:
        api = Api(console.url)
        cluster.wait_for(lambda: api.get("/api/cluster")["brokers"][0]["turn_p99_ms"])
