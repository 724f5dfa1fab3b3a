"""One decode for all flows of a stream, in a real Spark: each record is fetched and decoded once,
and each flow has its own rows, checkpoint and failures.
"""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")
import pyarrow as pa

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)
pytest.importorskip("grpc", reason="needs raftka[pipeline]")
pytest.importorskip("deltalake", reason="needs raftka[pipeline]")

from deltalake import DeltaTable

from raftka.client.blocking.producer import Producer
from raftka.pipeline.flows.graph import Graph
from raftka.pipeline.flows.packing import BUCKET, PACK
from raftka.pipeline.flows.supervisor import Supervised
from raftka.pipeline.project import load_project
from raftka.pipeline.projects.trucks.library.truck_states import (
    AT,
    ROW,
    TruckPacking,
    bucket_of,
    from_bytes,
)
from raftka.testing import Cluster
from tests.pipeline.players import Player

pytestmark = pytest.mark.filterwarnings("default")

SPEC = "name: p\nstorage: {storage}\nlibraries:\n  - glob: {{include: transformations/**}}\n"
STREAMS = """bootstrap: {bootstrap}
streams:
  cars: {{topic: {topic}, fields: {{car: int, speed: "double?"}},
    watermark: 1 second, options: {{maxOffsetsPerTrigger: 700}}}}
outputs:
  kept: {{from: cars_raw, delta: lake/kept}}
  fine: {{from: cars, delta: lake/fine}}
  fast: {{from: fast_cars, delta: lake/fast}}
  counted: {{from: counts, delta: lake/counted}}
  bad: {{from: cars_bad, topic: {topic}-bad}}
"""
VIEWS = """CREATE TEMPORARY VIEW fast_cars AS
  SELECT car, _partition, _offset FROM STREAM cars WHERE speed >= 50;
CREATE TEMPORARY VIEW counts AS SELECT window.start AS minute, count(*) AS n
  FROM STREAM cars GROUP BY window(_timestamp, '1 minute');
"""
PARTITIONS, START_MS = 2, 1_700_000_040_000  # a full minute
Started = list[Supervised]


