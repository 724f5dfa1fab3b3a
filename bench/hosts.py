"""`./run bench hosts`: three hosts of 1, 2 and 3 brokers on this machine: rates, the CPU time of
each process, and what follows for eight cores.

The first table is what this machine does with the same load for each K, every batch flushed. For
the second one the load grows with K, as it would on machines with a core for each broker, and
kernels flush: it is what K brokers cost in CPU time a request, which does not need as many cores as
there are processes. What they reach on machines with eight cores is computed from that, and printed
as a prediction (docs/performance.md has the formula).
"""

import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.load import BenchFailed, load
from bench.rows import FLUSHED, THREE_NODES
from bench.systems import PATIENCE_SECONDS, System, cpu_seconds
from raftka.cluster.plan import plan_cluster
from raftka.cluster.processes import ClusterFailed, NodeProcess, Processes

HOSTS, SIZES = 3, (1, 2, 3)
PARTITIONS = 18  # as many leaders on each broker, with each of the sizes
LEADERS = 6  # on each broker, where the load grows with their number
WARM_UP_SECONDS = 2.0
SETTINGS = {**THREE_NODES, "raftka.log.flush": "os"}  # topics of the first table are flushed
CORES, PREDICTED = 8, 7  # of each host: one core is the kernel's
# share of its core that a broker uses under full load, the others wait for disks, network and
# uneven partitions
BUSY = 0.8


@dataclass(frozen=True, slots=True)
class Load:
    title: str
    arguments: str  # of lg, without connections
    connections: int  # in all, or to each broker where the load grows
    grows: bool = False

    @property
    def topic(self) -> str:
        return re.sub(r"\W+", "-", self.title)

    @property
    def configs(self) -> Mapping[str, str]:
        """Of the topic."""
        return {} if self.grows else FLUSHED

    def partitions(self, brokers: int) -> int:
        return LEADERS * HOSTS * brokers if self.grows else PARTITIONS

    def of_lg(self, brokers: int) -> str:
        return (
            f"{self.arguments} -c "
            f"{self.connections * HOSTS * brokers if self.grows else self.connections}"
        )


FIXED = (
    Load("16 KB batches, 18 connections, five in flight", "produce -b 16384 -d 5 -a -1", 18),
    Load("single records, 54 connections", "produce -b 1 -a -1", 54),
    Load("single records, 540 connections", "produce -b 1 -a -1", 540),
)
GROWING = (
    Load(
        "16 KB batches, six connections to each broker, five in flight",
        "produce -b 16384 -d 5 -a -1",
        6,
        grows=True,
    ),
    Load("single records, 18 connections to each broker", "produce -b 1 -a -1", 18, grows=True),
)


class Run(NamedTuple):
    rps: float
    mbps: float
    us: float  # CPU time of all processes a request
    brokers: tuple[float, ...]  # share of a core of each, the busiest first
    others: float  # of all supervisors, and of the processes that fork, together


class Hosts(System):
    """Three hosts of so many brokers."""

    name = "raftka"

    def __init__(self, brokers: int) -> None:
        super().__init__(HOSTS)
        self.brokers = brokers
        pairs = [(self.ports.add_row(brokers), controller) for _, controller in self.ports.pairs()]
        self.processes = Processes(plan_cluster(self.folder, pairs, SETTINGS, brokers=brokers))
        self.addresses = self.processes.addresses

    def start(self) -> None:
        self.processes.start_all()

    def wait_ready(self) -> None:
        try:
            self.processes.wait_ready(PATIENCE_SECONDS)
        except ClusterFailed as error:
            raise BenchFailed(str(error)) from error

    def restart(self, node_id: int) -> None:
        self.processes.start(self._host(node_id).plan.node_id)

    def pid(self, node_id: int) -> int:
        """Of the supervisor of a host."""
        return self._host(node_id).pid

    def kill(self, node_id: int, number: int = 9) -> None:
        self.processes.kill(self._host(node_id).plan.node_id, number)

    def _host(self, node_id: int) -> NodeProcess:
        return list(self.processes.nodes.values())[node_id - 1]

    @property
    def pids(self) -> list[int]:
        return [pid for node in self.processes.nodes.values() for pid in node.pids]

    @property
    def broker_pids(self) -> list[int]:
        return [pid for node in self.processes.nodes.values() for pid in node.pids[-self.brokers :]]

    def stop(self) -> None:
        self.processes.close()
        super().stop()

    def measure(self, each: Load, targets: Sequence[str], seconds: float) -> Run:
        brokers, pids = self.broker_pids, self.pids
        before = {pid: cpu_seconds(pid) for pid in pids}
        answer = load(each.of_lg(self.brokers), targets, pids, each.topic, seconds)
        shares = {pid: (cpu_seconds(pid) - before[pid]) / answer["secs"] for pid in pids}
        return Run(
            answer["rps"],
            answer["MBps"],
            answer["us_req"],
            tuple(sorted((shares[pid] for pid in brokers), reverse=True)),
            sum(share for pid, share in shares.items() if pid not in brokers),
        )


