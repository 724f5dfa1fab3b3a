"""`raftka balance` and `raftka brokers`: the commands, with their options."""

from collections.abc import Callable

import click

from raftka.cli.options import QUIET, Command, Option, client_options
from raftka.cli.tree.completion import names_of
from raftka.cli.tree.nodes import Noun, Verb

THROTTLE, LOOK_S = 20_000_000, 3.0


def _plan_options(command: Command) -> Command:
    options: list[Callable[[Command], Command]] = [
        click.option("--dry-run", is_flag=True, help="Show the plan and change nothing."),
        click.option(
            "--throttle",
            type=click.IntRange(0),
            default=THROTTLE,
            show_default=True,
            metavar="BYTES",
            help="A second, for each broker that sends or takes; 0: as fast as it goes.",
        ),
        click.option(
            "--look",
            type=click.FloatRange(0, 3600),
            default=LOOK_S,
            show_default=True,
            help="Seconds in which the rates of producers are measured; 0: they do not count.",
        ),
        QUIET,
    ]
    for option in reversed(options):
        command = option(command)
    return command


_brokers = click.argument(
    "brokers",
    metavar="BROKER...",
    type=click.IntRange(0),
    nargs=-1,
    required=True,
    shell_complete=names_of("brokers"),
)


@click.command(
    "balance", cls=Verb, example=["raftka balance --dry-run", "raftka balance --throttle 50000000"]
)
@_plan_options
@click.option(
    "--cancel",
    "cancelled",
    is_flag=True,
    help="Leave where it is what is being moved, and remove the throttles.",
)
@client_options
def balance(**options: Option) -> None:
    """Move replicas and leaders until brokers are even within 5 % by bytes, leaders and rates.
    Racks and hosts stay apart.

    Ctrl-C ends it: moved replicas stay, moves under way are cancelled.
    """
    from raftka.cli.admin.balance import balance as verb

    raise SystemExit(verb(**options))


@click.group(cls=Noun)
def brokers() -> None:
    """Take brokers out of a cluster, and add new ones."""


@brokers.command("drain", example="raftka brokers drain 3 --dry-run")
@_brokers
@_plan_options
@client_options
def brokers_drain(**options: Option) -> None:
    """Move everything away from brokers; they get nothing new (cordoned.log.dirs) until they are
    added again. A broker that is dead can be drained, too.
    """
    from raftka.cli.admin.balance import drain

    raise SystemExit(drain(**options))


@brokers.command("add", example="raftka brokers add 4")
@_brokers
@_plan_options
@client_options
def brokers_add(**options: Option) -> None:
    """Move a fair share of replicas and leaders to brokers that are new, or were drained."""
    from raftka.cli.admin.balance import add

    raise SystemExit(add(**options))
