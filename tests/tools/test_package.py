"""The package that hatchling makes: it names its commit, and two builds have the same bytes."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.tools.repositories import git

ROOT = Path(__file__).parents[2]
TREES = ("raftka", "compat")
NEEDED = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "NOTICE", ".gitignore")
SECONDS = "1700000000"  # of the commit


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit that has what the package is made of."""
    root = tmp_path_factory.mktemp("package") / "checkout"
    for name in TREES:
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in NEEDED:
        shutil.copy(ROOT / name, root)
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "first")
    return root


def build(source: Path, target: str, folder: Path) -> Path:
    """Return the only file that hatchling has built."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)],
        cwd=source,
        env={**os.environ, "SOURCE_DATE_EPOCH": SECONDS},
        capture_output=True,
        check=True,
    )
    (made,) = folder.iterdir()
    return made


def unpack(sdist: Path, folder: Path) -> Path:
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (root,) = folder.iterdir()
    return root


def commit_in(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read("raftka/commit.txt").decode().strip()


def test_wheel_and_sdist_name_the_commit(checkout: Path, tmp_path: Path) -> None:
    commit = git(checkout, "rev-parse", "HEAD")

    source = unpack(build(checkout, "sdist", tmp_path / "sdist"), tmp_path / "unpacked")

    assert (source / "raftka" / "commit.txt").read_text().strip() == commit
    assert commit_in(build(source, "wheel", tmp_path / "of-sdist")) == commit
    assert commit_in(build(checkout, "wheel", tmp_path / "of-checkout")) == commit
    assert not (checkout / "raftka" / "commit.txt").exists()


def test_changed_files_are_marked_in_the_package(checkout: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(checkout, changed)
    (changed / "raftka" / "new.py").write_text('"""New."""\n')

    commit = commit_in(build(changed, "wheel", tmp_path / "wheel"))

    assert commit == git(changed, "rev-parse", "HEAD") + "+"


def test_a_clone_with_other_permissions_gives_the_same_bytes(
    checkout: Path, tmp_path: Path
) -> None:
    before = os.umask(0o077)
    try:
        git(tmp_path, "clone", "--quiet", str(checkout), "clone")
        again = {
            each: build(tmp_path / "clone", each, tmp_path / f"again-{each}") for each in KINDS
        }
    finally:
        os.umask(before)

    for kind, path in again.items():
        made = build(checkout, kind, tmp_path / kind)
        assert (made.name, made.read_bytes()) == (path.name, path.read_bytes())


KINDS = ("sdist", "wheel")


def test_the_wheel_has_the_packages_and_no_tests(checkout: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(build(checkout, "wheel", tmp_path / "wheel")) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}

    assert {"raftka", "zookeeper_bridge", "pyspark_raftka"} <= tops
    assert not tops & {"tests", "bench", "tools", "examples", "compat"}
