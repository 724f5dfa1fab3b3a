"""Find the SQL server of a cluster, or start it. Imports nothing of the server itself.

The lock decides: a program that gets it starts a process, which keeps it. Any number of programs
may try at once.
"""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from raftka.json_values import JsonObject
from raftka.sql.server.folder import Address, ServerFolder

PROCESS = "raftka.sql.server.process"
IDLE_S = 600.0  # without a request, then a server ends
PATIENCE_S = 30.0  # until the door is open; Spark starts behind it
STEP_S = 0.05  # between two looks whether the door of another starter is open
TAIL_CHARACTERS = 2000  # of a log that says why there is no server


_started: list[subprocess.Popen[bytes]] = []  # they outlive this program: nothing waits for them


class NoServer(Exception):
    """The text is for the user."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A server as a program wants it. Settings of one that runs already stay as they are."""

    bootstrap: str = "localhost:9092"
    properties: Mapping[str, str] = field(default_factory=dict)  # of the client, for the brokers
    idle_s: float | None = IDLE_S  # None: it never ends by itself
    master: str | None = None  # of Spark
    settings: Mapping[str, str] = field(default_factory=dict)  # Spark's
    has_functions: bool = True  # whether statements may make functions in Python
    module: str = PROCESS

    @property
    def folder(self) -> ServerFolder:
        return ServerFolder.of(self.bootstrap, self.properties)

    @property
    def order(self) -> JsonObject:
        """Return the order that the process reads."""
        return {
            "bootstrap": self.bootstrap,
            "properties": dict(self.properties),
            "folder": str(self.folder.path),
            "idle_s": self.idle_s,
            "master": self.master,
            "settings": dict(self.settings),
            "module": self.module,
            "has_functions": self.has_functions,
        }


class Found(NamedTuple):
    address: Address
    is_new: bool  # this program has started it


def find_or_start(wanted: Wanted, answers: Callable[[Address], bool]) -> Found:
    """Return the server's address. `answers`: asks a server whether it is there. Raises NoServer.
    Blocks.
    """
    folder = wanted.folder
    try:
        folder.make()
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            lock = folder.try_lock()
            if lock is not None:
                try:
                    return Found(_start(wanted, folder, lock), is_new=True)
                finally:
                    os.close(lock)
            address = folder.address()
            if address is not None and answers(address):
                return Found(address, is_new=False)
            time.sleep(STEP_S)
    except OSError as error:
        raise NoServer(f"{folder.path}: {error}") from None
    raise NoServer(
        f"an SQL server runs and does not answer: {folder.log} says why. Next step: end it with "
        "`raftka sql stop`"
    )


def _start(wanted: Wanted, folder: ServerFolder, lock: int) -> Address:
    """Start a process that holds the lock. Raises NoServer, OSError."""
    folder.remove_address()  # of one that was killed
    with folder.log.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", wanted.module, str(lock)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            pass_fds=(lock,),
            start_new_session=True,  # Ctrl-C goes to the prompt
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout as opened, process.stdin as into:
        with suppress(BrokenPipeError):  # it has ended: its log says why
            into.write(json.dumps(wanted.order).encode() + b"\n")
            into.flush()
        is_ready, _, _ = select.select([opened], [], [], PATIENCE_S)
        line = opened.readline() if is_ready else b""
    address = folder.address()
    if not line or address is None:
        process.kill()
        process.wait()
        tail = folder.log.read_text(errors="replace").strip()[-TAIL_CHARACTERS:]
        raise NoServer(f"the SQL server did not start: {tail.splitlines()[-1] if tail else '-'}")
    _started.append(process)
    return address
