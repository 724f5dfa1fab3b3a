"""`python -m tests.broker.fuzz --frames 100000 --keys all --jobs 2`: what frames that nobody would
write do to a live node, API by API.

Each API has a node to itself. After every frame the same connection must be served or closed; an
answer must be one of its version, to the last byte; the node's log must tell of no mistake of ours;
memory must stay within GROWTH_BYTES; and a neighbour who writes and reads back must find what it
wrote. How long the neighbour waits is printed, not judged. The exit code is 1 when something was
found.

`--secured`: to simulated nodes with logins and ACLs, before the login and as a user without rights
(secured_fuzz.py). `--tls 100000`: attacks on TLS records (tls_fuzz.py).
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from math import inf
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from struct import pack
from tempfile import TemporaryDirectory
from typing import TypeVar

import raftka.broker.handlers  # noqa: F401  # registers them
from raftka.broker.network.dispatch import HANDLERS
from raftka.cluster.parents import end_with_parent
from raftka.cluster.plan import plan_cluster
from raftka.cluster.ports import HeldPorts
from raftka.cluster.processes import ClusterFailed, Processes
from raftka.wire.errors import Code
from raftka.wire.messages.fetch import FETCH, PartitionData
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.produce import PRODUCE, PartitionProduceResponse
from raftka.wire.messages.topics import CREATE_TOPICS, DELETE_TOPICS
from raftka.wire.schema import AnyApi
from tests.broker import secured_fuzz
from tests.broker.fuzz_frames import TOPICS, Frames
from tests.broker.judging import END, judged
from tests.broker.requests import batch, fetch, fetched, produce, produced
from tests.broker.talk import Address, Line
from tests.security import tls_fuzz

GROWTH_BYTES = 100 << 20
AT_ONCE = 8  # frames
TIDY_EVERY = 1000  # frames
SECURED_AT_ONCE = 1000  # frames
WARM = 2000  # frames, before memory is compared
GUARD_S = 3600.0  # a machine that does other things meanwhile is no node that hangs
QUIET_S, PAUSE_S = 2.0, 0.004
NEIGHBOUR = "neighbour"
KEPT = {"retention.ms": "-1"}  # the neighbour's records are of 2023
# clients ask again: a broker that is unregistered comes back
AGAIN, AGAIN_S = (Code.LEADER_NOT_AVAILABLE, Code.NOT_LEADER_OR_FOLLOWER), 20.0

Came = list[bytes] | None  # a frame's answers, at most one; None: closed


@dataclass
class Report:
    api: str
    frames: int = 0
    answered: int = 0
    closed: int = 0
    warm_bytes: int = 0  # the node's memory
    most_bytes: int = 0
    last_bytes: int = 0
    alone_ms: tuple[float, float] = (0.0, 0.0)  # the neighbour's p50 and p99
    beside_ms: tuple[float, float] = (0.0, 0.0)
    seconds: float = 0.0
    found: list[str] = field(default_factory=list)

    def remember(self, resident_bytes: int) -> None:
        self.last_bytes = resident_bytes
        self.most_bytes = max(self.most_bytes, resident_bytes)
        if self.frames <= WARM:
            self.warm_bytes = self.most_bytes

    def __str__(self) -> str:
        warm, most, last = (
            size >> 20 for size in (self.warm_bytes, self.most_bytes, self.last_bytes)
        )
        alone, beside = (
            "/".join(f"{ms:.1f}" for ms in times) for times in (self.alone_ms, self.beside_ms)
        )
        line = (
            f"{self.api:28}{self.frames:7} frames, {self.answered:6} answered, {self.closed:6} "
            f"closed; {self.seconds:4.0f} s; "
        )
        line += (
            f"MiB {warm} -> {most} -> {last}; neighbour's ms (p50/p99) {alone} alone, {beside} "
            "beside"
        )
        return "\n  FOUND ".join([line, *self.found])


class Victim:
    """A node in a process of its own, with the topics of the recorded requests."""

    def __init__(self, processes: Processes) -> None:
        self.node = processes.nodes[1]
        self.pid = self.node.pid
        self.address = processes.addresses[0]
        self.log = self.node.plan.log_file.open("rb")
        with Line(self.address) as line:
            self.tidy(line)
            self.create(line, NEIGHBOUR)

    def create(self, line: Line, name: str) -> None:
        request = CREATE_TOPICS.request
        configs = [
            request.topics.configs(name=key, value=value)
            for key, value in TOPICS.get(name, KEPT).items()
        ]
        line.ask(
            CREATE_TOPICS,
            request(
                topics=[
                    request.topics(
                        name=name, num_partitions=2, replication_factor=1, configs=configs
                    )
                ]
            ),
        )

    def tidy(self, line: Line) -> dict[str, bytes]:
        """Only the given topics are there, all of them."""
        there = {
            topic.name for topic in line.ask(METADATA, METADATA.request(topics=None), 12).topics
        }
        request = DELETE_TOPICS.request
        # one by one: who deletes a hundred at once is another neighbour
        for name in there - {*TOPICS, NEIGHBOUR}:
            line.ask(DELETE_TOPICS, request(topics=[request.topics(name=name)], timeout_ms=5000))
        for name in set(TOPICS) - there:
            self.create(line, name)
        return {
            topic.name: topic.topic_id
            for topic in line.ask(METADATA, METADATA.request(topics=None), 12).topics
            if topic.name in TOPICS
        }

    @property
    def resident_bytes(self) -> int:
        return int(
            Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]
        ) * os.sysconf("SC_PAGE_SIZE")

    def mistakes(self) -> list[str]:
        """New lines of the log that tell of a mistake of ours."""
        lines = self.log.read().decode(errors="replace").splitlines()
        return [line for line in lines if '"level": "error"' in line or not line.startswith("{")]

    @property
    def alive(self) -> bool:
        return self.node.process is not None and self.node.process.poll() is None


@contextmanager
def victim() -> Iterator[Victim]:
    with TemporaryDirectory(prefix="raftka-fuzz-") as folder, HeldPorts(2) as ports:
        processes = Processes(plan_cluster(Path(folder), ports.pairs()))
        try:
            processes.nodes[1].module = "tests.broker.fuzz_node"
            processes.start_all()
            processes.wait_ready()
            yield Victim(processes)
        finally:
            processes.close()


def connected(address: Address) -> Line:
    line = Line(address)
    line.sock.settimeout(GUARD_S)
    return line


class Stranger:
    """Sends some frames at a time, each followed by a request that says when it is done with."""

    def __init__(self, target: Victim) -> None:
        self.target = target
        self.line = connected(target.address)

    def send(self, frames: Sequence[bytes]) -> list[Came]:
        came: list[Came] = []
        while rest := frames[len(came) :]:
            came += self._on_one_connection(rest)
        return came

    def _on_one_connection(self, frames: Sequence[bytes]) -> list[Came]:
        """As far as it lasts."""
        came: list[Came] = []
        answers: list[bytes] = []
        try:
            self.line.send(b"".join(pack(">i", len(frame)) + frame + END for frame in frames))
            while len(came) < len(frames) and (answer := self.line.frame()) is not None:
                if answer[:4] == END[8:12]:
                    came.append(answers)
                    answers = []
                else:
                    answers.append(answer)
        except ConnectionError:
            pass
        if len(came) == len(frames):
            return came
        self.line.sock.close()
        self.line = connected(self.target.address)
        return [*came, None]


def attack(api_key: int, frames: int, seed: int) -> Report:
    api = HANDLERS[api_key].api
    report = Report(api.name)
    try:
        _attack(api, frames, seed, report)
    except ClusterFailed as error:
        report.found.append(str(error))
    return report


def attack_secured(api_key: int, frames: int, seed: int) -> Report:
    report = Report(HANDLERS[api_key].api.name)
    began = time.monotonic()
    # a node for each part, so that its topics and its log stay small
    while report.frames < frames and not report.found:
        count = min(SECURED_AT_ONCE, frames - report.frames)
        try:
            secured_fuzz.strangers(HANDLERS[api_key].api, count, seed + report.frames)
            secured_fuzz.users(HANDLERS[api_key].api, count, seed + report.frames)
        except AssertionError as error:
            report.found.append(str(error)[:3000])
        report.frames += count
    report.seconds = time.monotonic() - began
    return report


def _attack(api: AnyApi, frames: int, seed: int, report: Report) -> None:
    with victim() as target:
        orders, theirs = get_context("spawn").Pipe()
        neighbour = get_context("spawn").Process(
            target=live_beside, args=(target.address, theirs), daemon=True
        )
        neighbour.start()
        report.alone_ms, _ = orders.recv()
        orders.send("now")
        began = time.monotonic()
        try:
            _send_all(api, target, frames, seed, report)
        except (OSError, AssertionError) as error:
            report.found.append(f"after {report.frames} frames: {error!r}")
        report.seconds = time.monotonic() - began
        orders.send("end")
        if orders.poll(GUARD_S):
            report.beside_ms, wrong = orders.recv()
            report.found += wrong[:3]
            orders.send("done")
        else:
            report.found.append("the neighbour is not served")
        neighbour.kill()
        if not target.alive:
            report.found.append(f"the node ended:\n{target.node.end_of_log()}")


def _send_all(api: AnyApi, target: Victim, count: int, seed: int, report: Report) -> None:
    with connected(target.address) as line:
        frames = Frames(api, target.tidy(line), seed)
        stranger = Stranger(target)
        coming = chain(frames.by_hypothesis(count // 100), frames)
        while report.frames < count:
            group = list(islice(coming, min(AT_ONCE, count - report.frames)))
            _judge(api, target, group, stranger.send(group), report)
            if report.frames % TIDY_EVERY < AT_ONCE:
                frames.ids[:-1] = target.tidy(line).values()
                report.remember(target.resident_bytes)
        report.remember(target.resident_bytes)
        if (grown := report.most_bytes - report.warm_bytes) > GROWTH_BYTES:
            report.found.append(f"{grown >> 20} MiB more memory")


def _judge(
    api: AnyApi, target: Victim, group: list[bytes], came: list[Came], report: Report
) -> None:
    wrong = []
    for frame, answers in zip(group, came, strict=True):
        if answers is not None and (said := judged(api, frame, answers)):
            wrong.append(f"{said}: {frame.hex()[:3000]}")
    if mistakes := target.mistakes():
        wrong.append(f"{mistakes[:3]}, by one of {[frame.hex()[:3000] for frame in group]}")
    report.found += wrong[: max(0, 5 - len(report.found))]
    report.frames += len(group)
    report.closed += came.count(None)
    report.answered += sum(map(bool, came))


# the neighbour


def _end_with_parent() -> None:
    if (parent := parent_process()) is not None:
        end_with_parent(os.getppid(), parent.sentinel)


def live_beside(address: Address, orders: Connection) -> None:
    """Writes a record, reads it back, again and again; tells how long that took, alone and then
    beside the stranger.
    """
    _end_with_parent()
    wrong: list[str] = []
    with connected(address) as line:
        offset = -1
        for _ in range(50):
            offset, _ = _turn(line, offset, wrong)
        for end in (time.monotonic() + QUIET_S, inf):
            times: list[float] = []
            while not orders.poll(PAUSE_S) and time.monotonic() < end:
                offset, took = _turn(line, offset, wrong)
                times.append(took)
            if end == inf:
                orders.recv()
            orders.send((_percentiles(times), wrong))
            orders.recv()


Part = TypeVar("Part", PartitionProduceResponse, PartitionData)


def _turn(line: Line, offset: int, wrong: list[str]) -> tuple[int, float]:
    value = batch(b"%d" % (offset + 1))
    began = time.monotonic()
    written = _patiently(lambda: produced(line.ask(PRODUCE, produce(NEIGHBOUR, value, acks=1), 12)))
    read = _patiently(
        lambda: fetched(
            line.ask(FETCH, fetch(NEIGHBOUR, offset + 1, max_wait_ms=500, min_bytes=1), 12)
        ),
        lambda row: bool(row.records),
    )
    took = time.monotonic() - began
    if (written.error_code, written.base_offset, read.error_code) != (0, offset + 1, 0) or bytes(
        read.records or b""
    )[61:] != value[61:]:
        wrong.append(f"the neighbour: {written}, {read}")
    return offset + (written.error_code == 0), took


def _patiently(ask: Callable[[], Part], good: Callable[[Part], bool] = lambda _: True) -> Part:
    """As a client that asks again: a disk that is busy may take longer than a fetch waits."""
    end = time.monotonic() + AGAIN_S
    while (
        (answer := ask()).error_code in AGAIN or (not answer.error_code and not good(answer))
    ) and time.monotonic() < end:
        pass
    return answer


def _percentiles(times: list[float]) -> tuple[float, float]:
    ordered = sorted(times) or [0.0]
    return 1000 * ordered[len(ordered) // 2], 1000 * ordered[int(len(ordered) * 0.99)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.broker.fuzz", description=__doc__)
    parser.add_argument("--frames", type=int, default=100_000, help="of each API")
    parser.add_argument("--keys", default="all", help="API keys, with commas between them")
    parser.add_argument("--jobs", type=int, default=1, help="APIs at a time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--secured", action="store_true", help="simulated nodes with logins and ACLs"
    )
    parser.add_argument("--tls", type=int, default=0, help="attacks on TLS records instead")
    given = parser.parse_args()
    if given.tls:
        print(dict(tls_fuzz.attack(given.tls, given.seed)))
        return 0
    keys = sorted(HANDLERS) if given.keys == "all" else [int(key) for key in given.keys.split(",")]
    found = 0
    with ProcessPoolExecutor(given.jobs, get_context("spawn"), _end_with_parent) as pool:
        for report in pool.map(
            attack_secured if given.secured else attack,
            keys,
            [given.frames] * len(keys),
            [given.seed] * len(keys),
        ):
            print(report, flush=True)
            found += len(report.found)
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
