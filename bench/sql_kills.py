"""Ten queries of the SQL server while it is killed by SIGKILL, again and again, and now and then
its Java alone, or the broker that leads the topic of statements. Records keep coming. Three broker
processes, the server as prompts start it. Used by ./run soak and by a test.

    streams      each row of the query once, for readers of committed records
    tables       the newest row of each key is the right one
    windows      each window that is closed once, with the right number
"""

import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

from bench.pipeline_kills import PATIENCE_S, WAIT_S, Verdict, records
from bench.sql import state_home
from raftka.client.blocking.producer import Producer
from raftka.cluster.ask import ask_any
from raftka.cluster.plan import plan_cluster
from raftka.cluster.ports import HeldPorts
from raftka.cluster.processes import Processes
from raftka.json_values import Json
from raftka.pipeline.topics.brokers import STATEMENTS, Brokers
from raftka.pipeline.topics.options import source_options
from raftka.sql.client import SqlError, connect_wanted
from raftka.sql.server.launch import Wanted
from tests.kit.processes import processes
from tests.kit.spark.fast_spark import fast_environment

SOURCE, PARTITIONS, KEYS = "readings", 3, 10
MAKE = (
    f"CREATE STREAM {SOURCE} (k STRING KEY, n INT, at BIGINT) "
    f"WITH (PARTITIONS={PARTITIONS}, TIMESTAMP='at')",
    "CREATE STREAM merged (n INT, half STRING) WITH (PARTITIONS=2)",
)
WINDOW = "WINDOW {} (SIZE 2 SECONDS{}, GRACE PERIOD 10 SECONDS) GROUP BY k"
STATEMENTS_OF_QUERIES = (
    f"CREATE STREAM thirds WITH (PARTITIONS=2) AS SELECT n FROM {SOURCE} WHERE n % 3 = 0",
    f"CREATE STREAM keyed WITH (PARTITIONS=3) AS SELECT k AS id, n FROM {SOURCE} PARTITION BY id",
    f"CREATE STREAM lines WITH (PARTITIONS=1, VALUE_FORMAT='delimited') AS SELECT n, at "
    f"FROM {SOURCE}",
    f"CREATE TABLE counts WITH (PARTITIONS=2) AS SELECT k AS id, count(*) AS c FROM {SOURCE} "
    "GROUP BY k",
    f"CREATE TABLE sums WITH (PARTITIONS=1) AS SELECT cast(n % 7 AS STRING) AS id, sum(n) AS s "
    f"FROM {SOURCE} GROUP BY cast(n % 7 AS STRING)",
    f"CREATE STREAM tumbling WITH (PARTITIONS=1) AS SELECT k, WINDOWSTART AS began, count(*) AS c "
    f"FROM {SOURCE} {WINDOW.format('TUMBLING', '')}",
    f"CREATE STREAM hopping WITH (PARTITIONS=2) AS SELECT k, WINDOWSTART AS began, sum(n) AS s "
    f"FROM {SOURCE} {WINDOW.format('HOPPING', ', ADVANCE BY 1 SECOND')}",
    "CREATE STREAM doubled WITH (PARTITIONS=1) AS SELECT n * 2 AS n FROM thirds",
    f"INSERT INTO merged SELECT n, 'even' AS half FROM {SOURCE} WHERE n % 2 = 0",
    f"INSERT INTO merged SELECT n, 'odd' AS half FROM {SOURCE} WHERE n % 2 = 1",
)
STREAMS = ("thirds", "keyed", "lines", "tumbling", "hopping", "doubled", "merged")
TABLES = ("counts", "sums")
STEP_MS, SIZE_MS, HOP_MS = 10, 2000, 1000  # of event time: between records, of windows
END_MS = 60_000  # after the last record: closes the windows
PER_ROUND, PAUSE_S = 9, 0.2
KINDS = ("server", "server", "java", "server", "server", "leader")
LONGEST_S = 12.0  # between a start and its kill
LOOK_S = 0.25


