"""An SQL server: its engine, and its door on a port, in a thread of its own. So it runs alone, or
in a test.
"""

import ssl
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from raftka.http.messages import url_of
from raftka.http.server import HttpServer
from raftka.http.thread import ServerThread, tls_of
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

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can reach it."""
        return self.host in ("127.0.0.1", "::1", "localhost")


class SqlServer:
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
        self._door, self._report = door, report
        self.engine = Engine(open_session, cause_of)
        self.hits: Counter[str] = Counter()  # of limits, by name
        self._site: SqlSite | None = None
        self._thread: ServerThread | None = None
        self._ready = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Return its address for programs of this machine."""
        assert self._thread is not None, "it has not been started"
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._door.host, self._door.host)
        return url_of(host, self._thread.port, has_tls=self._door.tls is not None)

    @property
    def idle_s(self) -> float:
        """Return the seconds since the last request; 0 while a statement or a query runs."""
        return 0.0 if self._site is None else self._site.idle_s

    def start(self) -> None:
        """Return when the door answers; Spark starts meanwhile. Raises OSError for a port that is
        taken.
        """
        address = (self._door.host, self._door.port)
        self._thread = ServerThread(address, self._make_http, "sql")
        self._thread.start()
        self._ready.wait()
        self.engine.start()

    def stop(self) -> None:
        """End all statements; return when port and connections are gone, and the session has
        ended.
        """
        if self._site is not None:
            self._site.work.statements.end_all()
        if self._thread is not None:
            self._thread.stop()
        self.engine.close()

    def _make_http(self, runtime: Runtime) -> HttpServer:
        self._site = SqlSite(runtime, self.engine, self._door.token, self._report, self.hits)
        self._ready.set()
        tls = self._door.tls
        return HttpServer(
            self._site,
            BOUNDS,
            runtime.clock,
            has_logins=True,
            protect=tls_of(tls, runtime.clock) if tls is not None else None,
        )
