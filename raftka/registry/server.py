"""A registry: it reads its topic and serves its API on a port, in threads of its own. So it runs
alone, beside a node, or in a test.
"""

import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from raftka.client.blocking.client import Client
from raftka.http.messages import url_of
from raftka.http.server import HttpServer
from raftka.http.thread import ServerThread, tls_of
from raftka.registry.access import Everybody, User
from raftka.registry.broker_access import BrokerAccess
from raftka.registry.errors import RegistryError
from raftka.registry.http import BOUNDS, RegistrySite, Report
from raftka.registry.log import TOPIC, MakeClient, SchemasLog
from raftka.registry.metrics import RegistryMetrics
from raftka.registry.parsed_schemas import ParsedSchemas
from raftka.registry.registry import Registry
from raftka.registry.rest.api import Api
from raftka.runtime.interfaces import Runtime

CLIENT_ID = "raftka-registry"
START_AGAIN_S = 0.1


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
        report: Report = lambda subject, reason: None,
        lost: Callable[[BaseException], None] = lambda error: None,
    ) -> None:
        """`client_of`: a client that logs in as a user; without it there are no logins.

        `lost`: called in another thread when the topic cannot be read; writes are refused until it
        can be read again.
        """
        self._port, self._report = port, report
        self._log = SchemasLog(make_client, topic, failed=lost)
        self._metrics = RegistryMetrics()
        self._users = (
            BrokerAccess(client_of, hit=self._metrics.hit) if client_of is not None else None
        )
        self.api = Api(
            Registry(self._log, ParsedSchemas(self._metrics.hit)), self._users or Everybody()
        )
        self.http: HttpServer | None = None  # once it answers
        self._over = threading.Event()
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
        return self._port.number if self._thread is None else self._thread.port

    @property
    def url(self) -> str:
        return url_of(self._port.host, self.port, has_tls=self._port.tls is not None)

    def start(self) -> None:
        """Return when it answers. Raises RegistryError for brokers that do not answer or a topic of
        no use, OSError for a port that is taken.
        """
        thread = self._listen()
        try:
            self._log.start()
        except RegistryError:
            self._log.stop()
            thread.stop()
            raise
        thread.start()

    def start_later(self) -> None:
        """Return at once: requests wait until brokers answer. Raises OSError for a port that is
        taken.
        """
        self._listen().start()

    def stop(self) -> None:
        """Return when its port, its connections and its threads are gone."""
        self._over.set()
        if self._thread is not None:
            self._thread.stop()

    def stop_soon(self) -> None:
        """Return at once. Its threads end within a second, or when a request to a broker is
        answered.
        """
        self._over.set()
        if self._thread is not None:
            self._thread.stop_soon()

    def _listen(self) -> ServerThread:
        self._thread = ServerThread(
            (self._port.host, self._port.number),
            self._make_http,
            "registry",
            self._start_log,
            self._log.stop,
        )
        return self._thread

    def _make_http(self, runtime: Runtime) -> HttpServer:
        site = RegistrySite(runtime, self.api, self._metrics, self._users, self._report)
        tls = self._port.tls
        self.http = HttpServer(
            site,
            BOUNDS,
            runtime.clock,
            has_logins=self._users is not None,
            protect=tls_of(tls, runtime.clock) if tls is not None else None,
        )
        return self.http

    def _start_log(self) -> bool:
        """Read the topic; try again while brokers do not answer. Return False when it is over."""
        reported = ""
        while not self._log.started:
            try:
                self._log.start()
            except RegistryError as error:
                if reported != str(error):
                    reported = str(error)
                    self._report("start", reported)
                if self._over.wait(START_AGAIN_S):
                    return False
        return True


def port_tls(certificate: str | Path | None, key: str | Path | None) -> ssl.SSLContext | None:
    """Return a context of files in PEM; None: the port has no TLS. Raises OSError for files of no
    use.
    """
    if certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context
