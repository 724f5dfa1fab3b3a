"""Backups of a cluster that is written to: how long they take, how long commits wait, and how much
room they need, in a folder of the brokers' file system and in a copy.
"""

import os
import shutil
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.systems import System
from raftka.backup.create import Made, create
from raftka.backup.places import Folder
from raftka.backup.verify import verify
from raftka.client.blocking.client import Client
from raftka.client.blocking.producer import Producer
from raftka.runtime.real.files import RealFiles

TOPIC, PARTITIONS = "backed-up", 4
VALUE_BYTES = 256 * 1024
MORE_RECORDS = 40  # of VALUE_BYTES, between two backups
PROBE_S = 0.005
SPARE_BYTES = 10_000_000_000  # of the disk that a copy leaves to others


class Copied(Folder):
    """A folder as if on another file system."""

    def link(self, source: str, path: str) -> bool:
        return False


@dataclass
class Probed:
    """Times that a producer of single records has waited, in seconds."""

    waits: list[float] = field(default_factory=list)

    @property
    def worst_ms(self) -> float:
        return 1000 * max(self.waits, default=0.0)


def rows(system: System, gb: float, runs: int) -> Iterator[str]:
    yield (
        f"| backup of {gb:g} GB on one node, beside a producer | s | commits held ms | room, % of "
        "the data | worst ms of the producer |"
    )
    yield "|---|---|---|---|---|"
    files = RealFiles(lambda done: done())
    system.create_topic(TOPIC, PARTITIONS, None)
    with Client(system.addresses) as client:
        _write(client, int(gb * 1e9) // VALUE_BYTES)
        with TemporaryDirectory(prefix="raftka-bench-", dir=system.folder) as folder:
            linked = Folder(files, f"{folder}/linked")
            yield _row("hard links, the first", *_timed(client, linked, files), gb)
            taken = [_timed(client, linked, files) for _ in range(max(1, runs))]
            yield _median_row("hard links, each further one", taken, gb)
            began = time.monotonic()
            found = verify(linked, taken[-1][0].manifest)
            took = time.monotonic() - began
            yield f"| verify | {took:.2f} | | {found.records:,} records | |"
            if shutil.disk_usage(folder).free < 2 * gb * 1e9 + SPARE_BYTES:
                return
            copied = Copied(files, f"{folder}/copied")
            yield _row("a copy, the first", *_timed(client, copied, files), gb)
            yield _row("a copy, the next", *_timed(client, copied, files), gb)
    files.stop()


Timed = tuple[Made, int, Probed]  # the backup, bytes that the place needs, the producer beside it


def _timed(client: Client, place: Folder, files: RealFiles) -> Timed:
    _write(client, MORE_RECORDS)
    with _probing(client) as probed:
        made = create(client, place, files, f"at-{time.time_ns()}")
    return made, _room(place), probed


def _room(place: Folder) -> int:
    """Return the bytes of files that have no other name."""
    root = Path(place.where)
    return sum(
        each.stat().st_size
        for each in root.rglob("*")
        if each.is_file() and each.stat().st_nlink == 1
    )


def _row(title: str, made: Made, room: int, probed: Probed, gb: float) -> str:
    return _line(title, made.took_s, made.manifest.held_ms, room / (gb * 1e9), probed.worst_ms)


def _median_row(title: str, taken: Sequence[Timed], gb: float) -> str:
    return _line(
        title,
        statistics.median(made.took_s for made, _, _ in taken),
        statistics.median(made.manifest.held_ms for made, _, _ in taken),
        max(room for _, room, _ in taken) / (gb * 1e9),
        max(probed.worst_ms for _, _, probed in taken),
    )


def _line(title: str, took_s: float, held_ms: float, share: float, worst_ms: float) -> str:
    return f"| {title} | **{took_s:.2f}** | {held_ms:.0f} | {share:.2%} | {worst_ms:.0f} |"


@contextmanager
def _probing(client: Client) -> Iterator[Probed]:
    """Write single records beside the backup."""
    over, probed = threading.Event(), Probed()

    def write() -> None:
        with Client(client.bootstrap) as own:
            producer = Producer(own)
            while not over.wait(PROBE_S):
                began = time.monotonic()
                producer.add((TOPIC, 0), (None, b"probe", (), time.time_ns() // 1_000_000))
                producer.flush()
                probed.waits.append(time.monotonic() - began)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield probed
    finally:
        over.set()
        thread.join()


def _write(client: Client, count: int) -> None:
    producer, value = Producer(client, max_batch_bytes=900_000), os.urandom(VALUE_BYTES)
    for number in range(count):
        record = (None, value, (), time.time_ns() // 1_000_000)
        producer.add((TOPIC, number % PARTITIONS), record)
        if number % 16 == 15:
            producer.flush()
    producer.flush()
