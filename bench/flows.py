"""The trucks' flows of a project, all of them in one session: positions a second until each has read the topic to its end, and what that costs."""

import json
import os
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.systems import Raftka, System
from raftka.client.blocking.producer import Producer, partition_of
from raftka.cluster.demo import TOPIC
from raftka.pipeline.topics.brokers import Brokers
from raftka.pipeline.topics.options import source_options

PARTITIONS = 4
TRUCKS, POSITIONS, BATCH = 1000, 2_000_000, 500_000
FIRST_MS = 1_700_000_000_000
PATIENCE_S = 60.0
GOAL = 200_000
SETTINGS = {"log.retention.ms": "-1", "raftka.log.flush": "os"}
EACH = "each flow for itself"  # the topic is fetched and decoded by each of them
SHARED = "one fetch, one decode"


def rows(spark: Any, runs: int) -> Iterator[str]:
    what = f"trucks: seven flows, {POSITIONS / 1e6:.0f} M positions of {TRUCKS} trucks, batches of {BATCH:,}"
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
                seconds = run_flows(spark, Path(folder) / f"{run}-{title.split()[0]}", servers, shared=title == SHARED)
                if run:  # the first one is warm-up
                    found[title].append((POSITIONS / seconds, (spent() - used) / POSITIONS * 1e6))
    before = statistics.median(rate for rate, _ in found[EACH])
    for title, figures in found.items():
        rates, costs = zip(*figures, strict=True)
        rate = statistics.median(rates)
        spread = f"({min(rates) / 1000:,.0f}-{max(rates) / 1000:,.0f})"
        yield f"| {title} | **{rate / 1000:,.0f} k** {spread} | {statistics.median(costs):.1f} | {rate / before:.2f} |"


def filled(system: System, count: int) -> str:
    """A topic with positions of trucks, a second apart. Returns where the brokers are."""
    servers = ",".join(f"{host}:{port}" for host, port in system.addresses)
    system.create_topic(TOPIC, PARTITIONS)
    options = source_options({"kafka.bootstrap.servers": servers, "subscribe": TOPIC}, streaming=False)
    brokers = Brokers(options.bootstrap, "bench", PATIENCE_S)
    draw, producer = random.Random(7), Producer(brokers)
    keys = [f"truck-{at + 1:04}".encode() for at in range(TRUCKS)]
    places = [partition_of(key, PARTITIONS) for key in keys]
    try:
        for at in range(count):
            truck, second = at % TRUCKS, at // TRUCKS
            position = {
                "truck": truck + 1,
                "latitude": round(draw.uniform(40, 55), 6),
                "longitude": round(draw.uniform(-5, 20), 6),
                "seconds": float(second),
                "speed_kmh": round(draw.uniform(0, 120), 1),
            }
            producer.add((TOPIC, places[truck]), (keys[truck], json.dumps(position).encode(), (), FIRST_MS + second * 1000))
        producer.flush()
    finally:
        brokers.close()
    return servers


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
    while more := {pid for pid, (parent, _) in stats.items() if parent in family and pid not in family}:
        family |= more
    return sum(stats[pid][1] for pid in family) / tick
