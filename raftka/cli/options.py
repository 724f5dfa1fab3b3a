"""Options that many commands share. Imports click alone: a help text needs no more."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from raftka.cli.admin.profiles import Profile
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


# In the context of a command.
CLIENT_PROFILE, CLIENT_FILE = "raftka.client_profile", "raftka.client_file"
CLIENT_PROPERTIES = "raftka.client_properties"


def pairs(
    _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """Each value is name=value."""
    found = {}
    for value in values:
        name, separator, text = value.partition("=")
        if not separator or not name.strip():
            raise click.BadParameter(f"{value!r} is not NAME=VALUE")
        found[name.strip()] = text.strip()
    return found


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


def _profile(context: click.Context, _option: click.Parameter, name: str | None) -> None:
    if name is None:
        return
    from raftka.cli.admin.profiles import find_profile

    try:
        context.meta[CLIENT_PROFILE] = find_profile(name)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _profile_names(
    _context: click.Context, _option: click.Parameter, typed: str
) -> list[CompletionItem]:
    from raftka.cli.admin.profiles import profile_names

    try:
        return [CompletionItem(name) for name in profile_names() if name.startswith(typed)]
    except ValueError:
        return []


def _is_weaker(context: click.Context, option: click.Parameter) -> bool:
    """Return whether the environment gave this option and the command line a profile."""
    sources = ParameterSource.ENVIRONMENT, ParameterSource.COMMANDLINE
    return (
        context.get_parameter_source(option.name or ""),
        context.get_parameter_source("profile"),
    ) == sources


def _server(context: click.Context, option: click.Parameter, server: str) -> str:
    profile: Profile | None = context.meta.get(CLIENT_PROFILE)
    is_default = context.get_parameter_source(option.name or "") is ParameterSource.DEFAULT
    return (
        profile.server
        if profile is not None and profile.server and (is_default or _is_weaker(context, option))
        else server
    )


def _properties(context: click.Context, option: click.Parameter, file: str | None) -> None:
    context.meta[CLIENT_FILE] = None if _is_weaker(context, option) else file


def _overrides(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> None:
    context.meta[CLIENT_PROPERTIES] = pairs(context, option, values)


def client_options(command: Command) -> Command:
    """Options that select the cluster, say how to connect to it, and the output format."""
    return AS(cluster_options(command))


def cluster_options(command: Command) -> Command:
    """Options that select the cluster and say how to connect to it: cli/admin/client.py reads
    these.
    """
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
    command = click.option(
        "--profile",
        envvar="RAFTKA_PROFILE",
        show_envvar=True,
        metavar="NAME",
        is_eager=True,
        expose_value=False,
        callback=_profile,
        shell_complete=_profile_names,
        help=(
            "A section of ~/.config/raftka/profiles.toml: bootstrap_server and client "
            "properties. Other options are stronger."
        ),
    )(command)
    return click.option(
        "--bootstrap-server",
        default="localhost:9092",
        envvar="RAFTKA_BOOTSTRAP_SERVER",
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT[,...]",
        callback=_server,
        help="Where to ask first.",
    )(command)
