"""`./run bench`: raftka, the floor in C and Apache Kafka, run in turns; medians and ratios as a
table.
"""

import argparse
import signal
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from subprocess import CalledProcessError
from typing import Any

from bench import (
    against,
    backup,
    bridge,
    calls,
    compaction,
    decisions,
    delayed,
    failover,
    faults,
    fixture,
    groups,
    histories,
    hostile,
    hosts,
    malformed,
    pipeline,
    promises,
    runtimes,
    scale,
    security,
    shares,
    spark_jobs,
    transactions,
    zookeepers,
)
from bench.load import BenchFailed, load
from bench.rows import FLUSHED, ONE_NODE, REPLICATED, ROWS, SMALL, THREE_NODES, WIDE, Row
from bench.systems import Floor, Kafka, Raftka, System, machine

GROUPS = (
    "throughput",
    "promises",
    "runtime",
    "replicated",
    "small",
    "wide",
    "start",
    "fixture",
    "idle",
    "calls",
    "kill",
    "stop",
    "leave",
    "many",
    "groups",
    "shares",
    "transactions",
    "decisions",
    "hosts",
    "compact",
    "checker",
    "bridge",
    "hostile",
    "malformed",
    "security",
)
# Only when they are named: two need an extra; one takes twelve minutes, and fetches clients in
# other languages; two need 40 GB of disk, one makes 10,000 topics.
# tables of the group pipeline
PIPELINE = ("reads", "flows", "sinks", "lakes", "upserts", "selects")
ALONE = (
    "pipeline",
    *(f"pipeline-{name}" for name in PIPELINE),
    "registry",
    "sql",
    "failover",
    "delayed",
    "growth",
    "console",
    "backup",
)
GROWTH_GB = (1, 10, 20, 30, 40)
WARM_UP_RUNS, WARM_UP_SECONDS = 2, 5.0  # Kafka's compiler and everyone's page cache

RATES = (
    ("rps", "- requests/s", 0, ""),
    ("MBps", "- MB/s", 0, ""),
    ("p50us", "- p50 us", 0, ""),
    ("p99us", "- p99 us", 0, ""),
)

Results = dict[str, list[dict[str, Any]]]  # by system, in order of running


