"""A console: pages and API on a port, in a thread of its own. So it runs alone, for a launcher, or
in a test.
"""

import socket
import threading
from collections import Counter
from dataclasses import replace
from types import TracebackType
from typing import Self

import trio

from raftka.console.routes import all_routes
from raftka.console.sessions import Sessions
from raftka.console.settings import ConsoleSettings
from raftka.console.site import BOUNDS, ConsoleSite
from raftka.console.static import Static
from raftka.console.workers import Report, report_to_stderr
from raftka.http.messages import url_of
from raftka.http.server import HttpServer
from raftka.http.thread import ServerThread, tls_of
from raftka.runtime.interfaces import Runtime

SWEEP_S = 30.0  # between two looks for sessions that have ended


class ConsoleServer:
    def __init__(
        self,
        settings: ConsoleSettings,
        listening: socket.socket | None = None,
        report: Report = report_to_stderr,
    ) -> None:
        """`listening`: a socket that listens, instead of host and port of the settings; it becomes
        the console's own. `report`: of failures that are bugs.
        """
        self.settings = settings
        self._listening, self._report = listening, report
        self._sessions = Sessions(settings, self._count_hit)
        self._hits: Counter[str] = Counter()
        self._site: ConsoleSite | None = None
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
    def port(self) -> int:
        """Return the number of the port that it listens on."""
        return self.settings.port if self._thread is None else self._thread.port

    @property
    def url(self) -> str:
        """Return its address for browsers of this machine, without a path."""
        host = self.settings.host
        host = {"": "localhost", "0.0.0.0": "localhost", "::": "localhost"}.get(host, host)
        return url_of(host, self.port, has_tls=self.settings.tls is not None)

    @property
    def idle_s(self) -> float:
        """Return the seconds since the last request; 0 while a page is kept live."""
        return 0.0 if self._site is None else self._site.idle_s

    def start(self) -> None:
        """Return when it answers. Raises OSError for a port that is taken. No broker is asked."""
        address = self._listening or (self.settings.host, self.settings.port)
        self._thread = ServerThread(address, self._make_http, "console")
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        """Return when its port and its connections are gone. Threads that wait for a broker end
        with the broker's answer.
        """
        if self._site is not None:
            self._site.workers.stop()
        if self._thread is not None:
            self._thread.stop()
        self._sessions.end_all()

    def _count_hit(self, limit: object) -> None:
        self._hits[getattr(limit, "name", "")] += 1

    def _make_http(self, runtime: Runtime) -> HttpServer:
        site = ConsoleSite(
            runtime,
            replace(self.settings, port=self.port),
            self._sessions,
            all_routes(),
            Static(),
            self._report,
            self._hits,
        )
        runtime.spawn(self._sweep, "sessions")
        tls = self.settings.tls
        self._site = site
        self._ready.set()
        return HttpServer(
            site,
            BOUNDS,
            runtime.clock,
            has_logins=bool(self.settings.login),
            protect=tls_of(tls, runtime.clock) if tls is not None else None,
        )

    async def _sweep(self) -> None:
        while True:
            await trio.sleep(SWEEP_S)
            await trio.to_thread.run_sync(self._sessions.end_idle, abandon_on_cancel=True)
