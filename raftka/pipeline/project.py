"""A pipeline's folder: its spec, the process that runs it, its last report. Knows YAML and files,
and no Spark.

One process at a time may run what lies in one storage: it holds a lock, which its Java holds as
well. So after a SIGKILL the next one waits until nobody writes there any more.
"""

import difflib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from raftka.json_values import JsonObject
from raftka.pipeline.errors import OptionRefused, PipelineError
from raftka.pipeline.locks import locked
from raftka.pipeline.yaml_text import read_yaml

SPECS = ("spark-pipeline.yml", "spark-pipeline.yaml")
# what Spark's own specs have
SPEC = ("name", "storage", "libraries", "configuration", "catalog", "database", "schema")
ONLY = {"catalog": "spark_catalog", "database": "default", "schema": "default"}
PROJECTS = Path(__file__).parent / "projects"
LIBRARY = "library"  # of a project here: installed with raftka, and not copied
STATE, TABLES = ".raftka", "tables"
LEFT_S = 30.0  # a Java whose Python was killed ends within a second or two
POLL_S = 0.1


class Busy(PipelineError):
    """Another process runs the pipeline."""


@dataclass(frozen=True, slots=True)
class Project:
    folder: Path
    name: str
    storage: str
    configuration: Mapping[str, str]
    libraries: tuple[str, ...]

    @property
    def state(self) -> Path:
        return self.folder / STATE

    @property
    def lock_file(self) -> Path:
        """Beside the checkpoints where they are files: two projects may have one storage."""
        match = re.fullmatch(r"(?:file:)?/*(/.*)", self.storage)
        return Path(match[1]) / "raftka.lock" if match else self.state / "lock"

    def definitions(self) -> Iterator[Path]:
        """As spark-pipelines finds them, in an order that does not change. Raises OptionRefused."""
        for pattern in self.libraries:
            try:
                found = sorted(path for path in self.folder.glob(pattern) if path.is_file())
            except (NotImplementedError, OSError, ValueError) as error:
                raise OptionRefused(
                    f"libraries of {self.folder}: the pattern {pattern!r:.200} cannot be used: "
                    f"{error}"
                ) from None
            yield from (path for path in found if "__pycache__" not in path.parts)


