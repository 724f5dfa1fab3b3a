"""Statements one after the other: each is sent to the server, its answer printed. Knows no terminal
but its own output.
"""

import sys
import threading
import time
from collections.abc import Callable

from raftka.cli.output import FAILED, INTERRUPTED, fail
from raftka.sql.client import NO_SERVER, SERVER_LOST, Connection, Rows, SqlError
from raftka.sql.functions import with_file
from raftka.sql.language import StatementError
from raftka.sql.prompt.printing import print_rows
from raftka.sql.prompt.texts import Typed, is_empty, statements_of

LOOK_S = 0.25  # between two looks at the start of Spark
QUIET_S = 1.0  # a start that is shorter shows no progress
CLEAR = "\r\033[K"


class Progress:
    """One line on standard error that changes in place; nothing where that is no terminal."""

    def __init__(self) -> None:
        self._is_shown = False
        self._is_terminal = sys.stderr.isatty()

    def show(self, text: str) -> None:
        if self._is_terminal:
            sys.stderr.write(f"{CLEAR}{text}")
            sys.stderr.flush()
            self._is_shown = True

    def clear(self) -> None:
        if self._is_shown:
            sys.stderr.write(CLEAR)
            sys.stderr.flush()
            self._is_shown = False


class Runner:
    def __init__(self, connect: Callable[[], Connection], output: str, limit: int | None) -> None:
        """`connect`: returns a connection, and starts a server where none runs. Raises SqlError.
        `output`: one of printing.FORMATS. `limit`: of the rows of an answer.
        """
        self._connect, self.output, self._limit = connect, output, limit
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._progress = Progress()

    @property
    def connection(self) -> Connection:
        """Return the connection of the last statement, or a new one. Raises SqlError."""
        with self._lock:
            if self._connection is None:
                self._connection = self._connect()
            return self._connection

    def run_text(self, text: str) -> int:
        """Run all statements of a text; the last one needs no `;`. Return the exit code: the first
        that fails ends it.
        """
        found, rest = statements_of(text)
        for each in [*found, *([] if is_empty(rest) else [Typed(rest)])]:
            code = self.run(each)
            if code:
                return code
        return 0

    def run(self, typed: Typed, on_end: Callable[[int | None, float], None] | None = None) -> int:
        """Run one statement and print its answer; return the exit code. Ctrl-C ends the answer.
        The file of CREATE FUNCTION ... FROM is read here, for a server or the console must not read
        one for a client. `on_end`: called with the number of rows (None: the statement has none)
        and the seconds.
        """
        began = time.monotonic()
        try:
            with self._execute(with_file(typed.text)) as rows:
                count = print_rows(rows, self.output, is_vertical=typed.is_vertical)
        except KeyboardInterrupt:
            return INTERRUPTED
        except StatementError as error:
            return fail(str(error), FAILED)
        except SqlError as error:
            if error.code == SERVER_LOST:
                self._connection = None
            return fail(str(error), FAILED)
        if rows.note:
            sys.stderr.write(f"{rows.note}\n")
        if on_end is not None:
            on_end(count if rows.columns else None, time.monotonic() - began)
        return 0

    def _execute(self, text: str) -> Rows:
        """Show the start of Spark while it goes on. A server that has ended meanwhile, because it
        was idle or killed, is started anew, once. Raises SqlError.
        """
        is_over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(self.connection, is_over), daemon=True)
        watch.start()
        try:
            try:
                return self.connection.execute(text, self._limit)
            except SqlError as error:
                if error.code != NO_SERVER:
                    raise
                self._connection = None
                return self.connection.execute(text, self._limit)
        finally:
            is_over.set()
            watch.join()
            self._progress.clear()

    def _watch(self, connection: Connection, is_over: threading.Event) -> None:
        began, pause_s = time.monotonic(), QUIET_S
        while not is_over.wait(pause_s):
            pause_s = LOOK_S
            try:
                health = connection.health()
            except SqlError:
                return
            if health["state"] == "starting":
                self._progress.show(f"Spark starts: {health['seconds']:.0f} s")
            else:
                self._progress.show(f"{time.monotonic() - began:.0f} s")
