"""The commit of the release before this one."""

from pathlib import Path

import pytest

from tools.release.commands import ReleaseFailed, git
from tools.release.earlier import VERSIONS, earlier_commit, newest_level


def commit(root: Path, text: str) -> str:
    path = root / VERSIONS
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    git(root, "add", "--all")
    git(root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "Change")
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    return tmp_path


def test_levels_are_read_from_the_source() -> None:
    assert newest_level('LEVELS = (Level(1, "0.1.0"),\n    Level(\n        12,\n "x"))') == 12
    assert newest_level("LEVEL = 3") == 0


def test_the_last_commit_below_the_present_level_counts(root: Path) -> None:
    commit(root, "Level(1, a)")
    last = commit(root, "Level(1, b)")
    commit(root, "Level(1, b)\nLevel(2, a)")
    commit(root, "Level(1, b)\nLevel(2, b)")

    assert earlier_commit(root) == last


def test_a_tagged_release_counts_before_levels(root: Path) -> None:
    commit(root, "Level(1, a)")
    tagged = commit(root, "Level(1, a)\nLevel(2, a)")
    git(root, "tag", "v0.1.0")
    commit(root, "Level(1, b)\nLevel(2, b)")

    assert earlier_commit(root) == tagged


def test_a_history_without_an_earlier_release_is_refused(root: Path, tmp_path: Path) -> None:
    commit(root, "Level(1, a)")
    commit(root, "Level(1, b)")
    with pytest.raises(ReleaseFailed, match="below 1"):
        earlier_commit(root)

    git(root, "clone", "--quiet", "--depth", "1", f"file://{root}", tmp_path / "shallow")
    with pytest.raises(ReleaseFailed, match="unshallow"):
        earlier_commit(tmp_path / "shallow")
