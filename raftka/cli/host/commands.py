"""`raftka host ...`: several brokers on one machine. What a command does stands in
raftka/cluster/host.
"""

from typing import TYPE_CHECKING

import click

from raftka.cli.options import add_scram

if TYPE_CHECKING:
    from raftka.metadata.records import ScramCredentialSet


@click.group()
def host() -> None:
    """Several brokers on one machine, one for each core."""


@host.command("start")
@click.argument("file", metavar="FILE.properties", type=click.Path())
@click.option(
    "--brokers",
    type=int,
    required=True,
    metavar="K",
    help="How many: one for each core that is to serve clients.",
)
@add_scram
def host_start(file: str, brokers: int, users: "tuple[ScramCredentialSet, ...]") -> None:
    """Run the K brokers of the host that FILE describes (Kafka's property names), until SIGTERM.

    FILE is that of one broker. Broker i (from 0) has node.id + i, the ports of its listeners + i,
    and <directory>/<node id> of log.dirs; broker.rack of all is the host's name unless FILE has it.
    The first has the roles of FILE, and so the only vote of the host; the others are brokers.
    metrics.port is one page of all, with the label broker.
    """
    from raftka.cluster.host.start import start_host

    raise SystemExit(start_host(file, brokers, users))
