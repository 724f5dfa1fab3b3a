"""One seed, one life of a cluster: it is formed, clients write and read, faults happen, all heals,
everything is counted.

    print(simulate(17, Options(PLANS["swarm"])).violations)

The same seed and the same options are the same life, to the last byte.
"""

import traceback
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType

from raftka.broker.controller.boot_counter import OlderDisk
from raftka.chaos import history as story
from raftka.chaos.checker import check
from raftka.chaos.simulated.checks import forgotten, retained, verify
from raftka.chaos.simulated.checks.observer import Observer
from raftka.chaos.simulated.checks.probes import probe
from raftka.chaos.simulated.checks.shadows import Shadows
from raftka.chaos.simulated.checks.waiting import Waiting
from raftka.chaos.simulated.checks.watch import Watch
from raftka.chaos.simulated.clients.client import Client
from raftka.chaos.simulated.clients.committers import Committer
from raftka.chaos.simulated.clients.exact import Examiner
from raftka.chaos.simulated.clients.producers import (
    History,
    Noise,
    Producer,
    Reader,
    Stream,
    key_of,
)
from raftka.chaos.simulated.cluster import Cluster, sample
from raftka.chaos.simulated.faults.faults import Faults
from raftka.chaos.simulated.faults.happened import Happened, Stopped, stop_at
from raftka.chaos.simulated.faults.nemeses import Nemesis
from raftka.chaos.simulated.faults.schedule import ONE_OF_SEVERAL, Fault, schedule, without
from raftka.chaos.simulated.releases import PRESENT, Release
from raftka.chaos.simulated.swarm import (
    AT_WORK,
    DIRECTORIES,
    FAULTS,
    PLANS,
    POWER,
    SWARM,
    WIDTH,
    Plan,
    Settings,
    choose,
    with_bursts,
    with_length,
    with_more,
    with_newer_groups,
    with_transactions,
    with_upgrade,
)
from raftka.chaos.simulated.upgrade import UpgradeWork
from raftka.chaos.simulated.workloads import beside
from raftka.chaos.simulated.workloads.voters import VotersWork
from raftka.chaos.simulated.workloads.workload import Awaited, Workload, busy, often, restored
from raftka.chaos.verdict import Outcome, Rules, Verdict
from raftka.json_values import JsonObject
from raftka.runtime.simulated.guard import sim_guard
from raftka.runtime.simulated.world import World

__all__ = [
    "DIRECTORIES",
    "FAULTS",
    "PLANS",
    "POWER",
    "SWARM",
    "WIDTH",
    "Life",
    "Options",
    "Outcome",
    "Plan",
    "Run",
    "Settings",
    "live",
    "simulate",
]

TOPIC = "trucks_gps"
PROGRESS_S = 30.0  # after all is healed, every producer must be through within so long
# longest pauses of a writer that count as no progress: a committer pauses twice as long, and now
# and then only looks
PAUSES = 10
WHOLE_S = 60.0  # within so long every node runs, and every replica is in sync
SAMPLE_S = 0.25
DIRECTORIES_GAP_S = (2.0, 9.0)  # between two faults of one of several directories
# five times as seldom as where nothing else is looked at: it would take a fifth of a life
WATCH_S = 0.1
LEAST_ACKNOWLEDGED = 20  # with fewer a life shows nothing

Prepare = Callable[[World, Cluster], object]


@dataclass(frozen=True)
class Options:
    plan: Plan = SWARM
    settings: Settings | None = None  # instead of what the seed would choose
    skip: Collection[int] = ()  # numbers of faults to leave out
    # called before the first client: nemeses that wait for their moment, what a test wants
    prepare: Sequence[Prepare] = ()
    until_s: float | None = None  # look at the world as it is then
    keep_trace: int = 0  # lines
    watch_s: float = WATCH_S  # between two looks at every ISR member's disk
    samples: bool = False  # who led, who was in sync, how far the logs were: for a report
    # this workload alone, on three nodes, and a nemesis instead of scheduled faults
    work: Callable[[], Workload] | None = None
    moments: Sequence[str] = ()  # for which the nemesis waits
    earlier: Release | None = None  # all nodes begin with it, and are upgraded: plans of upgrades


