"""The tree of commands. What a command does stands in its own file, imported when it is called."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from raftka.cli.admin.balance_commands import balance, brokers
from raftka.cli.admin.commands import config, configs, partitions, reassign
from raftka.cli.admin.feature_commands import controllers, features
from raftka.cli.admin.group_commands import groups, offsets
from raftka.cli.admin.security.commands import acls, quotas, tokens, users
from raftka.cli.admin.transaction_commands import transactions
from raftka.cli.backup.commands import backup
from raftka.cli.chaos.commands import chaos
from raftka.cli.console import console
from raftka.cli.generate.commands import generate
from raftka.cli.options import (
    AS,
    QUIET,
    Option,
    add_scram,
    api_ceiling,
    client_options,
    pairs,
    starting_topics,
)
from raftka.cli.pipeline import pipeline
from raftka.cli.records.commands import consume, produce
from raftka.cli.records.dead_letter_commands import dead_letters
from raftka.cli.registry import registry
from raftka.cli.spark_commands import audit
from raftka.cli.sql import sql
from raftka.cli.tree.completion import completion, names_of, settings_of
from raftka.cli.tree.listing import print_tree
from raftka.cli.tree.nodes import Root

if TYPE_CHECKING:
    from raftka.metadata.records import ScramCredentialSet


NO_CONSOLE = click.option("--no-console", is_flag=True, help="Without a console in the browser.")
PACKAGES = {"bridge": "zookeeper_bridge.commands"}  # group: module with `group`
SECTIONS = {  # of `raftka --help`, by what a person wants to do
    "Start": ("broker", "cluster", "host", "demo"),
    "Topics and records": ("topics", "produce", "consume", "dead-letters"),
    "Groups and transactions": ("groups", "offsets", "transactions"),
    "Operate": (
        "backup",
        "doctor",
        "configs",
        "config",
        "partitions",
        "reassign",
        "balance",
        "brokers",
        "features",
        "controllers",
        "generate",
    ),
    "Secure": ("acls", "users", "quotas", "tokens"),
    "Schemas, Spark, SQL": ("registry", "pipeline", "sql", "audit"),
    "Look inside, break on purpose": ("console", "log", "chaos", "bridge"),
    "This command line": ("completion",),
}


def _show_version(context: click.Context, _option: click.Parameter, asked: bool) -> None:
    if asked:
        from raftka.cli.version import describe

        click.echo(f"raftka, version {describe()}")
        context.exit()


@click.group(
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and the commit it was made from.",
)
@click.option(
    "--print-tree",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_tree,
    help="Print all commands as JSON, and end.",
)
def root() -> None:
    """A Kafka-protocol broker in Python. Whatever needs no file or directory of a node works
    against any Kafka.
    """


for each in (
    acls,
    audit,
    backup,
    balance,
    brokers,
    chaos,
    completion,
    config,
    configs,
    console,
    consume,
    controllers,
    dead_letters,
    features,
    generate,
    groups,
    offsets,
    partitions,
    pipeline,
    produce,
    quotas,
    reassign,
    registry,
    sql,
    tokens,
    transactions,
    users,
):
    root.add_command(each)
root.sections, root.packages = SECTIONS, PACKAGES


@root.group()
def cluster() -> None:
    """Start several nodes on this machine; describe a cluster; recover one whose controllers are
    lost.
    """


@cluster.command("start", example="raftka cluster start --nodes 3 --data /tmp/cluster")
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
        "BASE+200+i-1, the console on BASE+300; 0 picks free ports."
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
@NO_CONSOLE
@starting_topics
@api_ceiling
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
    no_console: bool,
    topics: str | None,
    api_ceiling: str | None,
    users: "tuple[ScramCredentialSet, ...]",
) -> None:
    """Start nodes 1 to N and print bootstrap.servers=... when all are ready.

    What dies is not started again: `raftka broker start DATA/node-i/server.properties` does that,
    for a host `raftka host start DATA/host-i/server.properties --brokers K`. Ends with SIGTERM or
    Ctrl-C.
    """
    from raftka.cluster.start import start_in_process, start_processes

    if topics is not None:
        settings = {**settings, "raftka.topics": topics}
    if api_ceiling is not None:
        settings = {**settings, "raftka.api.ceiling": api_ceiling}
    if in_process:
        if brokers is not None:
            raise click.UsageError(
                "--brokers-per-host: the brokers of a host are processes; leave out --in-process"
            )
        raise SystemExit(
            start_in_process(
                nodes,
                data,
                base_port,
                settings,
                bridge_port,
                secure,
                users,
                console=not no_console,
            )
        )
    raise SystemExit(
        start_processes(
            nodes,
            data,
            base_port,
            settings,
            bridge_port,
            secure,
            users,
            brokers or 0,
            console=not no_console,
        )
    )


@cluster.command("describe", example="raftka -b kafka-1:9092 cluster describe")
@client_options
def cluster_describe(**options: Option) -> None:
    """Brokers, controller, quorum, features, and which partitions are not as they should be."""
    from raftka.cli.cluster import describe

    raise SystemExit(describe(**options))


@cluster.command("recover", example="raftka cluster recover server.properties")
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


@broker.command(
    "start", example=["raftka broker start --dev", "raftka broker start server.properties"]
)
@click.argument("file", metavar="FILE.properties", type=click.Path(), required=False)
@click.option("--dev", is_flag=True, help="A node without a file, for this machine alone.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    help=(
        "With --dev: where clients connect, 100 above it the controller, 200 above it the metrics, "
        "300 above it the console; "
        "0: free ones."
    ),
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="With --dev: keep the data there; else they are removed when the node ends.",
)
@NO_CONSOLE
@click.option(
    "--from-env",
    "from_env",
    is_flag=True,
    help=(
        "Settings are in the environment, as KAFKA_* or KAFKA_CFG_*; those of FILE, if there is "
        "one, are weaker. `raftka config from-env` prints the result."
    ),
)
@starting_topics
@api_ceiling
@add_scram
def broker_start(
    file: str | None,
    dev: bool,
    port: int,
    data: Path | None,
    no_console: bool,
    from_env: bool,
    topics: str | None,
    api_ceiling: str | None,
    users: "tuple[ScramCredentialSet, ...]",
) -> None:
    """Run the node that FILE describes (Kafka's property names; process.roles: broker, controller
    or both).
    """
    if from_env and dev:
        raise click.UsageError("--dev takes nothing from the environment: leave out --from-env")
    if no_console and not dev:
        raise click.UsageError("without --dev a node has a console where console.port is set")
    if api_ceiling is not None and not dev:
        raise click.UsageError("without --dev a node has a ceiling where raftka.api.ceiling is set")
    if from_env:
        from raftka.cli.broker import start_from_environment

        raise SystemExit(start_from_environment(file, users, topics))
    if dev and file is not None:
        raise click.UsageError(f"--dev is a node without a file: leave out --dev or {file}")
    if not dev and file is None:
        raise click.UsageError(
            "give the node's properties file, --from-env, or --dev for a node without one"
        )
    if file is None:
        from raftka.cli.broker import start_dev

        if users:
            raise click.UsageError("--dev has no logins, so no users")
        raise SystemExit(start_dev(port, data, topics, api_ceiling, console=not no_console))
    from raftka.cli.broker import start

    raise SystemExit(start(file, users=users, topics=topics))


@broker.command("format", example="raftka broker format server.properties --standalone")
@click.argument("file", metavar="FILE.properties", type=click.Path())
@click.option("--standalone", is_flag=True, help="The node forms a quorum alone.")
@click.option(
    "--initial-controllers",
    metavar="ID@HOST:PORT:DIRECTORY,...",
    help="These nodes form the quorum; each is formatted with the same list.",
)
@click.option("--no-initial-controllers", is_flag=True, help="The node follows a quorum.")
def broker_format(
    file: str, standalone: bool, initial_controllers: str | None, no_initial_controllers: bool
) -> None:
    """Make the directories of the node that FILE describes, for a cluster that begins at
    kraft.version 1: FILE has controller.quorum.bootstrap.servers, and no controller.quorum.voters.
    Other clusters need no format.
    """
    if standalone + (initial_controllers is not None) + no_initial_controllers != 1:
        raise click.UsageError(
            "give one of --standalone, --initial-controllers and --no-initial-controllers"
        )
    from raftka.cli.format_node import format_node

    raise SystemExit(format_node(file, standalone=standalone, initial=initial_controllers))


@broker.command("health", example="raftka broker health server.properties --timeout 2")
@click.argument("file", metavar="[FILE.properties]", type=click.Path(), required=False)
@click.option("--from-env", "from_env", is_flag=True, help="As `raftka broker start` has it.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="Seconds.",
)
def broker_health(file: str | None, from_env: bool, timeout: float) -> None:
    """Ask the node that FILE or the environment describes, at its metrics.port on this machine,
    whether clients may use it; exit code 0: yes.
    """
    if file is None and not from_env:
        raise click.UsageError("give the node's properties file, or --from-env")
    from raftka.cli.health import check_health

    raise SystemExit(check_health(file, from_env, timeout))


@root.group()
def host() -> None:
    """Several brokers on one machine, one for each core."""


@host.command("start", example="raftka host start server.properties --brokers 4")
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


@root.command("demo", example="raftka demo")
@click.argument(
    "file",
    metavar="[FILE]",
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
    required=False,
)
@click.option("--stay", is_flag=True, help="Go on until Ctrl-C.")
@NO_CONSOLE
def demo(file: Path | None, stay: bool, no_console: bool) -> None:
    """Start three nodes and twenty trucks, kill a leader, and read every acknowledged record back,
    once and in order.

    With FILE its lines travel instead, and hashes are compared.
    """
    from raftka.cluster import demo as show

    raise SystemExit(show.main(file, stay=stay, console=not no_console))


@root.command(
    "doctor",
    example=["raftka doctor -b kafka-1:9092", "raftka doctor --config server.properties -o json"],
)
@click.option(
    "--config",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The properties of a node on this machine: its settings, disks and limits, too.",
)
@client_options
def doctor(**options: Option) -> None:
    """Find what is wrong with a cluster, and the next step for each finding; changes nothing.

    Works against any Kafka. Exit code 0: nothing was found, 1: something was, 2: no broker answers.
    """
    from raftka.cli.admin.doctor import diagnose

    raise SystemExit(diagnose(**options))


@root.group()
def topics() -> None:
    """Create, list, describe, alter and delete topics."""


@topics.command("create", example="raftka topics create orders -p 3 -c retention.ms=3600000")
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
    shell_complete=settings_of("topic"),
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


@topics.command("list", example="raftka topics list")
@client_options
def topics_list(**options: Option) -> None:
    """Names of all topics."""
    from raftka.cli.admin import topics as verbs

    raise SystemExit(verbs.list_all(**options))


@topics.command("describe", example="raftka topics describe orders")
@click.argument("names", metavar="[NAME...]", nargs=-1, shell_complete=names_of("topics"))
@client_options
def topics_describe(**options: Option) -> None:
    """Leader, replicas and in-sync replicas of each partition; of all topics when none is named."""
    from raftka.cli.admin import topics as verbs

    raise SystemExit(verbs.describe(**options))


@topics.command("alter", example="raftka topics alter orders -p 6 -d retention.ms")
@click.argument(
    "names", metavar="NAME...", nargs=-1, required=True, shell_complete=names_of("topics")
)
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
    shell_complete=settings_of("topic"),
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


@topics.command("delete", example="raftka topics delete orders payments")
@click.argument(
    "names", metavar="NAME...", nargs=-1, required=True, shell_complete=names_of("topics")
)
@QUIET
@client_options
def topics_delete(**options: Option) -> None:
    """Delete topics, with all their records."""
    from raftka.cli.admin import topics as verbs

    raise SystemExit(verbs.delete(**options))


@root.group()
def log() -> None:
    """The files in a data directory."""


@log.command("dump", example="raftka log dump --print-data 00000000000000000000.log")
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False),
)
@click.option("--print-data", is_flag=True, help="Also the records.")
@QUIET
@AS
def log_dump(**options: Option) -> None:
    """Print .log, .index, .timeindex, .snapshot and checkpoint files in the words of Kafka's
    DumpLogSegments, with the damage that is found.
    """
    from raftka.cli.log_dump import dump

    raise SystemExit(dump(**options))
