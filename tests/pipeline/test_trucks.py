"""The trucks pipeline as its users run it, with its driver and a leader killed:
bench/pipeline_kills.py, one of each. Then `spark-pipelines run` goes on where it stopped. With more
kills: ./run soak pipeline.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)
pytest.importorskip("grpc", reason="needs raftka[pipeline]")
pytest.importorskip("deltalake", reason="needs raftka[pipeline]")

from bench.pipeline_kills import ROUNDS, Fleet, Trial, Verdict, crossings
from tests.kit.spark.fast_spark import SETTINGS, fast_environment

MORE = 20
SESSION = {
    name: value for name, value in SETTINGS.items() if not name.startswith("spark.sql.warehouse")
}
SECONDS = 600  # for what takes half a minute where nothing else runs


@pytest.fixture(scope="module")
def environment() -> Iterator[None]:
    with fast_environment():
        yield


@pytest.fixture(scope="module")
def trial(environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    with Trial(tmp_path_factory.mktemp("trial"), SESSION, 7, print) as started:
        yield started


@pytest.fixture(scope="module")
def verdict(trial: Trial) -> Verdict:
    return trial.run(kills=1, rounds=ROUNDS)


def test_the_lake_has_every_acknowledged_record(verdict: Verdict) -> None:
    assert verdict.kills == {"driver": 1, "leader": 1}
    assert verdict.acknowledged > ROUNDS * 20
    assert verdict.good, str(verdict)


def test_the_audit_finds_every_alert_once(trial: Trial, verdict: Verdict, tmp_path: Path) -> None:
    """A producer is a truck, a fence, and whether it is entered or left; the number of an alert is
    its time.
    """
    expected = sorted(crossings(trial.ledger, trial.project))
    ledger = tmp_path / "ledger.jsonl"
    with ledger.open("w") as out:
        for producer, _, at in (each.rpartition(" ") for each in expected):
            print(
                json.dumps(
                    {
                        "producer": producer,
                        "seq": round(datetime.fromisoformat(at).timestamp() * 1000),
                    }
                ),
                file=out,
            )

    text = "cast(value as string)"
    options = {
        "--ledger": str(ledger),
        "--topic": "truck_alerts",
        "--producer": f"regexp_replace(get_json_object({text}, '$.id'), ' [^ ]+$', '')",
        "--seq": f"unix_millis(cast(get_json_object({text}, '$.at') as timestamp))",
        "--bootstrap-server": trial.cluster.bootstrap_servers,
        "--master": "local[2]",
        "--conf": "spark.driver.memory=600m",
    }
    command = [
        sys.executable,
        "-m",
        "raftka.cli",
        "audit",
        "-o",
        "json",
        *(part for pair in options.items() for part in pair),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)

    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    counts = json.loads(done.stdout.splitlines()[0])
    assert counts == {
        "acknowledged": len(expected),
        "unknown": 0,
        "records": len(expected),
        "lost": 0,
        "duplicated": 0,
        "phantom": 0,
        "reordered": 0,
    }
    assert expected


def test_spark_pipelines_continues_from_raftkas_checkpoints(trial: Trial, verdict: Verdict) -> None:
    fleet = Fleet(trial.cluster.bootstrap_servers, MORE, first=trial.rounds)
    fleet.start()
    trial.ledger.add(fleet.finish())

    command = [
        str(Path(sys.executable).with_name("spark-pipelines")),
        "run",
        "--remote",
        "local[2]",
        "--conf",
        "spark.driver.memory=600m",
    ]
    done = subprocess.run(
        command, cwd=trial.project, capture_output=True, text=True, timeout=SECONDS, check=False
    )

    assert done.returncode == 0, done.stderr[-3000:]
    after = trial.verdict()
    assert after.good, str(after)
    assert after.acknowledged > verdict.acknowledged + MORE * 20
