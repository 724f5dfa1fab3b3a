"""The trucks' flows of a project, all of them in one session: positions a second until each has
read the topic to its end, and what that costs.
"""

import json
import math
import os
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

from bench.systems import Raftka, System
from raftka.client.blocking.producer import Producer, partition_of
from raftka.cluster.demo import TOPIC
from raftka.json_values import JsonObject
from raftka.pipeline.topics.brokers import Brokers
from raftka.pipeline.topics.options import source_options

PARTITIONS = 4
TRUCKS, POSITIONS, BATCH = 1000, 4_000_000, 1_000_000
FASTEST_KMH = 100.0
FIRST_MS = 1_700_000_000_000
PATIENCE_S = 60.0
GOAL = 200_000
SETTINGS = {"log.retention.ms": "-1", "raftka.log.flush": "os"}
EACH = "each flow for itself"  # the topic is fetched and decoded by each of them
SHARED = "one fetch, one decode"


def rows(spark: Any, runs: int) -> Iterator[str]:
    what = (
        f"trucks: seven flows, {POSITIONS / 1e6:.0f} M positions of {TRUCKS} trucks, batches of "
        f"{BATCH:,}"
    )
    yield f"| {what} | positions/s (goal: {GOAL:,}) | CPU us a position | x |"
    yield "|---|---|---|---|"
    found = defaultdict(list)
    with Raftka(1, SETTINGS) as system, TemporaryDirectory(prefix="raftka-flows-") as folder:
        system.start()
        system.wait_ready()
        servers = filled(system, POSITIONS)
        for run in range(runs + 1):
            for title in (EACH, SHARED):
                used = spent()
                seconds = run_flows(
                    spark,
                    Path(folder) / f"{run}-{title.split()[0]}",
                    servers,
                    shared=title == SHARED,
                )
                if run:  # the first one is warm-up
                    found[title].append((POSITIONS / seconds, (spent() - used) / POSITIONS * 1e6))
    before = statistics.median(rate for rate, _ in found[EACH])
    for title, figures in found.items():
        rates, costs = zip(*figures, strict=True)
        rate = statistics.median(rates)
        spread = f"({min(rates) / 1000:,.0f}-{max(rates) / 1000:,.0f})"
        yield (
            f"| {title} | **{rate / 1000:,.0f} k** {spread} | {statistics.median(costs):.1f} | "
            f"{rate / before:.2f} |"
        )


def filled(system: System, count: int) -> str:
    """A topic with positions of trucks, a second apart. Returns where the brokers are."""
    servers = ",".join(f"{host}:{port}" for host, port in system.addresses)
    system.create_topic(TOPIC, PARTITIONS)
    options = source_options(
        {"kafka.bootstrap.servers": servers, "subscribe": TOPIC}, streaming=False
    )
    brokers = Brokers(options.bootstrap, "bench", PATIENCE_S)
    draw, producer = random.Random(7), Producer(brokers)
    trucks = [Truck(at, draw) for at in range(TRUCKS)]
    try:
        for at in range(count):
            truck, second = trucks[at % TRUCKS], at // TRUCKS
            producer.add(
                (TOPIC, truck.partition),
                (truck.key, json.dumps(truck.drive(second)).encode(), (), FIRST_MS + second * 1000),
            )
        producer.flush()
    finally:
        brokers.close()
    return servers


class Truck:
    """Drives through Europe. It is faster than the trucks' limit about a tenth of the time, and
    then for some ten seconds.
    """

    def __init__(self, at: int, draw: random.Random) -> None:
        self.key = f"truck-{at + 1:04}".encode()
        self.partition = partition_of(self.key, PARTITIONS)
        self._number, self._draw = at + 1, draw
        self._latitude, self._longitude = draw.uniform(40, 55), draw.uniform(-5, 20)
        self._heading, self._speed_kmh = draw.uniform(0, 2 * math.pi), draw.uniform(0, FASTEST_KMH)

    def drive(self, second: int) -> JsonObject:
        """The position after one more second."""
        degrees = self._speed_kmh / 3600 / 111  # a degree of latitude has 111 km
        self._latitude += degrees * math.cos(self._heading)
        self._longitude += degrees * math.sin(self._heading)
        self._speed_kmh = min(max(self._speed_kmh + self._draw.uniform(-4, 4), 0.0), FASTEST_KMH)
        return {
            "truck": self._number,
            "latitude": round(self._latitude, 6),
            "longitude": round(self._longitude, 6),
            "seconds": float(second),
            "speed_kmh": round(self._speed_kmh, 1),
        }


def run_flows(spark: Any, folder: Path, servers: str, *, shared: bool = True) -> float:
    """Seconds from the start of all flows until each has read all."""
    import yaml

    from raftka.pipeline.flows.graph import Graph
    from raftka.pipeline.project import init, load_project

    init("trucks", folder, servers)
    path = folder / "streams.yml"
    told = yaml.safe_load(path.read_text())
    told["streams"]["trucks"]["options"] |= {"maxOffsetsPerTrigger": str(BATCH)}
    if not shared:
        told["streams"]["trucks"]["shared"] = False
    path.write_text(yaml.safe_dump(told))
    project = load_project(folder)
    for name, value in project.configuration.items():
        spark.conf.set(name, value)
    forget_shared(spark)
    forget_views(spark)
    graph = Graph(spark, project)
    graph.load()
    begin = time.perf_counter()
    queries = [graph.start(flow, 0) for flow in graph.streams()]
    try:
        for query in queries:
            query.processAllAvailable()
        return time.perf_counter() - begin
    finally:
        for query in queries:
            query.stop()


def forget_shared(spark: Any) -> None:
    """Remove what earlier runs have fetched and decoded: it is the same topic."""
    for row in spark.range(1).mapInArrow(local_folders, "folders string").collect():
        for folder in row.folders.split(","):
            rmtree(Path(folder) / "raftka", ignore_errors=True)


def forget_views(spark: Any) -> None:
    """Of earlier runs: a definition that is loaded before the view that it reads would find
    theirs.
    """
    for table in spark.catalog.listTables():
        if table.isTemporary:
            spark.catalog.dropTempView(table.name)


def local_folders(batches: Any) -> Any:
    """In a worker: where Spark tells it to put files."""
    import pyarrow as pa

    from raftka.pipeline.topics.shared import FOLDERS

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"folders": [os.environ[FOLDERS]]})


def spent() -> float:
    """CPU seconds of this process and all below it, also of those that have ended."""
    tick, family = os.sysconf("SC_CLK_TCK"), {os.getpid()}
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        stats[int(path.parent.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    while more := {
        pid for pid, (parent, _) in stats.items() if parent in family and pid not in family
    }:
        family |= more
    return sum(stats[pid][1] for pid in family) / tick
