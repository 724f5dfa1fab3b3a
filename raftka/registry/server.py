"""A registry: it reads its topic and serves its API on a port, in threads of its own. So it runs
alone, beside a node, or in a test.
"""

import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from raftka.client.blocking.client import Client
from raftka.http.server import HttpServer
from raftka.http.thread import ServerThread, ThreadedSite
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


class RegistryServer(ThreadedSite):
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
        super().__init__(port.host, port.number, port.tls)
        self._report = report
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
        super().stop()

    def stop_soon(self) -> None:
        """Return at once. Its threads end within a second, or when a request to a broker is
        answered.
        """
        self._over.set()
        if self._thread is not None:
            self._thread.stop_soon()

    def _listen(self) -> ServerThread:
        self._thread = ServerThread(
            (self._host, self._port),
            self._make_http,
            "registry",
            self._start_log,
            self._log.stop,
        )
        return self._thread

    def _make_http(self, runtime: Runtime) -> HttpServer:
        site = RegistrySite(runtime, self.api, self._metrics, self._users, self._report)
        self.http = self._http_server(site, BOUNDS, runtime, has_logins=self._users is not None)
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
