"""The console's search: records a second of a text that is nearly nowhere, and what it costs a
producer beside it.
"""

import json
import statistics
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from bench.console import serving
from bench.load import BenchFailed, load
from bench.systems import Raftka, cpu_seconds
from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.producer import Producer
from tests.kit.console import Api

TOPIC, LOADED, PARTITIONS, RECORD_BYTES = "searched", "loaded", 6, 200
RATE = 500
PRODUCE = f"produce -b 1 -a -1 -r {RATE}"
NEEDLE = "needle-in-the-last-record"
RECORDS, QUICK_RECORDS = 10_000_000, 2_000_000
QUICK_S = 2.0  # a bench with shorter runs than that has fewer records
# a filter, and how many records it finds
SEARCHES: Sequence[tuple[str, Mapping[str, object], int]] = (
    ("a text, upper and lower case differ", {"text": NEEDLE, "case": "true"}, 1),
    ("a text in any case", {"text": NEEDLE.upper()}, 1),
    ("a regular expression", {"text": "needle-[a-z-]+record", "regex": "true"}, 1),
    ("a JSON path", {"path": f'$.text == "{NEEDLE}"'}, 1),
)
# with values that have no text in common with the filter, each record is decoded
SLOW: tuple[str, Mapping[str, object], int] = (
    "a JSON path that needs each record",
    {"path": "$.order < 0"},
    0,
)


def rows(runs: int, seconds: float) -> Iterator[str]:
    records = RECORDS if seconds >= QUICK_S else QUICK_RECORDS
    yield f"| search of {records:,} records of {RECORD_BYTES} bytes, one node | median | worst |"
    yield "|---|---|---|"
    with Raftka(1) as system:
        system.start()
        system.wait_ready()
        targets = system.create_topic(LOADED, 1)
        system.create_topic(TOPIC, PARTITIONS)
        bootstrap = ",".join(f"{host}:{port}" for host, port in system.addresses)
        fill(bootstrap, records)
        with serving(bootstrap) as (url, process):
            api = Api(url)
            slow = (SLOW[0], {**SLOW[1], "partition": 0}, SLOW[2])
            for title, query, hits in (*SEARCHES, slow):
                rates, busy = [], []
                for _ in range(1 if query is slow[1] else runs):
                    before = cpu_seconds(process.pid)
                    last = search(api, query, hits)
                    rates.append(last["records_s"] / 1e6)
                    busy.append(last["records"] / 1e6 / (cpu_seconds(process.pid) - before))
                yield _row(f"{title}, M records/s", rates)
                yield _row("- M records in a CPU second of the console", busy)
            yield from beside(system, targets, api, process, runs, seconds)


def _row(title: str, figures: Sequence[float]) -> str:
    worst = max(figures) if "p99" in title else min(figures)
    return f"| {title} | **{statistics.median(figures):,.2f}** | {worst:,.2f} |"


def fill(bootstrap: str, records: int) -> None:
    with Client(addresses_of(bootstrap), "bench") as client:
        producer = Producer(client)
        for number in range(records):
            text = NEEDLE if number == records - 1 else "lorem ipsum dolor sit amet"
            value = json.dumps({"order": number, "text": text, "rest": ""})
            value = f"{value[:-2]}{'consectetur adipiscing ' * 8}"[: RECORD_BYTES - 12] + '"}'
            producer.add((TOPIC, number % PARTITIONS), (b"%010d" % number, value.encode(), (), 1))
        producer.flush()


def search(api: Api, query: Mapping[str, object], hits: int) -> dict[str, float]:
    """Return the last progress of a search to its end. Raises BenchFailed."""
    last: dict[str, float] = {}
    with api.stream(f"/api/topics/{TOPIC}/search", query, "POST", {}) as events:
        for name, found in events:
            if name == "progress":
                last = found
            elif name == "failure":
                raise BenchFailed(f"{query}: {found}")
    if last["found"] != hits or last["percent"] != 100:
        raise BenchFailed(f"{query}: {last}")
    return last


def beside(
    system: Raftka,
    targets: list[str],
    api: Api,
    process: "subprocess.Popen[str]",
    runs: int,
    seconds: float,
) -> Iterator[str]:
    """A producer's p99 without a search, and while one search follows the other, in turns."""
    calm, busy, cpu = [], [], []
    load(PRODUCE, targets, system.pids, LOADED, seconds)  # warms up
    for _ in range(runs):
        calm.append(load(PRODUCE, targets, system.pids, LOADED, seconds)["p99us"] / 1000)
        before = cpu_seconds(process.pid)
        with searching(api):
            busy.append(load(PRODUCE, targets, system.pids, LOADED, seconds)["p99us"] / 1000)
        cpu.append(100 * (cpu_seconds(process.pid) - before) / seconds)
    yield _row(f"{RATE} flushed records/s beside it: p99 ms without a search", calm)
    yield _row("the same during searches: p99 ms", busy)
    yield _row("the console meanwhile: % of a core", cpu)


@contextmanager
def searching(api: Api) -> Iterator[None]:
    """Search again and again, in a thread."""
    over = threading.Event()
    title, query, hits = SEARCHES[0]

    def work() -> None:
        while not over.is_set():
            search(api, query, hits)

    thread = threading.Thread(target=work, name=title)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
