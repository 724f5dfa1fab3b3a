"""The trucks pipeline while its driver, the leaders of its topic and, once, all brokers are killed
by SIGKILL: acknowledged records against those in the lake, in the dead letters and among the
alerts. Three broker processes, `raftka pipeline run` as users run it. Used by ./run soak and by a
test. Every other kill of the driver comes when a batch is in a lake's log and not yet in Spark's:
the moment at which it could be added twice.

    silver lake      every acknowledged good record once
    bronze lake      every acknowledged record once
    minutes          every minute that is over once, with the right number
    dead letters     every bad record, perhaps more than once
    alerts           every crossing once, for readers of committed records
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from raftka.client.blocking.producer import Producer, partition_of
from raftka.cluster.ask import ask_any
from raftka.cluster.demo import TOPIC, TRUCKS, Trucks
from raftka.cluster.plan import plan_cluster
from raftka.cluster.ports import HeldPorts
from raftka.cluster.processes import Processes
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.flows.fences import NOWHERE, Position, load_fences, moves
from raftka.pipeline.topics.brokers import Brokers
from raftka.pipeline.topics.options import source_options
from raftka.pipeline.topics.planning import batch

PARTITIONS = 6
STEP_S = 2.0  # of the way between two rounds: a truck crosses a fence every minute or so
ROUND_MS = 200  # of event time
FIRST_MS = 1_700_000_000_000
PAUSE_S = 0.1  # between two rounds
WAIT_S = 1800.0  # on a machine that has much else to do
ROUNDS = 350  # 70 s of event time: a minute of each truck is over
OUTAGE_S = 60.0  # of all brokers, in the soak
PATIENCE_S = 180.0
MINUTE_MS = 60_000
WATERMARK_MS = 10_000
AVRO = 1  # the number of the project's schema
LAKES = ("bronze", "silver")
EVERY = {"avro": 3, "broken": 40, "changed": 50, "unknown": 70}  # records


@dataclass
class Ledger:
    """The acknowledged records."""

    # truck, seconds, latitude, longitude, ms
    good: list[tuple[int, float, float, float, int]] = field(default_factory=list)
    bad: set[bytes] = field(default_factory=set)

    def add(self, more: "Ledger") -> None:
        self.good += more.good
        self.bad |= more.bad


@dataclass
class Verdict:
    acknowledged: int
    wrong: dict[str, int]
    again: dict[str, int]
    kills: Counter[str]

    @property
    def good(self) -> bool:
        return not any(self.wrong.values())

    def __str__(self) -> str:
        rows = [
            ("acknowledged", self.acknowledged),
            *self.wrong.items(),
            *((f"{name}, written again", count) for name, count in self.again.items()),
        ]
        rows += [(f"killed: {name}", count) for name, count in sorted(self.kills.items())]
        return "\n".join(f"  {name:36} {count:>9,}" for name, count in rows)


class Fleet(threading.Thread):
    """Twenty trucks, some of them with Avro, now and then a bad record; a line of the ledger for
    each that was acknowledged.
    """

    def __init__(self, bootstrap: str, rounds: int, first: int = 0) -> None:
        """`rounds`: at least, and until `finish`."""
        super().__init__(name="fleet", daemon=True)
        self.ledger = Ledger()
        self.failure: Exception | None = None
        self.round = first
        self._servers, self._least = bootstrap, first + rounds
        self._finished = threading.Event()

    def run(self) -> None:
        brokers = Brokers(
            source_options(
                {"kafka.bootstrap.servers": self._servers, "subscribe": TOPIC}, streaming=False
            ).bootstrap,
            "fleet",
            PATIENCE_S,
        )
        try:
            producer = Producer(brokers)
            while self.round < self._least or not self._finished.wait(PAUSE_S):
                self._round(producer, self.round)
                self.round += 1
        except Exception as error:
            self.failure = error
        finally:
            brokers.close()

    def finish(self) -> Ledger:
        self._finished.set()
        self.join()
        if self.failure is not None:
            raise self.failure
        return self.ledger

    def _round(self, producer: Producer, number: int) -> None:
        good, bad, at_ms = [], [], FIRST_MS + number * ROUND_MS
        for truck in range(TRUCKS):
            position, seconds = json.loads(Trucks.position(truck, number * STEP_S)), number * STEP_S
            key = f"truck-{truck + 1:02}".encode()
            value = (
                avro(position)
                if (number + truck) % EVERY["avro"] == 0
                else json.dumps(position).encode()
            )
            producer.add((TOPIC, partition_of(key, PARTITIONS)), (key, value, (), at_ms))
            good.append((truck + 1, seconds, position["latitude"], position["longitude"], at_ms))
            for key, value in planted(number * TRUCKS + truck, position):
                producer.add((TOPIC, partition_of(key, PARTITIONS)), (key, value, (), at_ms))
                bad.append(key)
        producer.flush()
        self.ledger.good += good
        self.ledger.bad.update(bad)


def planted(number: int, position: Mapping[str, Any]) -> Iterator[tuple[bytes, bytes]]:
    """Bad records, with keys of their own."""
    values = {
        "broken": b'{"truck": ',
        "changed": json.dumps({**position, "latitude": "52 N"}).encode(),
        "unknown": b"\0\0\0\0\x09" + b"abc",
    }
    for name, value in values.items():
        if number % EVERY[name] == 0:
            yield f"{name}-{number}".encode(), value


def avro(position: Mapping[str, Any]) -> bytes:
    from fastavro import parse_schema, schemaless_writer

    from raftka.pipeline.project import PROJECTS

    out = BytesIO()
    schemaless_writer(
        out,
        parse_schema(json.loads((PROJECTS / "trucks" / "schemas" / f"{AVRO}.avsc").read_text())),
        position,
    )
    return b"\0" + AVRO.to_bytes(4, "big") + out.getvalue()


class Driver:
    """`raftka pipeline run` in a session of its own; what it prints is counted."""

    def __init__(
        self, folder: Path, settings: Mapping[str, str], say: Callable[[str], None]
    ) -> None:
        self.folder, self._settings, self._say = folder, dict(settings), say
        self.batches = 0
        self.fleet: Fleet | None = None  # whose failure ends all waiting
        self._heard = threading.Condition()
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "raftka.cli",
            "pipeline",
            "run",
            str(self.folder),
            "--no-page",
            "--every",
            "0.5",
            "--master",
            "local[2]",
        ]
        command += [
            part for name, value in self._settings.items() for part in ("--conf", f"{name}={value}")
        ]
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._listener = threading.Thread(
            target=self._listen, args=(self._process.stdout,), daemon=True
        )
        self._listener.start()

    def _listen(self, lines: IO[str]) -> None:
        with lines:
            for line in lines:
                self._say(line.rstrip())
                with self._heard:
                    self.batches += " batch " in line
                    self._heard.notify_all()

    def wait_batches(self, count: int) -> None:
        """So many more of them, of any flow."""
        wanted, deadline = self.batches + count, time.monotonic() + WAIT_S
        with self._heard:
            while self.batches < wanted:
                self.check()
                if not self._heard.wait(1.0) and time.monotonic() > deadline:
                    raise TimeoutError(f"{self.batches} batches, {wanted} were waited for")

    def check(self) -> None:
        assert self._process is not None
        if self.fleet is not None and self.fleet.failure is not None:
            raise self.fleet.failure
        if self._process.poll() is not None:
            raise PipelineError(f"the pipeline ended with exit code {self._process.returncode}")

    def kill(self) -> None:
        """Python, Java and all their workers."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._listener.join()

    def stop(self) -> int:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(WAIT_S)
        self._listener.join()
        return code

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()


