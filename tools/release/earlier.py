"""The wheel of the release before this one, made from the history: `./run earlier` prints its path.

That release is the newest tag before HEAD. Until one is tagged it is the last commit whose newest
level of `raftka.version` is below the present one. Levels are read from the sources of both.
"""

import os
import re
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from subprocess import check_output

from raftka.chaos.simulated.releases import cache_folder
from tools.release.commands import ReleaseFailed, git, run
from tools.release.conditions import TAG

ROOT = Path(__file__).parents[2]
VERSIONS = "raftka/versions.py"
LEVEL = re.compile(r"\bLevel\(\s*(\d+),")
STAMP = "raftka/commit.txt"  # as hatch_build.py writes it, which finds no git in an archive
SHORT = 12  # digits of a commit


def newest_level(text: str) -> int:
    """Return the highest level in that text of raftka/versions.py; 0: it has none."""
    return max(map(int, LEVEL.findall(text)), default=0)


def earlier_commit(root: Path = ROOT) -> str:
    """Raises ReleaseFailed where the history does not reach back to an earlier release."""
    if git(root, "rev-parse", "--is-shallow-repository") == "true":
        raise ReleaseFailed("this clone has no history: `git fetch --unshallow` brings it")
    tags = git(root, "tag", "--list", f"{TAG}*", "--merged", "HEAD~", "--sort=-v:refname").split()
    if tags:
        return git(root, "rev-parse", f"{tags[0]}^{{commit}}")
    present = newest_level((root / VERSIONS).read_text())
    for commit, text in _before_changes(root):
        if 0 < newest_level(text) < present:
            return commit
    raise ReleaseFailed(f"no commit before this one has a level below {present}")


def _before_changes(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the parents of the commits that changed the file, the newest first, and their text."""
    for parents in git(root, "log", "--format=%P", "--", VERSIONS).splitlines():
        parent = parents.partition(" ")[0]
        if not parent or not git(root, "ls-tree", parent, VERSIONS):
            return  # that commit has made it
        yield parent, git(root, "show", f"{parent}:{VERSIONS}")


def earlier_wheel(root: Path = ROOT) -> Path:
    """Return the wheel of that commit, which is built once and kept in the cache. Needs hatchling.
    Raises ReleaseFailed.
    """
    commit = earlier_commit(root)
    folder = cache_folder() / commit[:SHORT]
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            made = _build(root, commit, Path(scratch))
            try:
                made.rename(folder)
            except OSError:  # another process was first
                pass
    (wheel,) = folder.glob("*.whl")
    return wheel


def _build(root: Path, commit: str, scratch: Path) -> Path:
    """Return a folder with the wheel."""
    source, target = scratch / "source", scratch / "wheel"
    with tarfile.open(fileobj=BytesIO(check_output(["git", "archive", commit], cwd=root))) as files:
        files.extractall(source, filter="data")
    (source / STAMP).write_text(f"{commit}\n")
    seconds = git(root, "log", "-1", "--format=%ct", commit)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": seconds}
    words = ("-m", "hatchling", "build", "--target", "wheel", "--directory", target)
    run(sys.executable, *words, folder=source, environment=environment)
    return target


def main() -> int:
    try:
        print(earlier_wheel())
    except ReleaseFailed as error:
        print(f"earlier: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
