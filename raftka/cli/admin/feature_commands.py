"""`raftka features` and `raftka controllers`: their part of the tree. What a command does stands in
features.py and controllers.py, imported when it is called.
"""

import click

from raftka.cli.options import Command, Option, client_options, pairs
from raftka.cli.tree.nodes import Noun


@click.group(cls=Noun)
def features() -> None:
    """Levels of the cluster: which formats nodes may write, and which behaviour clients see."""


def _levels(*, required: bool) -> Command:
    return click.option(
        "-f",
        "--feature",
        "levels",
        metavar="NAME=LEVEL",
        multiple=True,
        required=required,
        callback=pairs,
        help="A feature and its level. May be repeated; all change, or none.",
    )


dry_run = click.option("--dry-run", is_flag=True, help="Ask the controller, and change nothing.")


@features.command("describe", example="raftka features describe")
@client_options
def features_describe(**options: Option) -> None:
    """Features with their levels, and the levels that the nodes' release supports."""
    from raftka.cli.admin.features import describe

    raise SystemExit(describe(**options))


@features.command("upgrade", example="raftka features upgrade --dry-run")
@click.option(
    "--release-version", "release", metavar="RELEASE", help="Levels of that release of raftka."
)
@_levels(required=False)
@dry_run
@client_options
def features_upgrade(**options: Option) -> None:
    """Raise levels, when all nodes run the new release: it has the way back until then, and not
    from then on. Without options all levels become the highest that the nodes support.

    A node whose release does not support a level stops the upgrade; the answer names it.
    """
    from raftka.cli.admin.features import upgrade

    raise SystemExit(upgrade(**options))


@features.command("downgrade", example="raftka features downgrade -f group.version=0 --dry-run")
@_levels(required=True)
@click.option("--unsafe", is_flag=True, help="Also where it may lose information.")
@dry_run
@client_options
def features_downgrade(**options: Option) -> None:
    """Lower levels; 0 disables a feature. raftka.version and metadata.version cannot be lowered."""
    from raftka.cli.admin.features import downgrade

    raise SystemExit(downgrade(**options))


directory = click.option(
    "--directory", metavar="ID", help="Its directory id; without it the one that the leader knows."
)


@click.group(cls=Noun)
def controllers() -> None:
    """Controllers: the voters of the metadata quorum, which come and go with kraft.version 1."""


@controllers.command("list", example="raftka controllers list")
@client_options
def controllers_list(**options: Option) -> None:
    """Controllers with their role, directory and end points, and how many entries they lack."""
    from raftka.cli.admin.controllers import list_controllers

    raise SystemExit(list_controllers(**options))


@controllers.command("add", example="raftka controllers add 4 --at four.example.org:9093")
@click.argument("node", type=click.IntRange(0))
@click.option(
    "--at", "address", metavar="HOST:PORT", required=True, help="Where the controller listens."
)
@click.option(
    "--listener",
    help="Its listener's name; without it the one that the voters have.",
    metavar="NAME",
)
@directory
@client_options
def controllers_add(**options: Option) -> None:
    """Make a controller a voter. It runs, and follows the metadata."""
    from raftka.cli.admin.controllers import add

    raise SystemExit(add(**options))


@controllers.command("remove", example="raftka controllers remove 4")
@click.argument("node", type=click.IntRange(0))
@directory
@client_options
def controllers_remove(**options: Option) -> None:
    """Take a controller's vote. It goes on to follow the metadata as long as it runs."""
    from raftka.cli.admin.controllers import remove

    raise SystemExit(remove(**options))
