"""An SQL server: its engine, and its door on a port, in a thread of its own. So it runs alone, or
in a test.
"""

import ssl
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from raftka.http.server import HttpServer
from raftka.http.thread import ServerThread, ThreadedSite
from raftka.runtime.interfaces import Runtime
from raftka.sql.server.engine import Engine, SqlSession
from raftka.sql.server.refusals import Report
from raftka.sql.server.site import BOUNDS, SqlSite


def report_to_stderr(subject: str, reason: str) -> None:
    sys.stderr.write(f"{subject} failed: {reason}\n")


@dataclass(frozen=True, slots=True)
class Door:
    """The port of a server. `token`: what clients show."""

    token: str
    host: str = "127.0.0.1"
    port: int = 0  # 0: any free one
    tls: ssl.SSLContext | None = None
    certificate: str = ""  # path of the one that it shows
    key: str = ""  # path of the file of its key, where that is another one
    login: str = ""  # the mechanism by which users log in at the brokers; none: only the token

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can reach it."""
        return self.host in ("127.0.0.1", "::1", "localhost")


class SqlServer(ThreadedSite):
    names: ClassVar = {"0.0.0.0": "127.0.0.1", "::": "::1"}

    def __init__(
        self,
        open_session: Callable[[], SqlSession],
        door: Door,
        *,
        cause_of: Callable[[Exception], str] = str,
        report: Report = report_to_stderr,
    ) -> None:
        """`open_session`: called in a thread, when the server starts. `cause_of`: returns a
        sentence for its error. `report`: of failures that are bugs.
        """
        super().__init__(door.host, door.port, door.tls)
        self._door, self._report = door, report
        self.engine = Engine(open_session, cause_of)
        self.hits: Counter[str] = Counter()  # of limits, by name
        self._site: SqlSite | None = None
        self._ready = threading.Event()

    @property
    def idle_s(self) -> float:
        """Return the seconds since the last request; 0 while a statement or a query runs."""
        return 0.0 if self._site is None else self._site.idle_s

    def start(self) -> None:
        """Return when the door answers; Spark starts meanwhile. Raises OSError for a port that is
        taken.
        """
        self._thread = ServerThread((self._host, self._port), self._make_http, "sql")
        self._thread.start()
        self._ready.wait()
        self.engine.start()

    def stop(self) -> None:
        """End all statements; return when port and connections are gone, and the session has
        ended.
        """
        if self._site is not None:
            self._site.work.statements.end_all()
            if self._site.logins is not None:
                self._site.logins.close()
        super().stop()
        self.engine.close()

    def _make_http(self, runtime: Runtime) -> HttpServer:
        self._site = SqlSite(
            runtime, self.engine, self._door.token, self._report, self.hits, self._door.login
        )
        self._ready.set()
        return self._http_server(self._site, BOUNDS, runtime, has_logins=True)
