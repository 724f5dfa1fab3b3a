"""A program on a terminal: a pseudo-terminal whose other end a test types at."""

import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fcntl import ioctl
from types import TracebackType
from typing import Self

ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\r")
CURSOR, CURSOR_IS_HERE = b"\x1b[6n", b"\x1b[1;1R"  # a question to the terminal, and its answer
PATIENCE_S = 60.0
LINES, COLUMNS = 40, 120


class Terminal:
    patience_s = PATIENCE_S  # for each thing that is waited for

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the program. `arguments`: its path first."""
        self._shown = b""  # without escapes
        self._from = 0  # what was waited for ends there
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            try:
                signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background ignores it
                os.execve(arguments[0], list(arguments), {**environment, "TERM": "xterm"})
            finally:
                os._exit(127)
        ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._fd)

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def wait_for(self, pattern: str) -> re.Match[bytes]:
        """Return the first match behind what was waited for before. Raises AssertionError."""
        deadline = time.monotonic() + self.patience_s
        while True:
            match = re.compile(pattern.encode(), re.DOTALL).search(self._shown, self._from)
            if match is not None:
                self._from = match.end()
                return match
            if not self._read(deadline):
                shown = self._shown[self._from :].decode(errors="replace")
                raise AssertionError(f"{pattern!r} never came: {shown}")

    def wait_for_end(self) -> int:
        """Return the exit code."""
        deadline = time.monotonic() + self.patience_s
        while self._read(deadline):
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self, deadline: float) -> bool:
        """Read more; return False at the end of the program or of the time, also of a program that
        prints on and on.
        """
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not select.select([self._fd], [], [], left_s)[0]:
            return False
        try:
            data = os.read(self._fd, 1 << 16)
        except OSError:  # Linux says so when the program has ended
            return False
        self.show(data)
        self._shown += ESCAPES.sub(b"", data)
        return bool(data)

    def show(self, data: bytes) -> None:
        """Answer the questions to a terminal that are in its input."""
        for _ in range(data.count(CURSOR)):
            self.type(CURSOR_IS_HERE.decode())
