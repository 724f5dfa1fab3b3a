"""The one session of the server. It opens in a thread of its own: the door answers already."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Protocol

from raftka.json_values import JsonObject
from raftka.sql.answers import Answer, Words


class SqlSession(Protocol):
    """A session as the server needs it; raftka/sql/session.py has the real one."""

    @property
    def has_queries(self) -> bool:
        """Return whether queries go on without a client: then the server does not end when idle."""

    @property
    def has_lost_java(self) -> bool:
        """Return whether Java has ended by itself: a new process has to open a new session."""

    @property
    def limit_hits(self) -> Counter[str]:
        """Return how often limits of the session were hit, by name."""

    def execute(self, text: str, limit: int | None = None) -> Answer:
        """`limit`: of the rows of an answer that ends; a live one goes on. Raises PipelineError."""

    def words(self) -> Words: ...

    def for_login(self, user: str, password: str, mechanism: str) -> "SqlSession | None":
        """Return a session of a user; None: the brokers refuse the password. Raises
        PipelineError. Blocks.
        """

    def warm_up(self, *, is_asked: bool) -> None:
        """Make questions fast that come later. `is_asked`: one waits already. Does not raise."""

    def close(self) -> None: ...


class State(Enum):
    IDLE = "idle"  # no statement has come yet
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"  # the next statement tries again
    ENDED = "ended"


NEXT: Mapping[State, frozenset[State]] = {
    State.IDLE: frozenset({State.STARTING, State.ENDED}),
    State.STARTING: frozenset({State.READY, State.FAILED, State.ENDED}),
    State.READY: frozenset({State.ENDED}),
    State.FAILED: frozenset({State.STARTING, State.ENDED}),
    State.ENDED: frozenset(),
}


class EngineFailed(Exception):
    """Spark did not start. The text is for the user."""


class Engine:
    """For many threads."""

    def __init__(
        self, open_session: Callable[[], SqlSession], cause_of: Callable[[Exception], str] = str
    ) -> None:
        """`cause_of`: returns a sentence for an error of `open_session`."""
        self._open, self._cause_of = open_session, cause_of
        self._changed = threading.Condition()
        self._state = State.IDLE
        self._session: SqlSession | None = None
        self._began = time.monotonic()  # when the state was entered
        self._failure = ""
        self._is_asked = False  # a statement has come

    def start(self) -> None:
        """Return at once; the session opens, unless it is open or opens already."""
        with self._changed:
            if self._state in (State.IDLE, State.FAILED):
                self._enter(State.STARTING)
                threading.Thread(target=self._run, name="sql-engine", daemon=True).start()

    def session(self) -> SqlSession:
        """Return the session when it is open. Raises EngineFailed. Blocks."""
        self._is_asked = True
        self.start()
        with self._changed:
            self._changed.wait_for(lambda: self._state is not State.STARTING)
            if self._session is None:
                raise EngineFailed(self._failure or "the SQL server ends")
            return self._session

    def health(self) -> JsonObject:
        """Return the state, since how many seconds, and why it failed."""
        with self._changed:
            return {
                "state": self._state.value,
                "seconds": round(time.monotonic() - self._began, 3),
                "message": self._failure,
            }

    @property
    def has_queries(self) -> bool:
        session = self._session
        return session is not None and session.has_queries

    @property
    def has_lost_java(self) -> bool:
        session = self._session
        return session is not None and session.has_lost_java

    @property
    def limit_hits(self) -> Counter[str]:
        session = self._session
        return Counter() if session is None else session.limit_hits

    def close(self) -> None:
        """Close the session. One that is still opening is left to the end of the process."""
        with self._changed:
            session, self._session = self._session, None
            if self._state is not State.ENDED:
                self._enter(State.ENDED)
        if session is not None:
            session.close()

    def _enter(self, state: State, failure: str = "") -> None:
        assert state in NEXT[self._state], (self._state, state)
        self._state, self._failure = state, failure
        self._began = time.monotonic()
        self._changed.notify_all()

    def _run(self) -> None:
        try:
            session = self._open()
        except Exception as error:
            with self._changed:
                if self._state is State.STARTING:
                    self._enter(State.FAILED, self._cause_of(error))
            return
        with self._changed:
            is_wanted = self._state is State.STARTING
            if is_wanted:
                self._session = session
                self._enter(State.READY)
        if is_wanted:
            session.warm_up(is_asked=self._is_asked)
        else:
            session.close()
