"""format("raftka") in a real Spark: batches, streams over restarts, the sink. A handful: what needs
no Spark is tested without.
"""

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

from raftka.client.blocking.producer import Producer
from raftka.testing import Cluster
from tests.pipeline.players import Player

pytestmark = pytest.mark.filterwarnings("default")


class Job:
    """Queries on one topic."""

    def __init__(self, spark: Any, cluster: Cluster, topic: str) -> None:
        self.spark, self.cluster, self.topic = spark, cluster, topic

    def reading(self, reader: Any, **options: Any) -> Any:
        given = {
            "kafka.bootstrap.servers": self.cluster.bootstrap_servers,
            "subscribe": self.topic,
            **options,
        }
        return reader.format("raftka").options(**given).load()

    def batch(self, **options: Any) -> list[Any]:
        return sorted(
            self.reading(self.spark.read, **options).collect(),
            key=lambda row: (row["partition"], row["offset"]),
        )

    def stream(self, folder: Path, **options: Any) -> list[int]:
        """All that is there, on top of what was read before; how many rows each batch had."""
        frame = self.reading(self.spark.readStream, startingOffsets="earliest", **options)
        writer = (
            frame.writeStream.format("parquet")
            .option("path", str(folder / "out"))
            .option("checkpointLocation", str(folder / "checkpoint"))
        )
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return [progress["numInputRows"] for progress in query.recentProgress]

    def one_run(self, folder: Path, trigger: Mapping[str, Any], **options: Any) -> None:
        """Until it has read all there is, or has failed. Raises what the query raises."""
        frame = self.reading(self.spark.readStream, startingOffsets="earliest", **options)
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(**trigger)
            .start()
        )
        try:
            query.processAllAvailable() if "processingTime" in trigger else query.awaitTermination()
        finally:
            query.stop()

    def written(self, folder: Path) -> list[tuple[int, int]]:
        rows = self.spark.read.parquet(str(folder / "out")).select("partition", "offset").collect()
        return sorted((row["partition"], row["offset"]) for row in rows)

    def writing(self, frame: Any, **options: Any) -> None:
        frame.write.format("raftka").mode("append").option(
            "kafka.bootstrap.servers", self.cluster.bootstrap_servers
        ).options(**options).save()


@pytest.fixture
def job(spark: Any, cluster: Cluster, player: Player) -> Job:
    return Job(spark, cluster, cluster.create_topic(partitions=3))


def test_a_batch_has_the_columns_of_sparks_kafka_source(job: Job, player: Player) -> None:
    player.fill(job.topic, 50, 0, compression=4)
    player.fill(job.topic, 20, 2)

    rows = job.batch(includeHeaders="true", minPartitions="5")

    assert rows[0].asDict().keys() == {
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "headers",
    }
    assert [(row["partition"], row["offset"]) for row in rows] == [(0, at) for at in range(50)] + [
        (2, at) for at in range(20)
    ]
    assert (
        bytes(rows[7]["key"]),
        rows[7]["topic"],
        rows[7]["timestampType"],
        rows[7]["headers"],
    ) == (b"k000000007", job.topic, 0, None)
    assert rows[7]["timestamp"].timestamp() == 1_700_000_000.007


def test_a_stream_goes_on_at_its_checkpoint(job: Job, player: Player, tmp_path: Path) -> None:
    player.fill(job.topic, 100, 0)
    player.fill(job.topic, 50, 1)
    group = {"kafka.group.id": job.topic}
    first = job.stream(tmp_path, maxOffsetsPerTrigger=60, **group)
    assert job.cluster.group(job.topic).offsets == {
        (job.topic, 0): 100,
        (job.topic, 1): 50,
        (job.topic, 2): 0,
    }
    player.fill(job.topic, 30, 2)
    second = job.stream(tmp_path, **group)

    assert sum(first) == 150
    assert len([size for size in first if size]) == 3
    assert sum(second) == 30
    assert job.written(tmp_path) == [(0, at) for at in range(100)] + [
        (1, at) for at in range(50)
    ] + [(2, at) for at in range(30)]
    last = json.loads((tmp_path / "checkpoint" / "offsets" / "3").read_text().splitlines()[-1])
    assert last[job.topic] == {"0": 100, "1": 50, "2": 30}
    assert job.cluster.group(job.topic).offsets == {
        (job.topic, 0): 100,
        (job.topic, 1): 50,
        (job.topic, 2): 30,
    }