class Trial:
    """A cluster, a fleet and a driver; `kills` of the driver and as many of leaders, in turn."""

    def __init__(
        self, folder: Path, settings: Mapping[str, str], seed: int, say: Callable[[str], None]
    ) -> None:
        self.folder, self.project = folder, folder / "trucks"
        self._chance, self._say = random.Random(seed), say
        self._ports = HeldPorts(6)
        self.cluster = Processes(plan_cluster(folder / "cluster", self._ports.pairs()))
        self.driver = Driver(self.project, settings, say)
        self.kills: Counter[str] = Counter()
        self.ledger = Ledger()
        self.rounds = 0

    def __enter__(self) -> "Trial":
        from raftka.pipeline.project import init

        self.cluster.start_all()
        self.cluster.wait_ready()
        self.create_topic()
        init("trucks", self.project, self.cluster.bootstrap_servers)
        # pauses between its rounds are no silence
        flows = self.project / "transformations" / "moves.py"
        flows.write_text(flows.read_text().replace("SILENT_MINUTES = 5.0", "SILENT_MINUTES = None"))
        return self

    def __exit__(self, *exception: object) -> None:
        self.driver.close()
        self.cluster.close()
        self._ports.release()

    def create_topic(self) -> None:
        from kafka import KafkaAdminClient

        admin = KafkaAdminClient(bootstrap_servers=self.cluster.bootstrap_servers)
        try:
            wanted = {
                "num_partitions": PARTITIONS,
                "replication_factor": 3,
                "configs": {"min.insync.replicas": "2", "retention.ms": "-1"},
            }
            admin.create_topics({TOPIC: wanted}, wait_for_metadata=True)
        finally:
            admin.close()

    def run(self, kills: int, rounds: int, outage_s: float = 0.0) -> Verdict:
        """`rounds` of the fleet before the first batch; then it drives on until the last kill is
        behind it. Last, all brokers are gone.
        """
        fleet = self.driver.fleet = Fleet(self.cluster.bootstrap_servers, rounds)
        fleet.start()
        self.driver.start()
        for number in range(kills):
            self.driver.wait_batches(self._chance.randrange(3, 13))
            self._kill_leader()
            self.driver.wait_batches(self._chance.randrange(1, 7))
            if number % 2 == 0:
                self._wait_entry(self._chance.choice(LAKES))
            self._say("SIGKILL to the driver")
            self.driver.kill()
            self.kills["driver"] += 1
            self.driver.start()
            self._restart()
        if outage_s:
            self.driver.wait_batches(3)
            self._outage(outage_s)
        self.driver.wait_batches(3)
        self.ledger.add(fleet.finish())
        self.rounds = fleet.round
        self.settle()
        return self.verdict()

    def _kill_leader(self) -> None:
        partition, deadline = self._chance.randrange(PARTITIONS), time.monotonic() + WAIT_S
        while (node_id := ask_any(self.cluster.addresses, [TOPIC]).of(TOPIC)[partition].leader) < 0:
            self.driver.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"partition {partition} has no leader")
            time.sleep(0.05)
        self._say(f"SIGKILL to node {node_id}, leader of partition {partition}")
        self.cluster.kill(node_id)
        self.kills["leader"] += 1

    def _wait_entry(self, lake: str) -> None:
        """Returns at the moment at which one is added to its log."""
        folder, deadline = self.project / "lake" / lake / "_delta_log", time.monotonic() + WAIT_S
        before = set(folder.glob("*.json"))
        while not set(folder.glob("*.json")) - before:
            self.driver.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"nothing was added to {lake}")
            time.sleep(0.001)
        self._say(f"a batch is in the log of {lake}")

    def _outage(self, seconds: float) -> None:
        """The driver is to live through it."""
        self._say(f"SIGKILL to all brokers, for {seconds:.0f} s")
        for node_id in self.cluster.nodes:
            self.cluster.kill(node_id)
        self.kills["all brokers at once"] += 1
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            self.driver.check()
            time.sleep(0.5)
        self._restart()

    def _restart(self) -> None:
        for node_id, node in self.cluster.nodes.items():
            if not node.alive:
                self.cluster.start(node_id)
        self.cluster.wait_ready()

    def settle(self) -> None:
        """Waits until all is there, or nothing comes any more; ends the driver."""
        deadline, wanted = time.monotonic() + WAIT_S, len(self.ledger.good)
        ended = datetime.now(UTC)
        while (
            len(table(self.project / "lake" / "silver", ["truck"])) < wanted
            and time.monotonic() < deadline
        ):
            self.driver.wait_batches(1)
        while not self._has_caught_up(ended) and time.monotonic() < deadline:
            self.driver.check()
            time.sleep(0.5)
        self.driver.stop()

    def _has_caught_up(self, since: datetime) -> bool:
        """As every flow has told since then."""
        path = self.project / ".raftka" / "status.json"
        flows = json.loads(path.read_text())["flows"].values() if path.exists() else []
        return bool(flows) and all(
            flow["state"] == "running"
            and flow["lag"] == 0
            and datetime.fromisoformat(flow["at"]) > since
            for flow in flows
        )

    def verdict(self) -> Verdict:
        ledger = self.ledger
        wanted = Counter((truck, seconds) for truck, seconds, *_ in ledger.good)
        silver = Counter(
            (row["truck"], row["seconds"])
            for row in table(self.project / "lake" / "silver", ["truck", "seconds"])
        )
        bronze = Counter(
            (row["partition"], row["offset"])
            for row in table(self.project / "lake" / "bronze", ["partition", "offset"])
        )
        alerts = Counter(
            json.loads(value)["id"]
            for _, value in records(self.cluster.bootstrap_servers, "truck_alerts")
        )
        dead = Counter(
            key for key, _ in records(self.cluster.bootstrap_servers, "trucks_gps_dead_letters")
        )
        expected = crossings(ledger, self.project)
        positions = {
            key: json.loads(value or b"{}").get("seconds")
            for key, value in records(self.cluster.bootstrap_servers, "truck_positions")
        }
        last = {str(truck).encode(): seconds for truck, seconds, *_ in ledger.good}
        wrong = {
            "lost from silver": (wanted - silver).total(),
            "duplicated in silver": sum(count - 1 for count in silver.values()),
            "phantoms in silver": len(silver.keys() - wanted.keys()),
            "lost from bronze": max(0, len(ledger.good) + len(ledger.bad) - len(bronze)),
            "duplicated in bronze": sum(count - 1 for count in bronze.values()),
            "lost dead letters": len(ledger.bad - dead.keys()),
            "dead letters of good records": len(dead.keys() - ledger.bad),
            "lost alerts": len(expected - alerts.keys()),
            "duplicated alerts": sum(count - 1 for count in alerts.values()),
            "phantom alerts": len(alerts.keys() - expected),
            "wrong latest positions": sum(
                positions.get(truck) != seconds for truck, seconds in last.items()
            ),
            "wrong minutes": wrong_minutes(
                ledger, table(self.project / "lake" / "minutes", ["minute", "truck", "positions"])
            ),
        }
        again = {"dead letters": sum(count - 1 for count in dead.values())}
        return Verdict(len(ledger.good) + len(ledger.bad), wrong, again, self.kills)


