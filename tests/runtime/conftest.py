"""Tests of the runtime run with each real runtime, and that of Linux with each of its loops."""

import pytest

from raftka.runtime.real.choice import LINUX, PORTABLE, VARIABLE, missing_for_linux


def choose(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Have runtimes of this kind opened, also by processes that the test starts."""
    if kind == LINUX and (missing := missing_for_linux()):
        pytest.skip(f"the Linux runtime cannot run here: there is no {', '.join(missing)}")
    monkeypatch.setenv(VARIABLE, kind)


@pytest.fixture(
    params=[(LINUX, False), (LINUX, True), (PORTABLE, False)],
    ids=["Linux beside others", "Linux around Trio", "portable"],
)
def alone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """As `open_runtime` takes it, with each runtime."""
    kind, alone = request.param
    choose(monkeypatch, kind)
    return bool(alone)


@pytest.fixture(params=[LINUX, PORTABLE])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With each runtime."""
    choose(monkeypatch, request.param)
    return str(request.param)


@pytest.fixture
def on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that are about what only Linux has."""
    choose(monkeypatch, LINUX)