def test_lost_records_stop_the_query_with_the_next_step(
    job: Job, player: Player, tmp_path: Path
) -> None:
    player.fill(job.topic, 10, 0)
    job.stream(tmp_path)
    player.fill(job.topic, 20, 0)
    player.fill(job.topic, 20, 0)
    player.delete_records(job.topic, 30)

    with pytest.raises(
        Exception,
        match=(
            f"{job.topic}-0 begins at offset 30 now, but was to be read from 10.*Next step: "
            "failOnDataLoss=false"
        ),
    ):
        job.stream(tmp_path)
    assert len(job.written(tmp_path)) == 10
    assert sum(job.stream(tmp_path, failOnDataLoss="false")) == 20


def made_again(job: Job, player: Player, records: int) -> None:
    """By others: nothing of this Spark hears of it."""
    job.cluster.delete_topic(job.topic)
    job.cluster.create_topic(job.topic, partitions=3)
    player.brokers.forget_leaders(job.topic)
    for partition in range(3):
        player.fill(job.topic, records, partition)


@pytest.mark.parametrize("strict", ["true", "false"])
def test_a_session_that_has_read_a_topic_reads_the_one_made_again(
    job: Job, player: Player, strict: str
) -> None:
    """Workers of Spark live on, with what they know of the first one."""
    player.fill(job.topic, 100, 0)
    for _ in range(2):
        assert len(job.batch(failOnDataLoss=strict)) == 100
    made_again(job, player, 500)

    for _ in range(2):
        assert len(job.batch(failOnDataLoss=strict)) == 1500


def test_a_stream_reads_all_of_a_topic_made_again(job: Job, player: Player, tmp_path: Path) -> None:
    """Its checkpoint has offsets of the first topic, beyond and below the ends of the second
    one.
    """
    player.fill(job.topic, 100, 0)
    player.fill(job.topic, 2000, 1)
    job.stream(tmp_path)
    made_again(job, player, 500)

    assert sum(job.stream(tmp_path, failOnDataLoss="false", maxOffsetsPerTrigger=700)) == 1500
    assert job.written(tmp_path)[-1] == (2, 499)
    assert len(job.written(tmp_path)) == 2100 + 1500


def test_a_query_that_runs_on_reads_a_topic_that_is_made_again(
    job: Job, player: Player, tmp_path: Path
) -> None:
    """Its driver and its workers live through it. The plan of a batch may be of the first topic and
    its tasks of the second one.
    """
    player.fill(job.topic, 300, 0)
    frame = job.reading(job.spark.readStream, startingOffsets="earliest", failOnDataLoss="false")
    writer = (
        frame.writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
    )
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        query.processAllAvailable()
        made_again(job, player, 200)
        deadline = time.monotonic() + 120
        while len(job.written(tmp_path)) < 300 + 600:
            assert query.isActive, query.exception()
            assert time.monotonic() < deadline, len(job.written(tmp_path))
            time.sleep(0.2)
        query.processAllAvailable()
    finally:
        query.stop()

    again = [(partition, at) for partition in range(3) for at in range(200)]
    assert job.written(tmp_path) == sorted([*((0, at) for at in range(300)), *again])


def test_ranges_of_a_compacted_topic_are_read_to_their_end(
    job: Job, player: Player, tmp_path: Path
) -> None:
    job.topic = topic = job.cluster.create_topic(
        cleanup_policy="compact",
        segment_ms=100,
        min_cleanable_dirty_ratio=0,
        max_compaction_lag_ms=100,
    )
    left = compacted(job, player)
    assert left[0] > 500, "there is no gap at the beginning"

    assert [row["offset"] for row in job.batch(minPartitions="7")] == left
    for end in (100, 150, left[0], left[0] + 1, left[-1]):
        rows = job.batch(endingOffsets=json.dumps({topic: {"0": end}}))
        assert [row["offset"] for row in rows] == [offset for offset in left if offset < end]
    assert sum(job.stream(tmp_path, maxOffsetsPerTrigger=90)) == len(left)
    assert job.written(tmp_path) == [(0, offset) for offset in left]


def compacted(job: Job, player: Player) -> list[int]:
    """Offsets that are left when each of 100 keys was written ten times, by one producer: of
    several the last batches would be kept, emptied.
    """
    producer = Producer(player.brokers, max_batch_bytes=500)
    for at in range(1000):
        producer.add((job.topic, 0), (b"%d" % (at % 100), b"%d" % at, (), 1_700_000_000_000 + at))
    producer.flush()
    deadline = time.monotonic() + 60
    while len(job.cluster.records(job.topic)) >= 500:
        assert time.monotonic() < deadline, "the log was not compacted"
        player.fill(job.topic, 1, first=10_000)  # a segment is rolled by what is written
        time.sleep(0.2)
    return [record.offset for record in job.cluster.records(job.topic)]


