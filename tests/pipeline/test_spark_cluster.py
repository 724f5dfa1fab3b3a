"""A standalone Spark with a master and two workers, each a process of its own, and a driver outside
of them: docs/pipeline/cluster.md.
"""

import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)
pytest.importorskip("deltalake", reason="needs raftka[pipeline]")

from bench.spark_kills import Trial
from raftka.testing import Cluster
from tests.kit.spark.standalone import SECONDS, SETTINGS, Standalone, plain_environment
from tests.pipeline.packed import pack
from tests.pipeline.players import Player

DRIVER = """
import json, os, sys
from pyspark import BarrierTaskContext
from raftka.pipeline import session

master, bootstrap, topic, folder, settings = sys.argv[1:]
spark = session("cluster test", json.loads(settings), master=master)
brokers = {"kafka.bootstrap.servers": bootstrap}
frame = spark.readStream.format("raftka").options(**brokers, subscribe=topic)
frame = frame.option("startingOffsets", "earliest").load().select("partition", "offset")
writer = frame.writeStream.format("raftka_delta").trigger(availableNow=True)
writer = writer.option("path", folder + "/lake")
writer = writer.option("checkpointLocation", folder + "/checkpoint")
writer.start().awaitTermination()
rows = spark.read.format("raftka_delta").load(folder + "/lake")

def place(_):
    BarrierTaskContext.get().barrier()  # two tasks at once: one a worker
    yield os.getcwd(), sys.executable

places = spark.sparkContext.parallelize(range(2), 2).barrier().mapPartitions(place).collect()
print(json.dumps({"rows": rows.count(), "distinct": rows.distinct().count(), "places": places}))
spark.stop()
"""


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("spark")) as started:
        yield started


def filled(cluster: Cluster, player: Player) -> str:
    """A topic with 500 records."""
    topic = cluster.create_topic(partitions=2)
    player.fill(topic, 300, 0)
    player.fill(topic, 200, 1)
    return topic


def job(program: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**plain_environment(), **options.pop("environment", {})}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        **options,
    )


def test_a_session_on_a_cluster_finds_raftka_without_an_activated_environment(
    standalone: Standalone, cluster: Cluster, player: Player, tmp_path: Path
) -> None:

    topic = filled(cluster, player)

    done = job(
        DRIVER,
        standalone.master,
        cluster.bootstrap_servers,
        topic,
        str(tmp_path),
        json.dumps(SETTINGS),
    )

    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["rows"], found["distinct"]) == (500, 500)
    assert {
        Path(place).relative_to(standalone.folder).parts[0] for place, _ in found["places"]
    } == {"one", "two"}
    assert {python for _, python in found["places"]} == {sys.executable}


ARCHIVE = """
import json, sys
from pathlib import Path
from raftka.pipeline import session

master, bootstrap, topic, archive, settings = sys.argv[1:]
settings = {**json.loads(settings), "spark.archives": archive + "#environment"}
spark = session("archive test", settings, master=master)
brokers = {"kafka.bootstrap.servers": bootstrap}
frame = spark.read.format("raftka").options(**brokers, subscribe=topic).load()

def place(batches):
    import pyarrow, raftka
    for batch in batches:
        places = [sys.prefix, raftka.__file__, pyarrow.__file__]
        yield pyarrow.record_batch({"n": [batch.num_rows], "place": [json.dumps(places)]})

found = frame.mapInArrow(place, "n long, place string").collect()
print(json.dumps([[row.n, *json.loads(row.place)] for row in found]))
spark.stop()
"""


def test_packed_environment_is_what_driver_and_executors_run(
    standalone: Standalone, cluster: Cluster, player: Player, tmp_path: Path
) -> None:
    topic, archive = filled(cluster, player), tmp_path / "environment.tar.gz"
    pack(tmp_path, archive)
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path / "environment", filter="fully_trusted")
    python = {"PYSPARK_PYTHON": "./environment/bin/python"}

    done = job(
        ARCHIVE,
        standalone.master,
        cluster.bootstrap_servers,
        topic,
        str(archive),
        json.dumps(SETTINGS),
        environment=python,
        cwd=tmp_path,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert sum(count for count, *_ in found) == 500
    for _, *places in found:
        for place in places:
            parts = Path(place).relative_to(standalone.folder).parts
            assert parts[0] in standalone.workers
            assert "environment" in parts


UNSHARED = "/proc/self/cwd/lake"  # another folder for each process


def test_lake_that_driver_and_executors_do_not_share_is_refused(
    standalone: Standalone, cluster: Cluster, player: Player, tmp_path: Path
) -> None:
    topic = filled(cluster, player)
    program = DRIVER.replace('folder + "/lake"', repr(UNSHARED))

    done = job(
        program,
        standalone.master,
        cluster.bootstrap_servers,
        topic,
        str(tmp_path),
        json.dumps(SETTINGS),
        cwd=tmp_path,
    )

    assert done.returncode != 0
    assert f"there is no folder {UNSHARED} on " in done.stderr
    assert "Next step: a path that driver and all executors share" in done.stderr


CONNECT = """
import json, sys
from raftka.pipeline import session

remote, bootstrap, topic, folder = sys.argv[1:]
spark = session("connect test", remote=remote)
brokers = {"kafka.bootstrap.servers": bootstrap}
options = {**brokers, "subscribe": topic, "startingOffsets": "earliest"}
frame = spark.readStream.format("raftka").options(**options).load().select("partition", "offset")
writer = frame.writeStream.format("raftka_delta").trigger(availableNow=True)
writer = writer.option("path", folder + "/lake")
writer = writer.option("checkpointLocation", folder + "/checkpoint")
writer.start().awaitTermination()
read = spark.read.format("raftka").options(**brokers, subscribe=topic).load().count()
rows = spark.read.format("raftka_delta").load(folder + "/lake")
java = "py4j.java_gateway" in sys.modules
counts = {"rows": rows.count(), "distinct": rows.distinct().count(), "read": read}
print(json.dumps({**counts, "java": java}))
spark.stop()
"""


def test_client_of_a_spark_connect_server_needs_no_java(
    standalone: Standalone, cluster: Cluster, player: Player, tmp_path: Path
) -> None:
    topic = filled(cluster, player)

    with standalone.connect_server(SETTINGS) as remote:
        done = job(
            CONNECT,
            remote,
            cluster.bootstrap_servers,
            topic,
            str(tmp_path),
            environment={"JAVA_HOME": "/nowhere"},
        )

    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["rows"], found["distinct"], found["read"]) == (500, 500, 500)


def test_killed_executor_and_driver_lose_nothing_and_write_nothing_twice(tmp_path: Path) -> None:
    """Two kills of `./run soak pipeline`, on a cluster of their own."""
    said: list[str] = []
    with Trial(tmp_path, 1, said.append) as trial:
        verdict = trial.run(["executor", "driver"])

    assert verdict.good, f"{verdict}\n{said}"
    assert verdict.acknowledged > 0
    assert (verdict.kills["executor"], verdict.kills["driver"]) == (1, 1)
