"""Rows about many: topics made one by one, a topic of thousands of partitions, a restart with
thousands; and a leader that leaves in good order.
"""

import os
import signal
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from tempfile import TemporaryFile
from threading import Event, Thread

from bench import faults
from bench.load import BenchFailed, load
from bench.probe import produce, until_acknowledged
from bench.systems import PATIENCE_SECONDS, System, cpu_seconds
from raftka.cluster.ask import ask, call
from raftka.wire.errors import Code
from raftka.wire.messages.topics import CREATE_TOPICS

Figure = dict[str, float]
TOPICS_OF_RESTART = 10
GROWING = "produce -b 1000000 -s 1000 -d 5"
FILLED_AT_ONCE_SECONDS = 30.0
FILLING = bytes(4 << 20)
LEAVING = "leaving"
CHECKPOINTS_SECONDS = 15.0  # until what a start has changed is written down


def topics_one_by_one(system: System, count: int) -> Figure:
    """Each waits for the answer to the one before it. Topics a second, and ms of the median one."""
    taken = []
    for number in range(count):
        began = time.monotonic()
        _create(system, f"one-{number}", 1)
        taken.append(time.monotonic() - began)
    return {"per_s": count / sum(taken), "p50_ms": 1000 * statistics.median(taken)}


def large_topic(system: System, partitions: int) -> Figure:
    """From the request to an acknowledged record in the last partition, and what all nodes spent on
    it.
    """
    cpu = sum(map(cpu_seconds, system.pids))
    began = time.monotonic()
    _create(system, "large", partitions)
    _wait_for_leaders(system, partitions)
    address = ask(system.addresses[0], ["large"]).leader_address("large", partitions - 1)
    while (code := produce(address, "large", [partitions - 1])) != Code.NONE:
        if time.monotonic() > began + PATIENCE_SECONDS:
            raise BenchFailed(f"{system.name}: the last partition says {code.name}")
        time.sleep(0.02)
    return {"seconds": time.monotonic() - began, "cpu_s": sum(map(cpu_seconds, system.pids)) - cpu}


def growth(system: System, stored_gb: Sequence[int], runs: int, seconds: float) -> Iterator[Figure]:
    """A log that only grows: medians of `runs` each time that so much is stored; they store as
    well.
    """
    targets = system.create_topic("growing", 1, None)
    stored = 0.0
    for wanted in stored_gb:
        while stored < wanted - 0.01:
            requests = int(1000 * (wanted - stored)) + 1
            stored += (
                load(
                    f"{GROWING} -m {requests}",
                    targets,
                    system.pids,
                    "growing",
                    FILLED_AT_ONCE_SECONDS,
                )["done"]
                / 1000
            )
        figures = [load(GROWING, targets, system.pids, "growing", seconds) for _ in range(runs)]
        yield {
            "stored_GB": stored,
            **{
                key: statistics.median(each[key] for each in figures)
                for key in ("MBps", "s_GB", "p99us")
            },
        }
        stored += sum(each["done"] for each in figures) / 1000


@contextmanager
def used_memory() -> Iterator[None]:
    """While it holds, the kernel takes the memory of new pages from old ones. A virtual machine's
    memory that was never used costs 2 s of CPU a GB: the host has to find it first. Needs as much
    place on the disk as there is memory.
    """
    with TemporaryFile(prefix="raftka-bench-") as file:
        for _ in range(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // len(FILLING)):
            file.write(FILLING)
        file.flush()
        os.fsync(file.fileno())
        yield


def restart_with(system: System, partitions: int) -> Figure:
    """All nodes end in good order and start again: until every partition has a leader that each
    broker knows; then an idle node.
    """
    for number in range(TOPICS_OF_RESTART):
        _create(system, f"many-{number}", partitions // TOPICS_OF_RESTART)
    _wait_for_leaders(system, partitions)
    nodes = range(1, system.size + 1)
    with ThreadPoolExecutor() as pool:
        list(pool.map(system.kill, nodes, [signal.SIGTERM] * system.size))
    began = time.monotonic()
    for node_id in nodes:
        system.restart(node_id)
    _wait_for_leaders(system, partitions)
    ready = time.monotonic() - began
    time.sleep(CHECKPOINTS_SECONDS)
    return {"seconds": ready} | faults.idle(system)


def graceful_stop(system: System, rounds: int) -> Figure:
    """A leader ends by SIGTERM while records are acknowledged one after another: the longest time
    between two of them.
    """
    system.create_topic(LEAVING, faults.PARTITIONS)
    gaps = []
    for _ in range(rounds):
        until_acknowledged(system.addresses, LEAVING)
        leader = ask(system.addresses[0], [LEAVING]).of(LEAVING)[0].leader
        gaps.append(_longest_gap(system, leader))
        system.restart(leader)
        system.wait_for_topic(LEAVING, faults.PARTITIONS)
    return {"median_s": statistics.median(gaps), "worst_s": max(gaps), "rounds": rounds}


def _longest_gap(system: System, leader: int) -> float:
    times = [time.monotonic()]
    over = Event()
    thread = Thread(target=_produce, args=(system, leader, times, over))
    thread.start()
    try:
        while len(times) < 100 and thread.is_alive():
            time.sleep(0.01)
        system.kill(leader, signal.SIGTERM)
        after = len(times) + 100
        while len(times) < after and thread.is_alive():
            time.sleep(0.01)
    finally:
        over.set()
        thread.join()
    return max(later - earlier for earlier, later in pairwise(times))


def _produce(system: System, leaving: int, times: list[float], over: Event) -> None:
    """To partition 0, to whoever leads it; asks those who stay when that is not so any more."""
    stay = system.others(leaving)
    address = ask(stay[0], [LEAVING]).leader_address(LEAVING, 0)
    while not over.is_set():
        try:
            if produce(address, LEAVING, [0]) == Code.NONE:
                times.append(time.monotonic())
                continue
        except OSError:
            pass
        until_acknowledged(stay, LEAVING)
        times.append(time.monotonic())
        address = ask(stay[0], [LEAVING]).leader_address(LEAVING, 0)


def _create(system: System, topic: str, partitions: int) -> None:
    new = CREATE_TOPICS.request.topics(
        name=topic, num_partitions=partitions, replication_factor=system.size
    )
    reply = call(
        system.addresses[0],
        CREATE_TOPICS,
        CREATE_TOPICS.request(topics=[new], timeout_ms=30_000),
        timeout=60,
    )
    if reply.topics[0].error_code:
        raise BenchFailed(f"{system.name}: cannot create {topic}: {reply.topics[0].error_message}")


def _wait_for_leaders(system: System, partitions: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    for address in system.addresses:
        asked = time.monotonic()
        while not _all_led(address, system.size, partitions):
            if time.monotonic() > deadline:
                raise BenchFailed(
                    f"{system.name}: not all of {partitions} partitions have a leader"
                )
            # the answer is large: asking must not be what keeps them busy
            time.sleep(min(0.2, 4 * (time.monotonic() - asked)))
            asked = time.monotonic()


def _all_led(address: tuple[str, int], brokers: int, partitions: int) -> bool:
    try:
        view = ask(address)
    except OSError:
        return False
    return (
        len(view.brokers) == brokers
        and sum(p.leader in view.brokers for p in view.partitions) >= partitions
    )
