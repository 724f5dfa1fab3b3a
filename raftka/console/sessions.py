"""Sessions: a cookie leads to a user and the user's clients. Passwords are kept in memory only, and
leave it with the session.
"""

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from raftka.client.blocking.client import Client
from raftka.client.connection import Address
from raftka.console.limits import CLIENTS, IDLE_SESSION_SECONDS, SESSIONS
from raftka.console.settings import ConsoleSettings
from raftka.console.view.shared import SharedViews
from raftka.limits import Limit
from raftka.security.client_security import ClientSecurity, security_for

if TYPE_CHECKING:
    from raftka.console.view.view import View

CLIENT_ID = "raftka-console"
PATIENCE_S, ANSWER_S = 10.0, 10.0  # a page that shows nothing for longer helps nobody
TOKEN_BYTES = 32


def cookie_name(port: int) -> str:
    """Return the name of a console's cookie. Browsers send cookies to all ports of a host, so two
    consoles on one host have names of their own.
    """
    return f"raftka_console_{port}"


class SessionOver(Exception):
    """The session has ended while a call of it was under way."""


class Session:
    """A user's clients. For many threads."""

    def __init__(
        self,
        settings: ConsoleSettings,
        security: ClientSecurity,
        user: str | None,
        views: SharedViews,
    ) -> None:
        """`user`: None where nobody logs in. `views`: of all sessions."""
        self.user = user
        self.last_used = time.monotonic()
        self._bootstrap, self._security = settings.bootstrap, security
        self._brokers: dict[int, Address] = {}  # that any client has heard of
        self._lock = threading.Lock()
        self._idle: list[Client] = []
        self._views = views
        self._view: View | None = None
        self._is_over = False

    @property
    def is_over(self) -> bool:
        return self._is_over

    def make_client(self) -> Client:
        """Return a client that connects with its first question, and is the caller's to close."""
        return Client(
            self._bootstrap, CLIENT_ID, PATIENCE_S, answer_s=ANSWER_S, security=self._security
        )

    @contextmanager
    def client(self) -> Iterator[Client]:
        """A client for this thread alone until the context ends. Raises SessionOver."""
        with self._lock:
            if self._is_over:
                raise SessionOver
            client = self._idle.pop() if self._idle else None
        if client is None:
            client = self.make_client()
            client.brokers = dict(self._brokers)
        try:
            yield client
        finally:
            self._brokers = client.brokers
            with self._lock:
                is_kept = not self._is_over and len(self._idle) < CLIENTS.value
                if is_kept:
                    self._idle.append(client)
            if not is_kept:
                client.close()

    @property
    def view(self) -> "View":
        """Return what was asked of the cluster with this login, kept for a while."""
        with self._lock:
            if self._is_over:
                raise SessionOver
            if self._view is None:
                self._view = self._views.take(self._security, self.make_client)
            return self._view

    def end(self) -> None:
        """Close what is idle. Calls that are under way end with their next question."""
        with self._lock:
            self._is_over = True
            idle, self._idle = self._idle, []
            view, self._view = self._view, None
        for client in idle:
            client.close()
        if view is not None:
            self._views.give(self._security)


class Sessions:
    def __init__(
        self,
        settings: ConsoleSettings,
        hit: Callable[[Limit], None] = lambda limit: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._hit, self._now = settings, hit, now
        self._lock = threading.Lock()
        self._views = SharedViews()
        self._by_token: dict[str, Session] = {}  # the one that was used last stands last
        # of all browsers, where nobody logs in
        self._shared = (
            None if settings.login else Session(settings, settings.security, None, self._views)
        )
        # of browsers that have not logged in: it has ended, so it asks no broker
        self.nobody = Session(settings, settings.security, None, self._views)
        self.nobody.end()

    def find(self, token: str | None) -> Session | None:
        """Return the session that a cookie leads to, unless it has ended. Does not block."""
        if self._shared is not None:
            return self._shared
        with self._lock:
            found = self._by_token.get(token) if token is not None else None
            if found is None or token is None or found.is_over or found.last_used < self._oldest():
                return None
            found.last_used = self._now()
            self._by_token[token] = self._by_token.pop(token)
            return found

    def _oldest(self) -> float:
        """Return the time before which a session has ended that was not used since."""
        return self._now() - IDLE_SESSION_SECONDS.value

    def log_in(self, user: str, password: str) -> str:
        """Return the token that leads to a new session from now on. Blocks.

        Raises ValueError for a login that cannot be one, OSError and ClientError when no broker
        takes it.
        """
        settings = self._settings
        security = security_for(settings.security, settings.login, user, password)
        session = Session(settings, security, user, self._views)
        with session.client() as client:
            client.refresh([], answer_s=ANSWER_S)
        return self._add(session)

    def _add(self, session: Session) -> str:
        token = secrets.token_urlsafe(TOKEN_BYTES)
        gone = None
        with self._lock:
            session.last_used = self._now()
            self._by_token[token] = session
            if len(self._by_token) > SESSIONS.value:
                self._hit(SESSIONS)
                gone = self._by_token.pop(next(iter(self._by_token)))
        if gone is not None:
            gone.end()
        return token

    def end_idle(self) -> None:
        """Free what belongs to sessions that have ended, or were not used for their time."""
        with self._lock:
            oldest = self._oldest()
            old = [
                token
                for token, each in self._by_token.items()
                if each.is_over or each.last_used < oldest
            ]
            gone = [self._by_token.pop(token) for token in old]
        for session in gone:
            session.end()

    def __len__(self) -> int:
        return len(self._by_token)

    def end_all(self) -> None:
        with self._lock:
            gone = [*self._by_token.values(), *filter(None, (self._shared,))]
            self._by_token.clear()
        for session in gone:
            session.end()
