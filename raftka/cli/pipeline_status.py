"""`raftka pipeline status` and `stop`: what a project's process last wrote down, and its end.
Neither starts Spark.
"""

import json
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from raftka.cli.output import show
from raftka.json_values import Json, JsonObject
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.project import Project, holder_of, is_alive, load_project, read_status

SILENT_S = 30.0  # of a process that writes every second
COLUMNS = [
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
]


def status(folder: Path, output: str) -> int:
    """The exit code: 0 when all flows run."""
    project = load_project(folder)
    told, pid = read_status(project), holder_of(project)
    flows: Mapping[str, Mapping[str, Json]] = told.get("flows", {})
    if output == "json":
        print(json.dumps({**told, "running": pid is not None, "pid": pid}))
    else:
        show(rows(flows), COLUMNS, "text")
        for name, flow in flows.items():
            if flow["error"]:
                print(f"{name}: {flow['error']}")
        print(summary(project, told, pid, time.time()))
    return (
        0
        if pid is not None
        and all(flow["state"] in ("starting", "running") for flow in flows.values())
        else 1
    )


def rows(flows: Mapping[str, Mapping[str, Json]]) -> list[JsonObject]:
    return [
        {
            "flow": name,
            "state": flow["state"],
            "batch": flow["batch"] if flow["batch"] >= 0 else None,
            "read": flow["rows"],
            "written": _number(flow.get("written")),
            "read_per_s": round(flow["rows_per_second"]),
            "lag": _number(flow["lag"]),
            "lag_s": _number(flow.get("age_s")),
            "state_rows": flow["state_rows"],
            "state_mb": round(flow["state_bytes"] / 1e6, 1),
            "late_rows": flow["late_rows"],
            "failures": flow["failures"],
        }
        for name, flow in flows.items()
    ]


def _number(value: float | None) -> int | None:
    return None if value is None else round(value)


def summary(project: Project, told: Mapping[str, Json], pid: int | None, now: float) -> str:
    if pid is None:
        return f"{project.name} is not running" + (
            f"; it was {told['state']} when it last wrote" if told else ""
        )
    ago = now - float(told.get("time", now))
    silent = (
        f", but has not written for {ago:.0f} s: {project.state / 'spark.log'} may say why"
        if ago > SILENT_S
        else ""
    )
    return f"{project.name} is {told.get('state', 'starting')} as process {pid}{silent}"


def stop(folder: Path, timeout_s: float) -> None:
    """Returns when nobody holds it any more. Raises PipelineError."""
    project = load_project(folder)
    pid = holder_of(project)
    if pid is None:
        print(f"{project.name} is not running")
        return
    if is_alive(pid):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout_s
    while holder_of(project) is not None:
        if time.monotonic() > deadline:
            raise PipelineError(
                f"process {pid} has not ended in {timeout_s:g} s: a batch takes long. It ends "
                f"behind it; or `kill -9 {pid}`, which loses nothing"
            )
        time.sleep(0.1)
    print(f"{project.name}: stopped")