def init(kind: str, folder: Path, bootstrap: str, config: Path | None = None) -> None:
    """`config`: a file with the cluster's client properties, which the project names. Raises
    PipelineError.
    """
    source = PROJECTS / kind
    if not source.is_dir():
        raise OptionRefused(
            f"there is no project {kind} to begin with: "
            f"{', '.join(sorted(path.name for path in PROJECTS.iterdir()))}"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise PipelineError(f"{folder} is there already, and not empty: nothing was written")
    shutil.copytree(
        source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", LIBRARY)
    )
    streams = {"{bootstrap}": bootstrap}
    if config is not None:
        streams["# security: client.properties"] = f"security: {json.dumps(str(config))}"
    for name, values in {
        SPECS[0]: {"{storage}": (folder / "storage").resolve().as_uri()},
        "streams.yml": streams,
    }.items():
        path = folder / name
        text = path.read_text()
        for placeholder, value in values.items():
            text = text.replace(placeholder, value)
        path.write_text(text)


def load_project(folder: Path) -> Project:
    """Raises PipelineError."""
    found = [folder / name for name in SPECS if (folder / name).is_file()]
    if len(found) != 1:
        raise PipelineError(
            f"{folder} has {'two specs' if found else 'no spark-pipeline.yml'}. `raftka pipeline "
            "init trucks DIR` writes a project"
        )
    told = read_yaml(found[0])
    if not isinstance(told, Mapping) or not {"name", "storage"} <= told.keys():
        raise OptionRefused(f"{found[0]} is to have a name and a storage")
    _check_spec(found[0], told)
    try:
        patterns = [_include(each) for each in told.get("libraries") or []]
    except (KeyError, TypeError):
        raise OptionRefused(
            f"{found[0]}: libraries are to be a list of {{glob: {{include: transformations/**}}}}"
        ) from None
    configuration = {
        str(name): str(value) for name, value in (told.get("configuration") or {}).items()
    }
    return Project(
        folder.resolve(),
        str(told["name"]),
        str(told["storage"]).rstrip("/"),
        configuration,
        tuple(f"{each}/*" if each.endswith("/**") else each for each in patterns),
    )


def _check_spec(path: Path, told: Mapping[str, object]) -> None:
    if unknown := [str(name) for name in told if name not in SPEC]:
        near = difflib.get_close_matches(unknown[0], SPEC, 1)
        raise OptionRefused(
            f"{path} has {unknown[0]}, which means nothing"
            + (f": is it {near[0]}?" if near else f"; there are {', '.join(SPEC)}")
        )
    for name, only in ONLY.items():
        if told.get(name) not in (None, only):
            raise OptionRefused(
                f"{path} has the {name} {told[name]}: `raftka pipeline run` has {only} alone, "
                "other ones are for `spark-pipelines run`"
            )
    if not isinstance(told.get("configuration") or {}, Mapping):
        raise OptionRefused(f"{path}: configuration is to be a mapping of Spark's settings")
    for name in ("name", "storage"):
        if not isinstance(told[name], str) or not str(told[name]).strip():
            raise OptionRefused(f"{path}: {name} is {told[name]!r}: it is to be a text")


def _include(told: Mapping[str, Mapping[str, str]]) -> str:
    """Return the pattern of a mapping {glob: {include: PATTERN}}. Raise KeyError or TypeError for
    others.
    """
    if list(told) != ["glob"] or list(told["glob"]) != ["include"]:
        raise KeyError(told)
    return str(told["glob"]["include"])


def remove_data(project: Project, name: str) -> None:
    """Of a CREATE TABLE: its lake in the project."""
    shutil.rmtree(project.folder / TABLES / name, ignore_errors=True)


def remove_checkpoints(project: Project, name: str) -> None:
    """Of a sink, when no process runs the project. Raises PipelineError when the checkpoints are
    not in files.
    """
    match = re.fullmatch(r"(?:file:)?/*(/.*)", project.storage)
    if match is None:
        raise PipelineError(
            f"the checkpoints are in {project.storage}, which only the running pipeline reaches: "
            f"run it, and remove {name} then"
        )
    shutil.rmtree(Path(match[1]) / "_checkpoints" / name, ignore_errors=True)


# who runs it


@contextmanager
def held(project: Project) -> Iterator[int]:
    """The lock's descriptor, for children that should hold it too. Raises Busy, and PipelineError
    for folders that cannot be written to.
    """
    try:
        project.state.mkdir(exist_ok=True)
        project.lock_file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(project.lock_file, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise PipelineError(
            f"the project {project.folder} with the storage {project.storage} cannot be written "
            f"to: {error}"
        ) from None
    try:
        _take(project, descriptor)
        os.ftruncate(descriptor, 0)
        os.pwrite(
            descriptor, json.dumps({"pid": os.getpid(), "folder": str(project.folder)}).encode(), 0
        )
        yield descriptor
    finally:
        os.close(descriptor)  # also of children: whoever of them lives has it still


def _take(project: Project, descriptor: int) -> None:
    deadline = time.monotonic() + LEFT_S
    while not locked(descriptor):
        holder = _told(os.pread(descriptor, 4096, 0))
        pid = holder.get("pid", 0)
        if is_alive(pid):
            raise Busy(
                f"process {pid} runs {holder.get('folder')} on {project.storage} already: two "
                "would write the same checkpoints. "
                f"Next step: `raftka pipeline stop {holder.get('folder')}`, or another storage in "
                f"{SPECS[0]}"
            )
        if time.monotonic() > deadline:
            raise Busy(
                f"process {pid}, which ran this, is dead, but its Java is not: it still holds "
                f"{project.lock_file}. Next step: end that Java"
            )
        time.sleep(POLL_S)


def holder_of(project: Project) -> int | None:
    """The process that runs it, if one does."""
    try:
        descriptor = os.open(project.lock_file, os.O_RDWR)
    except OSError:
        return None
    try:
        if locked(descriptor):
            return None
        return int(_told(os.pread(descriptor, 4096, 0)).get("pid", 0)) or None
    finally:
        os.close(descriptor)


def is_alive(pid: int) -> bool:
    if sys.platform == "darwin":
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


# what it tells of itself


def write_status(project: Project, status: Mapping[str, object]) -> None:
    """Whole at once."""
    fresh = project.state / f"status.{os.getpid()}"
    fresh.write_text(json.dumps(status))
    fresh.replace(project.state / "status.json")


def read_status(project: Project) -> JsonObject:
    try:
        return _told((project.state / "status.json").read_bytes())
    except OSError:
        return {}


def _told(text: bytes) -> JsonObject:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
