"""Nodes that are forked from one process, which has imported everything: each starts in a tenth of
the CPU time, and shares that memory.

    the caller ──{"file", "environment"} and the log──> the fork server
               <──{"pid"} and the life of the node────  imports, then waits; no thread, no Trio
               ──{"wait": pid}────────────────────────>      │
               <──{"code"}────────────────────────────       └──fork──> node

The *life* of a node is the reading end of a pipe that the node alone holds open: it ends with the
node. Until the caller has asked for its exit code, the number of the node stays its own.

A broker of a host comes with its {"properties"}, which the host's file is not, and all its lines
have its id.

The forge ends with its caller, and its nodes with it. A node that needs another program, or another
environment for the interpreter itself, is started the plain way.
"""

import errno
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

from raftka.cluster.parents import end_with_parent, name_process, options_of_child
from raftka.json_values import JsonObject

PROGRAM = "raftka.cli.broker"  # its `start` runs a node
MESSAGE_BYTES = 1024 * 1024
END = b"\n"  # of a message
FAILED = 1  # exit code
STANDARD = 3  # so many descriptors come with a process
LOST = -signal.SIGKILL  # the exit code of a node whose forge has gone


Message = tuple[JsonObject, list[int]]  # with descriptors


def send(sock: socket.socket, message: JsonObject, descriptors: Sequence[int] = ()) -> None:
    """Raises OSError, also for a message of more than MESSAGE_BYTES."""
    data = json.dumps(message).encode() + END
    if len(data) > MESSAGE_BYTES:
        raise OSError(errno.EMSGSIZE, f"{len(data)} bytes are too many: {MESSAGE_BYTES} may be")
    sent = socket.send_fds(sock, [data], descriptors) if descriptors else 0
    sock.sendall(data[sent:])


def receive(sock: socket.socket) -> Message | None:
    """Return a message and its descriptors; None when the other side has gone. There is never more
    than one message on its way: each is answered. Raises OSError.
    """
    data, descriptors, _, _ = socket.recv_fds(sock, MESSAGE_BYTES, 1)
    while data and not data.endswith(END):
        more = sock.recv(MESSAGE_BYTES)
        data = data + more if more else b""
    return (json.loads(data), descriptors) if data else None


class Forge:
    """The caller's side; for one thread, which lives as long as the nodes."""

    def __init__(self, path: str | None, more: Sequence[str] = ()) -> None:
        """`path`: PYTHONPATH of an interpreter of its own. None: it is forked from the caller,
        which has neither threads nor Trio yet, and shares its memory; `more`: modules that nodes
        import later.
        """
        self._sock, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._process: subprocess.Popen[bytes] | _Child
        with other:
            if path is None:
                self._process = _Child(other, more)
                return
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(other.fileno())],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                **options_of_child({**os.environ, "PYTHONPATH": path}, [other.fileno()]),
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
        message = {"file": str(file.absolute()), "environment": dict(environment), **more}
        answer, (life,) = self._ask(message, [log])
        return Forked(self, answer["pid"], life)

    def wait(self, pid: int) -> int:
        """Return the exit code of a node whose life has ended. To be called once for each."""
        try:
            code: int = self._ask({"wait": pid})[0]["code"]
        except OSError:
            return LOST
        return code

    def _ask(self, message: JsonObject, descriptors: Sequence[int] = ()) -> Message:
        send(self._sock, message, descriptors)
        answer = receive(self._sock)
        if answer is None:
            raise ConnectionResetError(errno.ECONNRESET, "the process that forks nodes has ended")
        return answer

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End it; nodes that run get SIGTERM."""
        self._sock.close()
        self._process.wait()


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
                os.closerange(STANDARD + 1, _last_descriptor() + 1)
                # systemd may send it to all processes; it ends when the caller's socket does
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                name_process("raftka-forge")
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


def _last_descriptor() -> int:
    try:
        return max(map(int, os.listdir("/dev/fd")))
    except OSError:  # there is no such folder
        return os.sysconf("SC_OPEN_MAX")


class Forked:
    """A node, as subprocess.Popen is one."""

    def __init__(self, forge: Forge, pid: int, life: int) -> None:
        self.pid, self.life = pid, life
        self.returncode: int | None = None
        self._forge = forge

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended, and the forge, too
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            poll = select.poll()
            poll.register(self.life, select.POLLIN)
            if not poll.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(PROGRAM, timeout or 0)
            os.close(self.life)
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
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a node that has ended waits to be asked for
    held, holds = os.pipe()  # nodes end when this process, which holds it, does
    with socket.socket(fileno=fd) as sock:
        while (received := receive(sock)) is not None:
            message, descriptors = received
            if "wait" in message:
                _, status = os.waitpid(message["wait"], 0)
                send(sock, {"code": os.waitstatus_to_exitcode(status)})
                continue
            life, lives = os.pipe()
            forge = os.getpid()
            pid = os.fork()
            if not pid:
                sock.close()
                for each in (holds, life):
                    os.close(each)
                _be_node(program, message, descriptors[0], forge, held)
            os.close(lives)
            send(sock, {"pid": pid}, [life])
            for each in (life, *descriptors):
                os.close(each)


def _be_node(program: ModuleType, message: JsonObject, log: int, forge: int, held: int) -> NoReturn:
    """In the child."""
    code = FAILED
    try:
        os.setsid()  # Ctrl-C goes to the caller, which ends the nodes in order
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        os.environ.clear()
        os.environ.update(message["environment"])
        end_with_parent(forge, held)
        name_process("raftka-node")
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
