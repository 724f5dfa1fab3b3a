"""`raftka chaos ...`: the tree of its commands. What each does stands in a file of its own,
imported when it is called.

Exit codes: 0 good, 1 violated, 2 inconclusive (too little got through to say).
"""

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from raftka.cli.options import AS, QUIET, Option
from raftka.cli.tree.extras import check_modules
from raftka.cli.tree.nodes import Noun

PLAN_NAMES = (
    "swarm",
    "three",
    "power",
    "faults",
    "width",
    "directories",
    "eligible",
    "voters",
    "upgrade",
    "rolling",
)
UPGRADES = ("upgrade", "rolling")  # plans that need an earlier release
EARLIER = click.option(
    "--upgrade-from",
    "earlier",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="WHEEL",
    help="All nodes begin with that release of raftka, and are upgraded under way.",
)
PLAN = click.option(
    "--plan",
    type=click.Choice(PLAN_NAMES),
    default="swarm",
    show_default=True,
    help="Possible faults, and the kind of cluster.",
)


def _known_work(_: click.Context, __: click.Parameter, name: str | None) -> str | None:
    """Packages beside raftka may bring more: which there are is asked when one is named."""
    if name is not None:
        from raftka.chaos.simulated.workloads.at_work import WORKS

        if name not in WORKS:
            raise click.BadParameter(f"there are {', '.join(WORKS)}")
    return name


WORK = click.option(
    "--work",
    callback=_known_work,
    metavar="groups|consumer-groups|compaction|...",
    help="Clients that do that instead, and a nemesis that waits for its moments.",
)
SMALL = click.option(
    "--small",
    is_flag=True,
    help="Raft and replication alone, without codec, disk format and clients.",
)


class Seeds(click.ParamType[range]):
    name = "A-B"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> range:
        if isinstance(value, range):
            return value
        first, _, last = str(value).partition("-")
        try:
            found = range(int(first), int(last or first) + 1)
        except ValueError:
            found = range(0)
        return found or self.fail(f"{value!r} is neither A-B nor a number", param, ctx)


def _check_extra() -> None:
    """Without these a cluster refuses what the chosen clients ask, which would count as broken."""
    check_modules("chaos", "re2", "cryptography")


def _lacking(what: str, *names: str) -> None:
    """Raises UsageError for options that were given and mean nothing to such lives."""
    context = click.get_current_context()
    given = [
        param.opts[0]
        for param in context.command.params
        if param.name in names
        and context.get_parameter_source(param.name) is not ParameterSource.DEFAULT
    ]
    if given:
        raise click.UsageError(f"{what} have no {', '.join(given)}")


def _check_earlier(options: dict[str, Option]) -> None:
    """Raises UsageError: a plan of upgrades needs a wheel, and no other takes one."""
    if (options["plan"] in UPGRADES) is not (options["earlier"] is not None):
        raise click.UsageError(f"--upgrade-from WHEEL goes with --plan {' or '.join(UPGRADES)}")


@click.group(cls=Noun)
def chaos() -> None:
    """Break clusters on purpose, and check that they keep their promises. Exit codes: 0 good, 1
    violated, 2 inconclusive.
    """


@chaos.command("sim", example="raftka chaos sim --seeds 0-99 --jobs 2")
@click.option(
    "--seeds",
    type=Seeds(),
    default="0-99",
    show_default=True,
    help="Each is a life of its own cluster.",
)
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
@PLAN
@EARLIER
@WORK
@SMALL
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep history, faults and verdict of each bad seed there; of one seed alone always.",
)
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append range, version and result to this file, a JSON object a line.",
)
@AS
@QUIET
def chaos_sim(**options: Option) -> None:
    """Whole clusters of unmodified nodes in a simulation: virtual time, chance by the seed, disks
    that lose, networks that cut.
    """
    _check_extra()
    from raftka.cli.chaos.sim import sim

    _check_earlier(options)
    if options["small"]:
        _lacking("small lives", "plan", "work", "out")
    elif options["work"]:
        _lacking("lives at work", "plan", "out")
    raise SystemExit(sim(**options))


