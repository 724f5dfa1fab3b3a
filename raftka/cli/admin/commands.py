"""The part of the tree of commands that administers: settings, reassignment, elections. What a
command does is imported when it is called.
"""

from pathlib import Path

import click

from raftka.cli.options import Option, client_options, pairs

KINDS = click.Choice(["topic", "broker", "group", "client-metrics", "broker-logger"])


@click.group()
def configs() -> None:
    """Settings of topics, brokers, and all brokers."""


@configs.command("list")
@click.argument("kind", type=KINDS, required=False)
@client_options
def configs_list(**options: Option) -> None:
    """List the resources that have settings."""
    from raftka.cli.admin.configs import list_all

    raise SystemExit(list_all(**options))


@configs.command("describe")
@click.argument("kind", type=KINDS)
@click.argument("names", metavar="[NAME...]", nargs=-1)
@click.option("-a", "--all", "everything", is_flag=True, help="Also settings at their defaults.")
@client_options
def configs_describe(**options: Option) -> None:
    """Settings with their values and where these come from. A broker without a name: the default of
    all brokers.
    """
    from raftka.cli.admin.configs import describe

    raise SystemExit(describe(**options))


@configs.command("alter")
@click.argument("kind", type=KINDS)
@click.argument("names", metavar="[NAME...]", nargs=-1)
@click.option(
    "-c",
    "--config",
    "configs",
    callback=pairs,
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


@click.group()
def config() -> None:
    """The settings of a node."""


@config.command("show")
@click.argument(
    "file",
    metavar="[FILE.properties]",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=False,
)
@click.option(
    "--broker",
    type=click.IntRange(0),
    help="A broker that runs, instead of a file; the first one unless given.",
)
@click.option("--given", is_flag=True, help="Only settings that differ from their defaults.")
@client_options
def config_show(**options: Option) -> None:
    """Every setting with its value and where it comes from."""
    from raftka.cli.admin.config import show_all

    raise SystemExit(show_all(**options))


@click.group()
def partitions() -> None:
    """Leaders of partitions."""


@partitions.command("elect")
@click.argument("topics", metavar="[TOPIC...]", nargs=-1)
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


@click.group()
def reassign() -> None:
    """Move partitions to other brokers."""


@reassign.command("plan")
@click.argument("topics", metavar="[TOPIC...]", nargs=-1)
@click.option(
    "-b",
    "--broker",
    "brokers",
    type=click.IntRange(0),
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


@reassign.command("execute")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("-w", "--wait", is_flag=True, help="End when everything is where it should be.")
@client_options
def reassign_execute(**options: Option) -> None:
    """Move the partitions of a plan (- reads it from standard input)."""
    from raftka.cli.admin.reassign import execute

    raise SystemExit(execute(**options))


@reassign.command("status")
@client_options
def reassign_status(**options: Option) -> None:
    """Show the reassignments under way."""
    from raftka.cli.admin.reassign import status

    raise SystemExit(status(**options))


@reassign.command("cancel")
@click.argument("topics", metavar="[TOPIC...]", nargs=-1)
@client_options
def reassign_cancel(**options: Option) -> None:
    """Leave where it is what is being moved; of all topics when none is named."""
    from raftka.cli.admin.reassign import cancel

    raise SystemExit(cancel(**options))


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes the shell complete our commands: `source <(raftka completion bash)`, in fish
    `raftka completion fish | source`.
    """
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(context.find_root().command, {}, "raftka", "_RAFTKA_COMPLETE").source())
