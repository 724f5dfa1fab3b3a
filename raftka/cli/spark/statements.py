"""`raftka pipeline add`, `remove`, `explain` and `streams`: what they ask of the process that runs
a project, or do by themselves where none does.
"""

from pathlib import Path

from raftka.cli.output import show
from raftka.pipeline.errors import OptionRefused, PipelineError
from raftka.pipeline.flows.requests import ask
from raftka.pipeline.flows.statements import (
    LONGEST,
    check_unused,
    file_of,
    parse,
    statement,
    statements,
    write,
)
from raftka.pipeline.project import (
    holder_of,
    load_project,
    read_status,
    remove_checkpoints,
    remove_data,
)

TIMEOUT_S = 120.0
COLUMNS = ["name", "kind", "into", "state", "error"]


def add_files(folder: Path, files: tuple[Path, ...]) -> None:
    """One after the other. Raises PipelineError for the first one that is not taken."""
    for file in files:
        try:
            with file.open(encoding="utf-8") as opened:
                text = opened.read(LONGEST + 1)
        except (OSError, UnicodeDecodeError) as error:
            raise OptionRefused(f"{file} cannot be read: {error}") from None
        add(folder, text)


def add(folder: Path, text: str) -> None:
    """Raises PipelineError, with Spark's words where the query is wrong."""
    project, found = load_project(folder), parse(text)
    if holder_of(project) is None:
        write(project.folder, found)
        print(
            f"{found.name} is written. {project.name} is not running: Spark looks at it with the "
            f"next `raftka pipeline run {folder}`"
        )
        return
    ask(project, {"do": "add", "with": text}, TIMEOUT_S)
    print(f"{found.name}: added")


def remove(folder: Path, name: str) -> None:
    """Raises PipelineError."""
    project = load_project(folder)
    if holder_of(project) is not None:
        ask(project, {"do": "remove", "with": name}, TIMEOUT_S)
    else:
        found = statement(project.folder, name)
        check_unused(project.folder, name)
        if found.kind != "STREAM":
            remove_checkpoints(project, name)
            remove_data(project, name)
        file_of(project.folder, name).unlink()
    print(f"{name}: removed")


def explain(folder: Path, name: str) -> None:
    """Raises PipelineError."""
    project = load_project(folder)
    if holder_of(project) is None:
        raise PipelineError(f"{project.name} is not running: Spark plans its queries while it runs")
    print(ask(project, {"do": "explain", "with": name}, TIMEOUT_S)["plan"])


def list_streams(folder: Path, output: str) -> None:
    """Raises PipelineError."""
    project = load_project(folder)
    is_running = holder_of(project) is not None
    flows = read_status(project).get("flows", {}) if is_running else {}
    rows = []
    for each in statements(project.folder):
        flow = flows.get(each.name, {})
        state = (
            "stopped"
            if not is_running
            else "view"
            if each.kind == "STREAM"
            else flow.get("state", "starting")
        )
        rows.append(
            {
                "name": each.name,
                "kind": each.kind,
                "into": each.target,
                "state": state,
                "error": flow.get("error"),
            }
        )
    show(rows, COLUMNS, output)
