"""The tree of commands. What a command does stands in its own file, imported when it is called."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from raftka import __version__
from raftka.cli.admin.commands import completion, config, configs, partitions, reassign
from raftka.cli.admin.group_commands import groups, offsets
from raftka.cli.admin.security.commands import acls, quotas, tokens, users
from raftka.cli.admin.transaction_commands import transactions
from raftka.cli.chaos.commands import chaos
from raftka.cli.options import AS, Option, add_scram, client_options, pairs
from raftka.cli.pipeline import pipeline
from raftka.cli.registry import registry
from raftka.cli.spark_commands import audit, sql

if TYPE_CHECKING:
    from raftka.metadata.records import ScramCredentialSet


PACKAGES = {"bridge": "zookeeper_bridge.commands"}  # group: module with `group`


class WithPackages(click.Group):
    """Adds groups of commands that packages beside raftka bring: found by name, imported when they
    are called.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(
            [*super().list_commands(ctx), *[name for name in PACKAGES if _found(name) is not None]]
        )

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or _found(cmd_name)


def _found(name: str) -> click.Command | None:
    """Return the group, or None where its package is not installed."""
    if name not in PACKAGES:
        return None
    try:
        group: click.Command = import_module(PACKAGES[name]).group
        return group
    except ModuleNotFoundError as error:
        if error.name == PACKAGES[name].partition(".")[0]:
            return None
        raise


@click.group(
    cls=WithPackages,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="raftka")
def root() -> None:
    """A Kafka-protocol broker in Python. Whatever needs no file or directory of a node works
    against any Kafka.
    """


for each in (
    acls,
    audit,
    chaos,
    completion,
    config,
    configs,
    groups,
    offsets,
    partitions,
    pipeline,
    quotas,
    reassign,
    registry,
    sql,
    tokens,
    transactions,
    users,
):
    root.add_command(each)


@root.group()
def cluster() -> None:
    """Start several nodes on this machine; describe a cluster; recover one whose controllers are
    lost.
    """


@cluster.command("start")
@click.option(
    "--nodes", type=click.IntRange(1, 100), default=3, show_default=True, help="How many."
)
@click.option(
    "--brokers-per-host",
    "brokers",
    type=click.IntRange(1),
    metavar="K",
    help=(
        "The nodes are hosts of K brokers each, as `raftka host start` runs them: host i keeps "
        "everything in DATA/host-i/."
    ),
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Node i keeps everything in DATA/node-i/.",
)
@click.option(
    "--base-port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    help=(
        "Node i listens on BASE+i-1, its controller on BASE+100+i-1, for scrapes on "
        "BASE+200+i-1; 0 picks free ports."
    ),
)
@click.option(
    "--set",
    "settings",
    callback=pairs,
    metavar="NAME=VALUE",
    multiple=True,
    help="One of Kafka's broker settings, for every node. May be repeated.",
)
@click.option(
    "--bridge-port",
    type=click.IntRange(0, 65535),
    help=(
        "Node i speaks ZooKeeper's protocol on BRIDGE_PORT+i-1; 0 picks free ports. Off by default."
    ),
)
@click.option(
    "--secure",
    is_flag=True,
    help=(
        "TLS, client certificates and ACLs; keys and ready files for clients are in DATA/security/."
    ),
)
@click.option(
    "--in-process", is_flag=True, help="All nodes in this process: starts faster, dies together."
)
@add_scram
def cluster_start(
    nodes: int,
    brokers: int | None,
    data: Path,
    base_port: int,
    settings: dict[str, str],
    bridge_port: int | None,
    secure: bool,
    in_process: bool,
    users: "tuple[ScramCredentialSet, ...]",
) -> None:
    """Start nodes 1 to N and print bootstrap.servers=... when all are ready.

    What dies is not started again: `raftka broker start DATA/node-i/server.properties` does that,
    for a host `raftka host start DATA/host-i/server.properties --brokers K`. Ends with SIGTERM or
    Ctrl-C.
    """
    from raftka.cluster.start import start_in_process, start_processes

    if in_process:
        if brokers is not None:
            raise click.UsageError(
                "--brokers-per-host: the brokers of a host are processes; leave out --in-process"
            )
        raise SystemExit(
            start_in_process(nodes, data, base_port, settings, bridge_port, secure, users)
        )
    raise SystemExit(
        start_processes(nodes, data, base_port, settings, bridge_port, secure, users, brokers or 0)
    )


@cluster.command("describe")
@client_options
def cluster_describe(**options: Option) -> None:
    """Brokers, controller, quorum, features, and which partitions are not as they should be."""
    from raftka.cli.cluster import describe

    raise SystemExit(describe(**options))


@cluster.command("recover")
@click.argument("file", metavar="FILE.properties", type=click.Path())
@click.option("--yes", is_flag=True, help="Do not ask.")
def cluster_recover(file: str, yes: bool) -> None:
    """Begin the metadata quorum anew from the controller that FILE describes, when a majority of
    the controllers is gone for good.

    Run it where that controller's directory is, while it is stopped. It explains what is given up,
    and asks. The new quorum's members are those of controller.quorum.voters in FILE.
    """
    from raftka.cli.recover import recover

    raise SystemExit(recover(file, yes=yes))


@root.group()
def broker() -> None:
    """One node."""


