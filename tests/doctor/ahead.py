"""`python -m tests.doctor.ahead broker start FILE`: a node whose clock is a minute ahead of all
others.
"""

import sys
import time

from raftka.cli.commands import root

AHEAD_NS = 60_000_000_000


def run() -> None:
    now_ns = time.time_ns
    time.time_ns = lambda: now_ns() + AHEAD_NS
    root(sys.argv[1:])


if __name__ == "__main__":
    run()
