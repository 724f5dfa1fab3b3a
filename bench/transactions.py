"""Rows about transactions: how many a second, what a commit takes, what transactions cost producers
and readers, a coordinator that is killed, and ten thousand open transactions.

Load comes from txn.c; on both systems everything is flushed before it is answered. The producers of
the last two rows are this program's own.
"""

import asyncio
import itertools
import json
import signal
import statistics
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bench.groups import Address, Peer
from bench.load import BenchFailed, compiled
from bench.systems import System, memory_mib
from raftka.cluster.ask import ask_any, call
from raftka.wire.errors import Code
from raftka.wire.frame import decode_response_header, encode_request
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.messages.transactions import ADD_PARTITIONS_TO_TXN, DESCRIBE_TRANSACTIONS, END_TXN
from raftka.wire.schema import Api, Req, Resp

SETTINGS: Mapping[str, str] = {
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "log.flush.interval.messages": "1",  # Kafka flushes its internal topics too; raftka always does
}
ONE_LOG = {**SETTINGS, "transaction.state.log.num.partitions": "1"}
STATE = "__transaction_state"
TOPIC, WIDE, PLAIN, READ = "tx-one", "tx-wide", "tx-large", "tx-read"
PARTITIONS = 12
PRODUCERS = 100
TRANSACTIONAL = 1  # key type of FindCoordinator
TIMEOUT_MS = 60_000
PATIENCE_S = 60.0
PAUSE_S = 0.01
WARM_UP_S = 5.0
IN_FLIGHT = 50  # connections of the last row
KNOWN_IDS = 10_000
FILLED = 4_000  # transactions of ten records that readers read
LOADING = {Code.COORDINATOR_LOAD_IN_PROGRESS, Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE}

Run = dict[str, float]


# the load


def producers(system: System, prefix: str, count: int) -> str:
    """Their ids, each with a new epoch and its coordinator, as txn reads them."""
    lines = []
    for number in range(count):
        name = f"{prefix}-{number}"
        place = find_coordinator(system.addresses, name)
        row = INIT_PRODUCER_ID.request(transactional_id=name, transaction_timeout_ms=TIMEOUT_MS)
        answer = until_answered(
            lambda place=place, row=row: call(place, INIT_PRODUCER_ID, row, version=2)
        )
        lines.append(
            f"{name} {answer.producer_id} {answer.producer_epoch} {system.addresses.index(place)}\n"
        )
    return "".join(lines)


def find_coordinator(
    addresses: Sequence[Address], transactional_id: str, pause_s: float = PAUSE_S
) -> Address:
    """As the brokers know it, once one of them knows it. Raises BenchFailed."""
    deadline = time.monotonic() + PATIENCE_S
    for address in itertools.cycle(addresses):
        try:
            found = call(
                address,
                FIND_COORDINATOR,
                FIND_COORDINATOR.request(key=transactional_id, key_type=TRANSACTIONAL),
                version=1,
                timeout=0.5,
            )
        except OSError:
            continue
        if not found.error_code:
            return found.host, found.port
        if time.monotonic() > deadline:
            raise BenchFailed(f"nobody coordinates {transactional_id}")
        time.sleep(pause_s)
    raise AssertionError


def until_answered(ask: Any) -> Any:
    """Again while the coordinator is loading, or writes markers."""
    deadline = time.monotonic() + PATIENCE_S
    while (answer := ask()).error_code in LOADING | {Code.CONCURRENT_TRANSACTIONS}:
        if time.monotonic() > deadline:
            raise BenchFailed(f"a coordinator says {Code(answer.error_code).name}")
        time.sleep(PAUSE_S)
    if answer.error_code:
        raise BenchFailed(f"a coordinator refuses: {Code(answer.error_code).name}")
    return answer


def load(
    arguments: str,
    system: System,
    targets: Sequence[str],
    topic: str,
    seconds: float,
    given: str = "",
) -> Run:
    """One run of `txn ARGUMENTS`. Raises BenchFailed when an answer was an error that does not
    pass.
    """
    brokers = ",".join(f"{host}:{port}" for host, port in system.addresses)
    pids = ",".join(map(str, system.pids))
    command = [
        str(compiled("txn")),
        *arguments.split(),
        "-T",
        ",".join(targets),
        "-B",
        brokers,
        "-n",
        topic,
        "-t",
        str(seconds),
        "-p",
        pids,
    ]
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, check=False, timeout=seconds + 120
    )
    if done.returncode:
        raise BenchFailed(f"{' '.join(command)}: {done.stderr.strip()}")
    result: Run = json.loads(done.stdout)
    if result["errors"] or not result["done"]:
        raise BenchFailed(f"{' '.join(command)}: {result}")
    return result


