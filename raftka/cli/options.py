"""Options that many commands share. Imports click alone: a help text needs no more."""

from collections.abc import Callable
from typing import Any

import click

Option = Any  # a value from the command line: click has parsed it as the option's type
Command = Callable[..., Any]

AS = click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How the answer is printed.")


def pairs(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Each value is name=value."""
    found = {}
    for value in values:
        name, separator, text = value.partition("=")
        if not separator or not name.strip():
            raise click.BadParameter(f"{value!r} is not NAME=VALUE")
        found[name.strip()] = text.strip()
    return found


def client_options(command: Command) -> Command:
    """Options that select the cluster and the output format."""
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
