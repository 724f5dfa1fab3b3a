"""`raftka registry start`: a schema registry in this process until SIGTERM or Ctrl-C."""

import signal
import sys
import threading
from functools import partial
from pathlib import Path

import click

from raftka.cli.connection_options import cluster_options
from raftka.cli.options import PASSWORD_LOGINS, Option, port_options
from raftka.cli.tree.nodes import Noun


@click.group(cls=Noun)
def registry() -> None:
    """A schema registry with Confluent's REST API: docs/registry.md. Needs raftka[registry]."""


@registry.command("start", example="raftka registry start -b localhost:9092 --port 8081")
@cluster_options
@port_options(8081)
@click.option(
    "--topic",
    default="_schemas",
    show_default=True,
    help="Where schemas are stored: made if it is not there.",
)
@click.option(
    "--login",
    type=click.Choice(PASSWORD_LOGINS),
    help=(
        "Ask for names and passwords, try them at the brokers by this mechanism, and allow what "
        "the user's ACLs allow. Without it all may do all."
    ),
)
def start(**options: Option) -> None:
    """Serve schemas until SIGTERM or Ctrl-C. Prints its URL when it answers."""
    raise SystemExit(serve(**options))


def serve(
    bootstrap_server: str,
    host: str,
    port: int,
    topic: str,
    login: str | None,
    certificate: Path | None,
    key: Path | None,
) -> int:
    """Return the exit code."""
    from raftka.cli.admin.client import command_security
    from raftka.client.blocking.client import Client
    from raftka.client.blocking.connection import ClientError, addresses_of
    from raftka.registry.access import User
    from raftka.registry.broker_access import as_user
    from raftka.registry.errors import RegistryError
    from raftka.registry.server import CLIENT_ID, Port, RegistryServer, port_tls

    over = threading.Event()
    failures: list[BaseException] = []

    def lost(error: BaseException) -> None:
        failures.append(error)
        over.set()

    def report(what: str, why: str) -> None:
        print(f"{what} failed: {why}", file=sys.stderr, flush=True)

    def client_of(user: User) -> Client:
        return Client(brokers, CLIENT_ID, security=as_user(security, login or "", user))

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: over.set())
    try:
        brokers, security = addresses_of(bootstrap_server), command_security()
        tls = port_tls(certificate, key)
        if login and tls is None:
            print(
                "passwords come in the open: --certificate gives the port TLS",
                file=sys.stderr,
                flush=True,
            )
        make_client = partial(Client, brokers, CLIENT_ID, security=security)
        with RegistryServer(
            make_client,
            Port(host, port, tls),
            topic,
            client_of=client_of if login else None,
            report=report,
            lost=lost,
        ) as server:
            print(f"schema registry: {server.url}", flush=True)
            over.wait()
    except (RegistryError, ClientError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    if failures:
        raise click.ClickException(f"the topic {topic} cannot be read any more: {failures[0]}")
    return 0
