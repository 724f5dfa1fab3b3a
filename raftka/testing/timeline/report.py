"""The part of the pytest plugin that shows the brokers' time line below a failed test. Imports
nothing before a cluster was used.
"""

import sys
import time
from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from raftka.testing.timeline.recorder import Registry

TITLE = "raftka time line"
RECORDER = "raftka.testing.timeline.recorder"
BEGAN: "pytest.StashKey[float]" = pytest.StashKey()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[BEGAN] = time.monotonic()
    clusters = _clusters()
    if clusters is not None:
        clusters.begin_test()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    clusters = _clusters()
    if report.failed and clusters is not None and BEGAN in item.stash:
        for name, text in clusters.texts(item.stash[BEGAN]):
            report.sections.append((f"{TITLE} ({name})", text))
    return report


def _clusters() -> "Registry | None":
    """Return the clusters of this process; None: the run has not used one."""
    module = sys.modules.get(RECORDER)
    return module.CLUSTERS if module is not None else None
