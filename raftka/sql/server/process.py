"""The SQL server's process: reads its order, opens the door, and ends by SIGTERM or when it was
idle for so long as the order says.

    who starts it                                     this process
      order (JSON) ── its standard input ───────────> cluster, folder, settings
      the lock ── a descriptor, by its number ──────> held until the process is gone
      a line <── its standard output ─────────────── the door is open

When Java has ended by itself, the process becomes a new one with the same order, lock and door.
"""

import json
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from raftka.json_values import JsonObject
from raftka.sql.server.engine import SqlSession
from raftka.sql.server.folder import Address, ServerFolder
from raftka.sql.server.server import Door, SqlServer

TOKEN_BYTES = 32
STEP_S = 1.0  # between two looks whether it is idle or has lost Java, at most
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
        has_functions=order["has_functions"],
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
    lock = int(sys.argv[1])
    os.set_inheritable(lock, False)  # Java must not hold it

    def announce(_address: Address) -> None:
        sys.stdout.write(f"{OPEN}\n")
        sys.stdout.flush()
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # who has started it may be gone

    if (opened := order.get("door")) is not None:  # before it lost Java
        door, announce = _door_again(opened), lambda _address: None
    else:
        door = Door(secrets.token_urlsafe(TOKEN_BYTES))
    serve(order, door, announce, lock, open_session)
    sys.stderr.flush()
    os._exit(0)  # without waiting for threads of statements: nothing is kept here


def serve(
    order: JsonObject,
    door: Door,
    announce: Callable[[Address], None],
    lock: int,
    open_session: OpenSession = open_session,
) -> None:
    """Serve until SIGTERM, Ctrl-C, or until it was idle for `idle_s` of the order (None: never).
    `announce`: called when the door is open. `lock`: the descriptor that holds the lock of the
    order's folder. Raises OSError for a port that is taken.
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
        if server.engine.has_lost_java:
            _begin_again(order, replace(door, port=server.port), lock)
    folder.remove_address()
    ending = threading.Thread(target=server.stop, daemon=True)
    ending.start()
    ending.join(END_S)


def _begin_again(order: JsonObject, door: Door, lock: int) -> NoReturn:
    """Become a new process: Spark does not start twice in one. Connections of clients end."""
    opened = {"token": door.token, "host": door.host, "port": door.port}
    opened |= {"certificate": door.certificate, "key": door.key, "login": door.login}
    sys.stderr.write("Java has ended: the SQL server starts again\n")
    sys.stderr.flush()
    told, into = os.pipe()
    os.write(into, json.dumps({**order, "door": opened}).encode() + b"\n")
    os.dup2(told, sys.stdin.fileno())
    os.set_inheritable(lock, True)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    os.execv(sys.executable, [sys.executable, "-P", "-m", order["module"], str(lock)])


def _door_again(opened: JsonObject) -> Door:
    from raftka.console.settings import read_tls

    certificate, key = opened["certificate"], opened["key"]
    tls = read_tls(Path(certificate), Path(key) if key else None) if certificate else None
    return Door(**{**opened, "tls": tls})


if __name__ == "__main__":
    main()
