"""`raftka topics ...`: through kafka-python's admin client, so it works against any Kafka. Knows no raftka."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from raftka.cli.output import CommandFailed, command, show
from raftka.wire.errors import Code


@contextmanager
def _admin(bootstrap_server: str) -> Iterator[Any]:
    from kafka import KafkaAdminClient
    from kafka.errors import KafkaError

    try:
        admin = KafkaAdminClient(bootstrap_servers=bootstrap_server, client_id="raftka-cli", bootstrap_timeout_ms=5_000)
    except KafkaError as error:
        raise CommandFailed(f"no broker answers at {bootstrap_server} ({type(error).__name__})") from None
    try:
        yield admin
    finally:
        admin.close()


def _refusals(rows: Sequence[dict[str, Any]], forgiven: Code = Code.NONE) -> list[str]:
    bad = [row for row in rows if row["error_code"] not in {Code.NONE, forgiven}]
    return [f"{row['name']}: {row.get('error_message') or Code(row['error_code']).name}" for row in bad]


def _finish(rows: Sequence[dict[str, Any]], columns: Sequence[str], output: str, refusals: Sequence[str]) -> None:
    show(rows, columns, output)
    if refusals:
        raise CommandFailed("; ".join(refusals))


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
    with _admin(bootstrap_server) as admin:
        rows = admin.create_topics(dict.fromkeys(names, wanted), raise_errors=False)["topics"]
        refusals = _refusals(rows, Code.TOPIC_ALREADY_EXISTS if if_not_exists else Code.NONE)
        created = [
            {"name": row["name"], "partitions": row["num_partitions"], "replication_factor": row["replication_factor"], "id": row["topic_id"]}
            for row in rows
            if row["error_code"] == Code.NONE
        ]
        _finish(created, ["name", "partitions", "replication_factor", "id"], output, refusals)


@command
def list_all(bootstrap_server: str, output: str) -> None:
    with _admin(bootstrap_server) as admin:
        show([{"name": name} for name in sorted(admin.list_topics())], ["name"], output)


@command
def describe(names: Sequence[str], bootstrap_server: str, output: str) -> None:
    with _admin(bootstrap_server) as admin:
        topics = sorted(admin.describe_topics(list(names) or None), key=lambda topic: str(topic["name"]))
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
        _finish(rows, ["topic", "partition", "leader", "epoch", "replicas", "isr", "offline"], output, _refusals(topics))


@command
def delete(names: Sequence[str], bootstrap_server: str, output: str) -> None:
    with _admin(bootstrap_server) as admin:
        rows = admin.delete_topics(list(names), raise_errors=False)["topics"]
        deleted = [{"name": row["name"]} for row in rows if row["error_code"] == Code.NONE]
        _finish(deleted, ["name"], output, _refusals(rows))
