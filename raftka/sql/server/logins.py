"""Users who log in at the SQL server with their passwords of the cluster: each has a session of its
own, whose brokers decide what the user may do. Passwords stay in memory.
"""

import base64
import hashlib
import secrets
import threading
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import trio

from raftka.http.messages import Request
from raftka.sql.limits import USERS
from raftka.sql.server.engine import SqlSession

LOGINS_AT_ONCE = 4
REFUSED_S = 1.0  # before a wrong password is answered: so guesses take their time


class User(NamedTuple):
    name: str
    password: str


class LoggedIn(NamedTuple):
    digest: bytes  # of the password
    session: SqlSession


def basic_login(request: Request) -> User | None:
    """Return user and password of a request's head; None: it has none."""
    scheme, _, encoded = request.headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except ValueError:
        return None
    return User(name, password) if colon and name else None


class Logins:
    """For many threads; `log_in` is called in one of its own."""

    def __init__(
        self, open_session: Callable[[User], SqlSession | None], hits: Counter[str]
    ) -> None:
        """`open_session`: logs in at the brokers; None: they refuse the password. Blocks. `hits`:
        of limits, by name.
        """
        self._open, self._hits = open_session, hits
        self._salt = secrets.token_bytes(16)
        self._lock = threading.Lock()
        self._known: dict[str, LoggedIn] = {}  # by name, the one seen last stands last
        self._threads = trio.CapacityLimiter(LOGINS_AT_ONCE)

    async def log_in(self, user: User) -> bool:
        """Return whether the brokers know the user. Raises what `open_session` does."""
        digest = hashlib.blake2b(user.password.encode(), key=self._salt).digest()
        if self._is_known(user.name, digest):
            return True
        session = await trio.to_thread.run_sync(self._open, user, limiter=self._threads)
        if session is None:
            await trio.sleep(REFUSED_S)
            return False
        self._keep(user.name, LoggedIn(digest, session))
        return True

    def session(self, name: str) -> SqlSession | None:
        """Return the session of a user who has logged in, unless others have made room of it."""
        with self._lock:
            found = self._known.get(name)
            return None if found is None else found.session

    def close(self) -> None:
        with self._lock:
            gone, self._known = list(self._known.values()), {}
        for each in gone:
            each.session.close()

    def _is_known(self, name: str, digest: bytes) -> bool:
        with self._lock:
            found = self._known.get(name)
            if found is None or not secrets.compare_digest(found.digest, digest):
                return False
            self._known[name] = self._known.pop(name)
            return True

    def _keep(self, name: str, user: LoggedIn) -> None:
        with self._lock:
            gone = [self._known.pop(name, None)]
            self._known[name] = user
            if len(self._known) > USERS.value:
                self._hits[USERS.name] += 1
                gone.append(self._known.pop(next(iter(self._known))))
        for each in gone:
            if each is not None:
                each.session.close()
