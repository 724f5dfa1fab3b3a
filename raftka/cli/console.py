"""`raftka console`: the console in front of any Kafka, in this process until SIGTERM or Ctrl-C."""

import errno
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from raftka.cli.connection_options import cluster_options
from raftka.cli.options import PASSWORD_LOGINS, Option, port_options
from raftka.cli.tree.nodes import Verb

if TYPE_CHECKING:
    from raftka.console.sql.target import SqlTarget


@click.command(
    cls=Verb,
    example=[
        "raftka console",
        "raftka console -b broker-1:9092 --read-only --mask card --mask '$.customer.email'",
        "raftka console -X security.protocol=SSL --login SCRAM-SHA-256 --certificate console.pem",
    ],
)
@cluster_options
@port_options(8080)
@click.option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A further name that browsers may use for the console, such as a proxy's.",
)
@click.option(
    "--login",
    type=click.Choice(PASSWORD_LOGINS),
    help=(
        "Ask for names and passwords, and log in at the brokers with them by this mechanism: users "
        "see and do what their ACLs allow. Without it all have the rights of the connection."
    ),
)
@click.option("--registry", metavar="URL", help="The schema registry, for Avro and Protobuf.")
@click.option(
    "--registry-login",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A file with NAME:PASSWORD, with which the registry is asked for all users.",
)
@click.option(
    "--registry-ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="PEM: trusted where the registry's URL is https, in place of the system's.",
)
@click.option(
    "--sql-url",
    metavar="URL",
    help=(
        "The server of `raftka sql serve` for the page of SQL. [default: that of this user, where "
        "only this machine reaches the console, without --login]"
    ),
)
@click.option(
    "--sql-token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The token of that server.",
)
@click.option(
    "--sql-certificate",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="PEM: trusted for that server, where its URL is https.",
)
@click.option("--no-sql", is_flag=True, help="Have no page for SQL.")
@click.option("--read-only", is_flag=True, help="Refuse every change.")
@click.option("--no-records", is_flag=True, help="Show no record.")
@click.option(
    "--mask",
    "masked",
    multiple=True,
    metavar="FIELD",
    help="Show *** for this field of JSON, a name or a path such as $.a.b, and for such headers.",
)
@click.option(
    "--open/--no-open",
    "opens",
    default=None,
    help="Open the browser, or do not. [default: on a terminal beside a desktop]",
)
def console(**options: Option) -> None:
    """Show a cluster in the browser, in front of any Kafka. Prints its URL when it answers."""
    where = (options["bootstrap_server"], options["host"], options["login"])
    own = {name: options.pop(name) for name in ("sql_url", "sql_token_file", "sql_certificate")}
    sql = None if options.pop("no_sql") else _sql_target(*where, **own)
    raise SystemExit(serve(**options, sql=sql))


def _sql_target(
    bootstrap_server: str,
    host: str,
    login: str | None,
    sql_url: str | None,
    sql_token_file: Path | None,
    sql_certificate: Path | None,
) -> "SqlTarget | None":
    """Return the SQL server behind the page; None: there is no such page."""
    from raftka.cli.admin.client import properties_of
    from raftka.console.settings import LOOPBACK
    from raftka.console.sql.target import SqlTarget
    from raftka.sql.server.folder import Address
    from raftka.sql.server.launch import Wanted

    if sql_url is None:
        if host not in LOOPBACK or login is not None:
            return None
        properties, _ = properties_of(click.get_current_context())
        return SqlTarget(Wanted(bootstrap_server, properties))
    token = "" if sql_token_file is None else sql_token_file.read_text().strip()
    if not (token and token.isascii() and token.isprintable()):
        raise click.UsageError("--sql-url needs --sql-token-file, with the token of that server")
    return SqlTarget(address=Address(sql_url, token, 0, str(sql_certificate or "")))


def serve(
    bootstrap_server: str,
    host: str,
    port: int,
    allowed_hosts: tuple[str, ...],
    login: str | None,
    certificate: Path | None,
    key: Path | None,
    registry: str | None,
    registry_login: Path | None,
    registry_ca: Path | None,
    masked: tuple[str, ...],
    opens: bool | None,
    sql: "SqlTarget | None",
    *,
    read_only: bool,
    no_records: bool,
) -> int:
    """Return the exit code."""
    from raftka.cli.admin.client import command_security
    from raftka.client.blocking.connection import addresses_of
    from raftka.console.server import ConsoleServer
    from raftka.console.settings import (
        ConsoleSettings,
        check_registry_ca,
        read_registry_login,
        read_tls,
        warnings_of,
    )

    over = threading.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: over.set())
    try:
        check_registry_ca(registry_ca)
        settings = ConsoleSettings(
            addresses_of(bootstrap_server),
            command_security(),
            host,
            port,
            read_tls(certificate, key),
            login or "",
            allowed_hosts,
            registry or "",
            read_registry_login(registry_login),
            None if registry_ca is None else str(registry_ca),
            read_only,
            not no_records,
            masked,
            sql,
        )
        with ConsoleServer(settings) as server:
            for warning in warnings_of(settings):
                print(warning, file=sys.stderr, flush=True)
            print(f"console: {server.url}", flush=True)
            if opens or (opens is None and sys.stdout.isatty() and has_desktop()):
                open_browser(server.url)
            over.wait()
    except OSError as error:
        hint = "; --port 0 picks a free one" if error.errno == errno.EADDRINUSE else ""
        raise click.ClickException(f"{error}{hint}") from None
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    return 0


def has_desktop() -> bool:
    """Return False where a browser would be one of the terminal, and take it over."""
    return sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())


def open_browser(url: str) -> None:
    import webbrowser

    if not webbrowser.open(url):
        print(f"there is no browser to open: {url}", file=sys.stderr, flush=True)
