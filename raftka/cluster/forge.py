"""Nodes that are forked from one process, which has imported everything: each starts in a tenth of the CPU time, and shares that memory.

    the caller ──{"file", "environment"} and the log──> the forge (`python -m raftka.cluster.forge`) ──fork──> node
               <──{"pid"}, later {"ended", "code"}────  imports, then waits; no thread, no Trio

The forge ends with its caller, and its nodes with it. A node that needs another program, or another environment for the interpreter itself, is
started the plain way.
"""

import ctypes
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from raftka.json_values import JsonObject

PROGRAM = "raftka.cli.broker"  # its `start` runs a node
MESSAGE_BYTES = 1024 * 1024
FAILED = 1  # exit code
LOST = -signal.SIGKILL  # the exit code of a node whose forge has gone
PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15

_prctl = ctypes.CDLL(None).prctl


def end_with_parent() -> None:
    _prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))


class Forge:
    """The caller's side; for one thread, which lives as long as the nodes."""

    def __init__(self, path: str) -> None:
        """`path`: PYTHONPATH."""
        self._sock, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._codes: dict[int, int] = {}  # of nodes that have ended, by pid
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(other.fileno())],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
                pass_fds=[other.fileno()],
                start_new_session=True,
                preexec_fn=end_with_parent,  # noqa: PLW1509  # one system call, nothing that could wait for a thread of the parent
            )

    def start(self, file: Path, environment: Mapping[str, str], log: int) -> "Forked":
        """Raises OSError when the forge has gone, or the environment is too large for a message."""
        message = json.dumps({"file": str(file.absolute()), "environment": dict(environment)}).encode()
        socket.send_fds(self._sock, [message], [log])
        while True:
            data, descriptors, _, _ = socket.recv_fds(self._sock, MESSAGE_BYTES, 1)
            told = self._told(data)
            if descriptors:
                return Forked(self, told["pid"], descriptors[0])
            self._note(told)

    def wait(self, pid: int) -> int:
        """Return the exit code of a node that has ended."""
        while pid not in self._codes:
            try:
                self._note(self._told(self._sock.recv(MESSAGE_BYTES)))
            except OSError:
                return LOST
        return self._codes.pop(pid)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End it; nodes that run get SIGTERM."""
        self._sock.close()
        self._process.wait()

    @staticmethod
    def _told(data: bytes) -> JsonObject:
        if not data:
            raise ConnectionResetError("the process that forks nodes has ended")
        told: JsonObject = json.loads(data)
        return told

    def _note(self, told: JsonObject) -> None:
        self._codes[told["ended"]] = told["code"]


class Forked:
    """A node, as subprocess.Popen is one."""

    def __init__(self, forge: Forge, pid: int, pidfd: int) -> None:
        self.pid, self.pidfd = pid, pidfd
        self.returncode: int | None = None
        self._forge = forge

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):  # it has just ended
                signal.pidfd_send_signal(self.pidfd, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            poll = select.poll()
            poll.register(self.pidfd, select.POLLIN)
            if not poll.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(PROGRAM, timeout or 0)
            os.close(self.pidfd)
            self.returncode = self._forge.wait(self.pid)
        return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None


# the forge's side


def main(fd: int) -> None:
    """Fork nodes until the caller has gone."""
    gc.disable()
    start = import_module(PROGRAM).start
    gc.collect()
    gc.freeze()  # what is shared with the nodes stays as it is
    with socket.socket(fileno=fd) as sock:
        woken, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wakes)
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        poll.register(woken, select.POLLIN)
        while True:
            ready = [key for key, _ in poll.poll()]
            if woken in ready:
                os.read(woken, 4096)
                _tell_ends(sock)
            if fd in ready:
                data, logs, _, _ = socket.recv_fds(sock, MESSAGE_BYTES, 1)
                if not data:
                    return
                pid = os.fork()
                if not pid:
                    signal.set_wakeup_fd(-1)
                    os.close(woken)
                    os.close(wakes)
                    sock.close()
                    _be_node(start, json.loads(data), logs[0])
                os.close(logs[0])
                pidfd = os.pidfd_open(pid)  # nothing has waited for it yet, so the number is still its own
                socket.send_fds(sock, [json.dumps({"pid": pid}).encode()], [pidfd])
                os.close(pidfd)


def _tell_ends(sock: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        sock.send(json.dumps({"ended": pid, "code": os.waitstatus_to_exitcode(status)}).encode())


def _be_node(start: Callable[[str], int], message: JsonObject, log: int) -> NoReturn:
    """In the child."""
    code = FAILED
    try:
        os.setsid()  # Ctrl-C goes to the caller, which ends the nodes in order
        end_with_parent()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        os.environ.clear()
        os.environ.update(message["environment"])
        _prctl(PR_SET_NAME, b"raftka-node", 0, 0, 0)
        code = start(message["file"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else FAILED
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]))
