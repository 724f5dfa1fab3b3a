"""The real runtime that a node gets: by itself, by RAFTKA_RUNTIME, and where Linux has less."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from raftka.runtime.real import choice
from raftka.runtime.real.choice import LINUX, PORTABLE, VARIABLE, chosen
from raftka.runtime.real.runtime import open_runtime

ROOT = Path(__file__).parents[2]


@pytest.fixture
def epoll_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "missing_for_linux", lambda: ["select.epoll"])


async def test_each_runtime_is_opened_by_its_name(kind: str) -> None:
    async with open_runtime() as runtime:
        assert runtime.kind == kind


def test_without_a_name_the_portable_runtime_is_taken_where_linux_is_not_there(
    epoll_is_missing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert chosen() == PORTABLE


def test_linux_by_name_is_refused_where_it_cannot_run(
    epoll_is_missing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, LINUX)
    with pytest.raises(ValueError, match=r"there is no select\.epoll"):
        chosen()


def test_a_kernel_that_refuses_a_call_is_as_one_that_has_it_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "eventfd", refused)
    missing = choice.missing_for_linux.__wrapped__()
    assert missing == ["os.eventfd (Operation not permitted)"]


@pytest.mark.parametrize("name", ["io_uring", "Linux", " "])
def test_another_name_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, name)
    with pytest.raises(ValueError, match=f"RAFTKA_RUNTIME={name} is not known: it is linux or"):
        chosen()


def test_a_broker_refuses_another_name_in_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "raftka.cli", "broker", "start", "--dev"],
        env={**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: "windows"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stdout
    assert "RAFTKA_RUNTIME=windows is not known: it is linux or portable" in done.stdout
