"""A standalone Spark with a master and two workers, each a process of its own, and a driver outside of them: "On a cluster" in docs/pipeline.md."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)")
pytest.importorskip("deltalake", reason="needs raftka[pipeline]")

from raftka.testing import Cluster
from tests.pipeline.players import Player
from tests.pipeline.standalone import SECONDS, SETTINGS, Standalone, plain_environment

DRIVER = """
import json, os, sys
from pyspark import BarrierTaskContext
from raftka.pipeline import session

master, bootstrap, topic, folder, settings = sys.argv[1:]
spark = session("cluster test", json.loads(settings), master=master)
frame = spark.readStream.format("raftka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
writer = frame.option("startingOffsets", "earliest").load().select("partition", "offset").writeStream.format("raftka_delta")
writer.option("path", folder + "/lake").option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start().awaitTermination()
rows = spark.read.format("raftka_delta").load(folder + "/lake")

def place(_):
    BarrierTaskContext.get().barrier()  # two tasks at once: one a worker
    yield os.getcwd(), sys.executable

places = spark.sparkContext.parallelize(range(2), 2).barrier().mapPartitions(place).collect()
print(json.dumps({"rows": rows.count(), "distinct": rows.distinct().count(), "places": places}))
spark.stop()
"""


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[Standalone]:
    with Standalone(tmp_path) as started:
        yield started


def test_a_session_on_a_cluster_finds_raftka_without_an_activated_environment(
    standalone: Standalone, cluster: Cluster, player: Player, tmp_path: Path
) -> None:

    topic = cluster.create_topic(partitions=2)
    player.fill(topic, 300, 0)
    player.fill(topic, 200, 1)

    command = [sys.executable, "-c", DRIVER, standalone.master, cluster.bootstrap_servers, topic, str(tmp_path), json.dumps(SETTINGS)]
    done = subprocess.run(command, env=plain_environment(), capture_output=True, text=True, timeout=SECONDS, check=False)

    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["rows"], found["distinct"]) == (500, 500)
    assert {Path(place).relative_to(tmp_path).parts[0] for place, _ in found["places"]} == {"one", "two"}
    assert {python for _, python in found["places"]} == {sys.executable}