def rows(runs: int, seconds: float) -> Iterator[str]:
    found = measured(runs, seconds)
    columns = (
        "requests/s | MB/s | CPU of all processes, us a request | busiest broker, % of a core | "
        "quietest | supervisors, all together"
    )
    for title, loads in (
        ("the same load, flushed", FIXED),
        ("the load grows with K, not flushed", GROWING),
    ):
        yield f"| three hosts of K brokers on this machine, RF 3, acks=all: {title} | {columns} |"
        yield "|---|---|---|---|---|---|---|"
        for each in loads:
            for size in SIZES:
                yield _measured_row(each, size, found[each, size])
        yield ""
    title = f"prediction, not measured: three hosts of {CORES} cores, K = {PREDICTED}"
    yield f"| {title} | CPU of all processes, us a request | requests/s | K = 1 there | times |"
    yield "|---|---|---|---|---|"
    for each in GROWING:
        us = {size: statistics.median(run.us for run in found[each, size]) for size in SIZES}
        cost, rate = predicted_us(us, PREDICTED), predicted_rate(us, PREDICTED)
        alone = predicted_rate(us, 1)
        yield f"| {each.title} | {cost:,.0f} | {rate:,.0f} | {alone:,.0f} | {rate / alone:.1f} |"


def _measured_row(each: Load, size: int, runs: Sequence[Run]) -> str:
    rps, mbps, us, others = (
        statistics.median(values)
        for values in zip(*[(run.rps, run.mbps, run.us, run.others) for run in runs], strict=True)
    )
    busiest, quietest = (statistics.median(run.brokers[at] for run in runs) for at in (0, -1))
    return (
        f"| {each.title}, K = {size} | {rps:,.0f} | {mbps:.1f} | {us:,.0f} | "
        f"{busiest * 100:.0f} | {quietest * 100:.0f} | {others * 100:.1f} |"
    )


def measured(runs: int, seconds: float) -> dict[tuple[Load, int], list[Run]]:
    """All sizes in turns; each alone on the machine."""
    found: dict[tuple[Load, int], list[Run]] = defaultdict(list)
    for _ in range(runs):
        for size in SIZES:
            with Hosts(size) as hosts:
                hosts.start()
                hosts.wait_ready()
                for each in (*FIXED, *GROWING):
                    targets = hosts.create_topic(each.topic, each.partitions(size), each.configs)
                    hosts.measure(each, targets, WARM_UP_SECONDS)
                    found[each, size].append(hosts.measure(each, targets, seconds))
    return found


def followers(brokers: int) -> float:
    """Return the number of brokers that fetch from one that leads LEADERS partitions, on average:
    those of each other host are spread over its brokers by chance.
    """
    return (HOSTS - 1) * brokers * (1 - (1 - 1 / brokers) ** LEADERS)


def predicted_us(us: Mapping[int, float], brokers: int) -> float:
    """CPU time a request with so many brokers on each host: on the line through what was measured,
    over followers (least squares).

    A broker's partitions have more followers, each fetch brings fewer of them. Never less than the
    least that was measured.
    """
    at = {size: followers(size) for size in us}
    mean_at, mean_us = statistics.mean(at.values()), statistics.mean(us.values())
    slope = sum((at[size] - mean_at) * (value - mean_us) for size, value in us.items()) / sum(
        (each - mean_at) ** 2 for each in at.values()
    )
    return max(min(us.values()), mean_us + slope * (followers(brokers) - mean_at))


def predicted_rate(us: Mapping[int, float], brokers: int) -> float:
    """Requests a second of three hosts, each broker with a core to itself: BUSY of all these cores,
    at what a request costs.
    """
    return (
        HOSTS * brokers * BUSY * 1e6 / (us[brokers] if brokers in us else predicted_us(us, brokers))
    )
