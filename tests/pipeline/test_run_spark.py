"""`raftka pipeline run` as a process with a Spark of its own: how it starts, how it ends, and what
it says of its flows.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)
pytest.importorskip("grpc", reason="needs raftka[pipeline]")

from raftka.client.blocking.producer import Producer
from raftka.testing import Cluster
from tests.pipeline.players import Player

ROOT = Path(__file__).parents[2]
SECONDS = 240  # for what takes twenty where nothing else runs
SPEC = "name: small\nstorage: {storage}\nlibraries:\n  - glob:\n      include: transformations/**\n"
STREAMS = """
bootstrap: {bootstrap}
streams:
  numbers: {{topic: {topic}, fields: {{n: int}}, options: {{maxOffsetsPerTrigger: 100}}}}
outputs:
  lake: {{from: numbers, delta: lake}}
  bad: {{from: numbers_bad, topic: {topic}_bad, partitions: 1}}
  slow: {{from: slowly, topic: {topic}_slow, key: n, partitions: 1}}
"""
SLOWLY = """
import time
from pathlib import Path
from pyspark import pipelines as dp
from raftka.pipeline.flows.flows import declare, good

project = declare("streams.yml")
HELD = Path(__file__).parent.parent / "held" if "__file__" in globals() else Path("held").resolve()


def wait(batches):
    while HELD.exists():
        time.sleep(0.05)
    yield from batches


@dp.temporary_view
def slowly():
    return good(project, "numbers").select("n").mapInArrow(wait, "n int")
