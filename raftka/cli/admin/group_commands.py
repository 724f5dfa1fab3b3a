"""`raftka groups` and `raftka offsets`: their part of the tree. What a command does stands in
groups.py, imported when it is called.
"""

import click

from raftka.cli.options import Option, client_options
from raftka.cli.tree.completion import names_of
from raftka.cli.tree.nodes import Noun


@click.group(cls=Noun)
def groups() -> None:
    """Consumer groups: list and describe them, move their offsets, delete them."""


@groups.command("list", example="raftka groups list --state Stable")
@click.option(
    "-s",
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    help="Stable, Empty, PreparingRebalance, ... May be repeated.",
)
@client_options
def groups_list(**options: Option) -> None:
    """All groups, with their states."""
    from raftka.cli.admin.groups import list_all

    raise SystemExit(list_all(**options))


@groups.command("describe", example="raftka groups describe billing")
@click.argument(
    "groups", metavar="GROUP...", nargs=-1, required=True, shell_complete=names_of("groups")
)
@client_options
def groups_describe(**options: Option) -> None:
    """Committed offset, lag and member of each partition."""
    from raftka.cli.admin.groups import describe

    raise SystemExit(describe(**options))


@groups.command(
    "reset-offsets", example="raftka groups reset-offsets billing orders --to 2h --dry-run"
)
@click.argument("group", shell_complete=names_of("groups"))
@click.argument("topics", metavar="[TOPIC...]", nargs=-1, shell_complete=names_of("topics"))
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(0),
    multiple=True,
    help="Only this one. May be repeated.",
)
@click.option(
    "--to",
    help=(
        "start, end, current, an offset, -N: N before the end, 90m, 2h, 7d or PT1H30M: so long "
        "ago, or a time like 2026-11-21T08:00."
    ),
)
@click.option("--by", type=int, help="So many on from where it is, or back: --by -10.")
@click.option("--dry-run", is_flag=True, help="Show the changes without making them.")
@client_options
def groups_reset_offsets(**options: Option) -> None:
    """Move the committed offsets of a group whose consumers are stopped; of all its topics when
    none is named.
    """
    from raftka.cli.admin.groups import reset_offsets

    raise SystemExit(reset_offsets(**options))


@groups.command("delete", example="raftka groups delete billing")
@click.argument(
    "groups", metavar="GROUP...", nargs=-1, required=True, shell_complete=names_of("groups")
)
@client_options
def groups_delete(**options: Option) -> None:
    """Delete groups that have no members, with their offsets."""
    from raftka.cli.admin.groups import delete

    raise SystemExit(delete(**options))


@click.group(cls=Noun)
def offsets() -> None:
    """Committed offsets as lines, to keep them or to move them to another group or cluster."""


@offsets.command("export", example="raftka offsets export billing -o json")
@click.argument(
    "groups", metavar="GROUP...", nargs=-1, required=True, shell_complete=names_of("groups")
)
@client_options
def offsets_export(**options: Option) -> None:
    """Print the committed offsets; with -o json for import."""
    from raftka.cli.admin.groups import export_offsets

    raise SystemExit(export_offsets(**options))


@offsets.command("import", example="raftka offsets import offsets.json --group billing-2")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("-g", "--group", help="All go to this group; else each to its own.")
@click.option("--dry-run", is_flag=True, help="Show the changes without making them.")
@client_options
def offsets_import(**options: Option) -> None:
    """Commit what export has printed as JSON (- reads it from standard input). The groups'
    consumers must be stopped.
    """
    from raftka.cli.admin.groups import import_offsets

    raise SystemExit(import_offsets(**options))


@offsets.command("delete", example="raftka offsets delete billing orders --partition 3")
@click.argument("group", shell_complete=names_of("groups"))
@click.argument(
    "topics", metavar="TOPIC...", nargs=-1, required=True, shell_complete=names_of("topics")
)
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(0),
    multiple=True,
    help="Only this one. May be repeated.",
)
@client_options
def offsets_delete(**options: Option) -> None:
    """Delete the offsets of a group in topics that none of its members reads."""
    from raftka.cli.admin.groups import delete_committed

    raise SystemExit(delete_committed(**options))
