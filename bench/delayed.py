"""Rows about delayed delivery: how late records are that are due in random order, and whether each
is delivered once while leaders die by SIGKILL.

A process of its own writes all records first; their times lie in a window behind that. The reader
is raftka's own client, and counts each record by its number.
"""

import os
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Iterator
from random import Random

from bench.failover import leader_of
from bench.load import BenchFailed
from bench.systems import Raftka
from raftka.client.blocking.client import Client
from raftka.client.blocking.producer import Producer
from raftka.client.blocking.reader import Reader

TOPIC, PARTITIONS = "delayed", 10
SETTINGS = {"min.insync.replicas": "2"}
CONFIGS = {"raftka.delivery": "delayed"}
# records, how many of them are due in a second, whether leaders are killed
RUNS = ((1_000_000, 10_000, False), (100_000, 180, True))
WRITTEN_PER_S = 15_000  # by the writer at least: so long before the window it begins
FIRST_S = 5.0  # from the begin to the window, at least
VALUE_BYTES = 100
PATIENCE_S = 60.0  # behind the window, for the last records
DEATH_EVERY_S = 3.0
AWAY_S = 0.5
DELIVER_AT = "raftka.deliver.at"
READ_AT_ONCE = 10_000


def produce(servers: str, records: int, begin_ms: int, window_ms: int) -> None:
    """Write the records, each with its number and a random time in the window."""
    random, padding = Random(1), b"." * VALUE_BYTES
    with Client(_addresses(servers)) as client:
        producer = Producer(client)
        for number in range(records):
            at = b"%d" % (begin_ms + random.randrange(window_ms))
            record = (b"%d" % number, padding, [(DELIVER_AT, at)], time.time_ns() // 1_000_000)
            producer.add((TOPIC, number % PARTITIONS), record)
        producer.flush()


def _addresses(servers: str) -> list[tuple[str, int]]:
    pairs = [each.rpartition(":") for each in servers.split(",")]
    return [(host, int(port)) for host, _, port in pairs]


class Killer(threading.Thread):
    """Kills the leader of a partition by SIGKILL again and again, and starts it anew."""

    def __init__(self, system: Raftka) -> None:
        super().__init__(daemon=True)
        self.killed = 0
        self._system = system
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(DEATH_EVERY_S):
            victim = leader_of(self._system, TOPIC)
            self._system.kill(victim)
            self.killed += 1
            self._ended.wait(AWAY_S)
            self._system.restart(victim)
            self._system.wait_ready()
            self._system.wait_for_topic(TOPIC, PARTITIONS)

    def end(self) -> None:
        self._ended.set()
        self.join()


class Result:
    """Each record by its number: how often it came, and how late."""

    def __init__(self, records: int) -> None:
        self.times_read = array("B", bytes(records))
        self.late_ms = array("i")  # from a record's time to its delivery by the leader
        self.read_late_ms = array("i")  # to the reader
        self.early = self.killed = 0
        self.written_s = 0.0

    @property
    def missing(self) -> int:
        return self.times_read.count(0)

    @property
    def repeated(self) -> int:
        return sum(count > 1 for count in self.times_read)


def measure(system: Raftka, records: int, window_s: float, *, kills: bool) -> Result:
    """Write, wait and read everything. Raises BenchFailed when records do not come."""
    system.create_topic(TOPIC, PARTITIONS, CONFIGS)
    began = time.time()
    begin_ms = int((began + max(FIRST_S, records / WRITTEN_PER_S)) * 1000)
    result = Result(records)
    servers = ",".join(f"{host}:{port}" for host, port in system.addresses)
    command = [sys.executable, "-m", "bench.delayed", servers, str(records), str(begin_ms)]
    writer = subprocess.Popen([*command, str(int(window_s * 1000))], env=dict(os.environ))
    killer = Killer(system)
    if kills:
        killer.start()
    try:
        _read(system, writer, result, begin_ms / 1000 + window_s)
    finally:
        writer.kill()
        writer.wait()
        if kills:
            killer.end()
    result.killed = killer.killed
    return result


def _read(
    system: Raftka, writer: "subprocess.Popen[bytes]", result: Result, window_ends: float
) -> None:
    """Read until every record has come, and the writer has ended."""
    left, began = len(result.times_read), time.time()
    with Client(system.addresses) as client:
        reader = Reader(client, {(TOPIC, partition): 0 for partition in range(PARTITIONS)})
        while left:
            if writer.poll() is not None and not result.written_s:
                result.written_s = time.time() - began
                if writer.returncode:
                    raise BenchFailed("the writer failed")
            found = reader.poll(0.5, READ_AT_ONCE)
            now_ms = time.time_ns() // 1_000_000
            for record in found:
                number, at = int(record.key or b""), int(dict(record.headers)[DELIVER_AT] or 0)
                left -= not result.times_read[number]
                result.times_read[number] += 1
                result.late_ms.append(record.timestamp - at)
                result.read_late_ms.append(now_ms - at)
                result.early += now_ms < at
            if not found and time.time() > window_ends + PATIENCE_S:
                return
        reader.close()


def figures(system: Raftka, records: int, per_s: int, *, kills: bool) -> Iterator[str]:
    """The rows of one run."""
    result = measure(system, records, records / per_s, kills=kills)
    yield f"| records | {records:,} |"
    yield f"| leaders killed | {result.killed} |"
    yield f"| missing, twice, early | {result.missing}, {result.repeated}, {result.early} |"
    yield f"| written in s | {result.written_s:.1f} |"
    for title, late in (("leader", result.late_ms), ("reader", result.read_late_ms)):
        ordered = sorted(late)
        shown = [ordered[min(len(ordered) - 1, int(len(ordered) * q))] for q in (0.5, 0.99, 0.999)]
        within = sum(each <= 100 for each in ordered) / max(1, len(ordered))
        yield (
            f"| {title}: ms late p50, p99, p99.9, most; within 100 ms | "
            f"{', '.join(map(str, [*shown, ordered[-1]]))}; {within:.3%} |"
        )


if __name__ == "__main__":
    produce(sys.argv[1], *map(int, sys.argv[2:]))
