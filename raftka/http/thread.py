"""A server of HTTP in a thread of its own: the node's runtime, without a node."""

import socket
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import ClassVar, Self

import trio

from raftka.http.messages import Reply, Request, Response, url_of
from raftka.http.pages import Page
from raftka.http.request_reader import Bounds
from raftka.http.server import HttpServer, Site
from raftka.runtime.interfaces import Clock, Connection, Runtime
from raftka.runtime.real.network import RealListener
from raftka.runtime.real.runtime import open_runtime
from raftka.security.tls_connection import Side, TlsConnection

BACKLOG = 100


class ServerThread:
    def __init__(
        self,
        address: tuple[str, int] | socket.socket,
        make_server: Callable[[Runtime], HttpServer],
        name: str,
        prepare: Callable[[], bool] = lambda: True,
        clean_up: Callable[[], None] = lambda: None,
    ) -> None:
        """Listen; port 0 is a free one. Raises OSError. `address`: or a socket that listens, which
        becomes the server's own.

        `prepare` runs in the thread before the first connection is accepted; it returns False when
        the thread shall end. `clean_up` runs at the end of the thread.
        """
        self._socket = address if isinstance(address, socket.socket) else _listen(*address)
        self._socket.setblocking(False)
        host, port = self._socket.getsockname()[:2]
        self.host = host if isinstance(address, socket.socket) else address[0]
        self.port = int(port)
        self._make_server, self._prepare, self._clean_up = make_server, prepare, clean_up
        self._over = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def url(self) -> str:
        """Return its address with the scheme http, without a path."""
        return url_of(self.host, self.port)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """Return when its port, its connections and its thread are gone."""
        self.stop_soon()
        if self.thread.ident is not None:
            self.thread.join()
        else:
            self._socket.close()

    def stop_soon(self) -> None:
        """Return at once; the thread ends soon, or when the work of its other threads does."""
        self._over.set()
        if self._token is not None:
            try:
                self._token.run_sync_soon(self._scope.cancel)
            except trio.RunFinishedError:
                pass

    def _run(self) -> None:
        try:
            if self._prepare():
                trio.run(self._serve)
        finally:
            self._clean_up()
            self._socket.close()

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with self._scope:
            async with open_runtime() as runtime:
                server = self._make_server(runtime)
                RealListener(runtime.network, self._socket, server.accept, first=False)
                if not self._over.is_set():
                    await trio.sleep_forever()


class ThreadedSite(ABC):
    """A site on a port, in a thread of its own; heirs say which. So it runs alone, beside a node,
    or in a test.
    """

    names: ClassVar[Mapping[str, str]] = {}  # of hosts in the URL, where the host itself is none

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        """`port`: 0: any free one."""
        self._host, self._port, self._tls = host, port, tls
        self._thread: ServerThread | None = None

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
        return self._port if self._thread is None else self._thread.port

    @property
    def url(self) -> str:
        """Return its address for programs of this machine, without a path."""
        host = self.names.get(self._host, self._host)
        return url_of(host, self.port, has_tls=self._tls is not None)

    @abstractmethod
    def start(self) -> None:
        """Return when it answers. Raises OSError for a port that is taken."""

    def stop(self) -> None:
        """Return when its port and its connections are gone."""
        if self._thread is not None:
            self._thread.stop()

    def _http_server(
        self, site: Site, bounds: Bounds, runtime: Runtime, *, has_logins: bool
    ) -> HttpServer:
        """Return what serves a site on this port."""
        protect = None if self._tls is None else tls_of(self._tls, runtime.clock)
        return HttpServer(site, bounds, runtime.clock, has_logins=has_logins, protect=protect)


def _listen(host: str, port: int) -> socket.socket:
    """Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def page_in_thread(runtime: Runtime, make: Callable[[Request], Response]) -> Page:
    """Return a page that another thread makes, because it reads files. `make` does not raise."""

    def page(request: Request, reply: Reply) -> None:
        async def run() -> None:
            reply(await trio.to_thread.run_sync(make, request))

        runtime.spawn(run, request.path)

    return page


def tls_of(context: ssl.SSLContext, clock: Clock) -> Callable[[Connection], Connection]:
    """Return a function that puts TLS in front of a server's connection."""

    def later(action: Callable[[], None]) -> None:
        clock.call_at(clock.now(), action)

    return lambda connection: TlsConnection(connection, context, Side(None, step=later), later)
