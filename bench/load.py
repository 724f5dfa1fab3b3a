"""The load generator: compiled when its source has changed, run, its JSON read. Knows no broker."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parent
CACHE = Path.home() / ".cache" / "raftka-bench"
FLAGS = ("-O2", "-msse4.2", "-pthread")


class BenchFailed(Exception):
    """The text is for the user."""


def compiled(name: str) -> Path:
    """The program from `name`.c; raises BenchFailed without a C compiler."""
    files = [SOURCES / f"{name}.c", *sorted(SOURCES.glob("*.h"))]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    program = CACHE / f"{name}-{digest}"
    if not program.exists():
        if shutil.which("cc") is None:
            raise BenchFailed(
                "the load generator is C: needs cc (on Debian: apt install gcc libc6-dev)"
            )
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", *FLAGS, "-o", program, SOURCES / f"{name}.c"], check=True)
    return program


def load(
    arguments: str, targets: Sequence[str], pids: Sequence[int], topic: str, seconds: float
) -> dict[str, Any]:
    """One run of `lg ARGUMENTS` against targets of the form host:port/partition. Raises BenchFailed
    when an answer was an error.
    """
    command = [
        str(compiled("lg")),
        *arguments.split(),
        "-T",
        ",".join(targets),
        "-n",
        topic,
        "-t",
        str(seconds),
        "-p",
        ",".join(map(str, pids)),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=seconds + 60
    )
    if done.returncode:
        raise BenchFailed(f"{' '.join(command)}: {done.stderr.strip()}")
    result: dict[str, Any] = json.loads(done.stdout)
    if result["errors"] or result["short"]:
        raise BenchFailed(f"{' '.join(command)}: {result}")
    return result
