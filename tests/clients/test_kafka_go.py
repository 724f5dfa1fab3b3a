"""kafka-go, whose reader goes on with a record alone: on a compacted topic whose first segment has
only batches without records.
"""

import time

from confluent_kafka.admin import AdminClient, NewTopic

from raftka.cluster.processes import Processes, running
from tests.clients.workload import run
from tests.kit.toolchains import Program

TOPIC = "compacted"
HEADER_BYTES = 61  # of a batch without records
PATIENCE_S = 60.0
COMPACT = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "600",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}


def produce(client: Program, cluster: Processes, *lines: str) -> None:
    run(
        [*client.command, "produce", cluster.bootstrap_servers, TOPIC],
        client.env,
        "".join(f"{line}\n" for line in lines),
    )


def consume(client: Program, cluster: Processes, count: int) -> list[str]:
    return run(
        [*client.command, "consume", cluster.bootstrap_servers, TOPIC, str(count)], client.env
    ).splitlines()


def test_a_reader_gets_on_from_a_segment_without_records(kafka_go: Program) -> None:
    with running(nodes=1, settings={"log.cleaner.backoff.ms": "100"}) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=COMPACT)])[TOPIC].result(30)
        produce(kafka_go, cluster, "a:1", "b:1", "a", "b", "live:" + "." * 500)
        first = next(cluster.nodes[1].plan.directory.rglob(f"{TOPIC}-0/{0:020d}.log"))
        deadline = time.monotonic() + PATIENCE_S
        while first.stat().st_size != HEADER_BYTES:
            assert time.monotonic() < deadline, (
                f"the first segment has {first.stat().st_size} bytes"
            )
            time.sleep(0.1)

        (line,) = consume(kafka_go, cluster, 1)

        assert line == "4:live:" + "." * 500


def test_records_are_read_as_they_were_written(
    kafka_go: Program, three_processes: Processes
) -> None:
    admin = AdminClient({"bootstrap.servers": three_processes.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC].result(30)
    sent = [f"key-{at % 7}:{at}" for at in range(100)]

    produce(kafka_go, three_processes, *sent)

    assert consume(kafka_go, three_processes, 100) == [
        f"{at}:{line}" for at, line in enumerate(sent)
    ]
