"""A whole registry: its topic, its API, its port, in a thread with a Trio loop of its own. So it
runs alone, beside a node, or in a test.
"""

import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import trio

from raftka.client.blocking.client import Client
from raftka.registry.access import Everybody, User
from raftka.registry.broker_access import BrokerAccess
from raftka.registry.errors import RegistryError
from raftka.registry.http import HttpServer
from raftka.registry.log import TOPIC, MakeClient, SchemasLog
from raftka.registry.metrics import RegistryMetrics
from raftka.registry.parsed_schemas import ParsedSchemas
from raftka.registry.registry import Registry
from raftka.registry.rest.api import Api

CLIENT_ID = "raftka-registry"
BACKLOG = 100
START_AGAIN_S = 0.1

Report = Callable[[str, str], None]  # what failed, and why


class Port(NamedTuple):
    host: str = "127.0.0.1"
    number: int = 8081  # 0: any free one
    tls: ssl.SSLContext | None = None


class RegistryServer:
    def __init__(
        self,
        make_client: MakeClient,
        port: Port = Port(),  # noqa: B008
        topic: str = TOPIC,
        *,
        client_of: Callable[[User], Client] | None = None,
        report: Report = lambda what, why: None,
        lost: Callable[[BaseException], None] = lambda error: None,
    ) -> None:
        """`client_of`: a client that logs in as a user; without it there are no logins.

        `lost`: called in another thread when the topic cannot be read; writes are refused until it
        can be read again.
        """
        self._port, self._report = port, report
        self._log = SchemasLog(make_client, topic, failed=lost)
        numbers = RegistryMetrics()
        users = BrokerAccess(client_of, hit=numbers.hit) if client_of is not None else None
        api = Api(Registry(self._log, ParsedSchemas(numbers.hit)), users or Everybody())
        self._http = HttpServer(api, numbers, users, report)
        self._socket: socket.socket | None = None
        self._over = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self._thread = threading.Thread(target=self._run, name="registry", daemon=True)

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
        return self._port.number

    @property
    def url(self) -> str:
        host = f"[{self._port.host}]" if ":" in self._port.host else self._port.host
        return f"{'http' if self._port.tls is None else 'https'}://{host}:{self.port}"

    def start(self) -> None:
        """Return when it answers. Raises RegistryError for brokers that do not answer or a topic of
        no use, OSError for a port that is taken.
        """
        self._listen()
        try:
            self._log.start()
        except RegistryError:
            self._close()
            raise
        self._thread.start()

    def start_later(self) -> None:
        """Return at once: requests wait until brokers answer. Raises OSError for a port that is
        taken.
        """
        self._listen()
        self._thread.start()

    def stop(self) -> None:
        """Return when its port, its connections and its threads are gone."""
        self.stop_soon()
        if self._thread.ident is not None:
            self._thread.join()

    def stop_soon(self) -> None:
        """Return at once. Its threads end within a second, or when a request to a broker is
        answered.
        """
        self._over.set()
        if self._token is not None:
            try:
                self._token.run_sync_soon(self._scope.cancel)
            except trio.RunFinishedError:
                pass

    def _listen(self) -> None:
        family = socket.AF_INET6 if ":" in self._port.host else socket.AF_INET
        self._socket = socket.create_server(
            (self._port.host, self._port.number), family=family, backlog=BACKLOG
        )
        self._port = self._port._replace(number=int(self._socket.getsockname()[1]))

    def _close(self) -> None:
        self._log.stop()
        if self._socket is not None:
            self._socket.close()

    def _run(self) -> None:
        try:
            if self._wait_for_log():
                trio.run(self._serve)
        finally:
            self._close()

    def _wait_for_log(self) -> bool:
        """Return whether the topic is read; if not, the registry is to end."""
        told = ""
        while not self._log.started:
            try:
                self._log.start()
            except RegistryError as error:
                if told != str(error):
                    self._report("start", told := str(error))
                if self._over.wait(START_AGAIN_S):
                    return False
        return True

    async def _serve(self) -> None:
        assert self._socket is not None
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._socket))
        self._token = trio.lowlevel.current_trio_token()
        with self._scope:
            if self._over.is_set():
                return
            serving: trio.abc.Listener[trio.abc.Stream] = listener
            if self._port.tls is not None:
                serving = trio.SSLListener(listener, self._port.tls, https_compatible=True)
            await trio.serve_listeners(self._http.serve, [serving])


def port_tls(certificate: str | Path | None, key: str | Path | None) -> ssl.SSLContext | None:
    """Of files in PEM; None: the port has no TLS. Raises OSError for files that are of no use."""
    if certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context