"""


class Run:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[str] | None = None

    def start(self, *options: str) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "raftka.cli",
            "pipeline",
            "run",
            str(self.folder),
            "--no-page",
            "--master",
            "local[2]",
            "--every",
            "0.5",
            *options,
        ]
        settings = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        return self.process

    def ended(self) -> tuple[int, list[str]]:
        assert self.process is not None
        output, _ = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, output.splitlines()

    def status(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(
                (self.folder / ".raftka" / "status.json").read_text()
            )
        except OSError:
            return {}
        return found

    def flows(self) -> dict[str, Any]:
        found: dict[str, Any] = self.status().get("flows", {})
        return found

    def java(self) -> list[int]:
        assert self.process is not None
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(each) for each in found.read_text().split()] if found.exists() else []

    def wait_for(self, what: Any) -> Any:
        deadline = time.monotonic() + SECONDS
        while not (found := what()):
            assert self.process is not None
            assert self.process.poll() is None, self.ended()
            assert time.monotonic() < deadline, self.status()
            time.sleep(0.05)
        return found

    def kill(self) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def topic(cluster: Cluster) -> str:
    return cluster.create_topic(partitions=2)


@pytest.fixture
def run(cluster: Cluster, topic: str, tmp_path: Path) -> Iterator[Run]:
    folder = tmp_path / "p"
    (folder / "transformations").mkdir(parents=True)
    (folder / "spark-pipeline.yml").write_text(SPEC.format(storage=(folder / "storage").as_uri()))
    (folder / "streams.yml").write_text(
        STREAMS.format(bootstrap=cluster.bootstrap_servers, topic=topic)
    )
    (folder / "transformations" / "slowly.py").write_text(SLOWLY)
    found = Run(folder)
    yield found
    found.kill()


def write(player: Player, topic: str, values: list[bytes], at_ms: int) -> None:
    producer = Producer(player.brokers)
    for at, value in enumerate(values):
        producer.add((topic, at % 2), (None, value, (), at_ms))
    producer.flush()


@pytest.mark.parametrize("whom", ["the process", "its group"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_start_that_is_stopped_ends_without_a_traceback(
    run: Run, whom: str, number: signal.Signals
) -> None:
    process = run.start()
    run.wait_for(lambda: run.status().get("state") == "starting" and run.java())
    java = run.java()
    os.killpg(process.pid, number) if whom == "its group" else process.send_signal(number)

    code, lines = run.ended()
    assert (code, lines[-1:]) == (0, ["small: stopped before it had begun"])
    assert not [
        line for line in lines if "Traceback" in line or "Error" in line or "Exception" in line
    ], lines
    assert run.status()["state"] == "stopped"
    deadline = time.monotonic() + SECONDS
    while any(Path(f"/proc/{each}").exists() for each in java):
        assert time.monotonic() < deadline, "Java lives on"
        time.sleep(0.05)


def test_a_group_of_processes_that_is_told_to_end_ends_without_a_traceback(
    run: Run, player: Player, topic: str
) -> None:
    """As service managers do it: Java ends at the same moment, perhaps before its last answer."""
    write(player, topic, [b'{"n": 1}'] * 10, round(time.time() * 1000))
    process = run.start()
    run.wait_for(lambda: run.flows() and all(flow["rows"] == 10 for flow in run.flows().values()))
    os.killpg(process.pid, signal.SIGTERM)

    code, lines = run.ended()
    assert code == 0
    assert lines[-1].startswith("small: stopped")
    assert not [line for line in lines if "Traceback" in line or "Error" in line], lines
    assert run.status()["state"] == "stopped"


def test_a_definition_that_fails_is_a_sentence_at_the_end(run: Run) -> None:
    (run.folder / "transformations" / "slowly.py").write_text(
        SLOWLY.replace('"n int"', '"n integr"').replace("wait,", "wait_for,")
    )
    run.start()

    code, lines = run.ended()
    assert code == 1
    assert lines[-1] == (
        f"Error: {run.folder}/transformations/slowly.py, line 19: NameError: name 'wait_for' is "
        "not defined. "
        f"All of it is in {run.folder}/.raftka/spark.log"
    )
    assert "Traceback" not in "\n".join(lines)
    assert (
        "NameError: name 'wait_for' is not defined"
        in (run.folder / ".raftka" / "spark.log").read_text()
    )


def test_lag_and_rows_are_those_of_now(run: Run, player: Player, topic: str) -> None:
    now_ms = round(time.time() * 1000)
    write(player, topic, [b'{"n": %d}' % at for at in range(90)] + [b"no JSON"] * 10, now_ms)
    run.start("--metrics", "0")
    flows = run.flows
    run.wait_for(
        lambda: (
            len(flows()) == 3
            and all(flow["lag"] == 0 and flow["rows"] == 100 for flow in flows().values())
        )
    )
    assert {name: flow["written"] for name, flow in flows().items()} == {
        "lake": 90,
        "bad": 10,
        "slow": 90,
    }

    (run.folder / "held").touch()
    write(player, topic, [b'{"n": 1}'] * 50, now_ms - 200_000)
    run.wait_for(lambda: flows()["slow"]["lag"] == 50 and flows()["lake"]["rows"] == 150)
    # Spark does not know of them while the batch is under way
    write(player, topic, [b'{"n": 2}'] * 40, now_ms - 100_000)
    run.wait_for(
        lambda: (
            flows()["slow"]["lag"] == 90
            and flows()["lake"]["rows"] == 190
            and flows()["lake"]["lag"] == 0
        )
    )
    slow, quick = flows()["slow"], flows()["lake"]
    assert 200 <= slow["age_s"] < 200 + SECONDS
    assert (quick["age_s"], slow["rows"]) == (0.0, 100)

    process = run.process
    assert process is not None
    assert process.stdout is not None
    url = next(line.split()[-1] for line in process.stdout if "metrics are at" in line)
    with urlopen(url, timeout=10) as answer:
        told = answer.read().decode()
    assert 'raftka_pipeline_flow_lag_offsets{flow="slow"} 90\n' in told
    assert 'raftka_pipeline_flow_rows_written_total{flow="bad"} 10\n' in told

    (run.folder / "held").unlink()
    run.wait_for(lambda: flows()["slow"]["lag"] == 0 and flows()["slow"]["written"] == 180)
    process.terminate()
    code, lines = run.ended()
    assert (code, lines[-1]) == (0, "small: stopped")


def test_a_flow_that_is_behind_at_its_start_says_so_before_its_first_batch(
    run: Run, player: Player, topic: str
) -> None:
    write(player, topic, [b'{"n": 1}'] * 60, round(time.time() * 1000) - 500_000)
    (run.folder / "held").touch()
    run.start()

    run.wait_for(lambda: run.flows().get("slow", {}).get("lag") == 60)
    assert run.status()["flows"]["slow"]["age_s"] >= 500


SCRIPT = """
import sys
from raftka.pipeline import session

spark = session(master="local[1]")
options = {{"kafka.bootstrap.servers": "{bootstrap}", "subscribe": "{topic}"}}
rows = spark.readStream.format("raftka").options(**options, startingOffsets="earliest").load()
writer = rows.writeStream.format("noop").option("checkpointLocation", "{folder}")
writer.trigger(availableNow=True).start().awaitTermination()
"""


def test_a_script_that_fails_ends_with_the_sentence(
    cluster: Cluster, player: Player, topic: str, tmp_path: Path
) -> None:
    player.fill(topic, 10)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_text('{"id": "6d9ebf19-44ec-4c5a-8b8e-0b4b0f0b5d5e"}')
    (tmp_path / "commits").mkdir()
    (tmp_path / "offsets" / "0").write_text(
        f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{{}}}}\n{{"{topic}": {{"0": 500, '
        '"1": 0}}'
    )
    (tmp_path / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    script = SCRIPT.format(bootstrap=cluster.bootstrap_servers, topic=topic, folder=tmp_path)

    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    lines = done.stderr.splitlines()
    assert done.returncode == 1
    assert lines[-1].startswith(
        f"{topic}-0 ends at offset 10, but was read up to 500. The query stops"
    ), lines[-5:]
    assert lines[-2] == ""
