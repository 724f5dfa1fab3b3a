"""A streaming query as Spark plays it on the sink: planner, tasks and driver, each step when the
test says so. Needs no Spark.
"""

from collections.abc import Iterable, Sequence

from raftka.pipeline.topics import exactly_once
from raftka.pipeline.topics.brokers import Brokers
from raftka.pipeline.topics.decisions import Decision
from raftka.pipeline.topics.exactly_once import Handle, Part, Written
from raftka.pipeline.topics.options import addresses, source_options
from raftka.pipeline.topics.planning import batch
from raftka.pipeline.topics.reader import read
from raftka.pipeline.topics.sink import sink_options, write_task
from raftka.testing import Cluster
from raftka.wire.messages.fetch import READ_COMMITTED, READ_UNCOMMITTED
from raftka.wire.messages.list_offsets import LATEST

COLUMNS = {"key": "string", "value": "string", "partition": "integer"}
Rows = Sequence[tuple[int, str]]  # partition, key


class Query:
    """One run of it; another run of the same query has the same name."""

    def __init__(self, cluster: Cluster, topic: str, name: str, **options: str) -> None:
        self.name = name
        given = {
            "kafka.bootstrap.servers": cluster.bootstrap_servers,
            "topic": topic,
            "deliveryGuarantee": "exactly-once",
        }
        self.options = sink_options(
            {**given, "kafka.transactional.id": f"{topic}-{name}", **options},
            COLUMNS,
            streaming=True,
        )
        self._attempts = 0

    def plan(self) -> Handle:
        its = self.options.transactional
        assert its is not None
        return exactly_once.begin(self.options.brokers(), its.transactional_id, its.timeout_ms)

    def part(self, handle: Handle, number: int, task: int) -> Part:
        """Another attempt at each call."""
        self._attempts += 1
        return Part(handle, Decision(self.name, number), task, self._attempts)

    def write(self, handle: Handle, number: int, task: int, *batches: Rows) -> Written:
        return write_task(self.options, map(arrow, batches), self.part(handle, number, task))

    def commit(self, written: Sequence[Written | None], number: int) -> None:
        exactly_once.commit(self.options.brokers(), written, number)

    def abort(self, written: Sequence[Written | None]) -> None:
        exactly_once.abort(self.options.brokers(), written)

    def run(self, number: int, *tasks: Rows) -> None:
        """A batch from its plan to its end."""
        handle = self.plan()
        self.commit(
            [self.write(handle, number, task, rows) for task, rows in enumerate(tasks)], number
        )


def arrow(rows: Rows) -> object:
    import pyarrow as pa

    keys = [key for _, key in rows]
    return pa.record_batch(
        {
            "key": keys,
            "value": keys,
            "partition": pa.array([partition for partition, _ in rows], pa.int32()),
        }
    )


def rows_of(partition: int, numbers: Iterable[int]) -> Rows:
    return [(partition, f"{partition}-{number}") for number in numbers]


def committed(cluster: Cluster, topic: str) -> list[str]:
    """Keys of what readers of committed records find when the markers of all transactions are
    there, sorted.
    """
    wait_for_markers(cluster, topic)
    return found(cluster, topic, "read_committed")


def wait_for_markers(cluster: Cluster, topic: str) -> None:
    brokers = Brokers(addresses({"bootstrap.servers": cluster.bootstrap_servers}), "reader", 30.0)
    try:
        wheres = {
            (topic, partition): LATEST for partition in brokers.topics([topic])[topic].partitions
        }
        cluster.wait_for(
            lambda: (
                brokers.offsets(wheres, READ_COMMITTED) == brokers.offsets(wheres, READ_UNCOMMITTED)
            )
        )
    finally:
        brokers.close()


def found(cluster: Cluster, topic: str, isolation: str) -> list[str]:
    """Keys, sorted."""
    given = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": topic,
        "kafka.isolation.level": isolation,
    }
    options = source_options(given, streaming=False)
    brokers = Brokers(options.bootstrap, "reader", 30.0, read_committed=options.read_committed)
    try:
        records = [
            record for each in batch(options, brokers) for record in read(brokers, each, options)
        ]
        return sorted(key.decode() for each in records for key in each.column("key").to_pylist())
    finally:
        brokers.close()