@broker.command("start")
@click.argument("file", metavar="FILE.properties", type=click.Path(), required=False)
@click.option("--dev", is_flag=True, help="A node without a file, for this machine alone.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    help="With --dev: where clients connect; 0 picks a free one.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="With --dev: keep the data there; else they are removed when the node ends.",
)
@add_scram
def broker_start(
    file: str | None,
    dev: bool,
    port: int,
    data: Path | None,
    users: "tuple[ScramCredentialSet, ...]",
) -> None:
    """Run the node that FILE describes (Kafka's property names; process.roles: broker, controller
    or both).
    """
    if dev == (file is not None):
        raise click.UsageError("give the node's properties file, or --dev for a node without one")
    if file is None:
        from raftka.cli.broker import start_dev

        if users:
            raise click.UsageError("--dev has no logins, so no users")
        raise SystemExit(start_dev(port, data))
    from raftka.cli.broker import start

    raise SystemExit(start(file, users=users))


@root.group()
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


@root.command("demo")
@click.argument(
    "file",
    metavar="[FILE]",
    type=click.Path(exists=True, dir_okay=False, readable=True),
    required=False,
)
@click.option("--stay", is_flag=True, help="Go on until Ctrl-C.")
def demo(file: str | None, stay: bool) -> None:
    """Start three nodes and twenty trucks, kill a leader, and read every acknowledged record back,
    once and in order.

    With FILE its lines travel instead, and hashes are compared.
    """
    from raftka.cluster import demo as show

    raise SystemExit(show.main([*([file] if file else []), *(["--stay"] if stay else [])]))


@root.group()
def topics() -> None:
    """Create, list, describe, alter and delete topics."""


@topics.command("create")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "-p", "--partitions", type=int, default=-1, help="The broker's num.partitions unless given."
)
@click.option(
    "-r",
    "--replication-factor",
    type=int,
    default=-1,
    help="The broker's default.replication.factor unless given.",
)
@click.option(
    "-c",
    "--config",
    "configs",
    callback=pairs,
    metavar="NAME=VALUE",
    multiple=True,
    help="One of the topic's settings. May be repeated.",
)
@click.option("--if-not-exists", is_flag=True, help="An existing topic is no error.")
@client_options
def topics_create(**options: Option) -> None:
    """Create topics."""
    from raftka.cli.admin import topics as verbs

    raise SystemExit(verbs.create(**options))


@topics.command("list")
@client_options
def topics_list(**options: Option) -> None:
    """Names of all topics."""
    from raftka.cli.admin import topics as verbs

    raise SystemExit(verbs.list_all(**options))


@topics.command("describe")
@click.argument("names", metavar="[NAME...]", nargs=-1)
@client_options
def topics_describe(**options: Option) -> None:
    """Leader, replicas and in-sync replicas of each partition; of all topics when none is named."""
    from raftka.cli.admin import topics as verbs

    raise SystemExit(verbs.describe(**options))


@topics.command("alter")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(1),
    help="How many there should be; they can only become more.",
)
@click.option(
    "-c",
    "--config",
    "configs",
    callback=pairs,
    metavar="NAME=VALUE",
    multiple=True,
    help="Set one of the topic's settings. May be repeated.",
)
@click.option(
    "-d",
    "--delete-config",
    "delete",
    metavar="NAME",
    multiple=True,
    help="Give a setting back to its default. May be repeated.",
)
@client_options
def topics_alter(**options: Option) -> None:
    """Add partitions, change settings."""
    from raftka.cli.admin import topics as verbs

    raise SystemExit(verbs.alter(**options))


@topics.command("delete")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@client_options
def topics_delete(**options: Option) -> None:
    """Delete topics, with all their records."""
    from raftka.cli.admin import topics as verbs

    raise SystemExit(verbs.delete(**options))


@root.group()
def log() -> None:
    """The files in a data directory."""


@log.command("dump")
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False),
)
@click.option("--print-data", is_flag=True, help="Also the records.")
@AS
def log_dump(**options: Option) -> None:
    """Print .log, .index, .timeindex, .snapshot and checkpoint files in the words of Kafka's
    DumpLogSegments, with the damage that is found.
    """
    from raftka.cli.log_dump import dump

    raise SystemExit(dump(**options))


@root.command()
@click.argument("topic")
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
@client_options
def produce(**options: Option) -> None:
    """Send standard input, a record a line. Ends when all are acknowledged."""
    from raftka.cli.records import produce as verb

    raise SystemExit(verb(**options))


@root.command()
@click.argument("topic")
@click.option(
    "--from",
    "start",
    default="end",
    show_default=True,
    help="start, end, an offset, or -N: the last N of each partition.",
)
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(0),
    multiple=True,
    help="Only this one. May be repeated.",
)
@click.option("-n", "--count", type=click.IntRange(1), help="So many records, then end.")
@click.option(
    "-e", "--exit-at-end", is_flag=True, help="End where the partitions ended when it began."
)
@click.option("--keys", is_flag=True, help="Print key, tab, value.")
@click.option(
    "-g",
    "--group",
    help=(
        "Share the partitions with the group's other members, from the group's committed "
        "offsets; --from is for partitions without one."
    ),
)
@client_options
def consume(**options: Option) -> None:
    """Print records as they come, a line each. With --group what was printed is committed."""
    from raftka.cli.records import consume as verb

    raise SystemExit(verb(**options))
