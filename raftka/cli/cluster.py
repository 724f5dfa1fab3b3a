"""`raftka cluster describe`: brokers, the controller, and problems of the cluster. Through Kafka's
protocol; knows no raftka.
"""

import json
from typing import Any

from raftka.cli.admin.client import connect, partitions_of
from raftka.cli.admin.features import read_features
from raftka.cli.output import command, show
from raftka.client.blocking.client import Client, Where, check
from raftka.client.blocking.connection import Unsupported
from raftka.client.blocking.quorum import read_quorum
from raftka.wire.messages.cluster import (
    DESCRIBE_CLUSTER,
    DescribeClusterBroker,
    DescribeClusterResponse,
)
from raftka.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
)

Cluster = DescribeClusterResponse | MetadataResponse
Broker = DescribeClusterBroker | MetadataResponseBroker


@command
def describe(bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        found = _described(client)
    if output == "json":
        print(json.dumps(found, default=str))
        return
    print(f"cluster      {found['cluster_id']}")
    print(f"controller   {found['controller']}")
    features = ", ".join(f"{name} {each['level']}" for name, each in found["features"].items())
    print(f"features     {features or '-'}")
    partitions = found["partitions"]
    print(f"partitions   {partitions['all']} of {found['topics']} topics")
    print(
        f"             {len(partitions['under_replicated'])} "
        f"under-replicated{_some(partitions['under_replicated'])}"
    )
    print(
        f"             {len(partitions['offline'])} without a leader{_some(partitions['offline'])}"
    )
    print()
    show(found["brokers"], ["broker", "address", "rack", "state", "leads", "holds"], "text")
    if found["quorum"]:
        print()
        show(found["quorum"], ["node", "role", "log_end_offset", "behind"], "text")


def _described(client: Client) -> dict[str, Any]:
    cluster, brokers = _cluster(client)
    partitions = partitions_of(client, ())
    under = [
        f"{topic}-{i}"
        for (topic, i), p in sorted(partitions.items())
        if len(p.isr_nodes) < len(p.replica_nodes)
    ]
    offline = [f"{topic}-{i}" for (topic, i), p in sorted(partitions.items()) if p.leader_id < 0]
    return {
        "cluster_id": cluster.cluster_id,
        "controller": cluster.controller_id,
        "features": _features(client),
        "topics": len({topic for topic, _ in partitions}),
        "partitions": {"all": len(partitions), "under_replicated": under, "offline": offline},
        "brokers": [_broker(brokers[node_id], node_id, partitions) for node_id in sorted(brokers)],
        "quorum": _quorum(client),
    }


def _cluster(client: Client) -> tuple[Cluster, dict[int, Broker]]:
    """Return the answer with cluster_id and controller_id, and the brokers by id; fenced brokers
    too where the broker can name them.
    """
    request = DESCRIBE_CLUSTER.request
    for asked in (request(include_fenced_brokers=True), request()):
        try:
            answer = client.ask(DESCRIBE_CLUSTER, asked)
        except Unsupported:
            continue
        check(answer.error_code, answer.error_message)
        return answer, {each.broker_id: each for each in answer.brokers}
    found = client.metadata(())  # older than 2.8
    return found, {each.node_id: each for each in found.brokers}


def _broker(
    broker: Broker, me: int, partitions: dict[Where, MetadataResponsePartition]
) -> dict[str, Any]:
    return {
        "broker": me,
        "address": f"{broker.host}:{broker.port}",
        "rack": broker.rack,
        "state": "fenced" if getattr(broker, "is_fenced", False) else "alive",
        "leads": sum(p.leader_id == me for p in partitions.values()),
        "holds": sum(me in p.replica_nodes for p in partitions.values()),
    }


def _features(client: Client) -> dict[str, object]:
    return {
        name: {"level": each.level, "supported": [each.lowest, each.highest]}
        for name, each in read_features(client).items()
        if each.level
    }


def _quorum(client: Client) -> list[dict[str, Any]]:
    """Nothing where the metadata lives in ZooKeeper."""
    found = read_quorum(client)
    return [
        {
            "node": each.node_id,
            "role": each.role,
            "log_end_offset": each.log_end_offset,
            "behind": each.behind,
        }
        for each in (found.nodes if found is not None else ())
    ]


def _some(names: list[str], most: int = 10) -> str:
    return f": {', '.join(names[:most])}{', ...' if len(names) > most else ''}" if names else ""
