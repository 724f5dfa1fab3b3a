"""One seed, one life of a cluster: it is formed, clients write and read, faults happen, all heals, everything is counted.

    print(live(17, FAULTS).violations)

The same seed is the same life.
"""

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from raftka.chaos.simulated import faults, verify
from raftka.chaos.simulated.client import Client
from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.faults import Faults, Kind
from raftka.chaos.simulated.workload import History, Noise, Producer, Reader, Stream
from raftka.runtime.simulated import World

TOPIC = "trucks_gps"
PROGRESS_S = 30.0  # after all is healed, every producer must be through within so long
WHOLE_S = 60.0  # and every replica in sync


@dataclass(frozen=True)
class Plan:
    """What a life is made of; what is not fixed here the seed decides."""

    name: str
    kinds: tuple[Kind, ...]
    seconds: float  # of faults, simulated
    gap_s: tuple[float, float]  # between two of them
    pauses_s: tuple[float, ...]  # of a producer between two sends, the longest
    noise: bool
    ends_in_the_dark: bool  # with a power loss of all
    directories: bool = False  # every broker has two
    roles: bool = False  # brokers without a vote, controllers that are no brokers


POWER = Plan("power", faults.POWER, 10.0, (0.1, 0.3), (0.02, 0.1), noise=False, ends_in_the_dark=True)
FAULTS = Plan("faults", faults.ALL, 12.0, (0.2, 1.5), (0.05, 0.2), noise=True, ends_in_the_dark=False)
WIDTH = Plan("width", faults.WIDTH, 12.0, (0.2, 1.5), (0.05, 0.2), noise=True, ends_in_the_dark=False, roles=True)
DIRECTORIES = Plan("directories", faults.DIRECTORIES, 12.0, (0.1, 0.8), (0.05, 0.2), noise=True, ends_in_the_dark=True, directories=True)
PLANS = {plan.name: plan for plan in (POWER, FAULTS, WIDTH, DIRECTORIES)}


@dataclass
class Life:
    seed: int
    plan: Plan
    violations: list[str] = field(default_factory=list)
    acknowledged: int = 0
    happened: list[str] = field(default_factory=list)
    simulated_s: float = 0.0
    trace_hash: str = ""
    log: list[str] = field(default_factory=list)


def live(seed: int, plan: Plan, prepare: Callable[[World, Cluster], None] | None = None) -> Life:
    """`prepare`: what a test wants done before the first client."""
    life = Life(seed, plan)
    with World(seed) as world:
        run = _Run(world, plan)
        try:
            run.play(prepare)
        except Exception:
            life.violations.append(traceback.format_exc())
        life.violations += run.history.violations + run.found
        life.acknowledged = run.history.count
        life.happened = run.faults.happened
        life.simulated_s = world.now
        life.trace_hash = world.trace_hash
        life.log = run.cluster.log.lines
    return life


class _Run:
    def __init__(self, world: World, plan: Plan) -> None:
        self.world = world
        self.plan = plan
        self.history = History()
        self.found: list[str] = []  # what the checks found
        chance = world.random("plan")
        self.partitions = chance.randint(1, 4)
        self.configs = {"min.insync.replicas": chance.choice("122"), "internal.segment.bytes": chance.choice(("1073741824", "20000"))}
        self.depth = chance.randint(1, 5)
        controllers = [node_id for node_id in (1, 2, 3) if chance.random() < 0.5] if plan.roles else []
        nodes = 3 + len(controllers) + chance.randint(1, 2) if plan.roles else 3
        for node_id in range(1, nodes + 1):
            machine = world.machine(f"n{node_id}")
            machine.clock_rate = chance.uniform(0.999, 1.001)
            machine.clock_offset_s = chance.uniform(0, 10_000)
        settings = {
            "replica.lag.time.max.ms": chance.choice(("1000", "5000", "30000")),
            "metadata.log.max.record.bytes.between.snapshots": chance.choice(("20971520", "2000")),
        }
        if plan.directories:
            settings["log.dirs"] = f"/data,{faults.SECOND_DIRECTORY}"
        self.cluster = Cluster(world, nodes, 3, settings, controllers=controllers)
        self.faults = Faults(self.cluster, TOPIC, self.partitions, plan.kinds, plan.gap_s)
        self.producers: list[Producer] = []
        self.others: list[Reader | Noise] = []

    def play(self, prepare: Callable[[World, Cluster], None] | None) -> None:
        if prepare is not None:
            prepare(self.world, self.cluster)
        self.cluster.wait_ready()
        client = self.cluster.client()
        self.cluster.do(client, lambda: client.create_topic(TOPIC, self.partitions, 3, self.configs))
        self._start_clients(client)
        self.faults.begin()
        self._settled(lambda: False, self.plan.seconds)
        if self.plan.ends_in_the_dark:
            self.cluster.power_loss()
        self.faults.heal()
        self._end_clients()
        self._check(client)

    def _start_clients(self, client: Client) -> None:
        chance = self.world.random("clients")
        for partition in range(self.partitions):
            for name in ("a", "b")[: chance.randint(1, 2)]:
                pause_s = (0.0, chance.choice(self.plan.pauses_s))
                self.producers.append(Producer(client, self.history, Stream(name, TOPIC, partition), self.depth, pause_s))
            self.others.append(Reader(self.cluster.client(f"reader{partition}"), self.history, TOPIC, partition))
        if self.plan.noise:
            self.others.append(Noise(self.cluster.client("noise"), TOPIC, range(self.partitions), "noise"))
        for each in (*self.producers, *self.others):
            each.client.runtime.spawn(each.run, type(each).__name__)

    def _end_clients(self) -> None:
        """Everything that was begun must come through, and then one record more."""
        counted = {producer: len(self.history.acknowledged[producer.stream]) for producer in self.producers}

        def went_on() -> bool:
            return all(len(self.history.acknowledged[producer.stream]) > counted[producer] for producer in self.producers)

        if not self._settled(went_on, PROGRESS_S):
            self.found.append(f"no progress within {PROGRESS_S} s after all was healed")
        for each in (*self.producers, *self.others):
            each.over = True
        if not self._settled(lambda: all(producer.done for producer in self.producers), PROGRESS_S):
            self.found.append("what was begun does not come through")

    def _settled(self, holds: Callable[[], bool], at_most_s: float) -> bool:
        """Nothing is waited for any more when something was found already."""
        return self.cluster.settled(lambda: bool(self.history.violations) or holds(), at_most_s)

    def _check(self, client: Client) -> None:
        if self.history.violations:
            return
        if not self._settled(lambda: verify.whole(self.cluster, TOPIC, range(self.partitions)), WHOLE_S):
            self.found.append(f"not every replica is in sync within {WHOLE_S} s")
        for partition in range(self.partitions):
            read = self.cluster.do(client, lambda partition=partition: client.read_with_offsets(TOPIC, partition))  # type: ignore[misc]
            self.found += verify.records(self.history, TOPIC, partition, read)
            self.found += verify.replicas(self.cluster, TOPIC, partition)
        self.found += verify.metadata(self.cluster) + verify.log_lines(self.cluster)
        self.found += [f"{name} refused to start: {error}" for name, error in self.cluster.refused.items()]
        self.found += [f"{name} stopped: {error!r}" for _, name, error in self.world.failures if not isinstance(error, OSError)]
