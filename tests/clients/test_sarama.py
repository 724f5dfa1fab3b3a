"""sarama 1.45.0, whose batches have -1 as their largest timestamp, and 1.45.1, which mends that:
searches by time, retention, restarts.
"""

import time

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from raftka.cluster.processes import Processes, running
from tests.clients.workload import run
from tests.kit.toolchains import Program

TOPIC = "times"
COUNT, STEP_MS = 100, 10
RETENTION_MS = 3000


def admin_of(cluster: Processes, **configs: str) -> AdminClient:
    """With the topic."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, 1, len(cluster.nodes), config=configs)])[TOPIC].result(30)
    return admin


def search(client: Program, cluster: Processes, *timestamps: int) -> list[int]:
    """The offsets of the first records that are not older, -1 where there are none."""
    printed = run(
        [*client.command, "search", cluster.bootstrap_servers, TOPIC, *map(str, timestamps)],
        client.env,
    )
    return [int(line) for line in printed.split()]


def largest(admin: AdminClient) -> tuple[int, int]:
    """Offset and timestamp, as ListOffsets -3 has them."""
    asked = TopicPartition(TOPIC, 0)
    found = admin.list_offsets({asked: OffsetSpec.max_timestamp()})[asked].result(30)
    return found.offset, found.timestamp


def test_searches_by_time_see_the_records_of_both_versions(
    old_sarama: Program, sarama: Program, three_processes: Processes
) -> None:
    admin = admin_of(three_processes)
    first = int(time.time() * 1000) - 60_000
    second = first + COUNT * STEP_MS
    for client, begin in (old_sarama, first), (sarama, second):
        run(
            [
                *client.command,
                "produce",
                three_processes.bootstrap_servers,
                TOPIC,
                str(begin),
                str(COUNT),
            ],
            client.env,
        )
        count = (begin - first) // STEP_MS + COUNT
        wanted = [0, 1, count // 4, count // 2, count - 1]
        assert search(sarama, three_processes, *(first + STEP_MS * at for at in wanted)) == wanted
        assert search(sarama, three_processes, first + STEP_MS * count) == [-1]
        assert largest(admin) == (count - 1, first + STEP_MS * (count - 1))


def test_retention_leaves_what_is_young(old_sarama: Program) -> None:
    with running(nodes=1, settings={"log.retention.check.interval.ms": "200"}) as cluster:
        admin_of(cluster, **{"retention.ms": str(RETENTION_MS)})

        printed = run(
            [
                *old_sarama.command,
                "trickle",
                cluster.bootstrap_servers,
                TOPIC,
                str(RETENTION_MS),
                "70",
            ],
            old_sarama.env,
        )

        assert int(printed) == 0, "the segment that is written to stays as a whole"
