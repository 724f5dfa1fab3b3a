"""`raftka --version` and `python -m raftka`: the version, and the commit behind it."""

import subprocess
import sys
from pathlib import Path

import pytest

from raftka import __version__
from raftka.cli.version import commit_of_checkout, describe, find_commit
from tests.kit.checkout import FROM_CHECKOUT
from tests.tools.repositories import git, make_repository

FILES = {"raftka/__init__.py": "", "compat/x.py": "", "docs/page.md": ""}


def test_a_checkout_asks_git(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "checkout", FILES)

    assert find_commit(root / "raftka") == git(root, "rev-parse", "HEAD")


@pytest.mark.parametrize(
    ("name", "mark"), [("raftka/__init__.py", "+"), ("compat/new.py", "+"), ("docs/page.md", "")]
)
def test_changed_files_of_the_package_are_shown(tmp_path: Path, name: str, mark: str) -> None:
    root = make_repository(tmp_path / "checkout", FILES)
    (root / name).write_text("changed")

    assert commit_of_checkout(root) == git(root, "rev-parse", "HEAD") + mark


def test_a_stamp_counts_before_git(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "checkout", FILES)
    (root / "raftka" / "commit.txt").write_text("0123abcd\n")

    assert find_commit(root / "raftka") == "0123abcd"


def test_the_repository_around_an_installation_is_not_asked(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "project", FILES)
    package = root / "venv" / "site-packages" / "raftka"
    package.mkdir(parents=True)

    assert find_commit(package) == ""


def test_without_git_there_is_the_version_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert describe() == __version__


@pytest.mark.parametrize("module", ["raftka", "raftka.cli"])
def test_the_module_is_the_command(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, "--version"],
        capture_output=True,
        text=True,
        env=FROM_CHECKOUT,
        check=True,
    )

    assert done.stdout == f"raftka, version {describe()}\n"
    assert done.stderr == ""


def test_the_demo_is_a_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "raftka", "demo", "--help"],
        capture_output=True,
        text=True,
        env=FROM_CHECKOUT,
        check=True,
    )

    assert "--stay" in done.stdout
    assert "[FILE]" in done.stdout
