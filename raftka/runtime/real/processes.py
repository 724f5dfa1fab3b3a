"""Work in a process of its own: a thread would take the interpreter from the loop again and again,
a process takes at most the other core.

This file has both sides. The process is this module, started with the parent's module path;
marshalled plain values go between them over pipes. It dies with its parent, has a lower priority
(nice), and keeps to its bound of bytes a second. Knows no work by name: it gets module and
function.
"""

import gc
import marshal
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from importlib import import_module
from io import BufferedWriter
from typing import Any

from raftka.runtime.real.files import PacedFiles
from raftka.runtime.real.system import chosen_system

NICENESS = 10
VALUE, DONE, OS_ERROR, ERROR = range(4)

Each = Callable[[Any], None]
Done = Callable[[BaseException | None], None]


class ApartError(Exception):
    """The exception of the other process, with its traceback as text; `kind` is the name of its
    class.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Apart:
    """One piece of work. A thread starts the process and waits for what it says; `post` brings that
    to the loop.
    """

    def __init__(
        self,
        order: tuple[Any, ...],
        each: Each,
        done: Done,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._order = order
        self._each = each
        self._done = done
        self._post = post
        self._cancelled = False
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self.thread = threading.Thread(target=self._run, name="raftka-process", daemon=True)
        self.thread.start()

    def cancel(self) -> None:
        """Nothing more is told of it."""
        with self._lock:
            self._cancelled = True
            if self._process is not None:
                self._process.kill()

    def _run(self) -> None:
        try:
            error = self._follow()
        except (OSError, EOFError, ValueError, TypeError) as failure:
            error = failure
        self._post(lambda: None if self._cancelled else self._done(error))

    def _follow(self) -> BaseException | None:
        with self._lock:
            if self._cancelled:
                return None
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            command = [sys.executable, "-m", __spec__.name, str(os.getpid())]
            process = self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
            )
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin, process.stdout:
            marshal.dump(self._order, process.stdin)
            process.stdin.flush()  # and stays open: the process ends with it, or with this one
            while True:
                try:
                    kind, *fields = marshal.load(process.stdout)
                except EOFError:
                    return ApartError("Killed", f"the process ended with {process.wait()}")
                if kind != VALUE:
                    process.wait()
                    return (
                        None
                        if kind == DONE
                        else OSError(*fields)
                        if kind == OS_ERROR
                        else ApartError(*fields)
                    )
                self._post(lambda value=fields[0]: None if self._cancelled else self._each(value))  # type: ignore[misc]


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the parent ends this
    os.nice(NICENESS)
    gc.disable()
    module, name, arguments, bytes_per_s = marshal.load(sys.stdin.buffer)
    chosen_system().end_with_parent(int(sys.argv[1]), 0, signal.SIGKILL)
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # who prints does not disturb
        files = PacedFiles(bytes_per_s)
        try:
            for value in getattr(import_module(module), name)(files, *arguments):
                _say(out, VALUE, value)
            _say(out, DONE)
        except OSError as error:
            _say(out, OS_ERROR, error.errno, error.strerror, error.filename)
        except Exception as error:
            _say(out, ERROR, type(error).__name__, "".join(traceback.format_exception(error)))
        finally:
            files.stop()


def _say(out: BufferedWriter, *fields: Any) -> None:
    marshal.dump(fields, out)
    out.flush()


if __name__ == "__main__":
    main()
