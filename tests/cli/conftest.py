"""Three live nodes, and the command line that is run against them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from raftka.cluster.processes import Processes, running
from tests.kit.checkout import FROM_CHECKOUT


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def table(self) -> list[list[str]]:
        return [line.split() for line in self.out.splitlines()]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Processes]:
    with running(nodes=3) as cluster:
        yield cluster


@pytest.fixture
def raftka(cluster: Processes, tmp_path: Path) -> Any:
    def run(command: str, stdin: str = "") -> Done:
        environment = {**FROM_CHECKOUT, "RAFTKA_BOOTSTRAP_SERVER": cluster.bootstrap_servers}
        words = [sys.executable, "-m", "raftka.cli", *command.split()]
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            env=environment,
            input=stdin,
            cwd=tmp_path,
            check=False,
        )
        assert "Traceback" not in done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def topic(request: pytest.FixtureRequest, raftka: Any) -> Iterator[str]:
    name = str(request.node.name)[:200].replace("[", "-").replace("]", "")
    assert raftka(f"topics create {name} -p 3 -r 3").code == 0
    yield name
    assert raftka(f"topics delete {name}").code == 0
