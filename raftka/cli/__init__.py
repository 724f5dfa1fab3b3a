"""The command line, noun and verb: `raftka topics create`. Knows no more of a broker than its
clients do, but for starting one.

Imports are lazy: `raftka --help` answers in 0.3 s, and a broker's process carries neither click nor
a client library.
"""

import gc
import sys

from raftka.runtime.supported import check_system


def main() -> None:
    try:
        check_system()
    except ImportError as error:
        sys.exit(f"raftka: {error}")
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
    if arguments[:3] == ["broker", "start", "--from-env"] and (
        len(arguments) == 3 or (len(arguments) == 4 and not arguments[3].startswith("-"))
    ):
        gc.disable()
        from raftka.cli.broker import start_from_environment

        sys.exit(start_from_environment(next(iter(arguments[3:]), None)))
    from raftka.cli.commands import root

    root(prog_name="raftka")