class Bench:
    def __init__(self, options: argparse.Namespace) -> None:
        self.runs: int = options.runs
        self.seconds: float = options.seconds
        self.rounds: int = options.rounds
        self.gb: float = options.gb
        self.kafka = not options.no_kafka and Kafka.available()

    def throughput(self) -> Iterator[str]:
        yield "| figure | C floor | raftka | x floor | goal | Apache Kafka | x floor |"
        yield "|---|---|---|---|---|---|---|"
        with ExitStack() as stack:
            systems: list[System] = [
                Raftka(1, ONE_NODE),
                *([Kafka(1, ONE_NODE)] if self.kafka else []),
            ]
            self._start(stack, systems)
            for row in ROWS:
                with Floor() as floor:
                    floor.start()
                    floor.wait_ready()
                    results = self._measure(row, [floor, *systems])
                yield from self._throughput_lines(row, results)

    def _throughput_lines(self, row: Row, results: Results) -> Iterator[str]:
        for key, title, digits, goal in (
            (row.figure, f"{row.title}, {row.unit}", 2, str(row.goal)),
            *RATES,
        ):
            floor, raftka, kafka = (
                _median(results.get(kind.name, []), key) for kind in (Floor, Raftka, Kafka)
            )
            shown = [f"{value:,.{digits}f}" for value in (floor, raftka, kafka)]
            yield (
                f"| {title} | {shown[0]} | {shown[1]} | **{raftka / floor:.2f}** | {goal} | "
                f"{shown[2]} | {kafka / floor:.2f} |"
            )

    def promises(self) -> Iterator[str]:
        with ExitStack() as stack:
            flushing, writing = Raftka(1), Raftka(1, promises.UNFLUSHED)
            kafka = Kafka(1) if self.kafka else None
            self._start(stack, [flushing, writing, *([kafka] if kafka is not None else [])])
            yield from promises.rows(flushing, writing, kafka, self.runs, self.seconds)

    def runtime(self) -> Iterator[str]:
        yield (
            "| one node, CPU on its runtime | Linux | portable | ratio | goal | requests/s | "
            "portable |"
        )
        yield "|---|---|---|---|---|---|---|"
        with ExitStack() as stack:
            systems = runtimes.both()
            self._start(stack, systems)
            for row in runtimes.MEASURED:
                found = list(self._measure(row, systems).values())
                linux, portable = (_median(runs, row.figure) for runs in found)
                rates = " | ".join(f"{_median(runs, 'rps'):,.0f}" for runs in found)
                yield (
                    f"| {row.title}, {row.unit} | {linux:.2f} | {portable:.2f} | "
                    f"**{portable / linux:.2f}** | {runtimes.GOAL:.0f} | {rates} |"
                )

    def replicated(self) -> Iterator[str]:
        yield (
            "| RF 3, acks=all, 100 KB batches on three partitions, flushed before each answer | "
            "MB/s | CPU-s/GB of three nodes | p50 ms | p99 ms |"
        )
        yield "|---|---|---|---|---|"
        with ExitStack() as stack:
            systems: list[System] = [
                Raftka(3, THREE_NODES),
                *([Kafka(3, THREE_NODES)] if self.kafka else []),
            ]
            self._start(stack, systems)
            for name, runs in self._measure(REPLICATED, systems).items():
                median = {key: _median(runs, key) for key in ("MBps", "s_GB", "p50us", "p99us")}
                yield (
                    f"| {name} | {median['MBps']:.0f} | {median['s_GB']:.2f} | "
                    f"{median['p50us'] / 1000:.1f} | {median['p99us'] / 1000:.1f} |"
                )

    def small(self) -> Iterator[str]:
        yield (
            "| RF 3, acks=all, flushed before each answer | requests/s | CPU of three nodes, us "
            "a request | p50 us | p99 us |"
        )
        yield "|---|---|---|---|---|"
        with ExitStack() as stack:
            systems: list[System] = [
                Raftka(3, THREE_NODES),
                *([Kafka(3, THREE_NODES)] if self.kafka else []),
            ]
            self._start(stack, systems)
            for row in SMALL:
                for name, runs in self._measure(row, systems).items():
                    figures = " | ".join(
                        f"{_median(runs, key):,.0f}" for key in ("rps", "us_req", "p50us", "p99us")
                    )
                    yield f"| {row.title}: {name} | {figures} |"

    def wide(self) -> Iterator[str]:
        yield (
            "| one record to each partition at once, RF 3, acks=all, flushed | p50 ms of one | "
            "p50 ms of 150 | ratio (goal: 4) | CPU ms of 150 |"
        )
        yield "|---|---|---|---|---|"
        with ExitStack() as stack:
            systems: list[System] = [
                Raftka(3, THREE_NODES),
                *([Kafka(3, THREE_NODES)] if self.kafka else []),
            ]
            self._start(stack, systems)
            one, many = (self._measure(row, systems) for row in WIDE)
            for name in one:
                first, last = _median(one[name], "p50us"), _median(many[name], "p50us")
                cpu = _median(many[name], "us_req")
                yield (
                    f"| {name} | {first / 1000:.1f} | {last / 1000:.1f} | "
                    f"**{last / first:.1f}** | {cpu / 1000:.0f} |"
                )

    def start(self) -> Iterator[str]:
        yield "| start to first acknowledged record | median s | worst s |"
        yield "|---|---|---|"
        kinds: list[tuple[str, Callable[[], System]]] = [
            ("raftka, one node", Raftka),
            ("raftka, three processes", lambda: Raftka(3)),
        ]
        if self.kafka:
            kinds += [
                ("Apache Kafka, one node", Kafka),
                ("Apache Kafka, three processes", lambda: Kafka(3)),
            ]
        taken: dict[str, list[float]] = defaultdict(list)
        for _ in range(self.runs):
            for title, make in kinds:
                taken[title].append(faults.start_to_first_record(make)["seconds"])
            taken["raftka, three nodes in one process, ready"].append(
                faults.start_in_one_process()["seconds"]
            )
        for title, seconds in taken.items():
            yield f"| {title} | {statistics.median(seconds):.2f} | {max(seconds):.2f} |"

    def fixture(self) -> Iterator[str]:
        yield from fixture.rows(self.rounds)

    def idle(self) -> Iterator[str]:
        yield "| an idle node of three | MiB | % of a core |"
        yield "|---|---|---|"
        for make in self._three():
            with self._started(make) as system:
                figure = faults.idle(system)
            yield f"| {system.name} | {figure['mib']:.0f} | {figure['cpu_percent']:.2f} |"

    def kill(self) -> Iterator[str]:
        yield from self._failover("SIGKILL of a leader", signal.SIGKILL)

    def failover(self) -> Iterator[str]:
        for make in [
            Raftka(3, failover.SETTINGS),
            *([Kafka(3, failover.SETTINGS)] if self.kafka else []),
        ]:
            with self._started(make) as system:
                yield from failover.rows(system, self.rounds)

    def stop(self) -> Iterator[str]:
        yield from self._failover("SIGSTOP of a leader", signal.SIGSTOP)

    def compact(self) -> Iterator[str]:
        yield (
            f"| compaction beside {compaction.RATE} flushed records/s of another topic | MB/s "
            "of input | p50 us | p99 us | p99 without |"
        )
        yield "|---|---|---|---|---|"
        for value_bytes, mib in compaction.FILLED_MIB.items():
            runs = compaction.rounds(self.runs, self.seconds, value_bytes)
            rate, p50, p99, calm = (
                _median(runs, key) for key in ("MBps", "busy_p50us", "busy_p99us", "calm_p99us")
            )
            yield (
                f"| {mib} MiB, records of {value_bytes} bytes | **{rate:.0f}** | {p50:,.0f} | "
                f"{p99:,.0f} | {calm:,.0f} |"
            )

    def groups(self) -> Iterator[str]:
        systems: list[System] = [
            Raftka(3, groups.SETTINGS),
            *([Kafka(3, groups.SETTINGS)] if self.kafka else []),
        ]
        yield (
            "| classic groups, three nodes | "
            + " | ".join(system.name for system in systems)
            + " |"
        )
        yield "|---|" + "---|" * len(systems)
        columns = []
        for make in systems:
            with self._started(make) as system:
                columns.append(groups.figures(system, self.runs, self.seconds))
        for title in columns[0]:
            yield f"| {title} | " + " | ".join(column[title] for column in columns) + " |"

    def shares(self) -> Iterator[str]:
        systems: list[System] = [
            Raftka(3, shares.SETTINGS),
            *([Kafka(3, shares.SETTINGS)] if self.kafka else []),
        ]
        names = " | ".join(system.name for system in systems)
        yield f"| share groups, three nodes (raftka flushes, Kafka does not) | {names} |"
        yield "|---|" + "---|" * len(systems)
        columns = []
        for make in systems:
            with self._started(make) as system:
                columns.append(shares.figures(system, 5 * self.seconds))
        for title in columns[0]:
            yield f"| {title} | " + " | ".join(column[title] for column in columns) + " |"

    def delayed(self) -> Iterator[str]:
        for records, per_s, kills in delayed.RUNS:
            with Raftka(3, delayed.SETTINGS) as system:
                system.start()
                system.wait_ready()
                yield "| delayed records, three nodes, random order | raftka |"
                yield "|---|---|"
                yield from delayed.figures(system, records, per_s, kills=kills)
                yield ""

    def transactions(self) -> Iterator[str]:
        kinds: list[type[Raftka | Kafka]] = [Raftka, *([Kafka] if self.kafka else [])]
        with ExitStack() as stack:
            systems: list[System] = [kind(3, transactions.SETTINGS) for kind in kinds]
            self._start(stack, systems)
            yield from transactions.rows(systems, self.runs, self.seconds)
            yield from transactions.reading(systems, self.runs, self.seconds)
        yield ""
        yield (
            "| SIGKILL of a transaction's coordinator until the open transaction is committed | "
            "median s | worst s | rounds |"
        )
        yield "|---|---|---|---|"
        for kind in kinds:
            with self._started(kind(3, transactions.SETTINGS)) as system:
                figure = transactions.killed(system, self.rounds)
            yield (
                f"| {system.name} | {figure['median_s']:.2f} | {figure['worst_s']:.2f} | "
                f"{figure['rounds']:.0f} |"
            )
        yield ""
        title = f"{transactions.KNOWN_IDS:,} open transactions of one coordinator"
        yield (
            f"| {title} | MiB more | opened in s | killed: the next is known after s | it "
            "answers after s |"
        )
        yield "|---|---|---|---|---|"
        for kind in kinds:
            with self._started(kind(3, transactions.ONE_LOG)) as system:
                figure = transactions.open_ids(system, transactions.KNOWN_IDS)
            yield (
                f"| {system.name} | {figure['mib']:.0f} | {figure['opened_s']:.1f} | "
                f"{figure['named_s']:.2f} | {figure['load_s']:.2f} |"
            )

    def decisions(self) -> Iterator[str]:
        yield "| longest single decisions of a group coordinator | CPU ms | of one piece |"
        yield "|---|---|---|"
        yield from decisions.rows(self.runs)

    def checker(self) -> Iterator[str]:
        yield (
            "| checker: a generated history, one core | operations | records read | checked, "
            "operations/s | with reading its lines |"
        )
        yield "|---|---|---|---|---|"
        yield from histories.rows(self.runs)

    def pipeline(self) -> Iterator[str]:
        yield (
            "| records of 100 bytes to Arrow, batches of | compression | M records/s of one core |"
        )
        yield "|---|---|---|"
        yield from pipeline.rows(self.runs)
        yield ""
        yield "| values to columns, records/s of one core | column by column | one by one | ratio |"
        yield "|---|---|---|---|"
        yield from pipeline.json_rows(self.runs)
        yield ""
        yield from spark_jobs.rows(self.runs, self.kafka)

    def table(self, group: str) -> Iterator[str]:
        name = group.removeprefix("pipeline-")
        yield from (
            spark_jobs.some(name, self.runs, self.kafka)
            if name != group
            else getattr(self, group)()
        )

    def hosts(self) -> Iterator[str]:
        yield from hosts.rows(self.runs, self.seconds)

    def registry(self) -> Iterator[str]:
        from bench import registry

        yield from registry.rows(self.runs, self.seconds)

    def sql(self) -> Iterator[str]:
        from bench import sql

        yield from sql.rows(self.runs, self.seconds)

    def console(self) -> Iterator[str]:
        from bench import console, record_search

        yield from console.rows(self.runs, self.seconds)
        yield ""
        yield from record_search.rows(self.runs, self.seconds)

    def hostile(self) -> Iterator[str]:
        for nodes, settings in ((1, ONE_NODE), (3, THREE_NODES)):
            yield f"Nodes: {nodes}."
            yield ""
            yield from hostile.lines(lambda nodes=nodes, settings=settings: Raftka(nodes, settings))  # type: ignore[misc]
            yield ""

    def malformed(self) -> Iterator[str]:
        yield from malformed.lines(lambda: Raftka(1, ONE_NODE))

    def security(self) -> Iterator[str]:
        kinds: list[type[Raftka | Kafka]] = [Raftka, *([Kafka] if self.kafka else [])]
        yield from security.tls(kinds, self.runs, self.seconds)
        yield ""
        yield from security.logins(kinds, self.runs)
        yield ""
        yield from security.acls(kinds, self.runs, self.seconds)
        yield ""
        yield from security.quotas(kinds, self.runs)
        yield ""
        yield from security.rolling(self.runs)

    def bridge(self) -> Iterator[str]:
        if zookeepers.available():
            yield from bridge.rows(self.runs, self.seconds)
        else:
            yield (
                "The bridge is measured beside ZooKeeper, which needs java, and mvn where its "
                "jars are not there yet."
            )

    def calls(self) -> Iterator[str]:
        yield from calls.rows(self.seconds)

    def growth(self) -> Iterator[str]:
        yield (
            "| one partition on one node, 1 MB batches, flushed: GB stored | MB/s | CPU-s/GB | "
            "p99 ms | CPU to the first row's |"
        )
        yield "|---|---|---|---|---|"
        first = 0.0
        with scale.used_memory(), self._started(Raftka(1)) as system:
            load(
                scale.GROWING,
                system.create_topic("warm", 1, None),
                system.pids,
                "warm",
                WARM_UP_SECONDS,
            )
            for figure in scale.growth(system, GROWTH_GB, self.runs, self.seconds):
                first = first or figure["s_GB"]
                ratio = figure["s_GB"] / first
                yield (
                    f"| {figure['stored_GB']:.0f} | {figure['MBps']:.0f} | {figure['s_GB']:.3f} "
                    f"| {figure['p99us'] / 1000:.1f} | **{ratio:.2f}** |"
                )

    def backup(self) -> Iterator[str]:
        with self._started(Raftka(1)) as system:
            yield from backup.rows(system, self.gb, self.runs)

    def leave(self) -> Iterator[str]:
        yield (
            "| SIGTERM of a leader: longest time between two acknowledgements | median s | "
            "worst s | rounds |"
        )
        yield "|---|---|---|---|"
        for make in self._three():
            with self._started(make) as system:
                figure = scale.graceful_stop(system, self.rounds)
            yield (
                f"| {system.name} | {figure['median_s']:.2f} | {figure['worst_s']:.2f} | "
                f"{figure['rounds']} |"
            )

    def many(self) -> Iterator[str]:
        yield (
            "| RF 3 | topics one by one, a second | p50 ms | 2,000 partitions: a record in the "
            "last after s | CPU-s of it "
            "| 5,000 partitions: ready after restart, s | idle node: % of a core | MiB |"
        )
        yield "|---|---|---|---|---|---|---|---|"
        for make in self._three():
            with self._started(make) as system:
                small = scale.topics_one_by_one(system, 200)
                large = scale.large_topic(system, 2000)
            with self._started(type(make)(3)) as system:
                again = scale.restart_with(system, 5000)
            yield (
                f"| {system.name} | {small['per_s']:.0f} | {small['p50_ms']:.1f} | "
                f"{large['seconds']:.2f} | {large['cpu_s']:.1f} "
                f"| {again['seconds']:.2f} | {again['cpu_percent']:.2f} | {again['mib']:.0f} |"
            )

    @contextmanager
    def _started(self, make: System) -> Iterator[System]:
        with make as system:
            system.start()
            system.wait_ready()
            yield system

    def _failover(self, title: str, number: int) -> Iterator[str]:
        yield (
            f"| {title} to the next acknowledgement | median s | worst s | rounds | of them the "
            "controller |"
        )
        yield "|---|---|---|---|---|"
        for make in self._three():
            with self._started(make) as system:
                figure = faults.failover(system, self.rounds, number)
            yield (
                f"| {system.name} | {figure['median_s']:.2f} | {figure['worst_s']:.2f} | "
                f"{figure['rounds']} | {figure['controllers']} |"
            )

    def _three(self) -> Iterator[System]:
        yield Raftka(3)
        if self.kafka:
            yield Kafka(3)

    def _start(self, stack: ExitStack, systems: Iterable[System]) -> None:
        for system in systems:
            stack.enter_context(system).start()
            system.wait_ready()

    def _measure(self, row: Row, systems: Sequence[System]) -> Results:
        """In turns, so that what the machine does meanwhile hits all alike."""
        results: Results = defaultdict(list)
        settings = FLUSHED if row.flushed else None
        targets = {
            system.name: system.create_topic(row.name, row.partitions, settings)
            for system in systems
        }
        for run in range(-WARM_UP_RUNS, self.runs):
            for system in systems:
                if row.filled_by and run == -WARM_UP_RUNS:
                    load(row.filled_by, targets[system.name], system.pids, row.name, 60)
                seconds = self.seconds if run >= 0 else WARM_UP_SECONDS
                answer = load(row.load, targets[system.name], system.pids, row.name, seconds)
                if run >= 0:
                    results[system.name].append(answer)
        return results