class Readings(threading.Thread):
    """Fills the source until the end."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="readings", daemon=True)
        self.failure: Exception | None = None
        self._servers, self._number = bootstrap, 0
        self._finished = threading.Event()

    def run(self) -> None:
        try:
            while not self._finished.wait(PAUSE_S):
                self.write(PER_ROUND)
        except Exception as error:
            self.failure = error

    def write(self, count: int, later_ms: int = 0) -> None:
        """Write so many records; `later_ms`: of event time."""
        options = source_options(
            {"kafka.bootstrap.servers": self._servers, "subscribe": SOURCE}, streaming=False
        )
        brokers = Brokers(options.bootstrap, "readings", PATIENCE_S)
        try:
            producer = Producer(brokers)
            for n in range(self._number, self._number + count):
                value = json.dumps({"n": n, "at": n * STEP_MS + later_ms}).encode()
                record = (b"key %d" % (n % KEYS), value, (), time.time_ns() // 1_000_000)
                producer.add((SOURCE, n % PARTITIONS), record)
            producer.flush()
            self._number += count
        finally:
            brokers.close()

    def finish(self) -> None:
        self._finished.set()
        self.join()
        if self.failure is not None:
            raise self.failure


def expected(source: Sequence[tuple[str, int, int]]) -> Mapping[str, Counter[Json]]:
    """Return the rows that each topic is to have. `source`: key, n, ms of all records."""
    last = max(at for _, _, at in source)
    found: dict[str, Counter[Json]] = {name: Counter() for name in (*STREAMS, *TABLES)}
    counts: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    tumbling: Counter[tuple[str, int]] = Counter()
    hopping: Counter[tuple[str, int]] = Counter()
    for key, n, at in source:
        if n % 3 == 0:
            found["thirds"][_row(n=n)] += 1
            found["doubled"][_row(n=n * 2)] += 1
        found["keyed"][f"{key} {_row(n=n)}"] += 1
        found["lines"][f"{n},{at}"] += 1
        found["merged"][_row(n=n, half="odd" if n % 2 else "even")] += 1
        counts[key] += 1
        sums[str(n % 7)] += n
        if at < last - END_MS // 2:  # later windows stay open
            tumbling[key, at // SIZE_MS * SIZE_MS] += 1
            for began in (at // HOP_MS * HOP_MS, at // HOP_MS * HOP_MS - HOP_MS):
                hopping[key, began] += n
    found["counts"] = Counter(f"{key} {_row(c=count)}" for key, count in counts.items())
    found["sums"] = Counter(f"{key} {_row(s=total)}" for key, total in sums.items())
    for (key, began), count in tumbling.items():
        found["tumbling"][_row(k=key, began=began, c=count)] += 1
    for (key, began), total in hopping.items():
        found["hopping"][_row(k=key, began=began, s=total)] += 1
    return found


def compare(
    wanted: Mapping[str, Counter[Json]], found: Mapping[str, Counter[Json]]
) -> dict[str, int]:
    """Return how many rows are lost from topics, or are in them beside the wanted ones."""
    wrong = {f"lost from {name}": (wanted[name] - rows).total() for name, rows in found.items()}
    wrong |= {f"too many in {name}": (rows - wanted[name]).total() for name, rows in found.items()}
    return {name: count for name, count in sorted(wrong.items()) if count}


def _row(**values: Json) -> str:
    return json.dumps(values, separators=(",", ":"))


class Trial:
    def __init__(self, folder: Path, seed: int, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.kills: Counter[str] = Counter()
        self._chance, self._say = random.Random(seed), say
        self._stack = ExitStack()

    def __enter__(self) -> "Trial":
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def _open(self) -> None:
        self._stack.enter_context(fast_environment())
        self._stack.enter_context(state_home(self.folder / "state"))
        ports = HeldPorts(6)
        self._stack.callback(ports.release)
        self.cluster = Processes(plan_cluster(self.folder / "cluster", ports.pairs()))
        self._stack.callback(self.cluster.close)
        self.cluster.start_all()
        self.cluster.wait_ready()
        self.wanted = Wanted(self.cluster.bootstrap_servers, idle_s=None)
        self._stack.callback(self._end_server)

    def run(self, kinds: Sequence[str]) -> Verdict:
        """A kill of each of these kinds, at random moments."""
        for text in (*MAKE, *STATEMENTS_OF_QUERIES):
            self.execute(text)
        readings = Readings(self.cluster.bootstrap_servers)
        readings.start()
        for number, kind in enumerate(kinds):
            if number % 3 == 2:
                self._wait_batches()
            time.sleep(self._chance.uniform(0, LONGEST_S))
            self._kill(kind)
            self._restart_brokers()
            if kind != "leader":
                self.execute("SHOW STREAMS")  # as a user's next statement: it starts the server
        readings.finish()
        self._wait_lag()
        readings.write(PARTITIONS, END_MS)
        return self._verdict()

    def execute(self, text: str) -> list[dict[str, Any]]:
        """Run a statement; one that the server ends before its answer is given again."""
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                return list(connect_wanted(self.wanted).execute(text))
            except SqlError as error:
                if "is there already" in str(error):
                    return []
                if time.monotonic() > deadline:
                    raise
                self._say(f"{text[:40]}: {error}")
                time.sleep(1.0)

    # waiting

    def _batches(self) -> Mapping[Path, int]:
        """Return the last batch that Spark's checkpoints call done, of each query."""
        return {
            place: max((int(each.name) for each in place.glob("[0-9]*")), default=-1)
            for place in self.wanted.folder.path.glob("queries/queries/*/commits")
        }

    def _wait_batches(self) -> None:
        """Wait until each query has done one more batch."""
        deadline, before = time.monotonic() + WAIT_S, self._batches()
        while not self._has_more(before):
            self._check(deadline)

    def _has_more(self, before: Mapping[Path, int]) -> bool:
        now = self._batches()
        return len(now) == len(STATEMENTS_OF_QUERIES) and all(
            number > before.get(place, -1) for place, number in now.items()
        )

    def _wait_lag(self) -> None:
        """Wait until all queries have read all."""
        deadline = time.monotonic() + WAIT_S
        while any(row["lag"] != 0 for row in self.execute("SHOW QUERIES")):
            self._check(deadline)

    def _check(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise TimeoutError(self.wanted.folder.log.read_text()[-3000:])
        time.sleep(LOOK_S)

    # kills

    def _kill(self, kind: str) -> None:
        self._say(f"SIGKILL: {kind}")
        self.kills[kind] += 1
        if kind == "leader":
            views = ask_any(self.cluster.addresses, [STATEMENTS]).of(STATEMENTS)
            self.cluster.kill(next(each.leader for each in views))
            return
        pid = self._server()
        if kind == "java":
            found = [each.pid for each in processes() if each.parent == pid]
            pid = self._chance.choice(found) if found else pid
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def _server(self) -> int:
        address = self.wanted.folder.address()
        assert address is not None
        return address.pid

    def _restart_brokers(self) -> None:
        for node_id, node in self.cluster.nodes.items():
            if not node.alive:
                self.cluster.start(node_id)
        self.cluster.wait_ready()

    def _end_server(self) -> None:
        address = self.wanted.folder.address()
        if address is not None:
            for each in processes():
                if address.pid in (each.session, each.pid):
                    with suppress(ProcessLookupError):
                        os.kill(each.pid, signal.SIGKILL)

    # the end

    def _verdict(self) -> Verdict:
        source = []
        for key, value in records(self.cluster.bootstrap_servers, SOURCE):
            row = json.loads(value)
            source.append((key.decode(), row["n"], row["at"]))
        wanted, deadline = expected(source), time.monotonic() + WAIT_S
        while (wrong := self._wrong(wanted)) and time.monotonic() < deadline:
            if not any(name.startswith("lost") for name in wrong):
                break  # rows that are there twice stay
            time.sleep(1.0)
        rows = sum(each.total() for each in wanted.values())
        self._say(f"{rows:,} rows were expected in {len(wanted)} topics")
        return Verdict(len(source), wrong, {}, self.kills)

    def _wrong(self, wanted: Mapping[str, Counter[Json]]) -> dict[str, int]:
        return compare(wanted, dict(self._found()))

    def _found(self) -> Iterator[tuple[str, Counter[Json]]]:
        servers = self.cluster.bootstrap_servers
        for name in STREAMS:
            pairs = records(servers, name)
            has_key = name == "keyed"
            yield (
                name,
                Counter(
                    f"{key.decode()} {value.decode()}" if has_key else value.decode()
                    for key, value in pairs
                ),
            )
        for name in TABLES:
            newest = dict(records(servers, name))
            yield (
                name,
                Counter(f"{key.decode()} {value.decode()}" for key, value in newest.items()),
            )


def kinds_of(count: int) -> list[str]:
    return [KINDS[number % len(KINDS)] for number in range(count)]


def soak(count: int, seed: int) -> bool:
    """`./run soak sql`."""
    from tempfile import TemporaryDirectory

    with (
        TemporaryDirectory(prefix="raftka-sql-", ignore_cleanup_errors=True) as name,
        Trial(Path(name), seed, _print) as trial,
    ):
        verdict = trial.run(kinds_of(count))
    print(f"SQL server, seed {seed}\n{verdict}", flush=True)
    return verdict.good


def _print(line: str, out: IO[str] = sys.stdout) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=out, flush=True)