class Loads:
    """The systems with their topics; loads run on them in turns."""

    def __init__(self, systems: Sequence[System], runs: int, seconds: float) -> None:
        self.systems, self.runs, self.seconds = systems, runs, seconds
        self.targets: dict[tuple[str, str], list[str]] = {}

    def topic(self, name: str, partitions: int) -> None:
        for system in self.systems:
            self.targets[system.name, name] = system.create_topic(
                name, partitions, {"flush.messages": "1"}
            )

    def once(self, system: System, arguments: str, topic: str, count: int, seconds: float) -> Run:
        given = producers(system, topic, count) if count else ""
        return load(arguments, system, self.targets[system.name, topic], topic, seconds, given)

    def measure(self, topic: str, count: int, *loads: str) -> dict[tuple[str, str], list[Run]]:
        """By system and load, after a warm-up of each."""
        found: dict[tuple[str, str], list[Run]] = {
            (system.name, each): [] for system in self.systems for each in loads
        }
        for run in range(-1, self.runs):
            for system, each in itertools.product(self.systems, loads):
                result = self.once(
                    system, each, topic, count, self.seconds if run >= 0 else WARM_UP_S
                )
                if run >= 0:
                    found[system.name, each].append(result)
        return found


def rows(systems: Sequence[System], runs: int, seconds: float) -> Iterator[str]:
    """Transactions a second, commits, and what they cost producers."""
    loads = Loads(systems, runs, seconds)
    names = [system.name for system in systems]
    yield "| transactions, three nodes, flushed | " + " | ".join(names) + " | raftka to Kafka |"
    yield "|---|" + "---|" * (len(names) + 1)
    loads.topic(TOPIC, 1)
    found = loads.measure(TOPIC, 1, "write -v 2", "write -v 1")
    for version in (2, 1):
        title = f"one producer, one record, version {version}"
        yield _line(
            f"{title}: transactions/s",
            names,
            [_median(found[name, f"write -v {version}"], "rate") for name in names],
        )
        yield _line(
            f"- commit p50, ms of {title}",
            names,
            [_median(found[name, f"write -v {version}"], "commit_p50us") / 1000 for name in names],
        )
    loads.topic(WIDE, PARTITIONS)
    many = "write -v 2 -w 3 -r 10"
    found = loads.measure(WIDE, PRODUCERS, many)
    title = f"{PRODUCERS} producers, 10 records to each of 3 partitions"
    for key, what, scale in (
        ("rate", "transactions/s", 1),
        ("commit_p50us", "commit p50 ms", 1000),
        ("commit_p99us", "commit p99 ms", 1000),
    ):
        yield _line(
            f"{title}: {what}", names, [_median(found[name, many], key) / scale for name in names]
        )
    yield _line(
        "- whole transaction p99 ms",
        names,
        [_median(found[name, many], "txn_p99us") / 1000 for name in names],
    )
    yield _line(
        "- CPU of the load generator, % of a core",
        names,
        [100 * _median(found[name, many], "client_cpu") / seconds for name in names],
    )
    loads.topic(PLAIN, 3)
    shape = "-r 1 -s 16300 -b 100 -d 5"
    without, within = f"write -v 0 {shape}", f"write -v 2 {shape}"
    found = loads.measure(PLAIN, 3, without, within)
    title = "16 KB batches, 100 in a transaction: CPU of the nodes, % more than without"
    yield _line(
        title, names, [_more(found[name, without], found[name, within], "s_GB") for name in names]
    )


def reading(systems: Sequence[System], runs: int, seconds: float) -> Iterator[str]:
    """More of the table: what it costs to leave out what was aborted."""
    loads, names = Loads(systems, runs, seconds), [system.name for system in systems]
    loads.topic(READ, 1)
    for system in loads.systems:
        loads.once(system, f"write -v 2 -r 10 -x 100 -m {FILLED}", READ, PRODUCERS, 120)
    for size in (1_000_000, 64_000):
        plain, committed = (f"read -k {size} -i {isolation}" for isolation in (0, 1))
        found = loads.measure(READ, 0, plain, committed)
        title = (
            f"read_committed, 1 % of the transactions aborted, Fetch of {size // 1000} KB: CPU, "
            "% more than read_uncommitted"
        )
        yield _line(
            title,
            names,
            [_more(found[name, plain], found[name, committed], "s_GB") for name in names],
        )


def _more(without: Sequence[Run], within: Sequence[Run], key: str) -> float:
    """Percent, the median of the pairs."""
    return statistics.median(
        100 * (b[key] / a[key] - 1) for a, b in zip(without, within, strict=True)
    )


def _median(runs: Sequence[Run], key: str) -> float:
    return statistics.median(run[key] for run in runs)


def _line(title: str, names: Sequence[str], values: Sequence[float]) -> str:
    shown = [f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}" for value in values]
    ratio = f"**{values[0] / values[1]:.2f}**" if len(values) > 1 and values[1] else ""
    return f"| {title} | {' | '.join(shown)} | {ratio} |"


# a coordinator that is killed


def killed(system: System, rounds: int) -> Run:
    """Seconds from the coordinator's death until the transaction that was open then is
    committed.
    """
    system.create_topic(TOPIC)
    found = [_kill_once(system) for _ in range(rounds)]
    return {"median_s": statistics.median(found), "worst_s": max(found), "rounds": rounds}


