"""Streams, tables and sinks added to a pipeline while it runs, in a real Spark: they come and go,
and what is wrong harms nothing.
"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)
pytest.importorskip("grpc", reason="needs raftka[pipeline]")
pytest.importorskip("deltalake", reason="needs raftka[pipeline]")

from raftka.cli.spark_commands import _declared
from raftka.client.blocking.producer import Producer
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.flows.graph import Graph
from raftka.pipeline.flows.live import Live
from raftka.pipeline.flows.supervisor import Supervised
from raftka.pipeline.project import Project, load_project
from raftka.pipeline.sql import Places, run_query
from raftka.testing import Cluster
from tests.pipeline.players import Player

pytestmark = pytest.mark.filterwarnings("default")

SPEC = "name: p\nstorage: {storage}\nlibraries:\n  - glob: {{include: transformations/**}}\n"
STREAMS = """bootstrap: {bootstrap}
streams:
  cars: {{topic: {topic}, fields: {{car: int, speed: double}}, watermark: 1 second}}
"""
MINUTES = """CREATE TABLE per_minute AS
SELECT window.start AS minute, car, count(*) AS n, max(speed) AS top
FROM cars GROUP BY window(_timestamp, '1 minute'), car"""
START_MS = 1_700_000_040_000  # a full minute


class Running:
    """A project in this process, as `raftka pipeline run` has it."""

    def __init__(self, spark: Any, project: Project) -> None:
        self.spark, self.project, self.flows = spark, project, list[Supervised]()
        for view in spark.catalog.listTables():
            spark.catalog.dropTempView(view.name)
        self.graph = Graph(spark, project)
        self.graph.load()
        for flow in self.graph.streams():
            started = Supervised(
                flow.name, partial(self.graph.start, flow, 0), self.graph.checkpoint(flow)
            )
            started.check(0.0)
            self.flows.append(started)
        self.live = Live(project, self.graph, self.flows, 0, lambda line: None)

    def ask(self, do: str, argument: str) -> Any:
        return self.live.answer({"do": do, "with": argument})

    def finish(self) -> None:
        for flow in self.flows:
            flow.query.processAllAvailable()

    def stop(self) -> None:
        for flow in self.flows:
            flow.query.stop()


@pytest.fixture
def running(spark: Any, cluster: Cluster, tmp_path: Path) -> Iterator[Running]:
    topic = cluster.create_topic(partitions=1)
    (tmp_path / "transformations").mkdir()
    (tmp_path / "spark-pipeline.yml").write_text(
        SPEC.format(storage=(tmp_path / "storage").as_uri())
    )
    (tmp_path / "streams.yml").write_text(
        STREAMS.format(bootstrap=cluster.bootstrap_servers, topic=topic)
    )
    (tmp_path / "transformations" / "streams.py").write_text(
        'from raftka.pipeline.flows.flows import declare\ndeclare("streams.yml")\n'
    )
    started = Running(spark, load_project(tmp_path))
    yield started
    started.stop()


def drive(player: Player, running: Running, *at_s: int) -> None:
    from raftka.pipeline.flows.streams import load

    topic = load(running.project.folder / "streams.yml").stream("cars").topic
    producer = Producer(player.brokers)
    for each in at_s:
        producer.add(
            (topic, 0), (b"1", b'{"car": 1, "speed": %d}' % each, (), START_MS + 1000 * each)
        )
    producer.flush()


def test_they_come_and_go_and_survive_a_restart(
    running: Running, cluster: Cluster, player: Player
) -> None:
    folder, out = running.project.folder, f"out-{running.project.folder.name}"
    running.ask("add", "CREATE STREAM fast AS SELECT car, speed FROM STREAM cars WHERE speed >= 50")
    running.ask(
        "add",
        f"CREATE SINK fast_cars INTO TOPIC '{out}' KEY car WITH ('deliveryGuarantee' = "
        "'exactly-once') AS SELECT * FROM fast",
    )
    running.ask("add", MINUTES)
    drive(player, running, 10, 50, 70, 130)
    running.finish()

    assert [
        json.loads(each.value or b"")["speed"] for each in cluster.records(out) if each.key == b"1"
    ] == [50.0, 70.0, 130.0]
    assert "raftka" in running.ask("explain", "fast_cars")["plan"]
    for text, why in (
        ("CREATE STREAM bad AS SELECT nothing_such FROM cars", "`nothing_such` cannot be resolved"),
        ("CREATE STREAM bad AS SELECT (1 FROM cars", "PARSE_SYNTAX_ERROR"),
        (
            "CREATE STREAM bad AS WITH x AS (SELECT 1) INSERT INTO cars SELECT * FROM x",
            "PARSE_SYNTAX_ERROR",
        ),
        ("CREATE STREAM bad AS SELECT 1", "is no stream"),
        ("CREATE TABLE bad AS SELECT car, count(*) AS n FROM fast GROUP BY car", "watermark"),
        (
            "CREATE SINK bad INTO TOPIC 'x' KEY truck AS SELECT * FROM fast",
            "`truck` cannot be resolved",
        ),
        (
            f"CREATE SINK bad INTO TOPIC '{out}' WITH ('kafka.acks' = '1') AS SELECT * FROM fast",
            "would lose or double records",
        ),
        ("CREATE SINK cars INTO DELTA 'x' AS SELECT * FROM fast", "cars is there already"),
    ):
        with pytest.raises(PipelineError, match=why):
            running.ask("add", text)
    assert sorted(path.name for path in (folder / "sql").iterdir()) == [
        "fast.sql",
        "fast_cars.sql",
        "per_minute.sql",
    ]
    assert [flow.name for flow in running.flows] == ["fast_cars", "per_minute"]
    assert all(flow.query.isActive for flow in running.flows)

    running.stop()
    running.__init__(running.spark, running.project)  # type: ignore[misc]  # the next process
    drive(player, running, 140)
    running.finish()
    assert len([each for each in cluster.records(out) if each.key == b"1"]) == 4
    with pytest.raises(PipelineError, match="fast_cars may read fast"):
        running.ask("remove", "fast")
    running.ask("remove", "fast_cars")
    running.ask("remove", "fast")
    places = Places(cluster.bootstrap_servers, _declared(folder))
    table = run_query(
        running.spark.newSession(),
        "select minute, n, top from per_minute order by minute",
        places,
        10,
    )
    # minutes that are over
    assert [(row["n"], row["top"]) for row in table.rows] == [(2, 50.0), (1, 70.0)]
    running.ask("remove", "per_minute")
    assert running.flows == []
    assert list((folder / "sql").iterdir()) == []
    assert not (folder / "tables" / "per_minute").exists()
    assert not (folder / "storage" / "_checkpoints" / "per_minute").exists()
