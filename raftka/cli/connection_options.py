"""Options that select the cluster and say how to connect to it. They stand before or behind the
noun: `raftka -b HOST:PORT topics list`, `raftka topics list -b HOST:PORT`. Given twice, they must
agree. Imports click alone: a help text needs no more.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from raftka.cli.admin.profiles import Profile

T = TypeVar("T", bound=Callable[..., object])

SERVER = "localhost:9092"
HERE = "raftka.connection"  # the key of a `Chosen` in the context of a command line
SOURCES = {ParameterSource.COMMANDLINE: 2, ParameterSource.ENVIRONMENT: 1}  # 0: a default


@dataclass
class Chosen:
    """The connection, as a command line describes it."""

    given: dict[str, str] = field(default_factory=dict)  # by option: its value, wherever it stands
    profile: "Profile | None" = None
    file: str | None = None  # of --command-config
    properties: dict[str, str] = field(default_factory=dict)  # of -X
    is_named: bool = False  # an option, the environment or a profile names the server


def chosen(context: click.Context | None) -> Chosen:
    """Return what was read so far of the command line that `context` belongs to."""
    if context is None:
        return Chosen()
    found: Chosen = context.meta.setdefault(HERE, Chosen())
    return found


class ConnectionOption(click.Option):
    """An option that may stand at several places of a command line."""

    def value_from_envvar(self, ctx: click.Context) -> tuple[str, ...] | None:
        """Return the environment's value as it is: click would part it at spaces."""
        found = self.resolve_envvar_value(ctx)
        return None if found is None else (found,)


def name_values(values: tuple[str, ...]) -> dict[str, str]:
    """Return NAME=VALUE texts by name. Raises BadParameter for another text, and for a name with
    two values.
    """
    found: dict[str, str] = {}
    for value in values:
        name, separator, text = (part.strip() for part in value.partition("="))
        if not separator or not name:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE")
        if found.setdefault(name, text) != text:
            raise click.BadParameter(f"{name} is given twice, with different values")
    return found


def _read(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> None:
    """Note the values that the command line gives. Raises UsageError for two that differ."""
    if context.get_parameter_source(option.name) is not ParameterSource.COMMANDLINE:
        return
    given = chosen(context).given
    name = max(option.opts, key=len)
    for value in values:
        if given.setdefault(name, value) != value:
            raise click.UsageError(
                f"{name} is given twice, as {given[name]} and as {value}: give it once", context
            )


def _read_properties(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> None:
    """Add the properties to those that stand before. Raises BadParameter for two that differ."""
    into = chosen(context)
    for name, value in name_values(values).items():
        if into.properties.setdefault(name, value) != value:
            raise click.BadParameter(f"{name} is given twice, with different values")
        into.given["-X"] = name


def _settled(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[str | None, int]:
    """Return the option's value and how strong it is, as SOURCES has it."""
    _read(context, option, values)
    given = chosen(context).given.get(max(option.opts, key=len))
    if given is not None:
        return given, SOURCES[ParameterSource.COMMANDLINE]
    source = context.get_parameter_source(option.name)
    return (values[-1] if values else None), SOURCES.get(source, 0) if source is not None else 0


def _profile(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> None:
    """The first of them that is read: it is eager."""
    name, _ = _settled(context, option, values)
    if name is None:
        return
    from raftka.cli.admin.profiles import find_profile

    try:
        chosen(context).profile = find_profile(name)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _is_weaker(context: click.Context, strength: int) -> bool:
    """Return whether the environment gave a value and the command line a profile."""
    return strength == SOURCES[ParameterSource.ENVIRONMENT] and "--profile" in chosen(context).given


def _server(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> str:
    server, strength = _settled(context, option, values)
    into = chosen(context)
    profile = into.profile
    into.is_named = strength > 0 or bool(profile and profile.server)
    if profile is not None and profile.server and (not strength or _is_weaker(context, strength)):
        return profile.server
    return server or SERVER


def _file(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> None:
    file, strength = _settled(context, option, values)
    chosen(context).file = None if _is_weaker(context, strength) else file


def _profile_names(
    _context: click.Context, _option: click.Parameter, typed: str
) -> list[CompletionItem]:
    from raftka.cli.admin.profiles import profile_names

    try:
        return [CompletionItem(name) for name in profile_names() if name.startswith(typed)]
    except ValueError:
        return []


def options_before_nouns(*, hidden: bool) -> list[ConnectionOption]:
    """Make the options for a group of commands: it notes them, its commands act on them."""
    return [
        ConnectionOption(
            ["-b", "--bootstrap-server"],
            multiple=True,
            expose_value=False,
            callback=_read,
            metavar="HOST:PORT[,...]",
            hidden=hidden,
            help="Where to ask first. These options stand here or behind the command.",
        ),
        ConnectionOption(
            ["--profile"],
            multiple=True,
            expose_value=False,
            callback=_read,
            shell_complete=_profile_names,
            metavar="NAME",
            hidden=hidden,
            help="A section of ~/.config/raftka/profiles.toml.",
        ),
        ConnectionOption(
            ["--command-config"],
            multiple=True,
            type=click.Path(exists=True, dir_okay=False),
            expose_value=False,
            callback=_read,
            metavar="FILE",
            hidden=hidden,
            help="Client properties in a file, as Kafka's tools take them.",
        ),
        ConnectionOption(
            ["-X", "properties"],
            multiple=True,
            expose_value=False,
            callback=_read_properties,
            metavar="NAME=VALUE",
            hidden=hidden,
            help="A client property of Kafka's, such as security.protocol.",
        ),
    ]


def cluster_options(command: T) -> T:
    """Options of a command that connects to a cluster; cli/admin/client.py reads `chosen`."""
    properties = click.option(
        "-X",
        "properties",
        cls=ConnectionOption,
        multiple=True,
        metavar="NAME=VALUE",
        expose_value=False,
        callback=_read_properties,
        help="A client property of Kafka's, such as security.protocol; stronger than the file.",
    )
    file = click.option(
        "--command-config",
        cls=ConnectionOption,
        multiple=True,
        envvar="RAFTKA_COMMAND_CONFIG",
        show_envvar=True,
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        expose_value=False,
        callback=_file,
        help="Client properties in a file, as Kafka's tools take them.",
    )
    profile = click.option(
        "--profile",
        cls=ConnectionOption,
        multiple=True,
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
    )
    server = click.option(
        "-b",
        "--bootstrap-server",
        cls=ConnectionOption,
        multiple=True,
        default=(SERVER,),
        envvar="RAFTKA_BOOTSTRAP_SERVER",
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT[,...]",
        callback=_server,
        help="Where to ask first.",
    )
    return server(profile(file(properties(command))))
