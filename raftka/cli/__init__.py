"""The command line, noun and verb: `raftka topics create`. Knows no more of a broker than its
clients do, but for starting one.

Imports are lazy: `raftka --help` answers in 0.3 s, and a broker's process carries neither click nor
a client library.
"""

import gc
import sys


def main() -> None:
    arguments = sys.argv[1:]
    if (
        arguments[:2] == ["broker", "start"]
        and len(arguments) == 3
        and not arguments[2].startswith("-")
    ):
        # modules stay in memory: looking for garbage among them takes an eighth of the start
        gc.disable()
        from raftka.cli.broker import start

        sys.exit(start(arguments[2]))
    from raftka.cli.commands import root

    root(prog_name="raftka")
