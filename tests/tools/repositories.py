"""Git repositories of tests, in a folder of their own."""

import subprocess
from pathlib import Path


def git(folder: Path, *arguments: str) -> str:
    settings = ("user.name=Test", "user.email=test@localhost", "commit.gpgsign=false")
    options = [word for each in settings for word in ("-c", each)]
    return subprocess.run(
        ["git", *options, *arguments], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


def make_repository(folder: Path, files: dict[str, str]) -> Path:
    """Make a repository with one commit that has these files."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    # for commits that the code under test makes
    git(folder, "config", "user.name", "Test")
    git(folder, "config", "user.email", "test@localhost")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "first")
    return folder
