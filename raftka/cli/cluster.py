"""`raftka cluster describe`: brokers, the controller, and problems of the cluster. Through Kafka's
protocol; knows no raftka.
"""

import json
from typing import Any

from raftka.cli.admin.client import connect, partitions_of
from raftka.cli.output import command, show
from raftka.client.blocking.client import Client, Where, check
from raftka.client.blocking.connection import Unsupported
from raftka.client.connection import SOFTWARE_VERSION
from raftka.wire.messages.api_versions import API_VERSIONS
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
from raftka.wire.messages.quorum import DESCRIBE_QUORUM

METADATA_TOPIC = "__cluster_metadata"
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
    show(found["brokers"], ["broker", "address", "rack", "state", "leads", "replicas"], "text")
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
        "replicas": sum(me in p.replica_nodes for p in partitions.values()),
    }


def _features(client: Client) -> dict[str, Any]:
    """Nothing from brokers older than 2.4."""
    answer = client.ask(
        API_VERSIONS,
        API_VERSIONS.request(
            client_software_name="raftka", client_software_version=SOFTWARE_VERSION
        ),
    )
    supported = {
        each.name: [each.min_version, each.max_version] for each in answer.supported_features
    }
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    return {
        name: {"level": levels[name], "supported": supported[name]}
        for name in sorted(levels.keys() & supported.keys())
    }


def _quorum(client: Client) -> list[dict[str, Any]]:
    """Nothing where the metadata lives in ZooKeeper."""
    topics = DESCRIBE_QUORUM.request.topics
    asked = DESCRIBE_QUORUM.request(
        topics=[
            topics(topic_name=METADATA_TOPIC, partitions=[topics.partitions(partition_index=0)])
        ]
    )
    try:
        answer = client.ask(DESCRIBE_QUORUM, asked)
    except Unsupported:
        return []
    if answer.error_code or not answer.topics:
        return []
    (partition,) = answer.topics[0].partitions
    if partition.error_code:
        return []
    roles = [(each, "voter") for each in partition.current_voters] + [
        (each, "observer") for each in partition.observers
    ]
    return [
        {
            "node": each.replica_id,
            "role": "leader" if each.replica_id == partition.leader_id else role,
            "log_end_offset": each.log_end_offset,
            "behind": max(0, partition.high_watermark - each.log_end_offset)
            if each.log_end_offset >= 0
            else None,
        }
        for each, role in roles
    ]


def _some(names: list[str], most: int = 10) -> str:
    return f": {', '.join(names[:most])}{', ...' if len(names) > most else ''}" if names else ""
