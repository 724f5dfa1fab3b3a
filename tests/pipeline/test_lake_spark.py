"""format("raftka_delta") in a real Spark: streams into lakes, replayed batches, every type. What
needs no Spark is tested without.
"""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

from deltalake import DeltaTable

from raftka.testing import Cluster
from tests.pipeline.players import Player

pytestmark = pytest.mark.filterwarnings("default")


class Job:
    """From a topic into a lake."""

    def __init__(self, spark: Any, cluster: Cluster, topic: str, folder: Path) -> None:
        self.spark, self.cluster, self.topic, self.folder = spark, cluster, topic, folder
        self.columns = ["partition", "offset"]

    @property
    def lake(self) -> str:
        return str(self.folder / "lake")

    def stream(self, **options: Any) -> None:
        given = {
            "kafka.bootstrap.servers": self.cluster.bootstrap_servers,
            "subscribe": self.topic,
            "startingOffsets": "earliest",
            **options,
        }
        frame = (
            self.spark.readStream.format("raftka").options(**given).load().selectExpr(*self.columns)
        )
        writer = (
            frame.writeStream.format("raftka_delta")
            .option("path", self.lake)
            .option("partitionBy", "partition")
        )
        writer.option("checkpointLocation", str(self.folder / "checkpoint")).trigger(
            availableNow=True
        ).start().awaitTermination()

    def rows(self) -> list[tuple[int, int]]:
        return sorted(
            (row["partition"], row["offset"])
            for row in self.spark.read.format("raftka_delta").load(self.lake).collect()
        )

    def forget_last_commit(self) -> None:
        """As if the driver had died between the lake's log and Spark's."""
        last = max(
            (self.folder / "checkpoint" / "commits").glob("[0-9]*"), key=lambda each: int(each.name)
        )
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)

    def files(self) -> int:
        return len(list(Path(self.lake).rglob("*.parquet*")))


@pytest.fixture
def job(spark: Any, cluster: Cluster, player: Player, tmp_path: Path) -> Job:
    return Job(spark, cluster, cluster.create_topic(partitions=2), tmp_path)


def test_a_stream_into_a_lake_with_its_last_batch_replayed(job: Job, player: Player) -> None:
    player.fill(job.topic, 100, 0)
    player.fill(job.topic, 30, 1)
    job.stream(maxOffsetsPerTrigger=60)
    files = job.files()
    job.forget_last_commit()
    player.fill(job.topic, 7, 1)
    job.stream()
    job.columns.append("cast(key as string) as key")
    player.fill(job.topic, 1, 1)
    job.stream()

    expected = [(0, at) for at in range(100)] + [(1, at) for at in range(38)]
    assert job.rows() == expected
    assert job.files() == files + 2
    keys = job.spark.read.format("raftka_delta").load(job.lake).where("key is not null").collect()
    assert [(row["offset"], row["key"]) for row in keys] == [(37, "k000000000")]
    query = (job.folder / "checkpoint" / "metadata").read_text().split('"')[3]
    assert DeltaTable(job.lake).transaction_version(query) == 4


def test_a_changed_type_stops_the_query_where_it_was(job: Job, player: Player) -> None:
    player.fill(job.topic, 3, 0)
    job.stream()
    player.fill(job.topic, 3, 0)
    job.columns = ["partition", "cast(offset as string) as offset"]
    with pytest.raises(
        Exception, match=r"column offset is long in the lake .*, and string in this query"
    ):
        job.stream()
    job.columns = ["partition", "offset"]
    job.stream()

    assert job.rows() == [(0, at) for at in range(6)]


def test_batches_of_every_type_there_and_back(spark: Any, tmp_path: Path) -> None:
    frame = spark.sql(
        "select id, cast(id as string) s, timestamp'2026-01-02 03:04:05.000006' ts, "
        "timestamp_ntz'2026-01-02 03:04:05' local, "
        "date'2026-01-02' day, cast(1.25 as decimal(10, 2)) money, array(id, null) a, "
        "named_struct('x', id, 'y', binary('b')) st, map('k', id) m, "
        "true b, cast(id as double) d from range(100)"
    )
    for _ in range(2):  # the second one is known
        writer = (
            frame.write.format("raftka_delta")
            .mode("append")
            .option("txnAppId", "job 1/2")
            .option("txnVersion", 7)
        )
        writer.save(str(tmp_path / "lake"))
    back = spark.read.format("raftka_delta").load(str(tmp_path / "lake"))

    assert back.dtypes == frame.dtypes
    assert back.orderBy("id").collect() == frame.orderBy("id").collect()


def test_a_day_of_a_lake_is_read_without_the_others(spark: Any, tmp_path: Path) -> None:
    """The files of the other days are not there any more, so only a frame of none of them can be
    counted.
    """
    lake = str(tmp_path / "lake")
    rows = spark.sql(
        "select id, concat('n', id) as name, date_sub(date'2026-01-03', cast(id % 3 as int)) as "
        "day from range(30)"
    )
    rows.write.format("raftka_delta").mode("append").option("path", lake).option(
        "partitionBy", "day"
    ).save()
    reader = spark.read.format("raftka_delta")
    today = reader.option("where", "day = '2026-01-03'").load(lake)
    others = reader.option("where", "day < '2026-01-03'").load(lake)
    few = spark.read.format("raftka_delta").option("columns", "day, name").load(lake)
    typed = spark.read.format("raftka_delta").schema("name string, id long").load(lake)

    assert (
        today.count(),
        others.count(),
        today.union(others).count(),
        today.where("id in (3, 4, 6)").count(),
    ) == (10, 20, 30, 2)
    assert (few.columns, few.where("name = 'n7'").count()) == (["day", "name"], 1)
    assert [tuple(row) for row in typed.where("id > 27").orderBy("id").collect()] == [
        ("n28", 28),
        ("n29", 29),
    ]
    for day in ("2026-01-01", "2026-01-02"):
        for path in Path(lake, f"day={day}").iterdir():
            path.unlink()
    assert today.count() == 10
    with pytest.raises(Exception, match="day="):
        others.count()


def test_a_frame_is_queried_in_several_ways_whatever_spark_pushes_down(
    spark: Any, tmp_path: Path
) -> None:
    """Spark 4.3 keeps the filters of one query for the next one of the same frame: so a lake's
    reader takes none.
    """
    lake = str(tmp_path / "lake")
    spark.range(30).selectExpr("id", "id % 3 as day").write.format("raftka_delta").mode(
        "append"
    ).option("partitionBy", "day").save(lake)
    setting = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "true")
    try:
        frame = spark.read.format("raftka_delta").load(lake)
        assert frame.where("day = 0").union(frame.where("day = 1")).count() == 20
        assert frame.count() == 30
    finally:
        spark.conf.set(setting, before)


def test_a_lake_is_not_overwritten(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="a lake takes appends"):
        spark.range(3).write.format("raftka_delta").mode("overwrite").save(str(tmp_path / "lake"))
