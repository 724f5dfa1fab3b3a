"""Commands of the release: their output, and an error that shows it."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

SHOWN_CHARACTERS = 3000  # of a failed command's output


class ReleaseFailed(Exception):
    """The release ends here. The text says what to do."""


def run(
    *command: object, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> str:
    """Return the standard output, stripped. Raises ReleaseFailed with the end of both outputs."""
    words = [str(part) for part in command]
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        output = f"{done.stdout}{done.stderr}".strip()[-SHOWN_CHARACTERS:]
        raise ReleaseFailed(f"`{' '.join(words)}` failed ({done.returncode}):\n{output}")
    return done.stdout.strip()


def git(folder: Path, *arguments: object) -> str:
    """Return the output of git in a checkout. Raises ReleaseFailed."""
    return run("git", *arguments, folder=folder)