def table(path: Path, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of a Delta table; none where there is no table yet."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        return DeltaTable(path).to_pyarrow_table(columns=list(columns)).to_pylist()  # type: ignore[no-any-return]
    except TableNotFoundError:
        return []


def records(bootstrap: str, topic: str) -> list[tuple[bytes, bytes]]:
    """All that readers of committed records find in it, partition by partition."""
    from raftka.pipeline.topics.reader import read

    given = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "kafka.isolation.level": "read_committed",
    }
    options = source_options(given, streaming=False)
    brokers = Brokers(options.bootstrap, "auditor", PATIENCE_S, read_committed=True)
    try:
        batches = [
            found for each in batch(options, brokers) for found in read(brokers, each, options)
        ]
        return [
            pair
            for each in batches
            for pair in zip(
                each.column("key").to_pylist(), each.column("value").to_pylist(), strict=True
            )
        ]
    finally:
        brokers.close()


def crossings(ledger: Ledger, project: Path) -> set[str]:
    """Ids of the alerts that there have to be."""
    from raftka.pipeline.projects.trucks.library.moves import alert

    ways: dict[int, list[Position]] = defaultdict(list)
    for truck, _, latitude, longitude, at_ms in ledger.good:
        ways[truck].append(Position(at_ms * 1000, latitude, longitude))
    fences = load_fences(project / "fences.geojson")
    return {
        alert(str(truck), each)["id"]
        for truck, way in ways.items()
        for each in moves(fences, NOWHERE, way)[0]
    }


