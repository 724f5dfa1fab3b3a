"""A project's folder: written, read, held by one process, also by a child that outlives it. No
Spark.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("yaml", reason="needs raftka[pipeline]")
from click.testing import CliRunner

from raftka.cli.commands import root
from raftka.pipeline import project as projects
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.project import (
    Busy,
    Project,
    held,
    holder_of,
    init,
    load_project,
    read_status,
    write_status,
)

HOLD = """
import subprocess, sys
from pathlib import Path
from raftka.pipeline.project import held, load_project
with held(load_project(Path(sys.argv[1]))) as lock:
    child = subprocess.Popen(["sleep", "1000"], pass_fds=[lock])
    print(child.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    init("trucks", tmp_path / "t", "a:1")
    return load_project(tmp_path / "t")


def test_the_template_of_init(project: Project) -> None:
    assert (project.name, project.storage) == ("trucks", f"file://{project.folder}/storage")
    assert [path.name for path in project.definitions()] == [
        "minutes.sql",
        "moves.py",
        "streams.py",
    ]
    assert "bootstrap: a:1\n" in (project.folder / "streams.yml").read_text()
    assert project.lock_file == project.folder / "storage" / "raftka.lock"


def test_init_overwrites_nothing(project: Project) -> None:
    with pytest.raises(PipelineError, match="is there already, and not empty: nothing was written"):
        init("trucks", project.folder, "b:1")
    with pytest.raises(
        PipelineError, match="there is no project cars to begin with: orders, trucks"
    ):
        init("cars", project.folder / "x", "b:1")


def test_invalid_specs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="has no spark-pipeline"):
        load_project(tmp_path)
    for text, said in (
        ("a: [", "is no YAML"),
        ("name: x", "name and a storage"),
        ("name: x\nstorage: y\nlibraries: [a]", "libraries"),
    ):
        (tmp_path / "spark-pipeline.yml").write_text(text)
        with pytest.raises(PipelineError, match=said):
            load_project(tmp_path)


def test_a_storage_far_away_is_locked_in_the_project(tmp_path: Path) -> None:
    (tmp_path / "spark-pipeline.yml").write_text("name: x\nstorage: s3a://bucket/x/")

    assert load_project(tmp_path).lock_file == tmp_path / ".raftka" / "lock"


def test_the_second_one_refuses(project: Project) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, project.folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    try:
        assert holder_of(project) == holder.pid
        with (
            pytest.raises(
                Busy, match=rf"process {holder.pid} runs .*already.*raftka pipeline stop"
            ),
            held(project),
        ):
            pass
        holder.kill()
        holder.wait()
        assert holder_of(project) == holder.pid  # dead, but its child holds it
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(projects, "LEFT_S", 0.0)
            with pytest.raises(Busy, match="is dead, but its Java is not"), held(project):
                pass
    finally:
        os.kill(child, 9)
        holder.stdout.close()
        assert holder.stdin is not None
        holder.stdin.close()
        holder.wait()
    with held(project):  # waits for the child's end
        assert holder_of(project) == os.getpid()
    assert holder_of(project) is None


def test_the_lock_is_held_as_long_as_a_child_lives(project: Project) -> None:
    with held(project) as lock:
        child = subprocess.Popen(["sleep", "1000"], pass_fds=[lock])
    assert holder_of(project) == os.getpid()

    child.kill()
    child.wait()
    assert holder_of(project) is None


def test_status_and_stop_of_a_stopped_pipeline(project: Project) -> None:
    folder = str(project.folder)
    done = CliRunner().invoke(root, ["pipeline", "status", folder])
    assert (done.exit_code, done.output) == (1, "trucks is not running\n")

    project.state.mkdir()
    flow = {
        "state": "failed",
        "batch": 3,
        "rows": 1200,
        "rows_per_second": 99.6,
        "written": None,
        "lag": 7,
        "age_s": 61.4,
        "state_rows": 20,
        "state_bytes": 2_500_000,
        "late_rows": 2,
    }
    write_status(
        project,
        {
            "state": "running",
            "flows": {"lake": {**flow, "failures": 1, "error": "the disk is full"}},
        },
    )
    done = CliRunner().invoke(root, ["pipeline", "status", folder])
    assert [line.split() for line in done.output.splitlines()] == [
        [
            "flow",
            "state",
            "batch",
            "read",
            "written",
            "read_per_s",
            "lag",
            "lag_s",
            "state_rows",
            "state_mb",
            "late_rows",
            "failures",
        ],
        ["lake", "failed", "3", "1200", "-", "100", "7", "61", "20", "2.5", "2", "1"],
        ["lake:", "the", "disk", "is", "full"],
        ["trucks", "is", "not", "running;", "it", "was", "running", "when", "it", "last", "wrote"],
    ]
    assert read_status(project)["flows"]["lake"]["lag"] == 7
    assert (
        CliRunner().invoke(root, ["pipeline", "stop", folder]).output == "trucks is not running\n"
    )


def test_a_folder_without_a_project_is_reported() -> None:
    pytest.importorskip("pyspark", reason="needs raftka[pipeline]")
    done = CliRunner().invoke(root, ["pipeline", "run", "/nowhere"])

    assert done.exit_code == 1
    assert (
        "has no spark-pipeline.yml. `raftka pipeline init trucks DIR` writes a project"
        in done.output
    )


class Ended:
    def poll(self) -> int:
        return -9


def test_a_java_that_is_gone_ends_the_command(project: Project) -> None:
    pytest.importorskip("pyspark", reason="needs raftka[pipeline]")
    from raftka.pipeline.flows.runner import Running

    said: list[str] = []
    running = Running(project, 0, 1.0, said.append)
    running._java, running._spark = Ended(), object()

    with pytest.raises(
        PipelineError, match=r"Java ended with exit code -9; .*spark\.log may say why"
    ):
        running.supervise(threading.Event())
    running.end()
    assert said == []  # nothing is asked of what is gone