@chaos.command("replay", example="raftka chaos replay 317 --trace")
@click.argument("seed", type=int)
@PLAN
@EARLIER
@WORK
@SMALL
@click.option("--trace", is_flag=True, help="Print every step of the simulation too.")
@click.option(
    "--until",
    "until_s",
    type=float,
    metavar="T",
    help="Stop at T simulated seconds, and show the last steps.",
)
@click.option(
    "--skip",
    default="",
    metavar="N,N-M,...",
    help="Leave out these faults; `raftka chaos shrink` prints them.",
)
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    help="A setting in place of the one that the seed draws; `raftka chaos shrink` prints them.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep history, faults, samples and verdict there, for `raftka chaos report`.",
)
def chaos_replay(**options: Option) -> None:
    """The life of one seed, told; the same every time. Of one that fails: the step at which it
    does, and the last events of every node.
    """
    _check_extra()
    from raftka.cli.chaos.replay import replay

    _check_earlier(options)
    if options["small"]:
        _lacking("small lives", "plan", "work", "trace", "until_s", "skip", "settings", "out")
    elif options["work"]:
        _lacking("lives at work", "plan", "skip", "settings", "out")
    raise SystemExit(replay(**options))


@chaos.command("shrink", example="raftka chaos shrink 317")
@click.argument("seed", type=int)
@PLAN
@EARLIER
@click.option(
    "--minutes",
    type=float,
    default=5.0,
    show_default=True,
    help="Then the best result so far is printed.",
)
@QUIET
def chaos_shrink(**options: Option) -> None:
    """Shrink a failing seed: find the fewest faults and the plainest settings with which it still
    fails.
    """
    _check_extra()
    _check_earlier(options)
    from raftka.cli.chaos.shrink import shrink

    raise SystemExit(shrink(**options))


@chaos.command("live", example="raftka chaos live --minutes 2 --nemesis kill")
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="How long faults come and go.",
)
@click.option(
    "--nodes",
    type=click.IntRange(3, 5),
    default=3,
    show_default=True,
    help="Processes, and one more that comes and goes.",
)
@click.option(
    "--nemesis",
    default="mix",
    show_default=True,
    metavar="mix|NAME,...",
    help="Faults; an unknown name lists all of them.",
)
@EARLIER
@click.option(
    "--secure",
    is_flag=True,
    help=(
        "TLS on every connection, certificates on both sides, an authorizer; clients are the "
        "administrator."
    ),
)
@click.option(
    "--share-consumers",
    type=click.IntRange(0, 1000),
    default=0,
    show_default=True,
    help="So many members of share groups, which crash and come back, beside raftka's own client.",
)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="Chooses faults and the clients' records; the machine decides the timing.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep everything there; else in a new folder, which is printed.",
)
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append version and result to this file, a JSON object a line.",
)
@AS
@click.option(
    "--kafka-home",
    default="",
    metavar="DIR",
    envvar="KAFKA_HOME",
    help="Where Apache Kafka's jars are, for its clients in Java.",
)
def chaos_live(**options: Option) -> None:
    """Real processes, real clients: killed, stopped, parted, without disk or power, with wrong
    clocks. In the end everything is read again.
    """
    _check_extra()
    from raftka.cli.chaos.live import play

    if "upgrade" in str(options["nemesis"]).split(",") and options["earlier"] is None:
        raise click.UsageError("the nemesis upgrade goes with --upgrade-from WHEEL")
    if options["secure"] and options["share_consumers"]:
        raise click.UsageError("share consumers know no TLS")
    raise SystemExit(play(**options))


@chaos.command("report", example="raftka chaos report run")
@click.argument(
    "folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
def chaos_report(folder: Path) -> None:
    """Make DIR/report.html of a run's folder: one page that needs nothing else."""
    from raftka.cli.chaos.live import make_report

    raise SystemExit(make_report(folder))
