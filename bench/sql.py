"""The SQL server's figures: the first row of a question, cold and warm; rows a second of queries
that go on, beside the same written in PySpark; questions by key. Needs raftka[pipeline].
"""

import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.load import BenchFailed
from bench.systems import Raftka
from raftka.client.blocking.producer import Producer
from raftka.client.blocking.topics import create_topics
from raftka.pipeline.topics.brokers import Brokers
from raftka.pipeline.topics.options import LATEST
from raftka.sql.client import Connection, connect_wanted
from raftka.sql.server.launch import Wanted
from raftka.wire.messages.fetch import READ_COMMITTED
from tests.kit.processes import processes

SETTINGS = {"log.retention.ms": "-1", "raftka.log.flush": "os"}
TOPIC, RECORDS, PARTITIONS = "readings", 1_000_000, 4
STREAM = f"CREATE STREAM {TOPIC} (k STRING KEY, n INT, at BIGINT) WITH (TIMESTAMP='at')"
WINDOW_MS, STEP_MS, KEYS = 60_000, 20, 100
QUERIES = {
    "filter": "SELECT k, n FROM readings WHERE n % 2 = 0",
    "windows": "SELECT k, count(*) AS c FROM readings WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD "
    "10 SECONDS) GROUP BY k",
}
TITLES = {"filter": "a filter", "windows": "counts in windows of a minute, 100 keys"}
RATIO_GOAL = 0.95
PUSH = f"SELECT n FROM {TOPIC} EMIT CHANGES FROM BEGINNING"
COLD_GOAL_S, WARM_GOAL_S, WARM_RUNS = 10, 1, 5
BY_KEY, ASKED_A_SECOND, ASKERS = 1_000_000, 100, 8
PATIENCE_S = 600.0
AT_ONCE = 20_000  # records between two flushes


def rows(runs: int, seconds: float) -> Iterator[str]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="raftka-bench-sql-")))
        stack.enter_context(state_home(folder))
        system = stack.enter_context(Raftka(1, SETTINGS))
        system.start()
        system.wait_ready()
        servers = ",".join(f"{host}:{port}" for host, port in system.addresses)
        wanted = Wanted(servers, idle_s=None)
        fill(servers, TOPIC, PARTITIONS, RECORDS, _reading)
        with serving(wanted) as connection:
            list(connection.execute(STREAM))
        yield from first_rows(wanted, runs)
        yield ""
        yield from rates(wanted, runs, folder)
        yield ""
        yield from by_key(wanted, seconds)


def _reading(n: int) -> tuple[bytes, bytes]:
    return b"key %d" % (n % KEYS), b'{"n": %d, "at": %d}' % (n, n * STEP_MS)


def _user(n: int) -> tuple[bytes, bytes]:
    return b"user-%07d" % n, b'{"name": "name %d", "visits": %d}' % (n, n % 1000)


def fill(
    servers: str,
    topic: str,
    partitions: int,
    count: int,
    record: Callable[[int], tuple[bytes, bytes]],
) -> None:
    with brokers_of(servers) as brokers:
        create_topics(brokers, [topic], partitions, 1, {})
        producer = Producer(brokers)
        now = time.time_ns() // 1_000_000
        for n in range(count):
            key, value = record(n)
            producer.add((topic, n % partitions), (key, value, (), now))
            if n % AT_ONCE == AT_ONCE - 1:
                producer.flush()
        producer.flush()


@contextmanager
def brokers_of(servers: str) -> Iterator[Brokers]:
    pairs = [each.rpartition(":") for each in servers.split(",")]
    brokers = Brokers([(host, int(port)) for host, _, port in pairs], "bench", PATIENCE_S)
    try:
        yield brokers
    finally:
        brokers.close()


@contextmanager
def state_home(folder: Path) -> Iterator[None]:
    """Servers that are started until the block ends have their files here."""
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["XDG_STATE_HOME"]
        else:
            os.environ["XDG_STATE_HOME"] = before


