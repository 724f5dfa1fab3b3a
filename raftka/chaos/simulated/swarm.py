"""Settings of a life: a plan says what is possible, the seed draws, and each single choice can be
given instead. Knows no cluster.
"""

from dataclasses import dataclass, replace
from math import inf
from random import Random

from raftka.chaos.simulated.faults import schedule
from raftka.chaos.simulated.faults.schedule import Kind
from raftka.chaos.simulated.workloads.beside import ALWAYS, BESIDE, Mixed, mixed_settings, works

DIRECTORY_PATHS = ("/data", "/more", "/third")
# what each length finds a CPU second: docs/reliability.md
SHORT_AND_LONG_S = (6.0, 6.0, 6.0, 9.0, 9.0, 9.0, 9.0, 12.0, 12.0, 18.0)
TRANSACTIONS = 0.25  # of the lives with other workloads have this one
SHARES, STREAMS = 0.2, 0.1  # the same of share groups and of streams groups
# one or two of these go on during an upgrade; both releases know their APIs
UPGRADED_WORKS = (
    "transactions",
    "bursts",
    "groups",
    "consumer-groups",
    "share",
    "compaction",
    "left-alone",
    "recreation",
)
# of these lives: the same of transactions in bursts, and of nodes that are busy
BURSTS, BUSY = 0.25, 0.5
INDEX_BYTES = 4096  # what a topic has that is not told
COMPRESSIONS = ("producer", "producer", "producer", "uncompressed", "gzip", "lz4")


@dataclass(frozen=True)
class Settings:
    """The defaults are the plain case: what a seed has chosen otherwise may matter for what went
    wrong.
    """

    nodes: int = 3
    voters: int = 3
    controllers: tuple[int, ...] = ()  # voters that are no brokers
    later_voters: tuple[int, ...] = ()  # controllers that are no voters in the beginning
    partitions: int = 1
    replication: int = 3
    min_isr: int = 2
    segment_bytes: int = 1 << 30
    fetch_bytes: int = 1 << 20  # of a follower, a partition
    snapshot_bytes: int = 20 << 20  # between two of the metadata
    lag_ms: int = 30_000
    session_ms: int = 2_000
    writers: int = 1  # to each partition
    depth: int = 1  # batches in flight
    pause_s: float = 0.1  # of a writer between two sends, the longest
    noise: bool = False  # one more writer, who asks for less than acks=all
    groups: int = 0  # whose offsets are committed
    directories: int = 1  # of every broker's logs
    index_bytes: int = INDEX_BYTES  # between two entries of an index
    # of the topic: another than its producers' means that the leader makes their batches anew
    compression: str = "producer"
    beside: tuple[str, ...] = ()  # workloads that go on meanwhile (beside.py)
    mixed: Mixed = ()  # settings of single nodes
    exact: bool = False  # readers and producers ask in between what has one right answer
    busy: bool = False  # long work of the nodes is interrupted after a few steps
    # checkpoints are written, and coordinators' logs are read, in smaller steps (lives.py)
    often: bool = False
    flush: str = "fsync"  # os: answers do not wait for the disk, and no power is lost
    drift: bool = False  # the machines' clocks differ, and run at different rates
    ends_in_the_dark: bool = False  # with a power loss of all
    seconds: float = 12.0  # of faults, simulated
    gap_s: tuple[float, float] = (0.2, 1.5)  # between two faults

    @property
    def properties(self) -> dict[str, str]:
        """The nodes' own, beside those of any cluster."""
        found = {
            "replica.lag.time.max.ms": str(self.lag_ms),
            "replica.fetch.max.bytes": str(self.fetch_bytes),
            "metadata.log.max.record.bytes.between.snapshots": str(self.snapshot_bytes),
            "broker.session.timeout.ms": str(self.session_ms),
            "offsets.topic.replication.factor": str(min(3, self.nodes - len(self.controllers))),
        }
        for work in self.beside:
            found |= BESIDE[work]().settings
        found["offsets.topic.num.partitions"] = "2"  # whatever a workload has when it is alone
        return found | {
            "raftka.log.flush": self.flush,
            "log.dirs": ",".join(DIRECTORY_PATHS[: self.directories]),
        }

    @property
    def topic_configs(self) -> dict[str, str]:
        found = {
            "min.insync.replicas": str(self.min_isr),
            "internal.segment.bytes": str(self.segment_bytes),
        }
        if self.index_bytes != INDEX_BYTES:
            found["index.interval.bytes"] = str(self.index_bytes)
        return found | (
            {"compression.type": self.compression} if self.compression != "producer" else {}
        )


