"""Kafka's layout through kazoo, on three living nodes: scripts and consoles of ZooKeeper's time,
and consumers that keep their offsets there.
"""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadArgumentsError,
    BadVersionError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
)

from raftka.testing import Cluster
from tests.zookeeper_bridge.kazoo_client import WAIT_S, connected


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, bridge=True) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Cluster) -> Iterator[KazooClient]:
    with connected(cluster.zookeeper_connect, timeout=10.0) as client:
        yield client


def text(**fields: Any) -> bytes:
    return json.dumps({"version": 1, **fields}).encode()


class Heard:
    """The calls of a watch; `until` waits for the last one."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self._came = threading.Condition()

    def __call__(self, *seen: Any) -> None:
        with self._came:
            self.calls.append(seen[0])
            self._came.notify_all()

    def until(self, is_so: Any) -> None:
        with self._came:
            assert self._came.wait_for(
                lambda: bool(self.calls) and is_so(self.calls[-1]), WAIT_S
            ), self.calls


def test_a_console_sees_topics_come_change_and_go(cluster: Cluster, client: KazooClient) -> None:
    topics, state = Heard(), Heard()
    client.ChildrenWatch("/brokers/topics", topics)
    cluster.create_topic("seen", partitions=2)
    topics.until(lambda names: "seen" in names)
    client.DataWatch("/brokers/topics/seen", state)
    data, stat = client.get("/brokers/topics/seen")
    wanted = json.loads(data)
    wanted["partitions"]["2"] = wanted["partitions"]["0"]
    del wanted["topic_id"]  # as a tool before 2.8 writes it
    assert (
        client.set(
            "/brokers/topics/seen", json.dumps(wanted).encode(), version=stat.version
        ).version
        == stat.version + 1
    )
    state.until(lambda data: data is not None and len(json.loads(data)["partitions"]) == 3)
    assert (
        json.loads(client.get("/brokers/topics/seen")[0])["topic_id"]
        == json.loads(data)["topic_id"]
    )
    with pytest.raises(BadVersionError):
        client.set("/brokers/topics/seen", json.dumps(wanted).encode(), version=stat.version)
    assert cluster.leader("seen", 2) in (1, 2, 3)

    client.create("/admin/delete_topics/seen")
    topics.until(lambda names: "seen" not in names)
    state.until(lambda data: data is None)


def test_a_script_creates_a_topic_that_kafka_serves(cluster: Cluster, client: KazooClient) -> None:
    client.create("/config/topics/made", text(config={"retention.ms": "60000"}))
    client.create("/brokers/topics/made", text(partitions={"0": [1, 2, 3]}))
    assert cluster.leader("made") == 1
    with pytest.raises(NodeExistsError):
        client.create("/brokers/topics/made", text(partitions={"0": [1]}))
    with pytest.raises(BadArgumentsError):
        client.create("/brokers/topics/other", text(partitions={"0": [9]}))
    with pytest.raises(NoAuthError):
        client.set("/brokers/topics/made/partitions/0/state", b"{}")
    with pytest.raises(NoAuthError):
        client.delete("/brokers/topics/made")


def test_a_transaction_over_both_is_one(client: KazooClient) -> None:
    client.ensure_path("/mine")
    together = client.transaction()
    together.create("/mine/note", b"1")
    together.create("/brokers/topics/together", text(partitions={"0": [2]}))
    together.check("/brokers/topics/together", 5)
    assert [type(each) for each in together.commit()][2] is BadVersionError
    assert client.exists("/mine/note") is None
    assert client.exists("/brokers/topics/together") is None

    together = client.transaction()
    together.create("/mine/note", b"1")
    together.create("/brokers/topics/together", text(partitions={"0": [2]}))
    assert together.commit() == ["/mine/note", "/brokers/topics/together"]
    assert client.exists("/mine/note").czxid == client.exists("/brokers/topics/together").czxid


def test_an_operator_moves_the_controller(cluster: Cluster, client: KazooClient) -> None:
    controller = Heard()
    client.DataWatch("/controller", controller)
    before = json.loads(client.get("/controller")[0])["brokerid"]
    epoch = int(client.get("/controller_epoch")[0])
    client.delete("/controller")
    controller.until(lambda data: data is not None and json.loads(data)["brokerid"] != before)
    client.sync("/")
    assert int(client.get("/controller_epoch")[0]) > epoch
    assert client.create("/after", b"")  # the same session, and no connection was lost


def test_an_old_consumer_keeps_its_offsets_here(cluster: Cluster, client: KazooClient) -> None:
    """As ZookeeperConsumerConnector does: it registers, hears of its fellows, owns a partition, and
    writes down where it is.
    """
    fellows = Heard()
    registration = text(subscription={"t": 1}, pattern="static", timestamp="1")
    client.create("/consumers/g/ids/g_host-1", registration, ephemeral=True, makepath=True)
    client.ChildrenWatch("/consumers/g/ids", fellows)
    with connected(cluster.zookeeper_connect.split(",")[1]) as other:
        other.create("/consumers/g/ids/g_host-2", registration, ephemeral=True)
        fellows.until(lambda names: len(names) == 2)
        other.create("/consumers/g/owners/t/0", b"g_host-2-0", ephemeral=True, makepath=True)
        with pytest.raises(NodeExistsError):
            client.create("/consumers/g/owners/t/0", b"g_host-1-0", ephemeral=True)
    fellows.until(lambda names: names == ["g_host-1"])
    client.create("/consumers/g/owners/t/0", b"g_host-1-0", ephemeral=True)
    client.create("/consumers/g/offsets/t/0", b"17", makepath=True)
    client.set("/consumers/g/offsets/t/0", b"18")
    with connected(cluster.zookeeper_connect.split(",")[2]) as other:
        other.sync("/")
        assert other.get("/consumers/g/offsets/t/0")[0] == b"18"
    with pytest.raises(NoNodeError):
        client.create("/consumers/nobody/offsets", b"")