class Job:
    def __init__(self, spark: Any, cluster: Cluster, player: Player, folder: Path) -> None:
        self.spark, self.cluster, self.player, self.folder = spark, cluster, player, folder
        self.topic = cluster.create_topic(partitions=PARTITIONS)
        self.sent = 0
        (folder / "transformations").mkdir()
        (folder / "spark-pipeline.yml").write_text(
            SPEC.format(storage=(folder / "storage").as_uri())
        )
        (folder / "streams.yml").write_text(
            STREAMS.format(bootstrap=cluster.bootstrap_servers, topic=self.topic)
        )
        (folder / "transformations" / "streams.py").write_text(
            'from raftka.pipeline.flows.flows import declare\ndeclare("streams.yml")\n'
        )
        (folder / "transformations" / "views.sql").write_text(VIEWS)

    def change(self, before: str, now: str) -> None:
        path = self.folder / "streams.yml"
        assert before in path.read_text()
        path.write_text(path.read_text().replace(before, now))

    def drive(self, count: int) -> None:
        """Every tenth record is bad."""
        producer = Producer(self.player.brokers)
        for at in range(self.sent, self.sent + count):
            value = b"{" if at % 10 == 0 else b'{"car": %d, "speed": %d}' % (at, at % 100)
            producer.add(
                (self.topic, at % PARTITIONS), (b"%d" % at, value, (), START_MS + 100 * at)
            )
        producer.flush()
        self.sent += count

    def start(self) -> Started:
        for view in self.spark.catalog.listTables():
            self.spark.catalog.dropTempView(view.name)
        graph = Graph(self.spark, load_project(self.folder))
        graph.load()
        flows = [
            Supervised(flow.name, partial(graph.start, flow, 0), graph.checkpoint(flow))
            for flow in graph.streams()
        ]
        for each in flows:
            each.check(0.0)
        return flows

    def run(self) -> None:
        flows = self.start()
        try:
            for each in flows:
                each.query.processAllAvailable()
        finally:
            stop(flows)

    def rows(self, lake: str, *columns: str) -> list[tuple[Any, ...]]:
        return sorted(
            tuple(row.values())
            for row in DeltaTable(self.folder / "lake" / lake)
            .to_pyarrow_table(columns=list(columns))
            .to_pylist()
        )

    def offsets(self, wanted: Callable[[int], bool] = lambda at: True) -> list[tuple[int, int]]:
        return sorted((at % PARTITIONS, at // PARTITIONS) for at in range(self.sent) if wanted(at))

    def check(self) -> None:
        """Each sink has each of its rows once."""
        assert self.rows("kept", "partition", "offset") == self.offsets()
        assert self.rows("fine", "_partition", "_offset") == self.offsets(lambda at: at % 10 > 0)
        assert self.rows("fast", "_partition", "_offset") == self.offsets(
            lambda at: at % 10 > 0 and at % 100 >= 50
        )
        assert [count for (count,) in self.rows("counted", "n")] == [540] * (self.sent // 600 - 1)
        dead = self.cluster.records(f"{self.topic}-bad")
        headers = [
            {name: (value or b"").decode() for name, value in record.headers} for record in dead
        ]
        assert sorted(
            (int(each["partition"]), int(each["offset"])) for each in headers
        ) == self.offsets(lambda at: at % 10 == 0)
        assert {each["topic"] for each in headers} == {self.topic}
        assert {record.value for record in dead} == {b"{"}
        assert all(int(each["timestamp"]) >= START_MS and each["error"] for each in headers)


def stop(flows: Started) -> None:
    for each in flows:
        if each.query is not None:
            each.query.stop()


@pytest.fixture
def job(spark: Any, cluster: Cluster, player: Player, tmp_path: Path) -> Job:
    return Job(spark, cluster, player, tmp_path)


def local_folder(_: object) -> str:
    return os.environ["SPARK_LOCAL_DIRS"].split(",")[0]


def parts(spark: Any) -> dict[str, dict[str, list[tuple[int, int, int]]]]:
    """Of what is shared: by name and partition, the offsets that each file covers, and its rows."""
    (folder,) = spark.sparkContext.parallelize([None], 1).map(local_folder).collect()
    found: dict[str, dict[str, list[tuple[int, int, int]]]] = {}
    for path in sorted(Path(folder).glob("raftka/*/*/*.arrow")):
        start, stop = map(int, path.stem.split("-"))
        with pa.memory_map(str(path)) as file:
            count = sum(batch.num_rows for batch in pa.ipc.open_file(file).read_all().to_batches())
        found.setdefault(path.parent.parent.name, {}).setdefault(path.parent.name, []).append(
            (start, stop, count)
        )
    return found


def new(
    before: dict[str, Any], after: dict[str, Any]
) -> list[dict[str, list[tuple[int, int, int]]]]:
    """Jobs of one cluster share the name of what they fetch; the partitions are each job's own."""
    found = [
        {place: files for place, files in each.items() if place not in before.get(name, {})}
        for name, each in after.items()
    ]
    return [each for each in found if each]


def test_each_record_is_fetched_once_and_decoded_once_for_five_flows(job: Job) -> None:
    # an answer has all that is behind the offset, for the next trigger again
    job.change("maxOffsetsPerTrigger: 700", "maxOffsetsPerTrigger: 5000")
    before = parts(job.spark)
    job.drive(2400)

    job.run()

    job.check()
    sent = [job.cluster._led_by(job.topic, partition) for partition in range(PARTITIONS)]
    assert [each.bytes_out for each in sent] == [each.bytes_in for each in sent]
    fetched, decoded = new(before, parts(job.spark))
    for kind in (fetched, decoded):
        assert len(kind) == PARTITIONS
        for files in kind.values():
            assert sum(count for _, _, count in files) == job.sent // PARTITIONS
            assert [start for start, _, _ in files] == [0, *(stop for _, stop, _ in files[:-1])]


def test_checkpoints_of_flows_that_read_for_themselves_go_on(job: Job) -> None:
    """As a project of the version before has them."""
    job.change("watermark: 1 second", "shared: false, watermark: 1 second")
    job.drive(600)
    job.run()
    job.change("shared: false, ", "")
    job.drive(600)
    job.run()
    job.check()

    job.change("watermark: 1 second", "shared: false, watermark: 1 second")
    job.drive(600)
    job.run()
    job.check()


def test_a_flow_that_fails_delays_no_other_and_loses_nothing(job: Job) -> None:
    job.drive(600)
    (job.folder / "lake").mkdir()
    (job.folder / "lake" / "fast").write_text("in the way")

    flows = job.start()
    try:
        for each in flows:
            if each.name != "fast":
                each.query.processAllAvailable()
        assert job.rows("kept", "partition", "offset") == job.offsets()
        assert job.rows("fine", "_partition", "_offset") == job.offsets(lambda at: at % 10 > 0)
        failed = next(each for each in flows if each.name == "fast")
        assert failed.query is None or failed.query.exception() is not None
    finally:
        stop(flows)

    (job.folder / "lake" / "fast").unlink()
    job.drive(600)
    job.run()
    job.check()


def test_a_declaration_that_changes_while_it_runs_is_refused_in_a_sentence(job: Job) -> None:
    job.drive(600)
    flows = job.start()
    try:
        for each in flows:
            each.query.processAllAvailable()
        job.change("car: int", "car: bigint")
        fine = next(each for each in flows if each.name == "fine")
        fine.query.stop()
        fine.query = None
        fine.check(0.0)
        if fine.query is not None:
            with pytest.raises(Exception, match="otherwise than when this pipeline began"):
                fine.query.processAllAvailable()
        lines = fine.check(1e9)
        assert any(
            "streams.yml declares cars otherwise" in line for line in lines
        ) or "declares cars" in str(fine.reported.error)
    finally:
        stop(flows)
    job.change("car: bigint", "car: int")
    job.drive(600)
    job.run()
    job.check()


def test_packs_that_the_source_makes_hold_the_rows_and_move_the_watermark(job: Job) -> None:
    from raftka.pipeline.flows.flows import good
    from raftka.pipeline.flows.frames import packed_by_source
    from raftka.pipeline.flows.streams import load

    job.drive(600)
    frame = good(load(job.folder / "streams.yml"), "cars")
    numbers = ("speed", "car")

    def drained(name: str, packing: TruckPacking) -> tuple[list[Any], dict[str, Any]]:
        packs = packed_by_source(frame, packing)
        assert packs is not None
        query = (
            packs.writeStream.format("memory")
            .queryName(name)
            .option("checkpointLocation", str(job.folder / name))
            .start()
        )
        try:
            query.processAllAvailable()
            rows = job.spark.table(name).collect()
            job.drive(100)
            query.processAllAvailable()
            return rows, query.lastProgress  # with the watermark that the batch before has moved
        finally:
            query.stop()

    rows, progress = drained("packed_cars", TruckPacking("_partition", "_timestamp", numbers))
    assert len(rows) == PARTITIONS
    for row, partition in zip(
        sorted(rows, key=lambda row: bucket_of(0) != row[BUCKET]), range(PARTITIONS), strict=True
    ):
        there = from_bytes(row[PACK])
        cars = [at for at in range(600) if at % 10 and at % PARTITIONS == partition]
        assert there.column(numbers[1]).to_pylist() == cars
        assert there.column(AT).to_pylist() == [1000 * (START_MS + 100 * at) for at in cars]
    assert progress["eventTime"]["watermark"].startswith(
        datetime.fromtimestamp((START_MS + 100 * 599) / 1000 - 1, UTC).isoformat()[:19]
    )

    rows, _ = drained("newest_cars", TruckPacking("_partition", "_timestamp"))
    newest = [each for row in rows for each in from_bytes(row[PACK]).column(ROW).to_pylist()]
    assert sorted((each["_partition"], each["car"]) for each in newest) == [(0, 698), (1, 699)]
    assert (
        packed_by_source(frame.where("car > 3"), TruckPacking("_partition", "_timestamp")) is None
    )
    assert packed_by_source(frame, TruckPacking("_partition", "sent")) is None


def test_rows_for_lakes_come_in_batches_and_move_the_watermark(job: Job) -> None:
    """Streams whose rows need a look, and keyed ones, give the same."""
    more = (
        "some: {from: cars, delta: lake/some, columns: [_partition, _offset]}",
        "last: {from: cars, delta: lake/last, key: [car]}",
    )
    job.change("delta: lake/fine}", "\n  ".join(["delta: lake/fine}", *more]))
    job.drive(600)
    flows = {each.name: each.query for each in job.start()}
    try:
        for query in flows.values():
            query.processAllAvailable()
        job.drive(600)
        for query in flows.values():
            query.processAllAvailable()
        handed = {
            name: [each for each in query.recentProgress if each["numInputRows"]]
            for name, query in flows.items()
        }
        marks = {
            name: progress[-1].get("eventTime", {}).get("watermark")
            for name, progress in handed.items()
        }
    finally:
        for query in flows.values():
            query.stop()

    job.check()
    assert job.rows("some", "_partition", "_offset") == job.rows("fine", "_partition", "_offset")
    assert job.rows("last", "car", "_offset") == job.rows("fine", "car", "_offset")
    rows = {
        name: sum(each["numInputRows"] for each in progress) for name, progress in handed.items()
    }
    assert rows["kept"] <= 2 * PARTITIONS * len(handed["kept"]), rows
    assert rows["fine"] <= 2 * PARTITIONS * len(handed["fine"]), rows
    assert rows["some"] == 1080
    least = datetime.fromtimestamp((START_MS + 100 * 599) / 1000 - 1, UTC).isoformat()[
        :19
    ]  # of the first 600; how the others were split is Spark's matter
    assert [name for name in ("fine", "some", "last") if (marks[name] or "") < least] == [], marks


def test_rows_of_nobody_else_are_found_under_a_name(job: Job) -> None:
    from raftka.pipeline.topics.shared import names_of

    options = {"kafka.bootstrap.servers": "a:1", "subscribe": "t", "maxOffsetsPerTrigger": "5"}
    fetched, decoded = names_of(options, "x")
    assert names_of({**options, "maxoffsetspertrigger": "6"}, "x") == (fetched, decoded)
    assert names_of(options, "y")[0] == fetched
    assert names_of(options, "y")[1] != decoded
    for name, value in (
        ("kafka.bootstrap.servers", "b:1"),
        ("kafka.isolation.level", "read_committed"),
        ("failOnDataLoss", "false"),
    ):
        other = names_of({**options, name: value}, "x")
        assert other[0] != fetched
        assert other[1] != decoded
    assert json.dumps(options) not in fetched
