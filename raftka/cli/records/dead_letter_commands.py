"""`raftka dead-letters`: its part of the tree. What a command does stands in dead_letters.py,
imported when it is called.
"""

import click

from raftka.cli.options import QUIET, Option, client_options
from raftka.cli.tree.completion import names_of
from raftka.cli.tree.nodes import Noun


@click.group("dead-letters", cls=Noun)
def dead_letters() -> None:
    """Records that programs could not use: count them by failure, and send them again."""


@dead_letters.command("describe", example="raftka dead-letters describe orders.dlq")
@click.argument("topic", shell_complete=names_of("topics"))
@QUIET
@client_options
def dead_letters_describe(**options: Option) -> None:
    """Letters of a topic, counted by failure and by the topic that they came from."""
    from raftka.cli.records.dead_letters import describe

    raise SystemExit(describe(**options))


@dead_letters.command(
    "redrive",
    example=[
        "raftka dead-letters redrive orders.dlq --dry-run",
        "raftka dead-letters redrive orders.dlq --kind java.io.IOException --to orders-retry",
    ],
)
@click.argument("topic", shell_complete=names_of("topics"))
@click.option(
    "--letter",
    "letters",
    metavar="PARTITION@OFFSET",
    multiple=True,
    help="Only this one. May be repeated.",
)
@click.option("--kind", help="Only those with this failure, as `describe` prints it.")
@click.option("--origin", metavar="TOPIC", help="Only those that came from this topic.")
@click.option("--unknown-origin", is_flag=True, help="Only those that tell no topic.")
@click.option("--grep", metavar="TEXT", help="Only those with this text in value, key or failure.")
@click.option(
    "--to",
    "target",
    metavar="TOPIC",
    shell_complete=names_of("topics"),
    help="Send all to this topic; each to where it came from unless given.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be sent, and send nothing.")
@QUIET
@client_options
def dead_letters_redrive(**options: Option) -> None:
    """Send letters again, without the headers of their failure. A header notes where each was. Each
    run sends what it is told, also what another run has sent.
    """
    from raftka.cli.records.dead_letters import redrive

    raise SystemExit(redrive(**options))
