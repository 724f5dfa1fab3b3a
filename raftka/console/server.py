"""A console: pages and API on a port, in a thread of its own. So it runs alone, for a launcher, or
in a test.
"""

import socket
import threading
from collections import Counter
from dataclasses import replace
from typing import ClassVar

import trio

from raftka.console.routes import all_routes
from raftka.console.sessions import Sessions
from raftka.console.settings import ConsoleSettings
from raftka.console.site import BOUNDS, ConsoleSite
from raftka.console.static import Static
from raftka.console.workers import Report, report_to_stderr
from raftka.http.server import HttpServer
from raftka.http.thread import ServerThread, ThreadedSite
from raftka.runtime.interfaces import Runtime

SWEEP_S = 30.0  # between two looks for sessions that have ended


class ConsoleServer(ThreadedSite):
    names: ClassVar = dict.fromkeys(("", "0.0.0.0", "::"), "localhost")

    def __init__(
        self,
        settings: ConsoleSettings,
        listening: socket.socket | None = None,
        report: Report = report_to_stderr,
    ) -> None:
        """`listening`: a socket that listens, instead of host and port of the settings; it becomes
        the console's own. `report`: of failures that are bugs.
        """
        super().__init__(settings.host, settings.port, settings.tls)
        self.settings = settings
        self._listening, self._report = listening, report
        self._sessions = Sessions(settings, self._count_hit)
        self._hits: Counter[str] = Counter()
        self._site: ConsoleSite | None = None
        self._ready = threading.Event()

    @property
    def idle_s(self) -> float:
        """Return the seconds since the last request; 0 while a page is kept live."""
        return 0.0 if self._site is None else self._site.idle_s

    def start(self) -> None:
        """Return when it answers. Raises OSError for a port that is taken. No broker is asked."""
        address = self._listening or (self._host, self._port)
        self._thread = ServerThread(address, self._make_http, "console")
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        """Return when its port and its connections are gone. Threads that wait for a broker end
        with the broker's answer.
        """
        if self._site is not None:
            self._site.workers.stop()
        super().stop()
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
        self._site = site
        self._ready.set()
        return self._http_server(site, BOUNDS, runtime, has_logins=bool(self.settings.login))

    async def _sweep(self) -> None:
        while True:
            await trio.sleep(SWEEP_S)
            await trio.to_thread.run_sync(self._sessions.end_idle, abandon_on_cancel=True)
