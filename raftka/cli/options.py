"""Options that many commands share. Imports click alone: a help text needs no more."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raftka.cli.connection_options import cluster_options, name_values

if TYPE_CHECKING:
    from raftka.metadata.records import ScramCredentialSet

Option = Any  # a value from the command line: click has parsed it as the option's type
Command = Callable[..., Any]

AS = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How the answer is printed.",
)

PASSWORD_LOGINS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def port_options(port: int) -> Callable[[Command], Command]:
    """Return the options of a command that serves HTTP: where it listens (`port`: unless the user
    names one), and its certificate.
    """
    pem = click.Path(exists=True, dir_okay=False, path_type=Path)
    options = (
        click.option(
            "--host", default="127.0.0.1", show_default=True, help="The address to listen on."
        ),
        click.option(
            "--port",
            type=click.IntRange(0, 65535),
            default=port,
            show_default=True,
            help="0 picks a free one.",
        ),
        click.option("--certificate", type=pem, help="PEM: the port has TLS."),
        click.option(
            "--key", type=pem, help="PEM, of the certificate; without it they are in one file."
        ),
    )

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


QUIET = click.option("-q", "--quiet", is_flag=True, help="Show no progress.")


def pairs(
    _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """Each value is name=value. Raises BadParameter."""
    return name_values(values)


def first_users(
    _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> "tuple[ScramCredentialSet, ...]":
    """As --add-scram gives them."""
    if not values:
        return ()
    from raftka.cluster.secured.first_users import read_first_users

    try:
        return read_first_users(values)
    except OSError as error:
        raise click.BadParameter(f"the file cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


add_scram = click.option(
    "--add-scram",
    "users",
    callback=first_users,
    metavar="SCRAM-SHA-256=[name=NAME,password=PASSWORD]",
    multiple=True,
    help=(
        "A first user of the cluster, should it be formed now; @FILE: the same from a file. May "
        "be repeated; as kafka-storage format."
    ),
)


def release(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """As --api-ceiling gives it. Raises BadParameter."""
    if value is not None:
        from raftka.wire.api_ceilings import RELEASES

        if value not in RELEASES:
            raise click.BadParameter(f"{value!r} is none of {', '.join(RELEASES)}")
    return value


starting_topics = click.option(
    "--topics",
    metavar="NAME[:PARTITIONS][:POLICY][:SETTING=VALUE]...,...",
    help=(
        "Topics to make where the cluster does not have them, such as orders:3,payments:1:compact; "
        "clients may come when they are there. As the setting raftka.topics."
    ),
)


api_ceiling = click.option(
    "--api-ceiling",
    metavar="RELEASE",
    callback=release,
    help=(
        "Show clients at most the APIs, versions and features of that release of Kafka, 2.8 to "
        "4.3: for tests of clients. As the setting raftka.api.ceiling."
    ),
)


def client_options(command: Command) -> Command:
    """Options that select the cluster, say how to connect to it, and the output format."""
    return AS(cluster_options(command))
