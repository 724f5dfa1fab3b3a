"""Processes that run on this machine."""

from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    pid: int
    parent: int
    session: int


def processes() -> list[Process]:
    """Return the processes of this machine that have not ended."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent, _, session = each.read_text().rpartition(")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != "Z":
            found.append(Process(int(each.parent.name), int(parent), int(session)))
    return found
