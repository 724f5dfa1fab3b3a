"""Options of the whole test run."""

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftka.runtime.memory import VARIABLE
from raftka.testing import Cluster
from tests.nearest import COSTS, FAR, ROOT, nearest

os.environ.setdefault(VARIABLE, "1")  # of all nodes that tests start: see raftka/runtime/memory.py

NEAREST = pytest.StashKey[dict[str, int]]()
# Folders whose tests drive other people's programs, which miss their own deadlines on a machine
# under load: a browser, JVMs, Node, Go. A test there that fails runs once more, and the run reports
# it with its traceback: it is a fault to find. pyproject.toml says how many a run forgives.
OTHER_PROGRAMS = (ROOT / "tests" / "clients", ROOT / "tests" / "console" / "browser")
# seconds by test file, where xdist's workers report to
_spent: defaultdict[str, float] = defaultdict(float)


@pytest.fixture(scope="module")
def raftka_cluster() -> Iterator[Cluster]:
    """Of each module, and not of the whole run: simulations in the same process plant bugs in
    classes, and seed what Trio draws from.
    """
    with Cluster() as cluster:
        yield cluster


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what came out into the scenario scripts; look at the diff before you commit it",
    )
    parser.addoption(
        "--all-clients",
        action="store_true",
        help="fetch the real clients that are not here yet: kcat, Kafka's own tools, franz-go, ...",
    )
    parser.addoption(
        "--fast",
        action="store_true",
        help="the tests nearest to what changed, by imports: under 90 s on two cores",
    )
    parser.addoption(
        "--write-costs",
        action="store_true",
        help="write down what each test file costs, for --fast",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--fast"):
        config.stash[NEAREST] = nearest()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if NEAREST in config.stash and collection_path.suffix == ".py":
        return str(collection_path.relative_to(ROOT)) not in config.stash[NEAREST]
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in OTHER_PROGRAMS):
            item.add_marker(pytest.mark.flaky(reruns=1))
    if NEAREST in config.stash:
        near = config.stash[NEAREST]
        items.sort(key=lambda item: near.get(str(item.path.relative_to(ROOT)), FAR))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _spent[report.nodeid.partition("::")[0]] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--write-costs") and not hasattr(session.config, "workerinput"):
        COSTS.write_text(
            json.dumps(
                {path: round(seconds, 1) for path, seconds in sorted(_spent.items())}, indent=0
            )
            + "\n"
        )


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if NEAREST in config.stash:
        count = len(config.stash[NEAREST])
        near = sum(distance < FAR for distance in config.stash[NEAREST].values())
        terminalreporter.write_line(
            f"--fast: {count} test files, {near} of them import what changed; ./run test runs all"
        )


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--rewrite"))
