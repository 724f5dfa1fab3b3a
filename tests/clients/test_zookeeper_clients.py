"""ZooKeeper clients of other languages on the bridge: Curator, go-zookeeper, node-zookeeper-client;
each reads and writes Kafka's layout too.
"""

import json
from collections.abc import Iterator

import pytest

from raftka.testing import Cluster
from tests.clients.workload import run
from tests.kit.toolchains import Program


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, bridge=True) as cluster:
        yield cluster


def test_curator(curator: Program, cluster: Cluster) -> None:
    found = dict(
        line.split(": ", 1)
        for line in run([*curator.command, cluster.zookeeper_connect], curator.env).splitlines()
    )

    assert found == {
        "brokers": "[1, 2, 3]",
        "config": "3",
        "containers": "0",
        "latch": "true",
        "latch of the other": "true",
        "lock held": "false",
        "lock released": "true",
        "number": "10",
        "topic": "/brokers/topics/from-curator/partitions/0/state",
    }
    assert cluster.leader("from-curator") == 3


def test_go(zookeeper_go: Program, cluster: Cluster) -> None:
    found = json.loads(run([*zookeeper_go.command, cluster.zookeeper_connect], zookeeper_go.env))

    assert found == {
        "auth": ["for alice", "zk: not authenticated"],
        "brokers": ["1", "2", "3"],
        "lock": ["one", "the other"],
        "multi": "2",
        "topic": ["EventNodeChildrenChanged", "/brokers/topics", "led"],
        "words": ["follower", "follower", "leader", "whole"],
    }


def test_node(zookeeper_node: Program, cluster: Cluster) -> None:
    found = json.loads(
        run([*zookeeper_node.command, cluster.zookeeper_connect], zookeeper_node.env)
    )

    assert found == {
        "brokers": ["1", "2", "3"],
        "event": ["NODE_DATA_CHANGED", "/node/a/b"],
        "refused": "NO_AUTH",
        "topic": "NODE_CREATED",
        "transaction": 3,
    }
    assert cluster.leader("from-node") == 2
