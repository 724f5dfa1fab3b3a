"""Nodes that are forked from one process, which has imported everything: each starts in a tenth of
the CPU time, and shares that memory.

    the caller ──{"file", "environment"} and the log──> the fork server
        ──fork──> node
               <──{"pid"}, later {"ended", "code"}────  imports, then waits; no thread, no Trio

A broker of a host comes with its {"properties"}, which the host's file is not, and all its lines
have its id.

The forge ends with its caller, and its nodes with it. A node that needs another program, or another
environment for the interpreter itself, is started the plain way.
"""

import ctypes
import gc
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, NoReturn

from raftka.json_values import JsonObject

PROGRAM = "raftka.cli.broker"  # its `start` runs a node
MESSAGE_BYTES = 1024 * 1024
FAILED = 1  # exit code
STANDARD = 3  # so many descriptors come with a process
LOST = -signal.SIGKILL  # the exit code of a node whose forge has gone
PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15

_prctl = ctypes.CDLL(None).prctl


def end_with_parent() -> None:
    _prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))


class Forge:
    """The caller's side; for one thread, which lives as long as the nodes."""

    def __init__(self, path: str | None, more: Sequence[str] = ()) -> None:
        """`path`: PYTHONPATH of an interpreter of its own. None: it is forked from the caller,
        which has neither threads nor Trio yet, and shares its memory; `more`: modules that nodes
        import later.
        """
        self._sock, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._codes: dict[int, int] = {}  # of nodes that have ended, by pid
        self._process: subprocess.Popen[bytes] | _Child
        with other:
            if path is None:
                self._process = _Child(other, more)
                return
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(other.fileno())],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
                pass_fds=[other.fileno()],
                start_new_session=True,
                # one system call, nothing that could wait for a thread of the parent
                preexec_fn=end_with_parent,  # noqa: PLW1509
            )

    def start(
        self,
        file: Path,
        environment: Mapping[str, str],
        log: int,
        properties: Mapping[str, str] | None = None,
    ) -> "Forked":
        """`properties`: of a broker of a host. Raises OSError when the forge has gone, or the
        environment is too large for a message.
        """
        more = {} if properties is None else {"properties": dict(properties)}
        message = json.dumps(
            {"file": str(file.absolute()), "environment": dict(environment), **more}
        ).encode()
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


class _Child:
    """The forge as a child of the caller, as subprocess.Popen is one."""

    def __init__(self, its: socket.socket, more: Sequence[str]) -> None:
        # before the fork: what they import is shared with the caller, too
        for module in (PROGRAM, *more):
            import_module(module)
        gc.freeze()
        caller = os.getpid()
        self.pid = os.fork()
        self.returncode: int | None = None
        if not self.pid:
            self._be_forge(caller, its)

    @staticmethod
    def _be_forge(caller: int, its: socket.socket) -> NoReturn:
        code = FAILED
        try:
            os.setsid()
            if os.getppid() == caller:  # else it has ended meanwhile
                fd = os.dup2(its.fileno(), STANDARD, inheritable=False)
                # nodes do not get the files that the caller has open
                os.closerange(STANDARD + 1, os.sysconf("SC_OPEN_MAX"))
                # systemd may send it to all processes; it ends when the caller's socket does
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                _prctl(PR_SET_NAME, b"raftka-forge", 0, 0, 0)
                main(fd)
                code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def poll(self) -> int | None:
        return self._reap(os.WNOHANG)

    def wait(self) -> int:
        code = self._reap(0)
        assert code is not None
        return code

    def _reap(self, flags: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, flags)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


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
    program = import_module(PROGRAM)
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
                    _be_node(program, json.loads(data), logs[0])
                os.close(logs[0])
                # nothing has waited for it yet, so the number is still its own
                pidfd = os.pidfd_open(pid)
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


def _be_node(program: ModuleType, message: JsonObject, log: int) -> NoReturn:
    """In the child."""
    code = FAILED
    try:
        os.setsid()  # Ctrl-C goes to the caller, which ends the nodes in order
        end_with_parent()
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        os.environ.clear()
        os.environ.update(message["environment"])
        _prctl(PR_SET_NAME, b"raftka-node", 0, 0, 0)
        code = (
            program.start(message["file"])
            if "properties" not in message
            else _of_host(program, message["file"], message["properties"])
        )
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else FAILED
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _of_host(program: ModuleType, file: str, properties: dict[str, str]) -> int:
    labelled = Labelled(sys.stderr, properties.get("node.id") or properties.get("broker.id", ""))
    sys.stderr = sys.stdout = labelled
    try:
        code: int = program.start_of_host(file, properties)
    except Exception:
        traceback.print_exc()
        code = FAILED
    labelled.finish()
    return code


class Labelled(io.TextIOBase):
    """The output of one broker of several that write to one place. Writes `node=ID` before each
    line that does not name its node, such as a line of a traceback; lines of the event log do.
    """

    def __init__(self, stream: IO[str], node_id: str) -> None:
        self._stream = stream
        self._label = f"node={node_id}"
        self._fields = f'"node": {node_id},', f'"node": {node_id}}}'
        self._held = ""  # a line without its end

    def write(self, text: str) -> int:
        *lines, self._held = (self._held + text).split("\n")
        if lines:
            self._stream.write("".join(f"{self._labelled(line)}\n" for line in lines))
        return len(text)

    def _labelled(self, line: str) -> str:
        has_one = (
            any(each in line for each in self._fields)
            if line.startswith("{")
            else f" {self._label} " in f"{line} "
        )
        return line if has_one else f"{self._label} {line}"

    def flush(self) -> None:
        self._stream.flush()

    def finish(self) -> None:
        """Write a last line that has no end."""
        if self._held:
            self.write("\n")
        self.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()


if __name__ == "__main__":
    main(int(sys.argv[1]))
