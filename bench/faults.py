"""Rows about time: a leader that is killed, a leader that is stopped, starting, idling."""

import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from bench.load import BenchFailed
from bench.probe import until_acknowledged
from bench.systems import System, cpu_seconds, memory_mib
from raftka.cluster.ask import ask_any

TOPIC = "probe"
PARTITIONS = 3
SETTLE_SECONDS = 5.0
IDLE_SECONDS = 10.0

Figure = dict[str, float]


def failover(system: System, rounds: int, number: int) -> Figure:
    """The leader of a partition, another one each round, gets the signal; then it comes back and
    everything heals.

    Every other round it is also the controller, where the controller leads a partition. (Kafka
    names any broker as its controller.)
    """
    system.create_topic(TOPIC, PARTITIONS)
    gaps, controllers = [], 0
    for turn in range(rounds):
        until_acknowledged(system.addresses, TOPIC, turn % PARTITIONS)
        view = ask_any(system.addresses, [TOPIC])
        leaders = [partition.leader for partition in view.of(TOPIC)]
        partition = (
            leaders.index(view.controller)
            if turn % 2 and view.controller in leaders
            else turn % PARTITIONS
        )
        controllers += leaders[partition] == view.controller
        gaps.append(_hit(system, leaders[partition], partition, number))
        system.wait_for_topic(TOPIC, PARTITIONS)
    return {
        "median_s": statistics.median(gaps),
        "worst_s": max(gaps),
        "rounds": len(gaps),
        "controllers": controllers,
    }


def _hit(system: System, victim: int, partition: int, number: int) -> float:
    since = time.monotonic()
    if number == signal.SIGKILL:
        system.kill(victim)
    else:
        system.signal(victim, number)
    try:
        return until_acknowledged(
            system.others(victim), TOPIC, partition, not_from=victim, since=since
        )
    finally:
        if number == signal.SIGKILL:
            system.restart(victim)
        else:
            system.signal(victim, signal.SIGCONT)


def start_to_first_record(make: Callable[[], System]) -> Figure:
    """From starting the processes on empty directories to an acknowledged record in a topic that
    comes by itself.
    """
    with make() as system:
        began = time.monotonic()
        system.start()
        system.wait_ready()
        system.create_topic(TOPIC)
        until_acknowledged(system.addresses, TOPIC)
        return {"seconds": time.monotonic() - began}


def start_in_one_process(nodes: int = 3) -> Figure:
    """`raftka cluster start --in-process`, from the command to its line."""
    with tempfile.TemporaryDirectory(prefix="raftka-bench-") as folder:
        command = [
            sys.executable,
            "-m",
            "raftka.cli",
            "cluster",
            "start",
            "--nodes",
            str(nodes),
            "--data",
            folder,
            "--base-port",
            "0",
            "--in-process",
        ]
        began = time.monotonic()
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            try:
                assert process.stdout is not None
                if not process.stdout.readline().startswith("bootstrap.servers="):
                    raise BenchFailed("cluster start --in-process did not start")
                return {"seconds": time.monotonic() - began}
            finally:
                process.kill()


def idle(system: System) -> Figure:
    """The average node: memory in MiB, processor in percent of a core."""
    time.sleep(SETTLE_SECONDS)
    before = sum(map(cpu_seconds, system.pids))
    time.sleep(IDLE_SECONDS)
    used = sum(map(cpu_seconds, system.pids)) - before
    return {
        "mib": sum(map(memory_mib, system.pids)) / system.size,
        "cpu_percent": 100 * used / IDLE_SECONDS / system.size,
    }
