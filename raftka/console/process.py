"""The console's process behind a door: reads its order, serves browsers, and ends with its owner or
when nobody has looked for so long as the order says; for a day, if it sent dead letters again.
"""

import os
import socket
import sys
from typing import NoReturn

from raftka.client.blocking.connection import addresses_of
from raftka.console.control.channel import RemoteControl
from raftka.console.dead_letters.jobs import JOBS
from raftka.console.door import follow_door
from raftka.console.server import ConsoleServer
from raftka.console.settings import ConsoleSettings, read_registry_login, read_tls
from raftka.console.sql.target import SqlTarget, wanted_of
from raftka.json_values import JsonObject
from raftka.security.client_security import ClientSecurity, client_security, uses_tls
from raftka.security.tls_settings import NO_TLS, TlsSettings

NICENESS = 10  # the nodes of this machine go first
STEP_S = 5.0  # between two looks, at most


def settings_of(order: JsonObject, control: RemoteControl | None) -> ConsoleSettings:
    """Return the settings that an order (order.py) asks for. Raises OSError for files of no use,
    ValueError for properties of no use.
    """
    properties: dict[str, str] = order["properties"]
    servers = properties.get("bootstrap.servers", "")
    found = addresses_of(servers) if servers else []
    bootstrap = [*found, *((host, port) for host, port in order["bootstrap"])]
    return ConsoleSettings(
        bootstrap=bootstrap,
        security=_security(properties, order["login"]),
        host=order["host"],
        port=order["port"],
        tls=read_tls(order["certificate"], order["key"]),
        login=order["login"],
        registry=order["registry"],
        registry_login=read_registry_login(order["registry_login"]),
        registry_ca=order["registry_ca"],
        read_only=order["read_only"],
        show_records=order["show_records"],
        masked=order["masked"],
        sql=SqlTarget(wanted_of(bootstrap, properties)) if order["sql"] else None,
        allowed_hosts=order["allowed_hosts"],
        control=control,
    )


def _security(properties: dict[str, str], login: str) -> ClientSecurity:
    """Users who log in bring names and passwords: those of a file are not for everybody."""
    if not login:
        return client_security(properties)
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    tls = TlsSettings.of(properties.get) if uses_tls(protocol) else NO_TLS
    return ClientSecurity(protocol, login, tls=tls)


def main() -> NoReturn:
    """Serve until the owner has ended, or nobody looks."""
    order, owner_has_ended = follow_door(0)
    os.nice(NICENESS)
    listening, *more = (socket.socket(fileno=int(each)) for each in sys.argv[1:])
    try:
        settings = settings_of(order, RemoteControl(more[0]) if more else None)
    except (OSError, ValueError) as error:
        sys.exit(str(error))
    server = ConsoleServer(settings, listening)
    server.start()
    idle_s: float = order["idle_s"]
    while not owner_has_ended(min(STEP_S, idle_s)):
        idle = server.idle_s
        if idle >= idle_s and JOBS.may_end(idle):
            break
    sys.stderr.flush()
    os._exit(0)  # without waiting for brokers that do not answer: nothing is kept here


if __name__ == "__main__":
    main()
