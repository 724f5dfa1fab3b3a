"""Imported by the nodes that `./run bench calls` starts, because this folder is in their
PYTHONPATH. Knows nothing of raftka.

Counts calls of the interpreter, Python's functions and C's, by the file of the caller; on SIGUSR2
writes the counts to a file in RAFTKA_COUNT_TO, and begins anew.
"""

import json
import os
import signal
import sys
from types import FrameType

_counts: dict[str, int] = {}


def _count(frame: FrameType, event: str, _: object) -> None:
    if event in ("call", "c_call"):
        file = frame.f_code.co_filename
        _counts[file] = _counts.get(file, 0) + 1


def _write_down(number: int, frame: FrameType | None) -> None:
    sys.setprofile(None)
    path = f"{os.environ['RAFTKA_COUNT_TO']}/{os.getpid()}"
    with open(path + ".tmp", "w") as file:
        json.dump(_counts, file)
    os.rename(path + ".tmp", path)
    _counts.clear()
    sys.setprofile(_count)


if "RAFTKA_COUNT_TO" in os.environ:
    signal.signal(signal.SIGUSR2, _write_down)
    sys.setprofile(_count)