@contextmanager
def serving(wanted: Wanted) -> Iterator[Connection]:
    """A new server, which is killed at the end with its Java and its Python."""
    connection = connect_wanted(wanted)
    try:
        yield connection
    finally:
        session = connection.address.pid
        for each in processes():
            if each.session == session:
                with suppress(ProcessLookupError):
                    os.kill(each.pid, signal.SIGKILL)
        while any(each.session == session for each in processes()):
            time.sleep(0.05)


def spent(session: int) -> float:
    """Return the CPU seconds of all processes of a session, and of those that they have waited
    for.
    """
    total = 0
    for each in processes():
        if each.session == session:
            try:
                fields = Path(f"/proc/{each.pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            total += sum(map(int, fields[11:15]))
    return total / os.sysconf("SC_CLK_TCK")


# the first row


def first_rows(wanted: Wanted, runs: int) -> Iterator[str]:
    cold, warm, waited = [], [], []
    for _ in range(runs):
        begin = time.perf_counter()
        with serving(wanted) as connection:
            cold.append(_first_row(connection, begin))
            warm += [_first_row(connection) for _ in range(WARM_RUNS)]
        with serving(wanted) as connection:
            _wait_until_warm(connection)
            waited.append(_first_row(connection))
    yield "| first row of `SELECT ... EMIT CHANGES` | seconds | worst | CPU-s | goal, s |"
    yield "|---|---|---|---|---|"
    for title, found, goal in (
        ("no server runs", cold, COLD_GOAL_S),
        ("the first question to a server that runs for a minute", waited, WARM_GOAL_S),
        ("later ones", warm, WARM_GOAL_S),
    ):
        seconds, cpu = zip(*found, strict=True)
        yield (
            f"| {title} | **{statistics.median(seconds):.2f}** | {max(seconds):.2f} | "
            f"{statistics.median(cpu):.1f} | {goal} |"
        )


def _first_row(connection: Connection, begin: float | None = None) -> tuple[float, float]:
    """Return the seconds until it is there, and the CPU seconds. `begin`: of a server's start."""
    before = 0.0 if begin is not None else spent(connection.address.pid)
    begin = begin or time.perf_counter()
    with connection.execute(PUSH) as found:
        next(found)
        return time.perf_counter() - begin, spent(connection.address.pid) - before


def _wait_until_warm(connection: Connection) -> None:
    """Wait until the server has nothing to do."""
    while connection.health()["state"] != "ready":
        time.sleep(0.1)
    before = -1.0
    while (now := spent(connection.address.pid)) - before > 0.3:
        before = now
        time.sleep(3.0)


# queries that go on


class ByHand:
    """bench/sql_by_hand.py."""

    def __init__(self, servers: str, folder: Path) -> None:
        command = [sys.executable, "-m", "bench.sql_by_hand", servers, TOPIC, str(folder / "hand")]
        log = (folder / "hand.log").open("wb")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )

    def __call__(self, line: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        if self._process.stdout.readline() != "done\n":
            raise BenchFailed("the query by hand has failed")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def rates(wanted: Wanted, runs: int, folder: Path) -> Iterator[str]:
    yield (
        f"| {RECORDS / 1e6:.0f} M records, exactly once into a topic | `raftka sql`, rows/s | "
        f"by hand in PySpark, rows/s | ratio of medians (goal: {RATIO_GOAL}) |"
    )
    yield "|---|---|---|---|"
    with ExitStack() as stack:
        connection = stack.enter_context(serving(wanted))
        hand = ByHand(wanted.bootstrap, folder)
        stack.callback(hand.close)
        brokers = stack.enter_context(brokers_of(wanted.bootstrap))

        def ours(kind: str, output: str) -> Callable[[], None]:
            text = f"CREATE STREAM {output} WITH (PARTITIONS=1) AS {QUERIES[kind]}"
            list(connection.execute(text))

            def stop() -> None:
                list(connection.execute(f"TERMINATE csas_{output}"))

            return stop

        def theirs(kind: str, output: str) -> Callable[[], None]:
            create_topics(brokers, [output], 1, 1, {})
            hand(f"{kind} {output}")
            return lambda: hand("stop")

        for kind, title in TITLES.items():
            found: dict[str, list[float]] = {"sql": [], "hand": []}
            for run in range(runs + 1):
                for name, start in (("sql", ours), ("hand", theirs)):
                    rate = _rate(brokers, kind, f"{kind}_{name}_{run}", start)
                    if run:  # the first one is warm-up
                        found[name].append(rate)
            sql, by_hand = (statistics.median(each) for each in found.values())
            cells = [_spread(each) for each in found.values()]
            yield f"| {title} | {' | '.join(cells)} | **{sql / by_hand:.2f}** |"


def _rate(
    brokers: Brokers,
    kind: str,
    output: str,
    start: Callable[[str, str], Callable[[], None]],
) -> float:
    """Return records read a second, from the start of the query until its last row is there."""
    begin = time.perf_counter()
    stop = start(kind, output)
    wanted = RECORDS // 2
    if kind == "windows":  # those that the last record closes, at the grace before it
        last = (RECORDS - 1) * STEP_MS - 10_000
        wanted = last // WINDOW_MS * KEYS
    deadline = begin + PATIENCE_S
    where = (output, 0)
    while (found := brokers.offsets({where: LATEST}, READ_COMMITTED)[where]) < wanted:
        if time.perf_counter() > deadline:
            raise BenchFailed(f"{output} has {found} of {wanted} rows")
        time.sleep(0.02)
    seconds = time.perf_counter() - begin
    stop()
    return RECORDS / seconds


def _spread(rates: Sequence[float]) -> str:
    low, high = (each(rates) / 1000 for each in (min, max))
    return f"{statistics.median(rates) / 1000:,.0f} k ({low:,.0f}-{high:,.0f})"


# questions by key


def by_key(wanted: Wanted, seconds: float) -> Iterator[str]:
    fill(wanted.bootstrap, "users", 1, BY_KEY, _user)
    with serving(wanted) as connection:
        text = "CREATE TABLE users (id STRING PRIMARY KEY, name STRING, visits INT)"
        list(connection.execute(text))
        deadline = time.monotonic() + PATIENCE_S
        while "from the materialised table" not in _ask(connection, 0)[1]:
            if time.monotonic() > deadline:
                raise BenchFailed("the table was not materialised")
            time.sleep(0.5)
        asked = _ask_at_a_rate(connection, int(seconds * ASKED_A_SECOND))
    yield (
        f"| questions by key, {BY_KEY / 1e6:.0f} M keys, {ASKED_A_SECOND} a second | p50 ms | "
        "p99 ms |"
    )
    yield "|---|---|---|"
    found = sorted(asked)
    p50, p99 = (1000 * found[int(len(found) * part)] for part in (0.5, 0.99))
    yield f"| by `raftka.sql.connect`, from when each was due | **{p50:.1f}** | **{p99:.1f}** |"


def _ask(connection: Connection, n: int) -> tuple[list[Mapping[str, object]], str]:
    answer = connection.execute(f"SELECT name FROM users WHERE id = 'user-{n:07}'")
    return list(answer), answer.note


def _ask_at_a_rate(connection: Connection, count: int) -> list[float]:
    """Return the seconds of each question from the moment when it was due."""
    begin, found = time.perf_counter() + 0.1, [0.0] * count

    def ask(first: int) -> None:
        for at in range(first, count, ASKERS):
            due = begin + at / ASKED_A_SECOND
            time.sleep(max(0.0, due - time.perf_counter()))
            key = at * 7919 % BY_KEY
            assert _ask(connection, key)[0] == [{"name": f"name {key}"}]
            found[at] = time.perf_counter() - due

    threads = [threading.Thread(target=ask, args=(each,)) for each in range(ASKERS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return found
