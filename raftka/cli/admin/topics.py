"""`raftka topics ...`: through Kafka's protocol alone, so it works against any Kafka. Knows no
raftka.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from raftka.cli.admin.client import TIMEOUT_MS, connect, finish, refusals
from raftka.cli.admin.configs import changed
from raftka.cli.output import CommandFailed, command, show
from raftka.wire.errors import Code
from raftka.wire.messages.partitions import CREATE_PARTITIONS
from raftka.wire.messages.topics import CREATE_TOPICS, DELETE_TOPICS

BY_NAME = 5  # the last version of DeleteTopics with a list of names


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
    topic = CREATE_TOPICS.request.topics
    settings = [topic.configs(name=name, value=value) for name, value in configs.items()]
    wanted = [
        topic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=settings,
        )
        for name in dict.fromkeys(names)
    ]
    with connect(bootstrap_server) as client:
        rows = client.ask_controller(
            CREATE_TOPICS, CREATE_TOPICS.request(topics=wanted, timeout_ms=TIMEOUT_MS)
        ).topics
        refused = refusals(rows, Code.TOPIC_ALREADY_EXISTS if if_not_exists else Code.NONE)
        created = [
            {
                "name": row.name,
                "partitions": row.num_partitions,
                "replication_factor": row.replication_factor,
                "id": UUID(bytes=bytes(row.topic_id)),
            }
            for row in rows
            if row.error_code == Code.NONE
        ]
        finish(created, ["name", "partitions", "replication_factor", "id"], output, refused)


@command
def list_all(bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        show(
            [
                {"name": name}
                for name in sorted(str(topic.name) for topic in client.metadata(None).topics)
            ],
            ["name"],
            output,
        )


@command
def describe(names: Sequence[str], bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        topics = sorted(client.metadata(names or None).topics, key=lambda topic: str(topic.name))
        rows = [
            {
                "topic": topic.name,
                "partition": p.partition_index,
                "leader": p.leader_id,
                "epoch": p.leader_epoch,
                "replicas": p.replica_nodes,
                "isr": p.isr_nodes,
                "offline": p.offline_replicas,
            }
            for topic in topics
            for p in sorted(topic.partitions, key=lambda p: int(p.partition_index))
        ]
        finish(
            rows,
            ["topic", "partition", "leader", "epoch", "replicas", "isr", "offline"],
            output,
            refusals(topics),
        )


@command
def delete(names: Sequence[str], bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        rows = client.ask_controller(
            DELETE_TOPICS,
            DELETE_TOPICS.request(topic_names=list(names), timeout_ms=TIMEOUT_MS),
            BY_NAME,
        ).responses
        deleted = [{"name": row.name} for row in rows if row.error_code == Code.NONE]
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
        raise CommandFailed("nothing to alter: use --partitions, --config or --delete-config")
    with connect(bootstrap_server) as client:
        refused: list[str] = []
        if partitions is not None:
            rows = [
                CREATE_PARTITIONS.request.topics(name=name, count=partitions, assignments=None)
                for name in dict.fromkeys(names)
            ]
            refused += refusals(
                client.ask_controller(
                    CREATE_PARTITIONS, CREATE_PARTITIONS.request(topics=rows, timeout_ms=TIMEOUT_MS)
                ).results
            )
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
        finish([{"name": name} for name in names if name not in bad], ["name"], output, refused)
