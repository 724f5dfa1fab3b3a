"""The order for the console's process: how it connects to the brokers, who logs in, what it shows.
Made by a node or a launcher from a node's settings; process.py reads it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from raftka.client.connection import Address
from raftka.console.settings import LOOPBACK, MASK, check_registry_ca, read_registry_login, read_tls
from raftka.json_values import JsonObject
from raftka.metadata.configs.logins import mechanisms_of, tls_of
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.image import Endpoint
from raftka.properties_file import parse_properties
from raftka.security.client_security import uses_sasl, uses_tls

BY_PASSWORD = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")  # mechanisms, the best first
OF_TRUST = (
    "ssl.endpoint.identification.algorithm",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
CERTIFICATE = ("console.ssl.certificate.location", "console.ssl.key.location")
REGISTRY_LOGIN, REGISTRY_CA = "console.registry.login.location", "console.registry.ca.location"
IDLE_S = 600.0  # without a browser, then the process ends
OPEN = "none"  # of console.login.mechanism


def listener_of_clients(settings: NodeSettings) -> Endpoint:
    """Return the first listener at which clients log in; without one the first of all. A node
    without clients' listeners has the brokers' own.
    """
    listeners = settings.listeners or (
        Endpoint(
            settings.inter_broker_listener,
            "",
            0,
            settings.protocols.get(settings.inter_broker_listener, "PLAINTEXT"),
        ),
    )
    return next((each for each in listeners if uses_sasl(each.security_protocol)), listeners[0])


def connection_of(
    settings: NodeSettings, listener: Endpoint, properties: Mapping[str, str] | None = None
) -> tuple[Mapping[str, str], str]:
    """Return the client properties of the console's connections, and the mechanism by which its
    users log in; empty: they do not. `properties`: None: of console.client.config, or as the
    listener asks for. Raises ValueError where no user could log in, and for a file that cannot be
    read.
    """
    file: str | None = settings["console.client.config"]
    asked: str | None = settings["console.login.mechanism"]
    if file is not None:
        properties = _read(file)
    if properties is not None:
        own = properties.get("sasl.mechanism", "")
        login = asked or (own if own in BY_PASSWORD else OPEN)
        return properties, "" if login == OPEN else login
    protocol, name = listener.security_protocol, listener.listener
    instead = "set console.client.config to a file of client properties"
    if asked == OPEN and uses_sasl(protocol):
        raise ValueError(f"console.login.mechanism=none: the listener {name} has logins; {instead}")
    found = {"security.protocol": protocol}
    if uses_tls(protocol):
        if tls_of(settings.values, name, protocol).client_auth == "required":
            raise ValueError(f"console.port: the listener {name} asks for certificates; {instead}")
        own_values = {each: settings.at(name)[each] for each in OF_TRUST}
        found |= {each: str(value) for each, value in own_values.items() if value is not None}
    if not uses_sasl(protocol):
        return found, ""
    offered = mechanisms_of(settings.values, name)
    mechanism = asked or next((each for each in BY_PASSWORD if each in offered), None)
    if mechanism is None or mechanism not in offered:
        raise ValueError(
            f"console.port: at the listener {name} users log in by {', '.join(offered)}, not by "
            f"{asked or 'a password'}; {instead}"
        )
    return {**found, "sasl.mechanism": mechanism}, mechanism


def _read(file: str) -> dict[str, str]:
    try:
        return parse_properties(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"console.client.config={file}: {error.strerror or error}") from None


def check_console(settings: NodeSettings) -> None:
    """Raise ValueError for settings of the console that its process would refuse, while the one who
    has given them still looks.
    """
    certificate, key = (settings[name] for name in CERTIFICATE)
    try:
        read_tls(certificate, key)
    except OSError as error:
        raise ValueError(f"{' or '.join(CERTIFICATE)}: {error.strerror or error}") from None
    except ValueError as error:
        raise ValueError(f"{CERTIFICATE[1]}: {error}") from None
    for name, check in ((REGISTRY_LOGIN, read_registry_login), (REGISTRY_CA, check_registry_ca)):
        try:
            check(settings[name])
        except OSError as error:
            raise ValueError(f"{name}: {error.strerror or error}") from None
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    if settings["console.sql"] and settings["console.host"] not in LOOPBACK:
        raise ValueError(
            "console.sql: a console that other machines reach has no SQL of its own: "
            "`raftka console --sql-url` has that of a server"
        )
    for each in settings["console.masked.fields"]:
        if not MASK.fullmatch(each):
            raise ValueError(
                f"console.masked.fields: {each!r} is no field to mask: it is a name, or $.NAME.NAME"
            )


def order_of(
    settings: NodeSettings,
    port: int,
    addresses: Sequence[Address],
    properties: Mapping[str, str],
    login: str,
    registry: str = "",
    *,
    has_sql: bool,
) -> JsonObject:
    """Return the order for the console's process. `addresses`: of brokers; `properties` and
    `login`: of `connection_of`; `registry`: URL of the schema registry; `has_sql`: a console that
    this machine alone reaches, without logins, has a page for SQL.
    """
    return {
        "bootstrap": [list(each) for each in addresses],
        "properties": dict(properties),
        "login": login,
        "host": settings["console.host"],
        "port": port,
        "certificate": settings["console.ssl.certificate.location"],
        "key": settings["console.ssl.key.location"],
        "registry": registry,
        "registry_login": settings["console.registry.login.location"],
        "registry_ca": settings["console.registry.ca.location"],
        "read_only": settings["console.read.only"],
        "show_records": settings["console.records"],
        "masked": list(settings["console.masked.fields"]),
        "allowed_hosts": list(settings["console.allowed.hosts"]),
        "sql": has_sql and not login and settings["console.host"] in LOOPBACK,
        "idle_s": IDLE_S,
    }