@dataclass(frozen=True)
class Plan:
    """A plan; the seed draws all that it does not fix."""

    name: str
    kinds: tuple[Kind, ...]
    seconds: float = 12.0
    gap_s: tuple[float, float] = (0.2, 1.5)
    pauses_s: tuple[float, ...] = (0.05, 0.2)
    noise: bool = True
    groups: bool = False
    ends_in_the_dark: bool = False
    directories: bool = False
    roles: bool = False  # brokers without a vote, controllers that are no brokers
    sizes: bool = False  # three to seven nodes, one, three or five of them voters
    beside: bool = False  # other workloads go on meanwhile, nodes are set differently
    busy: bool = False  # the nodes of half of the lives, and of all where a workload is alone
    later_voters: tuple[int, ...] = ()  # five nodes, one voter, and these come and go
    upgrade: bool = False  # from an earlier release, which is given
    longest_write_s: float = inf  # from a client's first try to the answer
    lengths_s: tuple[float, ...] = ()  # one of these instead of `seconds`, with as many faults
    # raftka.log.flush of all nodes, and power is lost with all that is not flushed
    flush: str | None = None


POWER = Plan(
    "power", schedule.POWER, 10.0, (0.1, 0.3), (0.02, 0.1), noise=False, ends_in_the_dark=True
)
FAULTS = Plan("faults", schedule.ALL)
WIDTH = Plan("width", schedule.WIDTH, roles=True)
DIRECTORIES = Plan(
    "directories", schedule.DIRECTORIES, gap_s=(0.1, 0.8), ends_in_the_dark=True, directories=True
)
ELIGIBLE = Plan("eligible", schedule.ELIGIBLE, 18.0, (0.1, 1.0), (0.2, 0.6), flush="os")
THREE = Plan(
    "three", schedule.SWARM, 18.0, (0.2, 2.0), (0.2, 0.6), groups=True, beside=True, busy=True
)
SWARM = Plan(
    "swarm",
    schedule.SWARM,
    18.0,
    (0.2, 2.0),
    (0.2, 0.6),
    groups=True,
    sizes=True,
    beside=True,
    busy=True,
    lengths_s=SHORT_AND_LONG_S,
)
VOTERS = Plan("voters", schedule.VOTERS, 20.0, (0.3, 1.5), later_voters=(2, 3, 4, 5))
UPGRADE = Plan(
    "upgrade",
    schedule.UPGRADE,
    14.0,
    (0.2, 1.6),
    (0.1, 0.3),
    groups=True,
    sizes=True,
    upgrade=True,
)
# by the book: no fault, and no write may wait for long
ROLLING = Plan(
    "rolling",
    (),
    14.0,
    pauses_s=(0.02, 0.05),
    noise=False,
    groups=True,
    upgrade=True,
    longest_write_s=0.5,
)
AT_WORK = Plan("work", (), 10.0)  # a workload alone
BUSY_AT_WORK = replace(AT_WORK, busy=True)
# the one of security, with faults of its own
SECURED = Plan("work", schedule.SECURED, 20.0, ends_in_the_dark=True)
EACH = (SWARM, THREE, POWER, FAULTS, WIDTH, DIRECTORIES, ELIGIBLE, VOTERS, UPGRADE, ROLLING)
PLANS = {plan.name: plan for plan in EACH}


def choose(plan: Plan, chance: Random) -> Settings:
    nodes, voters, controllers = _sizes(plan, chance)
    brokers = nodes - len(controllers)
    partitions, writers = chance.randint(1, 3 if plan.groups else 4), chance.randint(1, 2)
    # many writers write less each: a life costs what it shows
    busy = max(1.0, partitions * writers / 2) if plan.groups else 1.0
    replication = chance.choice((2, 3, 3, 3, min(5, brokers))) if plan.sizes else 3
    return Settings(
        nodes,
        voters,
        controllers,
        later_voters=plan.later_voters,
        partitions=partitions,
        replication=replication,
        min_isr=2 if plan.flush else chance.choice((1, 2, 2)) if replication > 2 else 1,
        segment_bytes=chance.choice((1 << 30, 20_000, 2_000) if plan.groups else (1 << 30, 20_000)),
        fetch_bytes=chance.choice((1 << 20, 1 << 20, 600)) if plan.groups else 1 << 20,
        snapshot_bytes=chance.choice((20 << 20, 2_000)),
        lag_ms=chance.choice((1_000, 5_000, 30_000)),
        session_ms=chance.choice((1_200, 2_000, 2_000, 6_000)) if plan.groups else 2_000,
        writers=writers,
        depth=chance.randint(1, 5),
        pause_s=chance.choice(plan.pauses_s) * busy,
        noise=plan.noise and (not plan.groups or chance.random() < 0.5),
        groups=chance.randint(0, 2) if plan.groups else 0,
        directories=2 if plan.directories else 1,
        flush=plan.flush or "fsync",
        drift=True,
        ends_in_the_dark=plan.ends_in_the_dark or (plan.groups and chance.random() < 0.2),
        seconds=plan.seconds,
        gap_s=plan.gap_s,
    )


