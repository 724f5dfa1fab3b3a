"""Live clusters become even: a new broker gets its share, a drained one keeps nothing, and a
balance that is interrupted leaves a sound cluster.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftka.balance.state import read_state
from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.every_broker import fenced_brokers
from raftka.client.blocking.producer import Producer
from raftka.client.blocking.reassignments import list_reassignments
from raftka.client.blocking.settings import describe_settings
from raftka.metadata.balance import EVEN, measure
from tests.clients.workload import wait
from tests.kit.live import Live, live

PARTITIONS = int(os.environ.get("RAFTKA_BALANCE_PARTITIONS", "60"))  # 1000: the figures of the page
# in the background of a shell, where tests may run, Ctrl-C would be ignored
INTERRUPTIBLE = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("raftka.cli", run_name="__main__")
"""
SLOW_DRAIN = "brokers drain 3 --look 0 -q --throttle 5000"
SETTINGS = {"auto.leader.rebalance.enable": "false", "offsets.topic.num.partitions": "3"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Four brokers."""
    with live(tmp_path_factory.mktemp("balance"), 4, SETTINGS) as cluster:
        cluster.do(f"raftka topics create orders -p {PARTITIONS} -r 3")
        with cluster.client() as client:
            producer = Producer(client)
            for index in range(PARTITIONS):
                for _ in range(1 + index % 5):
                    producer.add(("orders", index), (None, os.urandom(20_000), (), now_ms()))
            producer.flush()
        yield cluster


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def throttled(client: Client) -> list[str]:
    """Names of the throttles that are set."""
    kinds = [("broker", str(each)) for each in client.brokers] + [("topic", "orders")]
    return [
        each.name
        for kind, name in kinds
        for each in describe_settings(client, kind, name).configs
        if "throttled" in each.name and each.config_source in (1, 2)
    ]


def check_sound(cluster: Live) -> None:
    """Nothing moves, nothing is throttled, and every replica is in sync."""
    with cluster.client() as client:
        assert list_reassignments(client) == []
        assert throttled(client) == []
        wait(lambda: not read_state(client, 0).lagging)


class Load:
    """A producer to all partitions; times of its records in ms."""

    def __init__(self, cluster: Live) -> None:
        self._cluster, self._ended = cluster, threading.Event()
        self.times_ms: list[float] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        with Client(addresses_of(self._cluster.servers), "load") as client:
            producer = Producer(client)
            for number in range(10**9):
                if self._ended.is_set():
                    return
                began = time.perf_counter()
                producer.add(("orders", number % PARTITIONS), (None, b"x" * 100, (), now_ms()))
                producer.flush()
                self.times_ms.append(1000 * (time.perf_counter() - began))

    @property
    def p99_ms(self) -> float:
        return sorted(self.times_ms)[int(0.99 * len(self.times_ms))]


def test_a_new_broker_gets_its_share_while_producers_go_on(cluster: Live) -> None:
    cluster.do("raftka brokers drain 4 --look 0 -q --throttle 0")
    with cluster.client() as client:
        before = read_state(client, 0)
    assert all(4 not in each.replicas for each in before.partitions.values())
    with Load(cluster) as quiet:
        time.sleep(2.0)
    preview = json.loads(cluster.do("raftka brokers add 4 --look 0 --dry-run -o json"))
    assert preview["moves"]
    began = time.monotonic()
    with Load(cluster) as busy:
        cluster.do("raftka brokers add 4 --look 0 -q")
    took_s = time.monotonic() - began

    check_sound(cluster)
    with cluster.client() as client:
        after = read_state(client, 0)
    even = measure(after.partitions, after.brokers)
    print(
        f"{PARTITIONS} partitions: {len(preview['moves'])} moved in {took_s:.1f} s, "
        f"even within {even.unevenness:.3f}; p99 of producers "
        f"{quiet.p99_ms:.1f} ms before, {busy.p99_ms:.1f} ms meanwhile"
    )
    assert even.unevenness <= max(EVEN, 4 / PARTITIONS)  # 4: brokers, and one leader is a leader
    assert all(len(set(each.replicas)) == len(each.replicas) for each in after.partitions.values())


def test_a_drained_broker_keeps_nothing_and_gets_nothing_new(cluster: Live) -> None:
    cluster.do("raftka brokers drain 2 --look 0 -q --throttle 0")
    cluster.do("raftka topics create later -p 6 -r 3")
    with cluster.client() as client:
        state = read_state(client, 0)
    assert all(2 not in each.replicas for each in state.partitions.values())
    cluster.do("raftka topics delete later")
    cluster.do("raftka brokers add 2 --look 0 -q --throttle 0")
    check_sound(cluster)
    assert json.loads(cluster.do("raftka balance --look 0 --dry-run -o json"))["copied_bytes"] == 0


def begin_slow_drain(cluster: Live) -> subprocess.Popen[bytes]:
    """A drain whose first step takes minutes."""
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, "-b", cluster.servers, *SLOW_DRAIN.split()],
        cwd=Path(__file__).parents[2],
    )
    with cluster.client() as client:
        wait(lambda: bool(list_reassignments(client)))
    return process


def test_ctrl_c_leaves_a_sound_cluster(cluster: Live) -> None:
    process = begin_slow_drain(cluster)
    process.send_signal(signal.SIGINT)

    assert process.wait(60) == 130
    check_sound(cluster)
    cluster.do("raftka brokers add 3 --look 0 -q --throttle 0")


def test_a_balance_that_was_killed_is_cancelled(cluster: Live) -> None:
    process = begin_slow_drain(cluster)
    process.kill()
    process.wait()
    with cluster.client() as client:
        assert throttled(client)
    cluster.do("raftka balance --cancel")

    check_sound(cluster)
    cluster.do("raftka brokers add 3 --look 0 -q --throttle 0")


def test_a_dead_broker_stops_a_balance_and_can_be_drained(cluster: Live) -> None:
    cluster.cluster.kill(4)
    with cluster.client() as client:
        wait(lambda: fenced_brokers(client) == [4])
    done = cluster.shell("raftka balance --look 0")
    assert (done.returncode, "raftka brokers drain 4" in done.stderr) == (1, True)
    cluster.do("raftka brokers drain 4 --look 0 -q --throttle 0")
    with cluster.client() as client:
        state = read_state(client, 0)
    assert all(4 not in each.replicas for each in state.partitions.values())
    cluster.cluster.start(4)
    assert cluster.cluster.wait_ready()
    cluster.do("raftka brokers add 4 --look 0 -q --throttle 0")


def test_the_controller_balances_by_itself(tmp_path: Path) -> None:
    settings = {**SETTINGS, "raftka.balance": "auto", "raftka.balance.interval.ms": "1000"}
    with live(tmp_path, 3, settings) as cluster:
        cluster.create("skewed", 30, [1, 2, 3])
        with cluster.client() as client:

            def leaders() -> list[int]:
                state = read_state(client, 0)
                return sorted(measure(state.partitions, state.brokers).leaders.values())

            wait(lambda: leaders() == [10, 10, 10], lambda: str(leaders()))
        wait(lambda: not check_idle(cluster))


def check_idle(cluster: Live) -> list[str]:
    with cluster.client() as client:
        return [str(each.where) for each in list_reassignments(client)]
