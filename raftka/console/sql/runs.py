"""A statement of the page under way: a thread waits for the server and its rows, another one hands
them on.
"""

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from raftka.console.call import ApiError, Event
from raftka.console.limits import SQL_CELL_CHARACTERS, SQL_WAITING
from raftka.json_values import Json, JsonObject
from raftka.sql.client import NO_SERVER, SERVER_LOST, Connection, SqlError

STEP_S = 0.5  # between two looks whether the browser has left
PACE_S = 0.1  # between two events of rows: a page shows no more often
EXACT = 2**53  # numbers of JavaScript are exact up to here
ROWS, DONE = "rows", "done"
STATUS = {"STATEMENT_REFUSED": 400, "NOT_FOUND": 404, NO_SERVER: 503, SERVER_LOST: 503}


class Run:
    def __init__(self, connect: Callable[[], Connection], text: str, limit: int) -> None:
        """`connect`: starts a server where none runs; raises SqlError. `limit`: of the rows of an
        answer that ends.
        """
        self._connect, self._text, self._limit = connect, text, limit
        self._began = time.monotonic()
        self._made: queue.Queue[Event | Exception] = queue.Queue(SQL_WAITING.value)
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._end: Callable[[], None] | None = None  # ends the statement
        self._is_closed = False
        self._over = threading.Event()  # the thread has ended
        threading.Thread(target=self._work, name="console-sql", daemon=True).start()

    @property
    def _seconds(self) -> float:
        return round(time.monotonic() - self._began, 3)

    def events(self, is_gone: Callable[[], bool]) -> Iterator[Event]:
        """Yield `waiting`, `columns`, `rows` and `done`; the statement ends with the iteration, and
        when `is_gone`. Raises ApiError.
        """
        has_columns = False
        try:
            while not is_gone():
                try:
                    found = self._made.get(timeout=STEP_S)
                except queue.Empty:
                    if not has_columns:
                        yield "waiting", self._progress()
                    continue
                for each in self._with_those_behind(found):
                    if isinstance(each, Exception):
                        raise each
                    yield each
                    has_columns = True
                    if each[0] == DONE:
                        return
                self._over.wait(PACE_S)
        finally:
            self.close()

    def close(self) -> None:
        """End the statement. In any thread."""
        with self._lock:
            self._is_closed = True
            end = self._end
        if end is not None:
            end()

    def _progress(self) -> JsonObject:
        """Return the state of the server, and since when it has that; the time of the statement."""
        told: JsonObject = {"state": "none", "seconds": 0}
        if self._connection is not None:
            try:
                told = self._connection.health()
            except SqlError as error:
                told = {"state": "failed", "seconds": 0, "message": str(error)}
        return {**told, "statement_seconds": self._seconds}

    def _with_those_behind(self, first: Event | Exception) -> Iterator[Event | Exception]:
        """Yield what was made until now; rows that follow each other become one event."""
        rows: list[Json] = []
        found: Event | Exception | None = first
        while found is not None:
            if not isinstance(found, Exception) and found[0] == ROWS:
                rows += found[1]
            else:
                if rows:
                    yield ROWS, rows
                    rows = []
                yield found
            try:
                found = self._made.get_nowait()
            except queue.Empty:
                found = None
        if rows:
            yield ROWS, rows

    # the thread

    def _work(self) -> None:
        try:
            self._connection = self._connect()
            with self._connection.execute(self._text, self._limit, self._keep_end) as rows:
                columns = [each._asdict() for each in rows.columns]
                self._put(("columns", {"columns": columns, "is_live": rows.is_live}))
                count = 0
                while not self._is_closed and (batch := rows.take()):
                    count += len(batch)
                    self._put((ROWS, [[_cell(each) for each in row] for row in batch]))
                self._put((DONE, {"note": rows.note, "rows": count, "seconds": self._seconds}))
        except SqlError as error:
            self._put(refusal_of(error))
        except Exception as error:  # a bug: the caller reports it
            self._put(error)
        finally:
            self._over.set()

    def _keep_end(self, end: Callable[[], None]) -> None:
        with self._lock:
            self._end = end
            is_closed = self._is_closed
        if is_closed:
            end()

    def _put(self, event: Event | Exception) -> None:
        """Wait until there is room, or the run is closed."""
        while not self._is_closed:
            try:
                self._made.put(event, timeout=STEP_S)
            except queue.Full:
                continue
            return


def refusal_of(error: SqlError) -> ApiError:
    """Return the answer to a browser for an error of the SQL server."""
    return ApiError(STATUS.get(error.code, 502), error.code, str(error))


def _cell(value: Json) -> Json:
    """Return a value as a page shows it: a number of JavaScript, a text that is not too long, JSON
    for lists and objects.
    """
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if abs(value) <= EXACT else str(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    longest = SQL_CELL_CHARACTERS.value
    return text if len(text) <= longest else f"{text[:longest]} ... of {len(text):,} characters"


def run_all(
    connect: Callable[[], Connection],
    texts: Sequence[str],
    limit: int,
    is_gone: Callable[[], bool],
) -> Iterator[Event]:
    """Yield the events of statements one after the other, before each one `statement`. Raises
    ApiError of the first that fails.
    """
    for text in texts:
        yield "statement", {"text": text}
        yield from Run(connect, text, limit).events(is_gone)
