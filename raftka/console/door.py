"""The door of the console: holds its port for a node or a launcher, and starts the console's
process with the first connection. Imports nothing of the console.

    node or launcher                                     process (process.py)
      listening socket ── passed on ───────────────────> accepts
      order (JSON, a line) ── its standard input ──────> settings; its end ends the process
      last output, its end <── its output ─────────────  warnings, a failure
      control (optional) <── a socket of its own ──────> kill, pause, faults, time line

The process may end whenever it likes, for instance when it was idle for long: the next connection
starts a new one. After one that failed at its start the door rests, so it costs its owner next to
nothing.
"""

import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum

from raftka.json_values import JsonObject

PROCESS = "raftka.console.process"
BACKLOG = 100
EVERYWHERE = ("", "0.0.0.0", "::")
REST_S = 5.0  # after a process that failed, before the next is started
END_S = 10.0  # for a process that was asked to end; then it is killed
TAIL_BYTES = 4096  # of a process's output: the end, for the report of its failure
PENDING = 64  # connections that are turned away at once after a failure
TURNED_AWAY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Connection: close\r\n\r\nThe console could not start: the log of its node says why.\n"
)


class State(Enum):
    WAITING = 1  # for a connection
    RUNNING = 2  # a process accepts connections
    CLOSED = 3


NEXT = {
    State.WAITING: {State.RUNNING, State.CLOSED},
    State.RUNNING: {State.WAITING, State.CLOSED},
    State.CLOSED: set[State](),
}


