"""The part of the tree of commands that administers: settings, reassignment, elections. What a
command does is imported when it is called.
"""

from pathlib import Path

import click

from raftka.cli.options import AS, QUIET, Option, client_options, pairs
from raftka.cli.tree.completion import names_of, names_of_configs, settings_of
from raftka.cli.tree.nodes import Noun

KINDS = click.Choice(["topic", "broker", "group", "client-metrics", "broker-logger"])


@click.group(cls=Noun)
def configs() -> None:
    """Settings of topics, brokers, and all brokers."""


@configs.command("list", example="raftka configs list topic")
@click.argument("kind", type=KINDS, required=False)
@client_options
def configs_list(**options: Option) -> None:
    """List the resources that have settings."""
    from raftka.cli.admin.configs import list_all

    raise SystemExit(list_all(**options))


@configs.command("describe", example="raftka configs describe topic orders --all")
@click.argument("kind", type=KINDS)
@click.argument("names", metavar="[NAME...]", nargs=-1, shell_complete=names_of_configs)
@click.option("-a", "--all", "everything", is_flag=True, help="Also settings at their defaults.")
@client_options
def configs_describe(**options: Option) -> None:
    """Settings with their values and where these come from. A broker without a name: the default of
    all brokers.
    """
    from raftka.cli.admin.configs import describe

    raise SystemExit(describe(**options))


@configs.command(
    "alter", example="raftka configs alter topic orders -c retention.ms=3600000 --dry-run"
)
@click.argument("kind", type=KINDS)
@click.argument("names", metavar="[NAME...]", nargs=-1, shell_complete=names_of_configs)
@click.option(
    "-c",
    "--config",
    "configs",
    callback=pairs,
    shell_complete=settings_of(),
    metavar="NAME=VALUE",
    multiple=True,
    help="Set. May be repeated, like those that follow.",
)
@click.option(
    "--append", callback=pairs, metavar="NAME=VALUE", multiple=True, help="Add to a list."
)
@click.option(
    "--subtract", callback=pairs, metavar="NAME=VALUE", multiple=True, help="Take out of a list."
)
@click.option(
    "-d",
    "--delete-config",
    "delete",
    metavar="NAME",
    multiple=True,
    help="Give back to its default.",
)
@click.option("--dry-run", is_flag=True, help="Ask whether it would be taken, and change nothing.")
@client_options
def configs_alter(**options: Option) -> None:
    """Change settings. A broker without a name: the default of all brokers."""
    from raftka.cli.admin.configs import alter

    raise SystemExit(alter(**options))


@click.group(cls=Noun)
def config() -> None:
    """The settings of a node."""


@config.command("show", example="raftka config show server.properties --given")
@click.argument(
    "file",
    metavar="[FILE.properties]",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=False,
)
@click.option(
    "--broker",
    type=click.IntRange(0),
    shell_complete=names_of("brokers"),
    help="A broker that runs, instead of a file; the first one unless given.",
)
@click.option("--given", is_flag=True, help="Only settings that differ from their defaults.")
@client_options
def config_show(**options: Option) -> None:
    """Every setting with its value and where it comes from."""
    from raftka.cli.admin.config import show_all

    raise SystemExit(show_all(**options))


@config.command("from-env", example="KAFKA_NODE_ID=1 raftka config from-env")
@click.argument("file", metavar="[FILE.properties]", type=click.Path(), required=False)
@click.option("--show-secrets", is_flag=True, help="Also passwords and keys; else (hidden).")
@AS
def config_from_env(**options: Option) -> None:
    """Properties of the node that `raftka broker start --from-env [FILE]` would start: of the
    environment (KAFKA_*, KAFKA_CFG_*), of FILE below it, and the defaults of a container.

    Says on standard error which variables are passed over, and refuses what the node would refuse.
    """
    from raftka.cli.admin.config import print_environment

    raise SystemExit(print_environment(**options))


@click.group(cls=Noun)
def partitions() -> None:
    """Leaders of partitions."""


@partitions.command("elect", example="raftka partitions elect orders")
@click.argument("topics", metavar="[TOPIC...]", nargs=-1, shell_complete=names_of("topics"))
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(0),
    multiple=True,
    help="Only this one of the topic. May be repeated.",
)
@click.option(
    "--unclean",
    is_flag=True,
    help=(
        "For partitions without a leader, elect a replica that is not in sync: records that it "
        "lacks are lost."
    ),
)
@client_options
def partitions_elect(**options: Option) -> None:
    """Give leadership back to the first replica of each partition; of all topics when none is
    named.
    """
    from raftka.cli.admin.partitions import elect

    raise SystemExit(elect(**options))


@click.group(cls=Noun)
def reassign() -> None:
    """Move partitions to other brokers."""


@reassign.command("plan", example="raftka reassign plan orders --broker 1 --broker 2 -f plan.json")
@click.argument("topics", metavar="[TOPIC...]", nargs=-1, shell_complete=names_of("topics"))
@click.option(
    "--broker",
    "brokers",
    type=click.IntRange(0),
    shell_complete=names_of("brokers"),
    multiple=True,
    help="May have replicas; all that live unless given. May be repeated.",
)
@click.option("-r", "--replication-factor", type=click.IntRange(1), help="As it is unless given.")
@click.option(
    "-f",
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the plan there, for execute.",
)
@client_options
def reassign_plan(**options: Option) -> None:
    """Spread replicas and leaders evenly, moving little. Changes nothing; with -o json the plan is
    what Kafka's own tool takes.
    """
    from raftka.cli.admin.reassign import plan

    raise SystemExit(plan(**options))


@reassign.command("execute", example="raftka reassign execute plan.json --wait")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("-w", "--wait", is_flag=True, help="End when everything is where it should be.")
@QUIET
@client_options
def reassign_execute(**options: Option) -> None:
    """Move the partitions of a plan (- reads it from standard input)."""
    from raftka.cli.admin.reassign import execute

    raise SystemExit(execute(**options))


@reassign.command("status", example="raftka reassign status")
@client_options
def reassign_status(**options: Option) -> None:
    """Show the reassignments under way."""
    from raftka.cli.admin.reassign import status

    raise SystemExit(status(**options))


@reassign.command("cancel", example="raftka reassign cancel orders")
@click.argument("topics", metavar="[TOPIC...]", nargs=-1, shell_complete=names_of("topics"))
@client_options
def reassign_cancel(**options: Option) -> None:
    """Leave where it is what is being moved; of all topics when none is named."""
    from raftka.cli.admin.reassign import cancel

    raise SystemExit(cancel(**options))
