"""The lines of pysyncobj's core that a life of the quorum reaches."""

import sys
from typing import Any

import pysyncobj.syncobj

from raftka.chaos.small.raft_life import run_seed


def lines_of_syncobj(seed: int) -> tuple[int, int]:
    """Return how many lines of pysyncobj's syncobj.py one seed executes (without those that
    define), and how many the file has.
    """
    path, seen = pysyncobj.syncobj.__file__, set()

    def local(frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            seen.add(frame.f_lineno)
        return local

    before = sys.gettrace()
    sys.settrace(lambda frame, event, argument: local if frame.f_code.co_filename == path else None)
    try:
        run_seed(seed)
    finally:
        sys.settrace(before)
    with open(path) as source:
        return len(seen), sum(1 for _ in source)
