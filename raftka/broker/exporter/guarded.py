"""A server of pages, secured as `metrics.*` says: for a node's pages, those of the ZooKeeper
bridge, and those of a host of brokers.
"""

from collections.abc import Callable, Mapping

from raftka.broker.context import BrokerContext
from raftka.broker.exporter.login import HttpLogins, needs_login
from raftka.broker.network.access.port_tls import PortTls
from raftka.broker.telemetry.event_log import BoundedRate
from raftka.http.pages import BOUNDS, Guard, Page, Pages
from raftka.http.server import HttpServer
from raftka.limits import Limit
from raftka.metadata.configs.ports import metrics_tls_of

LOOPBACK = ("127.0.0.1", "::1")
FAILED_LOGINS = "raftka_http_failed_authentications_total"


class NodeReport:
    """The log and the metrics of this node."""

    def __init__(self, context: BrokerContext) -> None:
        self._metrics, self._events = context.metrics, context.events
        self._log_failed_login = BoundedRate(
            context.events.info, "http_authentication_failed", context.runtime.clock.now
        )

    def limit_hit(self, limit: Limit) -> None:
        self._metrics.hit(limit)

    def request_refused(self, peer: str, reason: str) -> None:
        self._events.warning("http_refused", peer=peer, reason=reason)
        self._metrics.count("raftka_http_errors_total")

    def login_failed(self, peer: str, scheme: str) -> None:
        self._metrics.count(FAILED_LOGINS)
        self._log_failed_login(peer=peer, scheme=scheme)

    def page_failed(self, path: str, error: Exception) -> None:
        self._events.error("page_failed", path=path, error=repr(error))


def guarded_server(
    context: BrokerContext, pages: Mapping[str, Page], open_pages: Mapping[str, Page], where: str
) -> HttpServer:
    """Return a server with TLS and logins. `open_pages`: for clients without a login. Raises
    TlsError or SettingError for settings that cannot be used.
    """
    settings, clock = context.metadata.settings, context.runtime.clock
    tls = PortTls(context, metrics_tls_of, where) if settings["metrics.ssl.enable"] else None
    guard = None
    if needs_login(context):
        if tls is None and settings["metrics.host"] not in LOOPBACK:
            context.events.warning("http_logins_in_the_open", port=where)

        def later(delay_s: float, action: Callable[[], None]) -> None:
            clock.call_at(clock.now() + delay_s, action)

        delay_s = settings.seconds("connection.failed.authentication.delay.ms")
        guard = Guard(HttpLogins(context), later, delay_s, open_pages)
    return HttpServer(
        Pages(pages, NodeReport(context), guard),
        BOUNDS,
        clock,
        has_logins=guard is not None,
        protect=tls.protect if tls is not None else None,
    )
