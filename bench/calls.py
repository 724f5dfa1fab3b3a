"""Calls of the interpreter for a request, Python's and C's, in all code of real nodes: raftka, Trio
and the standard library.

The calls that idle nodes make in the same time are subtracted. Counting makes a node several times
slower, so fewer requests meet in a turn than without it: figures of loads with many requests in
flight are an upper bound.
"""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.load import BenchFailed, load
from bench.rows import FLUSHED, ONE_NODE, THREE_NODES
from bench.systems import Raftka

HOOK = Path(__file__).parent / "counting"
HOME = f"{Path(__file__).parents[1]}/raftka/"
ROOMS = ("runtime", "broker", "wire", "log", "replication")
PATIENCE_S = 10.0
LOADS = (  # nodes, title, load of lg, goal
    (1, "a record, one connection", "produce -b 1", ""),
    (1, "1 MB batches, five in flight", "produce -b 1000000 -s 1000 -d 5", ""),
    (3, "a replicated record, one connection", "produce -b 1 -a -1", "1,100"),
    (3, "replicated records, 100 a second", "produce -b 1 -a -1 -r 100", "1,100"),
)


def rows(seconds: float) -> Iterator[str]:
    yield (
        f"| calls of the interpreter for a request | nodes | all | goal | {' | '.join(ROOMS)} | "
        "elsewhere |"
    )
    yield "|---" * (5 + len(ROOMS)) + "|"
    for nodes, title, load_of, goal in LOADS:
        counts = counted(nodes, load_of, seconds)
        parts = [counts.pop(room, 0.0) for room in ROOMS]
        shown = [f"{number:,.0f}" for number in (*parts, sum(counts.values()))]
        yield (
            f"| {title} | {nodes} | **{sum(parts) + sum(counts.values()):,.0f}** | {goal} | "
            f"{' | '.join(shown)} |"
        )


def counted(nodes: int, load_of: str, seconds: float) -> dict[str, float]:
    """Return the calls for a request in all nodes, by raftka's room, or "" elsewhere."""
    with (
        TemporaryDirectory(prefix="raftka-calls-") as folder,
        Raftka(nodes, ONE_NODE if nodes == 1 else THREE_NODES) as system,
    ):
        with _environment(
            RAFTKA_COUNT_TO=folder,
            PYTHONPATH=os.pathsep.join(filter(None, [str(HOOK), os.environ.get("PYTHONPATH")])),
        ):
            system.start()
        system.wait_ready()
        targets = system.create_topic("t", 1, FLUSHED if nodes > 1 else None)
        load(load_of, targets, system.pids, "t", seconds)  # versions, sessions and plans are made
        _taken(system, folder)
        began = time.monotonic()
        time.sleep(seconds)
        idle, idle_s, began = _taken(system, folder), time.monotonic() - began, time.monotonic()
        done = load(load_of, targets, system.pids, "t", seconds)["done"]
        busy, busy_s = _taken(system, folder), time.monotonic() - began
    return {room: (busy[room] - idle[room] * busy_s / idle_s) / done for room in busy}


def _taken(system: Raftka, folder: str) -> Counter[str]:
    """Return the calls that all nodes have counted since they were asked last, by room."""
    counts: Counter[str] = Counter()
    for pid in system.pids:
        os.kill(pid, signal.SIGUSR2)
    until = time.monotonic() + PATIENCE_S
    for pid in system.pids:
        file = Path(folder) / str(pid)
        while not file.exists():
            if time.monotonic() > until:
                raise BenchFailed(f"process {pid} does not tell what it has counted")
            time.sleep(0.005)
        for path, number in json.loads(file.read_text()).items():
            counts[_room(path)] += number
        file.unlink()
    return counts


def _room(path: str) -> str:
    room = path.removeprefix(HOME).split("/")[0] if path.startswith(HOME) else ""
    return room if room in ROOMS else ""


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Set variables for the processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
