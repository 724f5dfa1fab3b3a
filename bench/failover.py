"""Fail-over as clients see it: three nodes, the leader (or a group's coordinator) dies by SIGKILL
again and again, and clients of six kinds, at their default settings and all at once, tell of each
record or commit. The figure is the longest silence around each death.
"""

import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

from bench.load import BenchFailed
from bench.systems import System
from raftka.cluster.ask import ask_any, call
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import build_batch

SOURCES = Path(__file__).parent / "failover_clients"
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    # so that it is compacted: the next coordinator loads all that is there
    "offsets.topic.segment.bytes": "1048576",
    "log.cleaner.backoff.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
}
TOPIC, OFFSETS = "failover", "__consumer_offsets"
MODES = {
    "produce": "producers, the leader dies",
    "consume": "consumers, the leader dies",
    "commit": "commits of groups, the coordinator dies",
}
WARM_UP_S, WATCHED_S = 3.0, 4.0
# from death to death: clients that put off the next try at a broker that died, librdkafka by 10 s,
# are to know that it is back
ROUND_S = 16.0
PAUSE_S = 0.01
PATIENCE_S = 60.0
# a round in which the machine let this process wait for longer is told apart
PULSE_S, CALM_S = 0.005, 0.03

Command = tuple[list[str], Mapping[str, str]]


def commands() -> dict[str, Callable[[], Command]]:
    """Return the commands that begin each client. Raises tests.kit.toolchains.Missing where one
    is not there.
    """
    from tests.kit.toolchains import Toolchains

    tools = Toolchains(fetch=True)
    python = [sys.executable, str(SOURCES / "client.py")]

    def java() -> Command:
        program = tools.java_tools()
        return [*program.command[:-1], str(SOURCES / "Client.java")], program.env

    def node() -> Command:
        program = tools.kafkajs()
        return [program.command[0], str(SOURCES / "client.cjs")], program.env

    def go() -> Command:
        program = tools.built(SOURCES / "go", "failover-go")
        return program.command, program.env

    return {
        "librdkafka": lambda: ([*python, "librdkafka"], os.environ),
        "Java": java,
        "kafka-python": lambda: ([*python, "kafka_python"], os.environ),
        "aiokafka": lambda: ([*python, "aiokafka"], os.environ),
        "franz-go": go,
        "kafkajs": node,
    }


