"""Options that many commands share. Imports click alone: a help text needs no more."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from raftka.metadata.records import ScramCredentialSet

Option = Any  # a value from the command line: click has parsed it as the option's type
Command = Callable[..., Any]

AS = click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How the answer is printed.")


CLIENT_FILE, CLIENT_PROPERTIES = "raftka.client_file", "raftka.client_properties"  # in the context of a command


def pairs(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Each value is name=value."""
    found = {}
    for value in values:
        name, separator, text = value.partition("=")
        if not separator or not name.strip():
            raise click.BadParameter(f"{value!r} is not NAME=VALUE")
        found[name.strip()] = text.strip()
    return found


def first_users(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> "tuple[ScramCredentialSet, ...]":
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


def _properties(context: click.Context, _option: click.Parameter, file: str | None) -> None:
    context.meta[CLIENT_FILE] = file


def _overrides(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> None:
    context.meta[CLIENT_PROPERTIES] = pairs(context, option, values)


def client_options(command: Command) -> Command:
    """Options that select the cluster, say how to connect to it (cli/admin/client.py reads these), and the output format."""
    command = click.option(
        "-X",
        "properties",
        multiple=True,
        metavar="NAME=VALUE",
        expose_value=False,
        callback=_overrides,
        help="A client property of Kafka's, such as security.protocol; stronger than the file.",
    )(command)
    command = click.option(
        "--command-config",
        envvar="RAFTKA_COMMAND_CONFIG",
        show_envvar=True,
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        expose_value=False,
        callback=_properties,
        help="Client properties in a file, as Kafka's tools take them.",
    )(command)
    return AS(
        click.option(
            "--bootstrap-server",
            default="localhost:9092",
            envvar="RAFTKA_BOOTSTRAP_SERVER",
            show_default=True,
            show_envvar=True,
            metavar="HOST:PORT[,...]",
            help="Where to ask first.",
        )(command)
    )
