"""`raftka transactions`: its part of the tree. What a command does stands in transactions.py,
imported when it is called.
"""

import click

from raftka.cli.options import Option, client_options
from raftka.cli.tree.completion import names_of
from raftka.cli.tree.nodes import Noun


@click.group(cls=Noun)
def transactions() -> None:
    """Transactions of producers: list and describe them, find and abort those that hang, fence
    their producers.
    """


@transactions.command(
    "list", example="raftka transactions list --state Ongoing --duration-ms 60000"
)
@click.option(
    "-s",
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    help="Ongoing, PrepareCommit, CompleteAbort, ... May be repeated.",
)
@click.option(
    "--producer-id",
    "producer_ids",
    type=click.IntRange(0),
    multiple=True,
    help="Only of this producer. May be repeated.",
)
@click.option(
    "--duration-ms", type=click.IntRange(0), help="Only transactions that began longer ago."
)
@click.option("--pattern", help="Only ids that match this regular expression (RE2) as a whole.")
@client_options
def transactions_list(**options: Option) -> None:
    """All transactional ids, with their states."""
    from raftka.cli.admin.transactions import list_all

    raise SystemExit(list_all(**options))


@transactions.command("describe", example="raftka transactions describe payments-1")
@click.argument(
    "ids", metavar="ID...", nargs=-1, required=True, shell_complete=names_of("transactional ids")
)
@client_options
def transactions_describe(**options: Option) -> None:
    """State, producer, start and partitions of transactional ids."""
    from raftka.cli.admin.transactions import describe

    raise SystemExit(describe(**options))


@transactions.command("find-hanging", example="raftka transactions find-hanging --topic orders")
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    shell_complete=names_of("topics"),
    help="Only this topic; all of them unless given. May be repeated.",
)
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(0),
    multiple=True,
    help="Only this one of the topic. May be repeated.",
)
@click.option(
    "--broker-id",
    type=click.IntRange(0),
    shell_complete=names_of("brokers"),
    help="Ask this broker about its replicas; each partition's leader unless given.",
)
@click.option(
    "--max-transaction-timeout-minutes",
    "minutes",
    type=click.IntRange(0),
    default=15,
    show_default=True,
    help="Look at producers whose last record is older: transaction.max.timeout.ms of the brokers.",
)
@client_options
def transactions_find_hanging(**options: Option) -> None:
    """Transactions that are open in a partition and that no coordinator knows: nobody will end
    them.
    """
    from raftka.cli.admin.transactions import find_hanging

    raise SystemExit(find_hanging(**options))


@transactions.command(
    "abort", example="raftka transactions abort --topic orders --partition 0 --start-offset 1234"
)
@click.option("-t", "--topic", required=True, shell_complete=names_of("topics"))
@click.option("-p", "--partition", type=click.IntRange(0), required=True)
@click.option(
    "--start-offset",
    type=click.IntRange(0),
    required=True,
    help="Of the transaction, as find-hanging prints it.",
)
@click.option(
    "--force",
    is_flag=True,
    help=(
        "Also a transaction that its coordinator knows; its records here are lost even if it "
        "commits."
    ),
)
@client_options
def transactions_abort(**options: Option) -> None:
    """Abort a hanging transaction in one partition."""
    from raftka.cli.admin.transactions import abort

    raise SystemExit(abort(**options))


@transactions.command("fence", example="raftka transactions fence payments-1")
@click.argument(
    "ids", metavar="ID...", nargs=-1, required=True, shell_complete=names_of("transactional ids")
)
@client_options
def transactions_fence(**options: Option) -> None:
    """Abort what transactional ids have open, and shut out the producers that use them now."""
    from raftka.cli.admin.transactions import fence

    raise SystemExit(fence(**options))
