"""`raftka topics ...`: through kafka-python's admin client, so it works against any Kafka. Knows no raftka."""

from collections.abc import Mapping, Sequence

from raftka.cli.admin.client import admin, finish, refusals
from raftka.cli.admin.configs import changed
from raftka.cli.output import CommandFailed, command, show
from raftka.wire.errors import Code


@command
def create(
    names: Sequence[str],
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
    if_not_exists: bool,
    bootstrap_server: str,
    output: str,
) -> None:
    wanted = {"num_partitions": partitions, "replication_factor": replication_factor, "configs": configs}
    with admin(bootstrap_server) as connected:
        rows = connected.create_topics(dict.fromkeys(names, wanted), raise_errors=False)["topics"]
        refused = refusals(rows, Code.TOPIC_ALREADY_EXISTS if if_not_exists else Code.NONE)
        created = [
            {"name": row["name"], "partitions": row["num_partitions"], "replication_factor": row["replication_factor"], "id": row["topic_id"]}
            for row in rows
            if row["error_code"] == Code.NONE
        ]
        finish(created, ["name", "partitions", "replication_factor", "id"], output, refused)


@command
def list_all(bootstrap_server: str, output: str) -> None:
    with admin(bootstrap_server) as connected:
        show([{"name": name} for name in sorted(connected.list_topics())], ["name"], output)


@command
def describe(names: Sequence[str], bootstrap_server: str, output: str) -> None:
    with admin(bootstrap_server) as connected:
        topics = sorted(connected.describe_topics(list(names) or None), key=lambda topic: str(topic["name"]))
        rows = [
            {
                "topic": topic["name"],
                "partition": p["partition_index"],
                "leader": p["leader_id"],
                "epoch": p["leader_epoch"],
                "replicas": p["replica_nodes"],
                "isr": p["isr_nodes"],
                "offline": p["offline_replicas"],
            }
            for topic in topics
            for p in sorted(topic["partitions"], key=lambda p: int(p["partition_index"]))
        ]
        finish(rows, ["topic", "partition", "leader", "epoch", "replicas", "isr", "offline"], output, refusals(topics))


@command
def delete(names: Sequence[str], bootstrap_server: str, output: str) -> None:
    with admin(bootstrap_server) as connected:
        rows = connected.delete_topics(list(names), raise_errors=False)["topics"]
        deleted = [{"name": row["name"]} for row in rows if row["error_code"] == Code.NONE]
        finish(deleted, ["name"], output, refusals(rows))


@command
def alter(
    names: Sequence[str],
    partitions: int | None,
    configs: Mapping[str, str],
    delete: Sequence[str],
    bootstrap_server: str,
    output: str,
) -> None:
    if partitions is None and not configs and not delete:
        raise CommandFailed("nothing to alter: --partitions, --config and --delete-config say what")
    with admin(bootstrap_server) as connected:
        refused: list[str] = []
        if partitions is not None:
            answer = connected.create_partitions(dict.fromkeys(names, partitions), raise_errors=False).to_dict()
            refused += refusals(answer["results"])
        bad = {text.partition(":")[0] for text in refused}
        there = [name for name in names if name not in bad]
        if there and (configs or delete):
            refused += changed(
                connected, "topic", there, {name: ("SET", value) for name, value in configs.items()} | dict.fromkeys(delete, ("DELETE", None))
            )
        bad = {text.partition(":")[0] for text in refused}
        finish([{"name": name} for name in names if name not in bad], ["name"], output, refused)
