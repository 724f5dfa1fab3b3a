"""`raftka bridge`: its part of the tree of commands. What a command does stands in client/cli.py,
imported when it is called.
"""

from collections.abc import Callable
from functools import wraps

import click

from raftka.cli.options import AS, Option, client_options
from raftka.cli.tree.nodes import Noun
from zookeeper_bridge.client.address import Address


@click.group(cls=Noun)
def group() -> None:
    """Show a cluster as ZooKeeper clients see it; its nodes run the bridge."""


def bridge_options(command: Callable[..., object]) -> Callable[..., object]:
    """Options that select the bridge and the client's identity."""
    where = click.option(
        "--bridge",
        default="localhost:2181",
        envvar="RAFTKA_BRIDGE",
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT[,...]",
        help="Where nodes speak ZooKeeper's protocol.",
    )
    who = click.option(
        "--digest",
        envvar="RAFTKA_BRIDGE_DIGEST",
        metavar="USER:PASSWORD",
        help="Identity to authenticate as.",
    )
    ca = click.option(
        "--tls-ca",
        envvar="RAFTKA_BRIDGE_TLS_CA",
        metavar="FILE",
        help="Certificates that the bridge's are signed by, PEM: connect with TLS.",
    )
    own = click.option(
        "--tls-cert",
        envvar="RAFTKA_BRIDGE_TLS_CERT",
        metavar="FILE",
        help="The client's own key and certificates, PEM, for TLS.",
    )

    @wraps(command)
    def addressed(
        *,
        bridge: str,
        digest: str | None,
        tls_ca: str | None,
        tls_cert: str | None,
        **options: Option,
    ) -> object:
        if tls_cert is not None and tls_ca is None:
            raise click.UsageError(
                "--tls-cert needs --tls-ca: without it the connection has no TLS"
            )
        return command(bridge=Address(bridge, digest, tls_ca, tls_cert), **options)

    return where(who(ca(own(addressed))))


@group.command("ls", example="raftka bridge ls /brokers/ids")
@click.argument("path", default="/")
@click.option("-r", "--recursive", is_flag=True, help="All below, as paths.")
@bridge_options
@AS
def ls(**options: Option) -> None:
    """Names of a znode's children."""
    from zookeeper_bridge.client.cli import ls as verb

    raise SystemExit(verb(**options))


@group.command("get", example="raftka bridge get /controller")
@click.argument("path")
@bridge_options
def get(**options: Option) -> None:
    """A znode's data, as they are."""
    from zookeeper_bridge.client.cli import get as verb

    raise SystemExit(verb(**options))


@group.command("stat", example="raftka bridge stat /brokers/topics")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@bridge_options
@AS
def stat(**options: Option) -> None:
    """Versions, zxids, times and sizes of znodes."""
    from zookeeper_bridge.client.cli import stat as verb

    raise SystemExit(verb(**options))


@group.command("watch", example="raftka bridge watch /brokers/ids --count 1")
@click.argument("path")
@click.option("-n", "--count", type=click.IntRange(1), help="So many events, then end.")
@bridge_options
@AS
def watch(**options: Option) -> None:
    """Print what happens to a znode and below it, a line each, as it happens."""
    from zookeeper_bridge.client.cli import watch as verb

    raise SystemExit(verb(**options))


@group.command("explain", example="raftka bridge explain /brokers/ids/1")
@click.argument("path")
@AS
def explain(**options: Option) -> None:
    """Show from what a path is computed, and what a write to it does. Asks no server."""
    from zookeeper_bridge.client.cli import explain as verb

    raise SystemExit(verb(**options))


@group.group("offsets")
def offsets() -> None:
    """A group's offsets, in /consumers and in Kafka."""


@offsets.command("export", example="raftka bridge offsets export billing --dry-run")
@click.argument("name", metavar="GROUP")
@click.option("--dry-run", is_flag=True, help="Show the changes without making them.")
@bridge_options
@client_options
def offsets_export(**options: Option) -> None:
    """From Kafka to /consumers/GROUP/offsets: what the group has committed, for consumers that keep
    their offsets in ZooKeeper.
    """
    from zookeeper_bridge.client.cli import export_offsets

    raise SystemExit(export_offsets(**options))


@offsets.command("import", example="raftka bridge offsets import billing --dry-run")
@click.argument("name", metavar="GROUP")
@click.option("--dry-run", is_flag=True, help="Show the changes without making them.")
@bridge_options
@client_options
def offsets_import(**options: Option) -> None:
    """From /consumers/GROUP/offsets to Kafka: as if the group had committed it there. Its consumers
    must be stopped.
    """
    from zookeeper_bridge.client.cli import import_offsets

    raise SystemExit(import_offsets(**options))
