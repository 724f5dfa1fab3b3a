"""Count the Python calls of one request."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import raftka

HOME = raftka.__file__.rpartition("/")[0] + "/"
NOT_COUNTED = HOME + "runtime/simulated/"
REQUESTS = 50
TOLERANCE = 0.05


class Counter:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event in ("call", "c_call"):
            file = frame.f_code.co_filename
            if file.startswith(HOME) and not file.startswith(NOT_COUNTED):
                self.calls += 1


def counted(work: Callable[[], object]) -> float:
    """Return the number of calls of one request; `work` makes one request."""
    for _ in range(5):  # the first ones make versions, sessions and plans
        work()
    counter = Counter()
    before = sys.getprofile()
    sys.setprofile(counter)
    try:
        for _ in range(REQUESTS):
            work()
    finally:
        sys.setprofile(before)
    return counter.calls / REQUESTS
