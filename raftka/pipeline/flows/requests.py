"""Requests to the process that runs a project, and its answers: files in folders that only this
user may enter. Knows no Spark.

The client writes `.raftka/requests/ID.json`, whole at once, and waits for
`.raftka/answers/ID.json`.
"""

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from raftka.json_values import Json, JsonObject
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.flows.statements import LONGEST
from raftka.pipeline.project import Project, holder_of

LARGEST = 2 * LONGEST + 4096  # bytes of a request: JSON may write two bytes for one
LARGEST_ANSWER = 4 << 20
AT_ONCE = 8  # requests that are done in a turn
STALE_S = 600.0  # an answer that nobody has fetched is removed then
POLL_S = 0.05


def _folder(project: Project, name: str) -> Path:
    folder = project.state / name
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _write(path: Path, what: Json) -> None:
    fresh = path.with_suffix(".part")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(what, file)
    fresh.replace(path)


# the process that runs the project


def serve(project: Project, answer: Callable[[JsonObject], JsonObject]) -> None:
    """Answer the waiting requests. `answer` may raise PipelineError, which becomes the client's
    error. A request or an answer that cannot be read or written, as on a full disk, is left: its
    client gives up by itself.
    """
    with suppress(OSError):
        for path in _waiting(project):
            request = _read(path)
            path.unlink()
            try:
                found: JsonObject = {"done": answer(request)}
            except PipelineError as error:
                found = {"error": str(error)}
            _write(_folder(project, "answers") / path.name, found)


def clear(project: Project) -> None:
    """Remove requests and answers of an earlier process: its clients have given up."""
    for name in ("requests", "answers"):
        for path in _folder(project, name).iterdir():
            path.unlink(missing_ok=True)


def _waiting(project: Project) -> list[Path]:
    now = time.time()
    for path in _folder(project, "answers").glob("*.json"):
        try:
            if now - path.stat().st_mtime > STALE_S:
                path.unlink()
        except FileNotFoundError:
            """Its client has just fetched it."""
    return sorted(path for path in _folder(project, "requests").glob("*.json") if path.is_file())[
        :AT_ONCE
    ]


def _read(path: Path) -> JsonObject:
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    try:
        found = json.loads(data) if len(data) <= LARGEST else None
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}


# its clients


def ask(project: Project, request: JsonObject, timeout_s: float) -> JsonObject:
    """Send a request and wait until it is done. Raise PipelineError with the process's error, or
    when no process answers.
    """
    if len(json.dumps(request)) > LARGEST:
        raise PipelineError(f"the request has more than {LARGEST} bytes")
    name = f"{uuid.uuid4().hex}.json"
    path, answer = _folder(project, "requests") / name, _folder(project, "answers") / name
    _write(path, request)
    for _ in _until(time.monotonic() + timeout_s):
        if answer.exists():
            found = json.loads(answer.read_bytes())
            answer.unlink()
            if "error" in found:
                raise PipelineError(found["error"])
            return dict(found["done"])
        if holder_of(project) is None:
            break
    path.unlink(missing_ok=True)
    raise PipelineError(
        f"{project.name} has not answered in {timeout_s:g} s: `raftka pipeline status` shows how "
        "it is. If it had begun, it may still do it"
    )


def _until(deadline: float) -> Iterator[None]:
    while time.monotonic() < deadline:
        yield
        time.sleep(POLL_S)