class Door:
    """`step` is called when `fileno()` is readable: by a DoorThread, or by a node's loop."""

    def __init__(
        self,
        address: tuple[str, int],
        order: Callable[[], JsonObject],
        report: Callable[[str], None],
        *,
        has_tls: bool = False,
        control: Callable[[socket.socket], None] | None = None,
        module: str = PROCESS,
    ) -> None:
        """Listen; port 0 is a free one. Raises OSError.

        `order`: called when a process is started, and sent to it. `report` is told of failures.
        `control` takes this end of the channel of a new process. `module`: what the process runs.
        """
        host, port = address
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG)
        self._socket.setblocking(False)
        self.host, self.port = host, int(self._socket.getsockname()[1])
        self._scheme = "https" if has_tls else "http"
        self._order, self._report, self.control = order, report, control
        self._module = module
        self._state = State.WAITING
        self._lock = threading.Lock()  # a step and the close may come from two threads
        self._process: subprocess.Popen[bytes] | None = None
        self._output, self._tail = -1, b""
        self._started = 0.0  # when the process was started
        self.rest_s = 0.0  # seconds to let pass before the next wait

    @property
    def url(self) -> str:
        """Return the address for a browser."""
        host = {"": "localhost", "0.0.0.0": "localhost", "::": "localhost"}.get(
            self.host, self.host
        )
        return f"{self._scheme}://{f'[{host}]' if ':' in host else host}:{self.port}/"

    @property
    def pid(self) -> int | None:
        """Return the pid of the process; None: none runs."""
        return self._process.pid if self._process is not None else None

    @property
    def is_closed(self) -> bool:
        return self._state is State.CLOSED

    def fileno(self) -> int:
        """Return what becomes readable when there is something to do."""
        return self._output if self._state is State.RUNNING else self._socket.fileno()

    def step(self) -> None:
        """Start the process, or take note of its output and its end. Takes some milliseconds."""
        with self._lock:
            self.rest_s = 0.0
            if self._state is State.WAITING:
                try:
                    self._start()
                except (OSError, ValueError) as error:
                    self._report(str(error))
                    self._rest()
            elif self._state is State.RUNNING:
                self._listen_to_process()

    def close(self) -> None:
        """Close the port and ask the process to end; returns at once."""
        with self._lock:
            if self._state is State.CLOSED:
                return
            self._enter(State.CLOSED)
            self._socket.close()
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.close()

    def end(self) -> None:
        """Close, and return when the process has ended."""
        self.close()
        if self._process is not None:
            try:
                self._process.wait(END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            os.close(self._output)
            self._process = None

    def _enter(self, state: State) -> None:
        assert state in NEXT[self._state], (self._state, state)
        self._state = state

    def _start(self) -> None:
        """Raises OSError, and what `order` raises."""
        order = json.dumps(self._order()).encode() + b"\n"
        ours, theirs = socket.socketpair() if self.control is not None else (None, None)
        output, into = os.pipe()
        passed = [self._socket.fileno(), *([theirs.fileno()] if theirs is not None else [])]
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", self._module, *map(str, passed)],
                stdin=subprocess.PIPE,
                stdout=into,
                stderr=into,
                pass_fds=passed,
                start_new_session=True,  # Ctrl-C goes to the owner, which ends it
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        except OSError:
            os.close(output)
            if ours is not None:
                ours.close()
            raise
        finally:
            os.close(into)
            if theirs is not None:
                theirs.close()
        self._process, self._output, self._tail = process, output, b""
        self._started = time.monotonic()
        self._enter(State.RUNNING)
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended: its output says why
            process.stdin.write(order)
            process.stdin.flush()
        if ours is not None and self.control is not None:
            self.control(ours)

    def _listen_to_process(self) -> None:
        more = os.read(self._output, TAIL_BYTES)
        self._tail = (self._tail + more)[-TAIL_BYTES:]
        if more or self._process is None:
            return
        os.close(self._output)
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        code = self._process.wait()
        self._process, self._output = None, -1
        self._enter(State.WAITING)
        if code:
            text = self._tail.decode(errors="replace").strip()
            self._report(f"it ended with exit code {code}" + (f": {text}" if text else ""))
            if time.monotonic() < self._started + REST_S:
                self._rest()

    def _rest(self) -> None:
        """A process that cannot start is not started again and again."""
        self.rest_s = REST_S
        self._turn_away()

    def _turn_away(self) -> None:
        """Answer the connections that wait: no process will."""
        for _ in range(PENDING):
            try:
                sock, _ = self._socket.accept()
            except OSError:
                return
            with sock, suppress(OSError):
                sock.setblocking(False)
                sock.send(TURNED_AWAY)
                sock.shutdown(socket.SHUT_WR)
                sock.recv(TAIL_BYTES)  # a socket with unread bytes would reset the connection


class DoorThread:
    """Opens a door in a thread of its own, for launchers and tests."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self._woken, self._wakes = os.pipe()
        self._thread = threading.Thread(target=self._run, name="raftka-console-door", daemon=True)

    def start(self) -> "DoorThread":
        self._thread.start()
        return self

    def close(self) -> None:
        """Return when the port, the process and the thread are gone."""
        os.write(self._wakes, b".")
        if self._thread.ident is not None:
            self._thread.join()
        self.door.end()
        os.close(self._woken)
        os.close(self._wakes)

    def _run(self) -> None:
        while True:
            if self._is_woken(self.door.rest_s, ()):
                return
            if self._is_woken(None, (self.door.fileno(),)):
                return
            self.door.step()

    def _is_woken(self, seconds: float | None, more: Sequence[int]) -> bool:
        """Wait for the end of the door, these descriptors, or so many seconds."""
        waiting = select.poll()
        for each in (self._woken, *more):
            waiting.register(each, select.POLLIN)
        ready = waiting.poll(None if seconds is None else seconds * 1000)
        return any(fd == self._woken for fd, _ in ready)


def follow_door(stdin: int) -> tuple[JsonObject, Callable[[float], bool]]:
    """Read the order in the console's process; return it, and a function that waits so many seconds
    for the end of the owner, and returns whether it has come. Raises EOFError without an order.
    """
    text = b""
    while not text.endswith(b"\n"):
        more = os.read(stdin, 1 << 16)
        if not more:
            raise EOFError("the owner has ended before it gave an order")
        text += more

    def has_ended(seconds: float) -> bool:
        waiting = select.poll()
        waiting.register(stdin, select.POLLIN)
        return bool(waiting.poll(seconds * 1000))

    order: JsonObject = json.loads(text)
    return order, has_ended
