"""Equal promises side by side on one node: records that are flushed before the answer, and records
that are not; and the defaults of both systems.

raftka flushes by default, Kafka does not. All other settings are each system's own defaults.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping

from bench.load import load
from bench.systems import System

UNFLUSHED: Mapping[str, str] = {"raftka.log.flush": "os"}
FLUSHED: Mapping[str, str] = {"flush.messages": "1"}
LOADS = {
    "1 MB batches, five in flight": "produce -b 1000000 -s 1000 -d 5",
    "16 KB batches, five in flight": "produce -b 16384 -d 5",
    "single records, 50 connections": "produce -b 1 -c 50",
    "single records, one connection": "produce -b 1",
}
WARM_UP_SECONDS = 0.5


def rows(
    flushing: System, writing: System, kafka: System | None, runs: int, seconds: float
) -> Iterator[str]:
    """`flushing`: raftka with its defaults; `writing`: raftka that leaves flushes to the system."""
    kinds: dict[str, tuple[System, Mapping[str, str] | None]] = {
        "raftka, flushed (its default)": (flushing, None),
        "raftka, not flushed": (writing, None),
    }
    if kafka is not None:
        kinds |= {
            "Apache Kafka, not flushed (its default)": (kafka, None),
            "Apache Kafka, flushed": (kafka, FLUSHED),
        }
    yield "| one node, acks=1: requests/s; CPU us a request | " + " | ".join(kinds) + " |"
    yield "|---|" + "---|" * len(kinds)
    for number, (title, what) in enumerate(LOADS.items()):
        targets = {
            kind: system.create_topic(f"promise-{number}-{place}", 1, settings)
            for place, (kind, (system, settings)) in enumerate(kinds.items())
        }
        found: dict[str, list[dict[str, float]]] = defaultdict(list)
        for run in range(-1, runs):
            for place, (kind, (system, _)) in enumerate(kinds.items()):
                answer = load(
                    what,
                    targets[kind],
                    system.pids,
                    f"promise-{number}-{place}",
                    seconds if run >= 0 else WARM_UP_SECONDS,
                )
                if run >= 0:
                    found[kind].append(answer)
        figures = [
            f"{statistics.median(each['rps'] for each in found[kind]):,.0f}; "
            f"{statistics.median(each['us_req'] for each in found[kind]):,.0f}"
            for kind in kinds
        ]
        yield f"| {title} | " + " | ".join(figures) + " |"