@dataclass
class Run:
    seed: int
    plan: Plan
    settings: Settings = field(default_factory=Settings)
    planned: tuple[Fault, ...] = ()
    violations: list[str] = field(default_factory=list)
    acknowledged: int = 0
    faults: list[Happened] = field(default_factory=list)
    simulated_s: float = 0.0
    trace_hash: str = ""
    probes: Counter[str] = field(default_factory=Counter)
    history: story.History = field(default_factory=story.History)
    verdict: Verdict | None = None  # None: it did not come so far
    trace: list[tuple[float, str, int, int, int]] = field(default_factory=list)
    samples: list[JsonObject] = field(default_factory=list)
    lines: list[tuple[float, str]] = field(default_factory=list)  # what the nodes logged, and when
    stopped: bool = False  # at `until_s`
    least_acknowledged: int = LEAST_ACKNOWLEDGED

    @property
    def longest_write_s(self) -> float:
        return story.longest_write_s(self.history)

    @property
    def happened(self) -> list[str]:
        return [str(each) for each in self.faults]

    @property
    def operations(self) -> int:
        return len(self.history.operations) or self.acknowledged

    @property
    def log(self) -> list[str]:
        return [line for _, line in self.lines]

    @property
    def outcome(self) -> Outcome:
        if self.violations:
            return Outcome.VIOLATED
        return (
            Outcome.INCONCLUSIVE if self.acknowledged < self.least_acknowledged else Outcome.VALID
        )


Life = Run


def at_work(
    seed: int, work: Callable[[], Workload], moments: Sequence[str], plan: Plan = AT_WORK
) -> Run:
    """A workload alone."""
    return simulate(seed, Options(plan, work=work, moments=moments))


def live(seed: int, plan: Plan, prepare: Prepare | None = None) -> Run:
    return simulate(seed, Options(plan, prepare=(prepare,) if prepare is not None else ()))


def simulate(seed: int, options: Options | None = None) -> Run:
    options = options or Options()
    run = Run(
        seed, options.plan, least_acknowledged=LEAST_ACKNOWLEDGED if options.work is None else 1
    )
    nemesis = Nemesis(options.moments, options.plan.seconds)
    # once, and not for each of a thousand steps
    with World(seed, keep_trace=options.keep_trace) as world, sim_guard(), nemesis.lurking():
        life = _Life(world, options, nemesis)
        try:
            steps = often() if life.settings.often else nullcontext()
            slices = busy() if life.settings.busy else nullcontext()
            with (
                retained.watched(life.retention),
                forgotten.noted(life.history.forgotten, life.rebuild_producers),
                restored(),
                steps,
                slices,
            ):
                life.play()
        except Stopped:
            run.stopped = True
        except Exception:
            run.violations.append(traceback.format_exc())
        run.settings, run.planned = life.settings, life.planned
        run.violations += life._wrong + life.found
        run.acknowledged = life.history.count + (
            sum([sum(work.counts) for work in life.works]) if options.work is not None else 0
        )
        run.history, run.verdict = life.history.told, life.verdict
        if options.plan.longest_write_s < run.longest_write_s:
            run.violations.append(
                f"a write has waited for {run.longest_write_s:.3f} s, the most is "
                f"{options.plan.longest_write_s} s"
            )
        run.probes = probe([line for _, line in life.lines], life.observer)
        run.faults = nemesis.struck + (life.faults.happened if life.faults else [])
        run.simulated_s, run.trace_hash, run.trace = world.now, world.trace_hash, list(world.trace)
        run.lines, run.samples = life.lines, life.samples
    return run


