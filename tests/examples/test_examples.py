"""Every program of examples/, run as a user runs it, against a cluster of raftka's."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from bench.systems import KAFKA_JARS
from raftka.testing import Cluster
from tests.kit.toolchains import Missing, Toolchains

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
VALUES = "key value-0\nkey value-1\nkey value-2\n"
# `raftka` is beside the interpreter, as in an activated environment
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "compat"))),
}
SECONDS = 240  # for a pipeline on a busy machine; the others take a few


def run(*command: str | Path) -> str:
    done = subprocess.run(
        list(map(str, command)),
        cwd=EXAMPLES,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("library", ["kafka_python", "confluent_kafka", "aiokafka"])
def test_python_clients_read_what_they_have_produced(raftka_cluster: Cluster, library: str) -> None:
    if find_spec(library.replace("kafka_python", "kafka")) is None:
        pytest.skip(f"{library} is not installed")

    printed = run(sys.executable, f"clients/with_{library}.py", raftka_cluster.bootstrap_servers)

    assert printed == VALUES


def test_command_line_reads_what_it_has_produced(raftka_cluster: Cluster) -> None:
    assert run("sh", "clients/with_raftka.sh", raftka_cluster.bootstrap_servers) == VALUES


def test_java_client_reads_what_it_has_produced(
    raftka_cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    try:
        java = Toolchains(fetch=request.config.getoption("--all-clients")).java().command[0]
    except Missing as missing:
        pytest.skip(f"no Java client here: {missing}")

    printed = run(
        java,
        "-cp",
        f"{KAFKA_JARS}/*",
        "clients/WithJava.java",
        raftka_cluster.bootstrap_servers,
    )

    assert printed == VALUES


def test_embedded_cluster_loses_a_node_and_no_order() -> None:
    assert run(sys.executable, "embedded/app.py").split() == [f"order-{n}" for n in range(10)]


def test_pytest_project_passes() -> None:
    options = ("-p", "no:randomly", "-p", "no:cacheprovider", "--rootdir", "pytest_project")

    assert "2 passed" in run(sys.executable, "-m", "pytest", *options, "pytest_project")


def test_chaos_run_finds_no_violation() -> None:
    assert "none of 1 violated" in run("sh", "chaos/run.sh", "0-0")


def test_pipeline_fills_its_lake_and_its_topics(raftka_cluster: Cluster, tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed: ./run setup pipeline does it")
    project = tmp_path / "readings"
    shutil.copytree(EXAMPLES / "pipeline", project)
    spec = project / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("file:///tmp/raftka-readings", f"file://{tmp_path}/s"))
    for topic in ("readings", "readings_warm", "readings_dead_letters"):
        raftka_cluster.create_topic(topic)
    lines = b'{"sensor":"a","celsius":21.5}\n{"sensor":"b","celsius":35}\nnot JSON\n'
    environment = {**ENVIRONMENT, "RAFTKA_BOOTSTRAP_SERVER": raftka_cluster.bootstrap_servers}
    raftka = [sys.executable, "-m", "raftka.cli"]
    subprocess.run([*raftka, "produce", "readings"], input=lines, env=environment, check=True)

    command = [*raftka, "pipeline", "run", str(project), "--no-page"]
    with subprocess.Popen(command, env=environment) as process:
        try:
            for topic in ("readings_warm", "readings_dead_letters"):
                raftka_cluster.wait_for(
                    lambda topic=topic: (  # type: ignore[misc]
                        process.poll() is not None or len(raftka_cluster.records(topic)) == 1
                    ),
                    SECONDS,
                )
            assert process.poll() is None
            assert (project / "lake" / "_delta_log").is_dir()
        finally:
            process.terminate()


def test_each_example_is_in_the_table() -> None:
    table = (EXAMPLES / "README.md").read_text()
    programs = [
        str(path.relative_to(EXAMPLES))
        for path in EXAMPLES.glob("*/*")
        if path.suffix in (".py", ".sh", ".java")
        and path.parent.name not in ("pytest_project", "pipeline")
    ]

    assert len(programs) >= 7
    assert [name for name in programs if f"]({name})" not in table] == []