def wrong_minutes(ledger: Ledger, rows: Sequence[Mapping[str, Any]]) -> int:
    """Minutes that the watermark has passed for certain, and have not one row with the right
    number, and rows too many.
    """
    counts = Counter((truck, at_ms // MINUTE_MS) for truck, _, _, _, at_ms in ledger.good)
    found = Counter({(row["truck"], int(row["minute"].timestamp()) // 60): 0 for row in rows})
    for row in rows:
        found[row["truck"], int(row["minute"].timestamp()) // 60] += row["positions"]
    newest = max(at_ms for *_, at_ms in ledger.good)
    over = {each for each in counts if (each[1] + 1) * MINUTE_MS < newest - WATERMARK_MS}
    return (
        sum(found.get(each) != counts[each] for each in over | found.keys())
        + len(rows)
        - len(found)
    )


def soak(count: int, seed: int) -> bool:
    """`./run soak pipeline`."""
    print(f"seed {seed}", flush=True)
    folder = Path(os.environ.get("TMPDIR", "/tmp")) / f"raftka-pipeline-{os.getpid()}"
    folder.mkdir()
    settings = {"spark.driver.memory": "1g"}
    with Trial(folder, settings, seed, lambda line: print(line, flush=True)) as trial:
        verdict = trial.run(count, ROUNDS, OUTAGE_S)
    print(verdict)
    if verdict.good:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"everything is in {folder}")
    return verdict.good
