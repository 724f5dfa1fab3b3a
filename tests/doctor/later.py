"""`python -m tests.doctor.later broker start FILE`: a node of a later release, which supports one
more level of raftka.version.
"""

import sys

from raftka.cli.commands import root
from raftka.versions import LEVELS, RAFTKA_VERSION, SUPPORTED

if __name__ == "__main__":
    SUPPORTED[RAFTKA_VERSION] = (1, LEVELS[-1].number + 1)
    root(sys.argv[1:])