class Client:
    """A process that prints a line for each thing done; when each line came."""

    def __init__(self, command: Command, mode: str, servers: str, group: str) -> None:
        self._name = group
        self.times: list[float] = []
        arguments, env = command
        self._process = subprocess.Popen(
            [*arguments, mode, servers, TOPIC, group],
            env=dict(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for _ in iter(lines.readline, b""):
                self.times.append(time.monotonic())

    def wait(self, since: float) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self.times or self.times[-1] < since:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise BenchFailed(f"{self._name} does nothing")
            time.sleep(PAUSE_S)

    def gap(self, since: float, until: float) -> float:
        """The longest silence that ended, or was still there, between the two."""
        times = tuple(self.times)
        before = max((each for each in times if each < since), default=since)
        return max(
            later - earlier
            for earlier, later in pairwise(
                [before, *(each for each in times if since <= each <= until), until]
            )
        )


class Feeder(threading.Thread):
    """A record each 10 ms for consumers, by requests of our own that find a new leader at once."""

    def __init__(self, addresses: list[tuple[str, int]], batch: bytearray) -> None:
        super().__init__(daemon=True)
        self._addresses, self._batch = addresses, batch
        self._ended = threading.Event()

    def run(self) -> None:
        leader: tuple[str, int] | None = None
        rows = PRODUCE.request
        partition = rows.topic_data.partition_data(index=0, records=memoryview(self._batch))
        row = rows(
            acks=1,
            timeout_ms=1000,
            topic_data=[rows.topic_data(name=TOPIC, partition_data=[partition])],
        )
        while not self._ended.wait(PAUSE_S):
            try:
                if leader is None:
                    leader = ask_any(self._addresses, [TOPIC]).leader_address(TOPIC, 0)
                answer = call(leader, PRODUCE, row, timeout=0.3, version=9)
                if answer.responses[0].partition_responses[0].error_code:
                    leader = None
            except (OSError, KeyError, IndexError):
                leader = None

    def end(self) -> None:
        self._ended.set()
        self.join()


class Pulse(threading.Thread):
    """Wakes each 5 ms and notes how late: where it is late, everybody was."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._late: list[tuple[float, float]] = []
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            wanted = time.monotonic() + PULSE_S
            time.sleep(PULSE_S)
            self._late.append((wanted, time.monotonic() - wanted))

    def worst(self, since: float, until: float) -> float:
        return max((late for at, late in tuple(self._late) if since <= at <= until), default=0.0)

    def end(self) -> None:
        self._ended.set()
        self.join()


def create(system: System) -> None:
    """The topic, and by a first question for a coordinator that of the groups."""
    system.create_topic(TOPIC)
    call(system.addresses[0], FIND_COORDINATOR, FIND_COORDINATOR.request(key="any"), version=1)
    system.wait_for_topic(OFFSETS, 1)


def leader_of(system: System, topic: str) -> int:
    deadline = time.monotonic() + PATIENCE_S
    while (leader := ask_any(system.addresses, [topic]).of(topic)[0].leader) < 0:
        if time.monotonic() > deadline:
            raise BenchFailed(f"{topic} has no leader")
        time.sleep(PAUSE_S)
    return leader


def gaps(
    system: System, mode: str, clients: Mapping[str, Command], rounds: int
) -> dict[str, list[tuple[float, bool]]]:
    """Seconds, one for each death, by client, and whether the machine was calm in the first
    second.
    """
    servers = ",".join(f"{host}:{port}" for host, port in system.addresses)
    found: dict[str, list[tuple[float, bool]]] = {name: [] for name in clients}
    with ExitStack() as stack:
        if mode == "consume":
            feeder = Feeder(
                system.addresses, build_batch([(None, b"x", (), int(time.time() * 1000))])
            )
            feeder.start()
            stack.callback(feeder.end)
        running = {
            name: stack.enter_context(Client(command, mode, servers, f"{mode}-{name}"))
            for name, command in clients.items()
        }
        pulse = Pulse()
        pulse.start()
        stack.callback(pulse.end)
        for each in running.values():
            each.wait(0.0)
        time.sleep(WARM_UP_S)
        for _ in range(rounds):
            began = time.monotonic()
            for each in running.values():
                each.wait(began)
            victim = leader_of(system, OFFSETS if mode == "commit" else TOPIC)
            killed = time.monotonic()
            system.kill(victim, signal.SIGKILL)
            time.sleep(WATCHED_S)
            until = time.monotonic()
            calm = pulse.worst(killed, killed + 1.0) < CALM_S
            for name, each in running.items():
                found[name].append((each.gap(killed, until), calm))
            system.restart(victim)
            system.wait_ready()
            system.wait_for_topic(TOPIC, 1)
            system.wait_for_topic(OFFSETS, 1)
            time.sleep(max(0.0, killed + ROUND_S - time.monotonic()))
    return found


def rows(system: System, rounds: int, modes: Iterable[str] = MODES) -> Iterator[str]:
    from tests.kit.toolchains import Missing

    available: dict[str, Command] = {}
    for name, make in commands().items():
        try:
            available[name] = make()
        except Missing as missing:
            yield f"({name} is not here: {missing})"
    create(system)
    for mode in modes:
        yield (
            f"| {system.name}, {MODES[mode]}: longest silence | median s | worst s | rounds | "
            "calm ones: median s | worst s | rounds |"
        )
        yield "|---|---|---|---|---|---|---|"
        for name, rounds_of in gaps(system, mode, available, rounds).items():
            every = [seconds for seconds, _ in rounds_of]
            calm = [seconds for seconds, calm in rounds_of if calm]
            yield f"| {name} | {_figures(every)} | {_figures(calm)} |"
        yield ""


def _figures(seconds: Sequence[float]) -> str:
    return (
        f"{statistics.median(seconds):.2f} | {max(seconds):.2f} | {len(seconds)}"
        if seconds
        else "- | - | 0"
    )
