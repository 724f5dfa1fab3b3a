"""`raftka cluster describe`: who is there, who decides, and what is not as it should be. Through Kafka's protocol; knows no raftka."""

import json
from typing import Any

from raftka.cli.admin.client import admin, partitions_of
from raftka.cli.output import command, show
from raftka.json_values import JsonObject


@command
def describe(bootstrap_server: str, output: str) -> None:
    with admin(bootstrap_server) as connected:
        found = _described(connected)
    if output == "json":
        print(json.dumps(found, default=str))
        return
    print(f"cluster      {found['cluster_id']}")
    print(f"controller   {found['controller']}")
    features = ", ".join(f"{name} {each['level']}" for name, each in found["features"].items())
    print(f"features     {features or '-'}")
    partitions = found["partitions"]
    print(f"partitions   {partitions['all']} of {found['topics']} topics")
    print(f"             {len(partitions['under_replicated'])} under-replicated{_some(partitions['under_replicated'])}")
    print(f"             {len(partitions['offline'])} without a leader{_some(partitions['offline'])}")
    print()
    show(found["brokers"], ["broker", "address", "rack", "state", "leads", "replicas"], "text")
    if found["quorum"]:
        print()
        show(found["quorum"], ["node", "role", "log_end_offset", "behind"], "text")


def _described(connected: Any) -> JsonObject:
    cluster = connected.describe_cluster()
    partitions = partitions_of(connected, ())
    under = [f"{topic}-{i}" for (topic, i), p in sorted(partitions.items()) if len(p["isr_nodes"]) < len(p["replica_nodes"])]
    offline = [f"{topic}-{i}" for (topic, i), p in sorted(partitions.items()) if p["leader_id"] < 0]
    return {
        "cluster_id": cluster["cluster_id"],
        "controller": cluster["controller_id"],
        "features": _features(connected),
        "topics": len({topic for topic, _ in partitions}),
        "partitions": {"all": len(partitions), "under_replicated": under, "offline": offline},
        "brokers": [_broker(each, partitions) for each in sorted(cluster["brokers"], key=lambda each: int(each["broker_id"]))],
        "quorum": _quorum(connected),
    }


def _broker(broker: JsonObject, partitions: dict[tuple[str, int], JsonObject]) -> JsonObject:
    me = broker["broker_id"]
    return {
        "broker": me,
        "address": f"{broker['host']}:{broker['port']}",
        "rack": broker["rack"],
        "state": "fenced" if broker.get("is_fenced") else "alive",
        "leads": sum(p["leader_id"] == me for p in partitions.values()),
        "replicas": sum(me in p["replica_nodes"] for p in partitions.values()),
    }


def _features(connected: Any) -> JsonObject:
    from kafka.errors import KafkaError

    try:
        found = connected.describe_features()
    except KafkaError:  # older than 2.4
        return {}
    return {
        name: {"level": each["finalized"][1], "supported": list(each["supported"])}
        for name, each in sorted(found.items())
        if each.get("finalized") and each.get("supported")
    }


def _quorum(connected: Any) -> list[JsonObject]:
    """Nothing where the metadata lives in ZooKeeper."""
    from kafka.errors import KafkaError

    try:
        (partition,) = connected.describe_metadata_quorum()["topics"][0]["partitions"]
    except (KafkaError, ValueError, IndexError, KeyError):
        return []
    leader = partition["leader_id"]
    roles = [(each, "voter") for each in partition["current_voters"]] + [(each, "observer") for each in partition["observers"]]
    return [
        {
            "node": each["replica_id"],
            "role": "leader" if each["replica_id"] == leader else role,
            "log_end_offset": each["log_end_offset"],
            "behind": max(0, partition["high_watermark"] - each["log_end_offset"]) if each["log_end_offset"] >= 0 else None,
        }
        for each, role in roles
    ]


def _some(names: list[str], most: int = 10) -> str:
    return f": {', '.join(names[:most])}{', ...' if len(names) > most else ''}" if names else ""