def _median(runs: Sequence[dict[str, Any]], key: str) -> float:
    return statistics.median(run[key] for run in runs) if runs else float("nan")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./run bench", description=(__doc__ or "").partition(": ")[2]
    )
    parser.add_argument(
        "groups",
        nargs="*",
        choices=[*GROUPS, *ALONE, []],
        metavar="GROUP",
        help=f"{', '.join(GROUPS)} (all); {', '.join(ALONE)}",
    )
    parser.add_argument("--runs", type=int, default=5, help="runs of each load (5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each run (2)")
    parser.add_argument("--rounds", type=int, default=20, help="leaders hit in kill and stop (20)")
    parser.add_argument("--gb", type=float, default=5.0, help="of the data that is backed up (5)")
    parser.add_argument("--no-kafka", action="store_true", help="leave Apache Kafka out")
    parser.add_argument(
        "--against",
        metavar="COMMIT",
        help=(
            "run the groups in this tree and in that commit, in turns, without Apache Kafka: ratios"
        ),
    )
    parser.add_argument(
        "--pairs", type=int, default=5, help="with --against: runs of each tree (5)"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if options.against:
        return _against(options)
    bench = Bench(options)
    print(
        f"{machine()}; medians of {bench.runs} runs in "
        f"turns{'' if bench.kafka else '; Apache Kafka left out'}\n",
        flush=True,
    )
    try:
        for group in options.groups or GROUPS:
            for line in bench.table(group):
                print(line, flush=True)
            print(flush=True)
    except BenchFailed as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _against(options: argparse.Namespace) -> int:
    arguments = [
        *(options.groups or GROUPS),
        "--no-kafka",
        "--runs",
        str(options.runs),
        "--seconds",
        str(options.seconds),
        "--rounds",
        str(options.rounds),
    ]
    try:
        for line in against.compare(options.against, arguments, options.pairs):
            print(line, flush=True)
    except (BenchFailed, CalledProcessError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