def with_more(plan: Plan, settings: Settings, chance: Random) -> Settings:
    """Draw choices that were added later from a stream of their own, so that the other choices of a
    seed stay.
    """
    if not plan.beside:
        third = plan.directories and chance.random() < 0.5
        return replace(settings, directories=3) if third else settings
    others, mixed = works(chance), mixed_settings(chance, settings.nodes)
    index_bytes = chance.choice((64, 300, 4096))
    directories = chance.choice((1, 1, 1, 2, 3))
    flush = "os" if chance.random() < 0.12 else "fsync"
    pause_s = settings.pause_s * (1 + len(others))  # a life costs what it shows
    compression = chance.choice(COMPRESSIONS)
    often = chance.random() < 0.5
    chosen = replace(
        settings,
        compression=compression,
        beside=(*others, *ALWAYS),
        mixed=mixed,
        index_bytes=index_bytes,
        directories=directories,
    )
    return replace(chosen, flush=flush, pause_s=pause_s, exact=True, often=often)


def with_transactions(plan: Plan, settings: Settings, chance: Random) -> Settings:
    """From a stream of its own, as `with_more`. A life costs what it shows."""
    if not plan.beside or chance.random() >= TRANSACTIONS:
        return settings
    return replace(
        settings, beside=(*settings.beside, "transactions"), pause_s=1.5 * settings.pause_s
    )


def with_newer_groups(plan: Plan, settings: Settings, chance: Random) -> Settings:
    """Share groups and streams groups; from a stream of its own, as `with_more`. A life costs what
    it shows.
    """
    if not plan.beside:
        return settings
    drawn = {"share": chance.random() < SHARES, "streams": chance.random() < STREAMS}
    found = tuple(name for name, wanted in drawn.items() if wanted)
    pause_s = settings.pause_s * (1 + 0.5 * len(found))
    return replace(settings, beside=(*settings.beside, *found), pause_s=pause_s)


def with_upgrade(plan: Plan, settings: Settings, chance: Random) -> Settings:
    others = tuple(dict.fromkeys(chance.choices(UPGRADED_WORKS, k=2)))
    dark = settings.ends_in_the_dark and bool(plan.kinds)
    often = chance.random() < 0.5
    return replace(settings, beside=others, often=often, ends_in_the_dark=dark)


def with_bursts(plan: Plan, settings: Settings, chance: Random) -> Settings:
    """From a stream of its own, as `with_more`."""
    if not plan.beside:
        return settings
    bursts, busy = chance.random() < BURSTS, plan.busy and chance.random() < BUSY
    return replace(
        settings, beside=(*settings.beside, "bursts") if bursts else settings.beside, busy=busy
    )


def with_length(plan: Plan, settings: Settings, chance: Random) -> Settings:
    """From a stream of its own, as `with_more`. The gaps between faults shrink with the life, so
    that short ones have as many.
    """
    if not plan.lengths_s:
        return settings
    seconds = chance.choice(plan.lengths_s)
    low, high = settings.gap_s
    return replace(
        settings,
        seconds=seconds,
        gap_s=(low * seconds / settings.seconds, high * seconds / settings.seconds),
    )


def _sizes(plan: Plan, chance: Random) -> tuple[int, int, tuple[int, ...]]:
    """Nodes, voters, and which voters are no brokers. At least three are brokers."""
    if plan.flush:  # the quorum may stay while brokers go
        return chance.choice(((3, 3, ()), (6, 3, (1, 2, 3))))
    if plan.later_voters:
        return 1 + len(plan.later_voters), 1, ()
    if plan.roles:
        controllers = tuple(node_id for node_id in (1, 2, 3) if chance.random() < 0.5)
        return 3 + len(controllers) + chance.randint(1, 2), 3, controllers
    if not plan.sizes:
        return 3, 3, ()
    nodes = chance.choice((3, 3, 3, 3, 4, 5, 5, 6, 7))
    voters = chance.choice([count for count in (1, 3, 3, 5) if count <= nodes])
    controllers = (
        tuple(sorted(chance.sample(range(1, voters + 1), min(voters, nodes - 3))))
        if chance.random() < 0.3
        else ()
    )
    return nodes, voters, controllers