def records_taken(job: Job, player: Player, folder: Path) -> str:
    player.fill(job.topic, 20, 0)
    player.fill(job.topic, 20, 0)
    player.delete_records(job.topic, 30)
    return f"{job.topic}-0 begins at offset 30 now, but was to be read from 10"


def topic_deleted(job: Job, player: Player, folder: Path) -> str:
    job.cluster.delete_topic(job.topic)
    return f"{job.topic}-0 is gone: its topic was deleted"


def topic_made_again(job: Job, player: Player, folder: Path) -> str:
    job.cluster.delete_topic(job.topic)
    job.cluster.create_topic(job.topic, partitions=3)
    player.brokers.forget_leaders(job.topic)
    player.fill(job.topic, 30, 0)
    return f"topic {job.topic} was deleted and made again"


def log_shorter(job: Job, player: Player, folder: Path) -> str:
    """The checkpoint knows of 90 more records than there are."""
    offsets = folder / "checkpoint" / "offsets" / "0"
    text = offsets.read_text()
    longer = re.sub(r'("0": ?)10\b', r"\g<1>100", text)
    assert longer != text
    offsets.write_text(longer)
    offsets.with_name(".0.crc").unlink()
    return f"{job.topic}-0 ends at offset 10, but was read up to 100"


@pytest.mark.parametrize(
    "trigger",
    [{"processingTime": "0 seconds"}, {"availableNow": True}, {"once": True}],
    ids=lambda each: next(iter(each)),
)
@pytest.mark.parametrize("lose", [records_taken, topic_deleted, topic_made_again, log_shorter])
def test_each_loss_stops_a_query_of_each_trigger(
    job: Job, player: Player, tmp_path: Path, lose: Any, trigger: Mapping[str, Any]
) -> None:
    """Line by line what docs/pipeline/script.md says under "Lost data"."""
    player.fill(job.topic, 10, 0)
    job.one_run(tmp_path, trigger)
    said = lose(job, player, tmp_path)

    with pytest.raises(Exception, match=f"{said}.*Next step: failOnDataLoss=false"):
        job.one_run(tmp_path, trigger)
    assert not (tmp_path / "checkpoint" / "commits" / "1").exists()


def test_rows_become_records(job: Job, player: Player) -> None:
    spark, other = job.spark, job.cluster.create_topic(partitions=4)
    frame = spark.sql(
        "select cast(id as string) as key, concat('v', id) as value, if(id % 2 = 0, "
        f"'{job.topic}', '{other}') as topic, "
        "cast(id % 3 as int) as partition, array(named_struct('key', 'h', 'value', cast('x' as "
        "binary))) as headers from range(300)"
    )
    job.writing(frame, **{"kafka.compression.type": "lz4"})

    for topic, odd in ((job.topic, 0), (other, 1)):
        for partition in range(3):
            records = job.cluster.records(topic, partition)
            assert sorted(int(record.key or b"") for record in records) == [
                at for at in range(300) if at % 3 == partition and at % 2 == odd
            ]
            assert {
                (record.value == b"v" + (record.key or b""), tuple(record.headers))
                for record in records
            } == {(True, (("h", b"x"),))}


def test_a_stream_into_a_topic_and_its_first_batch_replayed(
    job: Job, player: Player, tmp_path: Path
) -> None:
    other = job.cluster.create_topic(partitions=2)

    def run(starting: str) -> list[bytes]:
        frame = job.reading(job.spark.readStream, startingOffsets=starting).selectExpr(
            "key", "value"
        )
        writer = frame.writeStream.format("raftka").options(
            **{"kafka.bootstrap.servers": job.cluster.bootstrap_servers, "topic": other}
        )
        writer.option("checkpointLocation", str(tmp_path)).trigger(
            availableNow=True
        ).start().awaitTermination()
        return sorted(record.key or b"" for record in job.cluster.records(other))

    keys = [b"k%09d" % at for at in range(200)]
    player.fill(job.topic, 200)
    assert run("earliest") == keys
    for commit in (tmp_path / "commits").iterdir():
        commit.unlink()  # as if the driver had died before it wrote that
    player.fill(job.topic, 7, 1)

    # at least once: the same 200 again, and what came after
    assert run("latest") == sorted(keys * 2 + keys[:7])


def test_a_wrong_option_is_reported(job: Job) -> None:
    with pytest.raises(Exception, match="there is no option startingoffset: is it startingOffsets"):
        job.batch(startingOffset="earliest")