class _Life:
    def __init__(self, world: World, options: Options, nemesis: Nemesis) -> None:
        self.world = world
        self.options = options
        self.nemesis = nemesis
        self.history = History(now=lambda: world.now)
        self.observer = Observer(world)
        self.verdict: Verdict | None = None
        self.samples: list[JsonObject] = []
        self.found: list[str] = []  # what the checks found
        self.retention: list[str] = []  # what it took, or left, wrongly
        self.settings = self._settings()
        planned = schedule(
            world.random("schedule"), options.plan.kinds, self.settings.seconds, self.settings.gap_s
        )
        self.planned = planned + self._of_directories(len(planned))
        # what goes on beside
        self.works: list[Workload] = [options.work()] if options.work is not None else []
        self.cluster: Cluster | None = None
        self.faults: Faults | None = None
        self.shadows: Shadows | None = None
        self.producers: list[Producer] = []
        self.others: list[Reader | Noise | Committer] = []

    def _settings(self) -> Settings:
        plan = self.options.plan
        if self.options.work is not None:
            return Settings(
                partitions=0,
                writers=0,
                seconds=plan.seconds,
                often=True,
                busy=plan.busy,
                ends_in_the_dark=plan.ends_in_the_dark,
            )
        # also where it is not wanted: what was drawn is a part of the life
        chosen = choose(plan, self.world.random("settings"))
        chosen = with_more(plan, chosen, self.world.random("beside"))
        chosen = with_transactions(plan, chosen, self.world.random("beside transactions"))
        chosen = with_bursts(plan, chosen, self.world.random("beside bursts"))
        chosen = with_newer_groups(plan, chosen, self.world.random("beside newer groups"))
        if plan.upgrade:
            chosen = with_upgrade(plan, chosen, self.world.random("beside an upgrade"))
        chosen = with_length(plan, chosen, self.world.random("length"))
        return self.options.settings or chosen

    @property
    def rebuild_producers(self) -> list[ModuleType]:
        earlier = self.options.earlier or PRESENT
        return [*PRESENT.rebuild_producers, *earlier.rebuild_producers]

    @property
    def _properties(self) -> Mapping[str, str]:
        return self.settings.properties if self.options.work is None else self.works[0].settings

    def _of_directories(self, first: int) -> tuple[Fault, ...]:
        """A few more faults, where brokers have several and the plan has none for them. One that
        breaks forgets what no flush has confirmed.
        """
        if (
            not self.options.plan.beside
            or self.settings.directories < 2
            or self.settings.flush == "os"
        ):
            return ()
        return schedule(
            self.world.random("schedule of directories"),
            ONE_OF_SEVERAL,
            self.settings.seconds,
            DIRECTORIES_GAP_S,
            first,
        )

    @property
    def lines(self) -> list[tuple[float, str]]:
        return self.cluster.log.timed if self.cluster is not None else []

    def play(self) -> None:
        settings = self.settings
        stop_at(self.world, self.options.until_s)
        self._set_clocks()
        watch = (self.observer.watch,)
        cluster = self.cluster = Cluster(
            self.world,
            settings.nodes,
            settings.voters,
            self._properties,
            controllers=settings.controllers,
            before_start=watch,
            own={node_id: dict(values) for node_id, values in settings.mixed},
            later_voters=settings.later_voters,
            release=self.options.earlier or PRESENT,
        )
        cluster.keeps_power = settings.flush == "os" and self.options.plan.flush is None
        struck = next(
            (topic for work in self.works for topic in work.topics), (TOPIC, settings.partitions)
        )
        faults = self.faults = Faults(cluster, *struck, without(self.planned, self.options.skip))
        for prepare in self.options.prepare:
            prepare(self.world, cluster)
        Watch(
            cluster,
            disks_stay=not self.options.plan.directories,
            every_s=self.options.watch_s,
            rotten=lambda: faults.scene.rotten,
        ).begin()
        Waiting(cluster).begin()
        cluster.wait_ready()
        client = cluster.client()
        if settings.partitions:
            cluster.do(
                client,
                lambda: client.create_topic(
                    TOPIC, settings.partitions, settings.replication, settings.topic_configs
                ),
            )
        self._start_clients(cluster)
        self._begin_works(cluster, faults)
        faults.begin()
        if self.options.moments:
            self.nemesis.prepare(self.world, cluster)
        shadows = self.shadows = Shadows(cluster, lambda: faults.scene.rotten)
        shadows.begin(settings.seconds)
        if self.options.samples:
            self._sample(cluster)
        cluster.rotten = lambda: faults.scene.rotten
        with faults.at_their_moments():
            self._settled(cluster, lambda: False, settings.seconds)
        if settings.ends_in_the_dark:
            cluster.power_loss()
        faults.heal()
        self._end_clients(cluster)
        self._check(cluster, client)

    def _begin_works(self, cluster: Cluster, faults: Faults) -> None:
        settings = self.settings
        for work in self.works:
            work.begin(cluster, self.world.random("workload"))
        if settings.later_voters:
            self.works.append(VotersWork())
            self.works[-1].begin(cluster, self.world.random("voters"))
        if self.options.earlier is not None:
            self.works.append(
                UpgradeWork(
                    self.options.earlier,
                    faults.scene.mend,
                    settings.seconds,
                    in_order=not self.options.plan.kinds,
                )
            )
            self.works[-1].begin(cluster, self.world.random("upgrade"))
        for name in settings.beside:
            self.works.append(beside.BESIDE[name]())
            self.works[-1].begin(cluster, self.world.random(f"beside {name}"))

    def _set_clocks(self) -> None:
        chance = self.world.random("clocks")
        for node_id in range(1, self.settings.nodes + 1):
            machine = self.world.machine(f"n{node_id}")
            if self.settings.drift:
                machine.clock_rate = chance.uniform(0.999, 1.001)
                machine.clock_offset_s = chance.uniform(0, 10_000)

    def _start_clients(self, cluster: Cluster) -> None:
        settings = self.settings
        writer = cluster.client_of_a_library("writer")
        for partition in range(settings.partitions):
            for name in "abcdef"[: settings.writers]:
                stream = Stream(name, TOPIC, partition)
                chance = (
                    self.world.random(f"tries of {name} at {partition}") if settings.exact else None
                )
                self.producers.append(
                    Producer(
                        writer,
                        self.history,
                        stream,
                        settings.depth,
                        (0.0, settings.pause_s),
                        chance,
                    )
                )
            examiner = (
                Examiner(TOPIC, partition, self.world.random(f"examiner {partition}"))
                if settings.exact
                else None
            )
            self.others.append(
                Reader(
                    cluster.client(f"reader{partition}"), self.history, TOPIC, partition, examiner
                )
            )
        if settings.noise:
            self.others.append(
                Noise(
                    cluster.client_of_a_library("noise"),
                    self.history,
                    TOPIC,
                    range(settings.partitions),
                    "noise",
                )
            )
        for number in range(settings.groups):
            partition, pause_s = number % settings.partitions, (0.0, 2 * settings.pause_s)
            self.others.append(
                Committer(
                    cluster.client_of_a_library(f"group{number}"),
                    self.history,
                    f"group{number}",
                    TOPIC,
                    partition,
                    pause_s,
                )
            )
        for each in (*self.producers, *self.others):
            each.client.runtime.spawn(each.run, type(each).__name__)

    def _sample(self, cluster: Cluster) -> None:
        self.samples.append(sample(cluster, TOPIC, self.settings.partitions))
        self.world.at(self.world.now + SAMPLE_S, lambda: self._sample(cluster))

    def _end_clients(self, cluster: Cluster) -> None:
        """Everything that was begun must come through, and then one record more. Those that have
        shown it begin nothing more.
        """
        committers = [each for each in self.others if isinstance(each, Committer)]
        awaited: list[Awaited] = [*self.producers, *committers, *self.works]
        hanging = [(each, list(each.counts)) for each in awaited]
        for pauses in [each.pauses for each in self.producers] + [
            each.pauses for each in committers
        ]:
            pauses.hurry()

        def went_on() -> bool:
            for each, before in list(hanging):
                if all(now > was for now, was in zip(each.counts, before, strict=True)):
                    hanging.remove((each, before))
                    each.end()
            return not hanging

        patience_s = PROGRESS_S + PAUSES * self.settings.pause_s
        if not self._settled(cluster, went_on, patience_s):
            self.found.append(f"no progress within {patience_s} s after all was healed")
        for each in awaited:
            each.end()
        for other in self.others:
            other.over = True

        def ended() -> bool:
            return all(producer.done for producer in self.producers) and all(
                work.ended for work in self.works
            )

        if not self._settled(cluster, ended, PROGRESS_S):
            self.found.append("what was begun does not come through")

    def _settled(self, cluster: Cluster, holds: Callable[[], bool], at_most_s: float) -> bool:
        """Nothing is waited for any more when something was found already."""
        return cluster.settled(lambda: bool(self._wrong) or holds(), at_most_s)

    @property
    def _wrong(self) -> list[str]:
        of_clients = self.cluster.wrong if self.cluster is not None else []
        return [
            *of_clients,
            *self.history.violations,
            *self.retention,
            *(wrong for work in self.works for wrong in work.wrong),
        ]

    def _check(self, cluster: Cluster, client: Client) -> None:
        if self._wrong:
            return
        partitions = range(self.settings.partitions)
        topics = [
            (TOPIC, partitions),
            *((name, range(count)) for work in self.works for name, count in work.topics),
        ]

        def whole() -> bool:
            return (
                len(cluster.living) == len(cluster.nodes)
                and cluster.is_ready()
                and all(verify.whole(cluster, name, of) for name, of in topics)
            )

        if not self._settled(cluster, whole, WHOLE_S):
            self.found.append(f"not every replica is in sync within {WHOLE_S} s")
        for partition in partitions:
            self.found += verify.records(
                self.history, TOPIC, partition, self._read(cluster, client, partition)
            )
        # again: what nobody waits for may have come meanwhile
        self._settled(cluster, whole, WHOLE_S)
        for partition in partitions:
            self.found += verify.replicas(cluster, TOPIC, partition)
        for work in self.works if not self.found else ():
            self.found += work.check(cluster)
        if self.shadows is not None and not self.found:
            self.found += self.shadows.check() + self.shadows.files()
        self.found += verify.metadata(cluster) + verify.log_lines(cluster)
        self.found += [
            f"{name} refused to start: {error}" for name, error in cluster.refused.items()
        ]
        self.found += [
            f"{name} stopped: {error!r}"
            for _, name, error in self.world.failures
            if not self._must_stop(name, error)
        ]
        rules = Rules(least_acknowledged=LEAST_ACKNOWLEDGED)
        self.verdict = check(self.history.told, rules, self.observer.seen)
        self.found += [str(each) for each in self.verdict.anomalies]

    def _must_stop(self, name: str, error: BaseException) -> bool:
        rotten = self.faults.scene.rotten if self.faults is not None else None
        return isinstance(error, OSError) or (isinstance(error, OlderDisk) and name == f"n{rotten}")

    def _read(self, cluster: Cluster, client: Client, partition: int) -> list[tuple[int, bytes]]:
        """Read from the beginning to the end with a client that has never read."""
        process, key = self.history.process(), key_of(TOPIC, partition)
        self.history.begin(process, story.ASSIGN, keys=[key])
        self.history.end(process, story.OK)
        self.history.begin(process, story.POLL)
        read: list[tuple[int, bytes]] = cluster.do(
            client, partial(client.read_with_offsets, TOPIC, partition)
        )
        self.history.polled(process, key, read)
        return read
