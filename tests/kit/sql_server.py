"""A session without Spark, for tests of the SQL server, its client and the prompt; run as a module
it is a server's process with that session.

    rows N       N rows: n, text
    live         a row for each line that `FakeSession.feed` is given, until it is closed
    ticks        rows without an end
    hang         waits for ever
    select       one row: key
    bad          is refused, with a caret
    broken       fails in its third row
    lose         Java ends
    bug          a fault of the server
    note         a sentence, without columns
    show         `FakeSession.queries`
    pause NAME, resume NAME, terminate NAME
                 change them
"""

import itertools
import os
import queue
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from raftka.json_values import Json, JsonObject
from raftka.pipeline.errors import PipelineError
from raftka.sql.answers import Answer, Column, Words, table
from raftka.sql.hosting import SHOWN
from raftka.sql.server.folder import ServerFolder
from raftka.sql.server.launch import Wanted
from raftka.sql.server.process import main

GATE = "RAFTKA_TEST_SQL_GATE"  # of the environment: a file without which the session does not open
TOKEN = "a token of a test"
N = Column("n", "int")


class FakeSession:
    def __init__(self) -> None:
        self.users: dict[str, FakeSession] = {}  # sessions of those who have logged in
        self.has_queries = False
        self.has_lost_java = False
        self.limit_hits: Counter[str] = Counter()
        self.closed: list[str] = []  # statements whose answers were closed
        self.warmed: list[bool] = []
        self.hanging = threading.Event()
        self.feed: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self.queries: dict[str, str] = {}  # their states

    def execute(self, text: str, limit: int | None = None) -> Answer:
        word, number = (*re.sub(r"--.*", "", text).split(), "")[:2]
        over = threading.Event()

        def close() -> None:
            over.set()
            self.closed.append(text)
            self.feed.put(None)

        match word.lower():
            case "rows":
                rows: Iterator[Sequence[Json]] = ([n, f"row {n}"] for n in range(int(number)))
                columns = [N, Column("text", "string")]
                if limit is not None and int(number) > limit:
                    rows = itertools.islice(rows, limit)
                    return Answer(columns, rows, f"there are more than {limit} rows", close=close)
                return Answer(columns, rows, close=close)
            case "live":
                fed = ([n] for n in iter(self.feed.get, None))
                return Answer([N], fed, is_live=True, close=close)
            case "ticks":
                return Answer([N], self._ticks(over), is_live=True, close=close)
            case "hang":
                self.hanging.wait()
                return Answer([N], iter([[1]]), close=close)
            case "lose":
                self.has_lost_java = True
                return Answer([N], iter([]), close=close)
            case "select":
                return Answer([Column("key", "string")], iter([["truck-7"]]), close=close)
            case "bad":
                raise PipelineError(f"there is no such thing\n{text}\n^")
            case "broken":
                return Answer([N], self._broken(), is_live=True, close=close)
            case "note":
                return Answer(note="it is noted")
            case "show":
                shown: JsonObject = dict.fromkeys(name for name, _ in SHOWN)
                found = [
                    {**shown, "name": name, "state": state, "rows": 7, "query": f"SELECT '{name}'"}
                    for name, state in self.queries.items()
                ]
                return table(SHOWN, [list(each.values()) for each in found])
            case "pause" | "resume" | "terminate" as action:
                return Answer(note=self._control(action, number.strip("`")))
        raise RuntimeError("a bug")

    def _control(self, action: str, name: str) -> str:
        if name not in self.queries:
            raise PipelineError(f"there is no query {name}")
        self.queries[name] = "paused" if action == "pause" else "running"
        if action == "terminate":
            del self.queries[name]
        return f"{name}: {action}"

    @staticmethod
    def _ticks(over: threading.Event) -> Iterator[Sequence[Json]]:
        for n in itertools.count():
            yield [n]
            if over.wait(0.01):
                return

    @staticmethod
    def _broken() -> Iterator[Sequence[Json]]:
        yield [0]
        yield [1]
        raise PipelineError("the third row is gone")

    def words(self) -> Words:
        return Words(["trucks", "trucks.gps-1"], ["late"], ["speed"], ["upper"])

    def for_login(self, user: str, password: str, mechanism: str) -> "FakeSession | None":
        """Known are users whose password is their name, with "-secret" behind it."""
        if password != f"{user}-secret":
            return None
        self.users[user] = FakeSession()
        return self.users[user]

    def warm_up(self, *, is_asked: bool) -> None:
        self.warmed.append(is_asked)

    def close(self) -> None:
        self.closed.append("session")


def open_fake(_order: JsonObject, _folder: ServerFolder, _config: Path | None) -> FakeSession:
    gate = os.environ.get(GATE)
    while gate is not None and not Path(gate).exists():
        time.sleep(0.02)
    return FakeSession()


def wait_for(condition: Callable[[], object]) -> None:
    """Look again and again, for half a minute at least."""
    for _ in range(3000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never came")


def wait_for_lock(wanted: Wanted) -> None:
    """Return when no server runs."""

    def is_free() -> bool:
        lock = wanted.folder.try_lock()
        if lock is not None:
            os.close(lock)
        return lock is not None

    wait_for(is_free)


def kill(wanted: Wanted) -> None:
    """End a server as a crash does; return when it is gone."""
    address = wanted.folder.address()
    assert address is not None
    os.kill(address.pid, signal.SIGKILL)
    wait_for_lock(wanted)


if __name__ == "__main__":
    main(open_fake)
