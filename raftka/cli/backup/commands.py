"""`raftka backup`: its part of the tree. What a command does stands in verbs.py, imported when it
is called.
"""

from pathlib import Path

import click

from raftka.cli.options import AS, QUIET, Option, client_options
from raftka.cli.tree.nodes import Noun

PLACE = click.argument("where", metavar="PLACE")
NAME = click.argument("name", metavar="[NAME]", required=False)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(cls=Noun)
def backup() -> None:
    """Backups of a whole cluster: docs/backup.md. PLACE is a folder, or s3://BUCKET/PATH, gs://
    or az://, which need raftka[backup].
    """


@backup.command("create", example="raftka backup create /mnt/backups -b localhost:9092")
@PLACE
@click.option("--name", help="Of the backup. [default: the time in UTC]")
@client_options
def create(**options: Option) -> None:
    """Make a backup while the cluster runs. Segments that an earlier backup in PLACE has are not
    copied again; on the brokers' own file system none is copied.
    """
    from raftka.cli.backup import verbs

    raise SystemExit(verbs.create(**options))


@backup.command("list", example="raftka backup list /mnt/backups")
@PLACE
@AS
def list_all(**options: Option) -> None:
    """The finished backups in PLACE, the oldest first. Others are ignored, and named on standard
    error.
    """
    from raftka.cli.backup import verbs

    raise SystemExit(verbs.list_all(**options))


@backup.command("verify", example="raftka backup verify /mnt/backups")
@PLACE
@NAME
@AS
def verify(**options: Option) -> None:
    """Read a backup, the newest unless NAME is given: every checksum, every batch, every committed
    offset.
    """
    from raftka.cli.backup import verbs

    raise SystemExit(verbs.verify(**options))


@backup.command(
    "restore",
    example="raftka backup restore /mnt/backups --node server.properties --brokers 1,2,3",
)
@PLACE
@NAME
@click.option(
    "--node",
    "nodes",
    type=FILE,
    metavar="FILE.properties",
    multiple=True,
    required=True,
    help="A node of the new cluster whose empty directories lie here. May be repeated.",
)
@click.option(
    "--brokers",
    metavar="ID,ID,...",
    help="All brokers of the new cluster, if there are others than those of --node.",
)
@click.option("--topics", metavar="NAME,NAME,...", help="These topics alone.")
@click.option(
    "--to",
    "moment",
    metavar="TIME",
    help="As of that moment, before the backup was cut: an ISO time, UTC unless it has a zone.",
)
@QUIET
def restore(**options: Option) -> None:
    """Restore a backup, the newest unless NAME is given, into the directories of a new cluster
    whose nodes do not run. Offsets stay as they were; the cluster has another id.
    """
    from raftka.cli.backup import verbs

    raise SystemExit(verbs.restore(**options))


@backup.command("drill", example="raftka backup drill /mnt/backups")
@PLACE
@NAME
@click.option(
    "--nodes", type=click.IntRange(1, 9), default=3, show_default=True, help="Of the drill."
)
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where the drill's cluster has its data. [default: the system's temporary folder]",
)
@QUIET
@AS
def drill(**options: Option) -> None:
    """Restore a backup into a cluster of its own, compare it with the backup, and remove it.
    Prints how long a restore takes (RTO) and how old the backup is (RPO).
    """
    from raftka.cli.backup import verbs

    raise SystemExit(verbs.drill(**options))
