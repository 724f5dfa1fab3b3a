"""A server of pages, secured as `metrics.*` says: for a node's pages, those of the ZooKeeper
bridge, and those of a host of brokers.
"""

from collections.abc import Mapping

from raftka.broker.context import BrokerContext
from raftka.broker.exporter.http import Guard, HttpServer, Page
from raftka.broker.exporter.login import HttpLogins, needs_login
from raftka.broker.network.access.port_tls import PortTls
from raftka.metadata.configs.ports import metrics_tls_of

LOOPBACK = ("127.0.0.1", "::1")


def guarded_server(
    context: BrokerContext, pages: Mapping[str, Page], open_pages: Mapping[str, Page], where: str
) -> HttpServer:
    """With TLS and logins. `open_pages`: for clients without a login. Raises TlsError or
    SettingError when the settings will not do.
    """
    settings = context.metadata.settings
    tls = PortTls(context, metrics_tls_of, where) if settings["metrics.ssl.enable"] else None
    logins = HttpLogins(context) if needs_login(context) else None
    if logins is not None and tls is None and settings["metrics.host"] not in LOOPBACK:
        context.events.warning("http_logins_in_the_open", port=where)
    delay_s = settings.seconds("connection.failed.authentication.delay.ms")
    guard = Guard(logins, open_pages, delay_s, tls.protect if tls is not None else None)
    return HttpServer(pages, context.runtime.clock, context.metrics, context.events, guard)