def _kill_once(system: System) -> float:
    name = "killed"
    place = find_coordinator(system.addresses, name)
    row = INIT_PRODUCER_ID.request(transactional_id=name, transaction_timeout_ms=TIMEOUT_MS)
    pair = until_answered(lambda: call(place, INIT_PRODUCER_ID, row, version=2))
    add = ADD_PARTITIONS_TO_TXN.request(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=pair.producer_id,
        v3_and_below_producer_epoch=pair.producer_epoch,
        v3_and_below_topics=[
            ADD_PARTITIONS_TO_TXN.request.transactions.topics(name=TOPIC, partitions=[0])
        ],
    )
    answer = call(place, ADD_PARTITIONS_TO_TXN, add, version=3)
    if answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code:
        raise BenchFailed(f"{system.name}: a partition was not added")
    victim = system.addresses.index(place) + 1
    began = time.monotonic()
    system.kill(victim, signal.SIGKILL)
    others = system.others(victim)
    end = END_TXN.request(
        transactional_id=name,
        producer_id=pair.producer_id,
        producer_epoch=pair.producer_epoch,
        committed=True,
    )
    while True:
        place = find_coordinator(others, name)
        try:
            code = (
                call(place, END_TXN, end, version=4, timeout=0.5).error_code
                if place in others
                else Code.NOT_COORDINATOR
            )
        except OSError:
            code = Code.NOT_COORDINATOR
        if not code:
            break
        if code not in LOADING | {Code.CONCURRENT_TRANSACTIONS}:
            raise BenchFailed(f"{system.name}: EndTxn after the death: {Code(code).name}")
        if time.monotonic() - began > PATIENCE_S:
            raise BenchFailed(f"{system.name}: no commit after the death of a coordinator")
        time.sleep(PAUSE_S)
    taken = time.monotonic() - began
    system.restart(victim)
    system.wait_ready()
    for topic in (TOPIC, STATE):
        system.wait_for_topic(topic, len(ask_any(system.addresses, [topic]).of(topic)))
    return taken


# many open transactions


class Asker(Peer):
    async def ask_in(self, version: int, api: Api[Req, Resp], request: Req) -> Resp:
        frame = await self.exchange(encode_request(api, version, 1, "bench", request))
        return api.decode_response(version, frame, decode_response_header(frame, api, version)[1])[
            0
        ]


def open_ids(system: System, count: int) -> Run:
    """MiB that a coordinator needs for so many open transactions, s until the next one answers for
    all of them.
    """
    system.create_topic(TOPIC)
    place = find_coordinator(system.addresses, "open-0")
    asyncio.run(_open(place, "warm", range(IN_FLIGHT)))
    node = system.addresses.index(place) + 1
    before = memory_mib(system.pid(node))
    began = time.monotonic()
    asyncio.run(_open(place, "open", range(count)))
    opened, after = time.monotonic() - began, memory_mib(system.pid(node))
    killed_at = time.monotonic()
    system.kill(node, signal.SIGKILL)
    others = system.others(node)
    while (place := find_coordinator(others, "open-0")) not in others:
        time.sleep(PAUSE_S)
    named_at = time.monotonic()
    row = DESCRIBE_TRANSACTIONS.request(transactional_ids=[f"open-{count - 1}"])
    while (
        state := call(place, DESCRIBE_TRANSACTIONS, row, version=0).transaction_states[0]
    ).error_code:
        if state.error_code not in LOADING or time.monotonic() - named_at > PATIENCE_S:
            raise BenchFailed(
                f"{system.name}: DescribeTransactions after the death: "
                f"{Code(state.error_code).name}"
            )
        time.sleep(PAUSE_S)
    return {
        "mib": after - before,
        "opened_s": opened,
        "named_s": named_at - killed_at,
        "load_s": time.monotonic() - named_at,
    }


async def _open(place: Address, prefix: str, numbers: Iterable[int]) -> None:
    """Each id with one partition in its transaction."""
    left = iter(numbers)

    async def work() -> None:
        peer = Asker()
        await peer.connect(place)
        for number in left:
            name = f"{prefix}-{number}"
            row = INIT_PRODUCER_ID.request(
                transactional_id=name, transaction_timeout_ms=15 * TIMEOUT_MS
            )
            while True:
                pair = await peer.ask_in(2, INIT_PRODUCER_ID, row)
                if pair.error_code not in LOADING:
                    break
                await asyncio.sleep(PAUSE_S)
            add = ADD_PARTITIONS_TO_TXN.request(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=pair.producer_id,
                v3_and_below_producer_epoch=pair.producer_epoch,
                v3_and_below_topics=[
                    ADD_PARTITIONS_TO_TXN.request.transactions.topics(name=TOPIC, partitions=[0])
                ],
            )
            answer = await peer.ask_in(3, ADD_PARTITIONS_TO_TXN, add)
            if (
                code := pair.error_code
                or answer.results_by_topic_v3_and_below[0]
                .results_by_partition[0]
                .partition_error_code
            ):
                raise BenchFailed(f"{name} was refused: {Code(code).name}")
        peer.close()

    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
