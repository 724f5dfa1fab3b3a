"""The SQL server's process: reads its order, opens the door, and ends by SIGTERM or when it was
idle for so long as the order says.

    who starts it                                     this process
      order (JSON) ── its standard input ───────────> cluster, folder, settings
      the lock ── a descriptor, by its number ──────> held until the process is gone
      a line <── its standard output ─────────────── the door is open
"""

import json
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from raftka.json_values import JsonObject
from raftka.sql.server.engine import SqlSession
from raftka.sql.server.folder import Address, ServerFolder
from raftka.sql.server.server import Door, SqlServer

TOKEN_BYTES = 32
STEP_S = 5.0  # between two looks whether it is idle, at most
END_S = 20.0  # for statements and Spark to end
OPEN = "open"  # the line

OpenSession = Callable[[JsonObject, ServerFolder, Path | None], SqlSession]


def open_session(order: JsonObject, folder: ServerFolder, config: Path | None) -> SqlSession:
    """Open the real session. Raises PipelineError, and Spark's errors."""
    from raftka.sql.session import Session

    session = Session(
        order["bootstrap"],
        config,
        master=order["master"],
        settings=order["settings"],
        log=folder.path / "spark.log",
        state=folder.path / "queries",
    )
    try:
        session.wait_for_spark()
    except BaseException:
        session.close()
        raise
    return session


def cause_of(error: Exception) -> str:
    """Return one sentence for an error of Spark's start."""
    from raftka.cli.tree.extras import missing_extra
    from raftka.pipeline.flows.supervisor import explained

    missing = missing_extra(error) if isinstance(error, ModuleNotFoundError) else None
    return missing or explained(str(error))


def main(open_session: OpenSession = open_session) -> NoReturn:
    """Serve until SIGTERM, or until nobody asks any more."""
    order: JsonObject = json.loads(sys.stdin.readline())
    for each in sys.argv[1:]:
        os.set_inheritable(int(each), False)  # Java must not hold the lock

    def announce(_address: Address) -> None:
        sys.stdout.write(f"{OPEN}\n")
        sys.stdout.flush()
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # who has started it may be gone

    serve(order, Door(secrets.token_urlsafe(TOKEN_BYTES)), announce, open_session)
    sys.stderr.flush()
    os._exit(0)  # without waiting for threads of statements: nothing is kept here


def serve(
    order: JsonObject,
    door: Door,
    announce: Callable[[Address], None],
    open_session: OpenSession = open_session,
) -> None:
    """Serve until SIGTERM, Ctrl-C, or until it was idle for `idle_s` of the order (None: never).
    The caller holds the lock of the order's folder. `announce`: called when the door is open.
    Raises OSError for a port that is taken.
    """
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    folder = ServerFolder(Path(order["folder"]))
    properties = order["properties"]
    config = folder.write_json("client.json", properties) if properties else None
    server = SqlServer(lambda: open_session(order, folder, config), door, cause_of=cause_of)
    server.start()
    address = Address(server.url, door.token, os.getpid(), door.certificate)
    folder.write_address(address)
    announce(address)
    idle_s: float | None = order["idle_s"]
    step_s = STEP_S if idle_s is None else min(STEP_S, idle_s)
    while not over.wait(step_s) and (idle_s is None or server.idle_s < idle_s):
        pass
    folder.remove_address()
    ending = threading.Thread(target=server.stop, daemon=True)
    ending.start()
    ending.join(END_S)


if __name__ == "__main__":
    main()
