"""deliveryGuarantee=exactly-once in a real Spark: the order of its calls, and its processes killed at each step of a batch."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)")

from raftka.testing import Cluster
from tests.pipeline.exactly_once import committed
from tests.pipeline.players import Player

pytestmark = pytest.mark.filterwarnings("default")


class Job:
    """From a topic to another one with as many partitions."""

    def __init__(self, spark: Any, cluster: Cluster, source: str, topic: str, folder: Path) -> None:
        self.spark, self.cluster, self.source, self.topic, self.folder = spark, cluster, source, topic, folder

    def run(self, **options: str) -> None:
        servers = {"kafka.bootstrap.servers": self.cluster.bootstrap_servers}
        reader = self.spark.readStream.format("raftka").options(**servers, subscribe=self.source, startingOffsets="earliest", maxOffsetsPerTrigger=60)
        rows = reader.load().selectExpr("concat(partition, '-', cast(key as string)) as key", "value", "partition")
        given = {**servers, "topic": self.topic, "deliveryGuarantee": "exactly-once", **options}
        writer = rows.writeStream.format("raftka").options(**given).option("checkpointLocation", str(self.folder))
        writer.trigger(availableNow=True).start().awaitTermination()

    def forget_last_commit(self) -> None:
        """As if the driver had died between EndTxn and Spark's own note that the batch is done."""
        last = max((self.folder / "commits").glob("[0-9]*"), key=lambda each: int(each.name))
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


@pytest.fixture
def job(spark: Any, cluster: Cluster, player: Player, tmp_path: Path) -> Job:
    return Job(spark, cluster, cluster.create_topic(partitions=3), cluster.create_topic(partitions=3), tmp_path / "checkpoint")


def keys(*counts: int) -> list[str]:
    return sorted(f"{partition}-k{number:09}" for partition, count in enumerate(counts) for number in range(count))


def test_a_batch_that_spark_does_again_is_there_once(job: Job, player: Player) -> None:
    for partition, count in enumerate((50, 40, 30)):
        player.fill(job.source, count, partition)
    job.run()
    job.forget_last_commit()
    player.fill(job.source, 7, 0)  # the same keys as before
    job.run()

    assert committed(job.cluster, job.topic) == sorted(keys(50, 40, 30) + keys(7))
