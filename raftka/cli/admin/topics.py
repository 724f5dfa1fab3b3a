"""`raftka topics ...`: through Kafka's protocol alone, so it works against any Kafka. Knows no
raftka.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from raftka.cli.admin.client import connect, finish, refusals
from raftka.cli.admin.configs import changed
from raftka.cli.output import CommandFailed, command, show
from raftka.cli.progress import progress
from raftka.client.blocking.topics import (
    EligibleReplicas,
    add_partitions,
    create_topics,
    delete_topics,
    find_eligible_replicas,
)
from raftka.wire.errors import Code
from raftka.wire.messages.topics import DeletableTopicResult

DELETED_AT_ONCE = 100  # topics of one request: progress is seen between two


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
    with connect(bootstrap_server) as client:
        rows = create_topics(client, names, partitions, replication_factor, configs)
        refused = refusals(rows, Code.TOPIC_ALREADY_EXISTS if if_not_exists else Code.NONE)
        created = [
            {
                "topic": row.name,
                "partitions": row.num_partitions,
                "replication_factor": row.replication_factor,
                "topic_id": UUID(bytes=bytes(row.topic_id)),
            }
            for row in rows
            if row.error_code == Code.NONE
        ]
        finish(created, ["topic", "partitions", "replication_factor", "topic_id"], output, refused)


@command
def list_all(bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        show(
            [
                {"topic": name}
                for name in sorted(str(topic.name) for topic in client.metadata(None).topics)
            ],
            ["topic"],
            output,
        )


@command
def describe(names: Sequence[str], bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        topics = sorted(client.metadata(names or None).topics, key=lambda topic: str(topic.name))
        lacking = [
            str(topic.name)
            for topic in topics
            if any(len(p.isr_nodes) < len(p.replica_nodes) for p in topic.partitions)
        ]
        eligible = find_eligible_replicas(client, lacking)
        rows = []
        for topic in topics:
            for p in sorted(topic.partitions, key=lambda p: int(p.partition_index)):
                elr, last_known = eligible.get(
                    (str(topic.name), p.partition_index), EligibleReplicas()
                )
                rows.append(
                    {
                        "topic": topic.name,
                        "partition": p.partition_index,
                        "leader": p.leader_id,
                        "epoch": p.leader_epoch,
                        "replicas": p.replica_nodes,
                        "isr": p.isr_nodes,
                        "offline": p.offline_replicas,
                        "elr": elr,
                        "last_known_elr": last_known,
                    }
                )
        columns = ["topic", "partition", "leader", "epoch", "replicas", "isr", "offline"]
        if eligible:
            columns += ["elr", "last_known_elr"]
        finish(rows, columns, output, refusals(topics))


@command
def delete(names: Sequence[str], quiet: bool, bootstrap_server: str, output: str) -> None:
    rows: list[DeletableTopicResult] = []
    wanted = list(dict.fromkeys(names))
    with connect(bootstrap_server) as client:
        with progress("deleting", len(wanted), "topics", quiet=quiet) as shown:
            for at in range(0, len(wanted), DELETED_AT_ONCE):
                rows += delete_topics(client, wanted[at : at + DELETED_AT_ONCE])
                shown.update(len(rows))
        deleted = [{"topic": row.name} for row in rows if row.error_code == Code.NONE]
        finish(deleted, ["topic"], output, refusals(rows))


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
        raise CommandFailed("nothing to alter: use --partitions, --config or --delete-config")
    with connect(bootstrap_server) as client:
        refused: list[str] = []
        if partitions is not None:
            refused += refusals(add_partitions(client, names, partitions))
        bad = {text.partition(":")[0] for text in refused}
        there = [name for name in names if name not in bad]
        if there and (configs or delete):
            refused += changed(
                client,
                "topic",
                there,
                {name: ("SET", value) for name, value in configs.items()}
                | dict.fromkeys(delete, ("DELETE", None)),
            )
        bad = {text.partition(":")[0] for text in refused}
        finish([{"topic": name} for name in names if name not in bad], ["topic"], output, refused)
