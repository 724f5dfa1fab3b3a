"""The version, and the commit that this raftka was made from.

A wheel and an sdist carry the commit in raftka/commit.txt, which hatch_build.py writes. In a
checkout git is asked, when someone wants to know. hatch_build.py runs this file where only Python
is installed.
"""

import subprocess
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
STAMP = "commit.txt"
SHIPPED = ("raftka", "compat")  # changes elsewhere make no other raftka
SHORT = 12  # digits
GIT_SECONDS = 10.0


def describe() -> str:
    """Return the version as `raftka --version` shows it."""
    from raftka import __version__

    commit = short_commit()
    return f"{__version__} (commit {commit})" if commit else __version__


def revision() -> str:
    """Return the name of this raftka in records of runs: its commit, or its version without one."""
    from raftka import __version__

    return short_commit() or __version__


def short_commit() -> str:
    """Return the commit with twelve digits, and + if the files were changed after it."""
    commit = find_commit()
    return commit.rstrip("+")[:SHORT] + "+" * commit.endswith("+")


def find_commit(package: Path = PACKAGE) -> str:
    """Return the commit in hexadecimal, with + at its end if the files were changed after it; empty
    where it is not known.
    """
    stamp = package / STAMP
    if stamp.exists():
        return stamp.read_text().strip()
    return commit_of_checkout(package.parent)


def commit_of_checkout(root: Path) -> str:
    """Return the commit of a checkout in the same form; empty if the folder is not the root of one.
    A virtual environment inside of another project's repository is none.
    """
    try:
        top = _git(root, "rev-parse", "--show-toplevel")
        if Path(top).resolve() != root.resolve():
            return ""
        commit = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--", *SHIPPED)
    except (OSError, subprocess.SubprocessError):
        return ""
    return commit + "+" * bool(changed)


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=GIT_SECONDS,
    ).stdout.strip()
