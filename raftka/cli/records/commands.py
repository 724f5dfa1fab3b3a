"""`raftka produce` and `raftka consume`: their part of the tree. What a command does stands in
produce.py and consume.py, imported when it is called.
"""

import click

from raftka.cli.options import QUIET, Option, client_options
from raftka.cli.tree.completion import names_of
from raftka.cli.tree.nodes import Verb


@click.command(
    cls=Verb, example="echo 'truck-1:52.5,13.4' | raftka produce trucks --key-separator :"
)
@click.argument("topic", shell_complete=names_of("topics"))
@click.option(
    "-i",
    "--input",
    "source",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json: the output of consume -o json.",
)
@click.option("-K", "--key-separator", help="A text line is key, separator, value.")
@click.option(
    "-p", "--partition", type=click.IntRange(0), help="All records go there; else the key decides."
)
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True)
@click.option(
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
)
@QUIET
@client_options
def produce(**options: Option) -> None:
    """Send standard input, a record a line. Ends when all are acknowledged."""
    from raftka.cli.records.produce import produce as verb

    raise SystemExit(verb(**options))


@click.command(
    cls=Verb,
    example=[
        "raftka consume orders --from start --exit-at-end -o json",
        "raftka consume orders payments --from 2h --to 10:42 --grep 'order-4[0-9]' --keys",
        "raftka consume --pattern 'orders-.*' --header trace=7 --follow",
    ],
)
@click.argument("topics", metavar="[TOPIC...]", nargs=-1, shell_complete=names_of("topics"))
@click.option("--pattern", metavar="REGEX", help="Topics that match as a whole when it begins.")
@click.option(
    "--from",
    "start",
    help=(
        "start, end, an offset, -N: the last N of each partition, 30m or 2h: so long ago, 10:42: "
        "today, or 2026-11-21T08:00+01:00. [default: start with --to and --exit-at-end, else end]"
    ),
)
@click.option(
    "--to",
    "stop",
    help=(
        "End before this place, in the same forms; `end`: where the partitions end when it "
        "begins. A time to come is waited for."
    ),
)
@click.option("-e", "--exit-at-end", is_flag=True, help="The same as --to end.")
@click.option(
    "-f", "--follow", is_flag=True, help="Go on behind the end: the default without --to."
)
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(0),
    multiple=True,
    help="Only this one of each topic. May be repeated.",
)
@click.option("-n", "--count", type=click.IntRange(1), help="So many records, then end.")
@click.option(
    "--grep", metavar="REGEX", help="Only records with a match in their value or key, as text."
)
@click.option(
    "--header",
    "headers",
    metavar="NAME[=VALUE]",
    multiple=True,
    help="Only records with this header. May be repeated: all of them.",
)
@click.option("--keys", is_flag=True, help="Print key, tab, value.")
@click.option(
    "-g",
    "--group",
    shell_complete=names_of("groups"),
    help=(
        "Share the partitions with the group's other members, from the group's committed "
        "offsets; --from is for partitions without one."
    ),
)
@QUIET
@client_options
def consume(**options: Option) -> None:
    """Print records as they come, or those up to a place, a line each. With --group what was
    printed is committed.
    """
    from raftka.cli.records.consume import consume as verb

    raise SystemExit(verb(**options))
