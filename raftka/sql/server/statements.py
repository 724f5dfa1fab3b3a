"""Statements that run: each in a thread of its own, from its text to its last row."""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from raftka.http.streams import close_all, event
from raftka.json_values import Json, JsonObject, encode_json
from raftka.sql.answers import Answer
from raftka.sql.limits import STATEMENTS

PIECE_BYTES = 64 * 1024  # of rows that are sent together
COLUMNS, ROWS, END, FAILURE = "columns", "rows", "end", "failure"  # names of events


@dataclass(slots=True, eq=False)
class Statement:
    """One statement from its start to its end."""

    id: str
    text: str
    user: str | None = None  # who has logged in; None: the server's owner
    began: float = field(default_factory=time.monotonic)
    answer: Answer | None = None  # once its columns are known
    has_ended: bool = False
    has_reader: bool = False  # a client has asked for the rows

    @property
    def row(self) -> JsonObject:
        """Return its row in a list of statements."""
        return {
            "id": self.id,
            "text": self.text,
            "seconds": round(time.monotonic() - self.began, 3),
            "is_live": self.answer is not None and self.answer.is_live,
        }

    @property
    def head(self) -> JsonObject:
        """Return the part of an answer that comes before its rows."""
        assert self.answer is not None
        columns = [{"name": each.name, "type": each.type} for each in self.answer.columns]
        return {"id": self.id, "columns": columns, "is_live": self.answer.is_live}


class Statements:
    """For many threads."""

    def __init__(self, hits: Counter[str]) -> None:
        """`hits`: of limits, by name."""
        self._hits = hits
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._running: dict[str, Statement] = {}

    def __len__(self) -> int:
        return len(self._running)

    def begin(self, text: str, user: str | None = None) -> Statement | None:
        """Return a new statement; None at the limit of those that run."""
        with self._lock:
            if len(self._running) >= STATEMENTS.value:
                self._hits[STATEMENTS.name] += 1
                return None
            statement = Statement(str(next(self._numbers)), text, user)
            self._running[statement.id] = statement
            return statement

    def rows(self, user: str | None = None) -> Sequence[JsonObject]:
        """Return those that run, the oldest first: all, or those of a user."""
        with self._lock:
            running = self._running.values()
            return [each.row for each in running if user in (None, each.user)]

    def find(self, id: str, user: str | None = None) -> Statement | None:
        """Return one that runs. `user`: only of this one; None: of anyone."""
        with self._lock:
            found = self._running.get(id)
            return found if found is not None and user in (None, found.user) else None

    def take_rows(self, id: str) -> Statement | None:
        """Return the live statement whose rows no client reads yet; its rows are the caller's."""
        with self._lock:
            found = self._running.get(id)
            if found is None or found.answer is None or found.has_reader:
                return None
            found.has_reader = True
            return found

    def set_answer(self, statement: Statement, answer: Answer, *, has_reader: bool) -> None:
        """Keep the answer; one of a statement that was ended meanwhile is closed. Blocks."""
        with self._lock:
            statement.answer, statement.has_reader = answer, has_reader
            has_ended = statement.has_ended
        if has_ended:
            answer.close()

    def end(self, statement: Statement) -> None:
        """Forget it, and end its work. Blocks; may be called more than once."""
        with self._lock:
            is_first, statement.has_ended = not statement.has_ended, True
            self._running.pop(statement.id, None)
            answer = statement.answer
        if is_first and answer is not None:
            answer.close()

    def end_all(self) -> None:
        with self._lock:
            running = list(self._running.values())
        for each in running:
            self.end(each)


def pieces_of(answer: Answer) -> Iterator[bytes]:
    """Yield rows as JSON, many in a piece, each row an array; of a live answer each by itself."""
    most = 0 if answer.is_live else PIECE_BYTES
    rows: list[bytes] = []
    size = 0
    try:
        for row in answer.rows:
            rows.append(encode_json(list(row), default=str))
            size += len(rows[-1])
            if size > most:
                yield b",".join(rows)
                rows, size = [], 0
        if rows:
            yield b",".join(rows)
    finally:
        close_all(answer.rows)


def document_of(statement: Statement, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the answer as one document of JSON. `pieces`: of its rows."""
    assert statement.answer is not None
    yield encode_json(statement.head)[:-1] + b',"rows":['
    before = b""
    for piece in pieces:
        yield before + piece
        before = b","
    yield b'],"note":' + encode_json(statement.answer.note) + b"}\n"


def events_of(
    statement: Statement, pieces: Iterator[bytes], failed: Callable[[Exception], Json]
) -> Iterator[bytes]:
    """Yield the answer as events: columns, rows (an array of rows each), end or failure. `failed`:
    returns the answer to a client for an error.
    """
    assert statement.answer is not None
    yield event(COLUMNS, encode_json(statement.head))
    try:
        for piece in pieces:
            yield event(ROWS, b"[" + piece + b"]")
    except Exception as error:
        yield event(FAILURE, encode_json(failed(error)))
    else:
        yield event(END, encode_json({"note": statement.answer.note}))
