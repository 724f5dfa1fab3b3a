"""Spark itself under SIGKILLs at random moments: of executors, their Python workers, a cluster's
workers, the driver and brokers, while two queries read a topic that grows. What was acknowledged is
compared with what the other topic and the lake have. Used by ./run soak pipeline and by a test.

    topic        every acknowledged record once, for readers of committed records; no transaction is
                 open at the end
    lake         every acknowledged record once; no file that no entry of its log has named
    processes    none is left
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from bench.pipeline_kills import PATIENCE_S, WAIT_S, Verdict, records, table
from raftka.client.blocking.producer import Producer
from raftka.cluster.ask import ask_any
from raftka.cluster.plan import plan_cluster
from raftka.cluster.ports import HeldPorts
from raftka.cluster.processes import Processes
from raftka.pipeline.topics.brokers import Brokers
from raftka.pipeline.topics.options import source_options
from raftka.wire.messages.fetch import READ_COMMITTED, READ_UNCOMMITTED
from raftka.wire.messages.list_offsets import LATEST
from tests.kit.processes import processes
from tests.kit.spark.standalone import SETTINGS, Standalone, plain_environment

SOURCE, TOPIC, PARTITIONS = "source", "copied", 3
ON_A_CLUSTER = (
    "executor",
    "driver",
    "leader",
    "executor",
    "worker",
    "driver",
    "python",
    "leader",
    "executor",
    "driver",
)
LOCAL = ("driver", "python", "leader")
ROUND = 3  # records of a partition
PAUSE_S = 0.2
LEAVE_S = 60.0
LOOK_S = 0.05


class Feeder(threading.Thread):
    """Fills the source until it is told to end; keeps the keys that were acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="feeder", daemon=True)
        self.keys: list[str] = []
        self.failure: Exception | None = None
        self._servers = bootstrap
        self._finished = threading.Event()

    def run(self) -> None:
        options = source_options(
            {"kafka.bootstrap.servers": self._servers, "subscribe": SOURCE}, streaming=False
        )
        brokers = Brokers(options.bootstrap, "feeder", PATIENCE_S)
        try:
            producer = Producer(brokers)
            number = 0
            while not self._finished.wait(PAUSE_S):
                places = [
                    (partition, number + step)
                    for partition in range(PARTITIONS)
                    for step in range(ROUND)
                ]
                for partition, step in places:
                    producer.add(
                        (SOURCE, partition),
                        (f"{partition}-{step}".encode(), b"value", (), time.time_ns() // 1_000_000),
                    )
                producer.flush()
                self.keys += [f"{partition}-{step}" for partition, step in places]
                number += ROUND
        except Exception as error:
            self.failure = error
        finally:
            brokers.close()

    def finish(self) -> list[str]:
        self._finished.set()
        self.join()
        if self.failure is not None:
            raise self.failure
        return self.keys


class Driver:
    """bench/spark_job.py, in a session of the operating system."""

    def __init__(self, folder: Path, arguments: Sequence[str]) -> None:
        self._command = [sys.executable, "-m", "bench.spark_job", *arguments]
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        root = Path(__file__).parents[1]
        with (self._folder / "driver.log").open("ab") as out:
            self._process = subprocess.Popen(
                self._command,
                cwd=root,
                env=plain_environment(),
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """With its Java and its Python."""
        if self._process is not None:
            for each in processes():
                if each.session == self._process.pid:
                    _kill(each.pid)
            self._process.wait()

    def wait(self) -> int:
        assert self._process is not None
        return self._process.wait(WAIT_S)


class Trial:
    """`master` None: a standalone cluster with two workers of its own."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        say: Callable[[str], None],
        master: str | None = None,
        settings: Mapping[str, str] = SETTINGS,
    ) -> None:
        self.folder = folder
        self.kills: Counter[str] = Counter()
        self._chance, self._say, self._master = random.Random(seed), say, master
        self._settings = settings
        self._stack = ExitStack()
        self._spark: Standalone | None = None
        self.restarts = 0  # of a driver that ended by itself, because a batch failed

    def __enter__(self) -> "Trial":
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def _open(self) -> None:
        ports = HeldPorts(6)
        self._stack.callback(ports.release)
        self.cluster = Processes(plan_cluster(self.folder / "cluster", ports.pairs()))
        self._stack.callback(self.cluster.close)
        self.cluster.start_all()
        self.cluster.wait_ready()
        self._create_topics()
        if self._master is None:
            (self.folder / "spark").mkdir()
            self._spark = self._stack.enter_context(Standalone(self.folder / "spark"))
            self._master = self._spark.master
        servers = self.cluster.bootstrap_servers
        self.driver = Driver(
            self.folder,
            [
                self._master,
                json.dumps(dict(self._settings)),
                servers,
                SOURCE,
                TOPIC,
                str(self.folder),
            ],
        )
        self._stack.callback(self.driver.kill)

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def _create_topics(self) -> None:
        from kafka import KafkaAdminClient

        admin = KafkaAdminClient(bootstrap_servers=self.cluster.bootstrap_servers)
        wanted = {
            "num_partitions": PARTITIONS,
            "replication_factor": 3,
            "configs": {"min.insync.replicas": "2", "retention.ms": "-1"},
        }
        try:
            admin.create_topics({SOURCE: wanted, TOPIC: wanted}, wait_for_metadata=True)
        finally:
            admin.close()

    def run(self, kinds: Sequence[str]) -> Verdict:
        """A kill of each of these kinds, some batches apart."""
        self._feeder = Feeder(self.cluster.bootstrap_servers)
        self._feeder.start()
        self.driver.start()
        for kind in kinds:
            self._wait_batches(self._chance.randrange(1, 5))
            time.sleep(self._chance.random())
            self._kill(kind)
            self._restart_brokers()
        self._wait_batches(2)
        keys = self._feeder.finish()
        self._settle(keys)
        return self._verdict(keys)

    def _wait_batches(self, count: int) -> None:
        """So many more that Spark's checkpoints call done, of each query. A driver that ended is
        started again.
        """
        wanted, deadline = [number + count for number in self._batches()], time.monotonic() + WAIT_S
        while any(number < least for number, least in zip(self._batches(), wanted, strict=True)):
            self._look(deadline)

    def _batches(self) -> list[int]:
        done = [self.folder / name / "commits" for name in ("copy", "lake-checkpoint")]
        return [
            max(
                (int(each.name) for each in place.glob("[0-9]*") if each.name.isdigit()), default=-1
            )
            for place in done
        ]

    def _look(self, deadline: float) -> None:
        if self._feeder.failure is not None:
            raise self._feeder.failure
        if not self.driver.alive:
            self._say("the driver has ended, because a batch failed: it is started again")
            self.restarts += 1
            self.driver.start()
        if time.monotonic() > deadline:
            raise TimeoutError((self.folder / "driver.log").read_text()[-3000:])
        time.sleep(LOOK_S)

    # kills

    def _kill(self, kind: str) -> None:
        self._say(f"SIGKILL: {kind}")
        self.kills[kind] += 1
        match kind:
            case "driver":
                self.driver.kill()
                self.driver.start()
            case "leader":
                leaders = [
                    each.leader for each in ask_any(self.cluster.addresses, [TOPIC]).of(TOPIC)
                ]
                alive = [
                    node_id
                    for node_id, node in self.cluster.nodes.items()
                    if node.alive and node_id in leaders
                ]
                self.cluster.kill(self._chance.choice(alive or list(self.cluster.nodes)))
            case "worker":
                assert self._spark is not None
                self._spark.kill_worker(self._chance.choice(self._spark.workers))
            case "executor":
                _kill(self._chance.choice(self._wait_for(self._executors)))
            case _:
                for pid in self._wait_for(self._python):
                    _kill(pid)

    def _wait_for(self, found: Callable[[], list[int]]) -> list[int]:
        deadline = time.monotonic() + WAIT_S
        while not (pids := found()):
            self._look(deadline)
        return pids

    def _executors(self) -> list[int]:
        assert self._spark is not None
        workers = {self._spark.pid(name) for name in self._spark.workers}
        return sorted(each.pid for each in processes() if each.parent in workers)

    def _python(self) -> list[int]:
        """Python's workers below executors, or below the driver's Java."""
        running = processes()
        if self._spark is not None:
            javas = set(self._executors())
        else:
            javas = {each.pid for each in running if each.parent == self.driver.pid}
        daemons = {each.pid for each in running if each.parent in javas}
        return sorted(each.pid for each in running if each.parent in daemons)

    def _restart_brokers(self) -> None:
        for node_id, node in self.cluster.nodes.items():
            if not node.alive:
                self.cluster.start(node_id)
        self.cluster.wait_ready()

    # the end

    def _settle(self, keys: Sequence[str]) -> None:
        deadline = time.monotonic() + WAIT_S
        # markers have offsets, too
        while self._offsets(READ_COMMITTED) < len(keys) or not self._has_all(keys):
            self._look(deadline)
        (self.folder / "stop").touch()
        code = self.driver.wait()
        assert code == 0, (self.folder / "driver.log").read_text()[-3000:]

    def _has_all(self, keys: Sequence[str]) -> bool:
        return len(table(self.folder / "lake", ["key"])) >= len(keys) and len(
            records(self.cluster.bootstrap_servers, TOPIC)
        ) >= len(keys)

    def _offsets(self, isolation: int) -> int:
        options = source_options(
            {"kafka.bootstrap.servers": self.cluster.bootstrap_servers, "subscribe": TOPIC},
            streaming=False,
        )
        brokers = Brokers(options.bootstrap, "auditor", PATIENCE_S)
        try:
            return sum(
                brokers.offsets(
                    {(TOPIC, partition): LATEST for partition in range(PARTITIONS)}, isolation
                ).values()
            )
        finally:
            brokers.close()

    def _verdict(self, keys: Sequence[str]) -> Verdict:
        wanted = Counter(keys)
        copied = Counter(key.decode() for key, _ in records(self.cluster.bootstrap_servers, TOPIC))
        lake = Counter(row["key"] for row in table(self.folder / "lake", ["key"]))
        wrong: dict[str, int] = {}
        for name, found in (("topic", copied), ("lake", lake)):
            wrong[f"lost from the {name}"] = len(wanted.keys() - found.keys())
            wrong[f"twice in the {name}"] = sum(count - 1 for count in found.values())
            wrong[f"phantoms in the {name}"] = len(found.keys() - wanted.keys())
        wrong["offsets in open transactions"] = self._offsets(READ_UNCOMMITTED) - self._offsets(
            READ_COMMITTED
        )
        wrong["files without an entry"] = len(self.left_files())
        wrong["processes that are left"] = self._left_processes()
        self.kills["(batches that failed, and their driver ended)"] = self.restarts
        return Verdict(len(keys), wrong, {}, self.kills)

    def _left_processes(self) -> int:
        """Of the driver; its Python workers see its end within a moment."""
        deadline = time.monotonic() + LEAVE_S
        while (
            left := sum(each.session == self.driver.pid for each in processes())
        ) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        return left

    def left_files(self) -> list[str]:
        """Files in the lake that no entry of its log has ever named."""
        lake = self.folder / "lake"
        named = {
            json.loads(line)["add"]["path"]
            for entry in (lake / "_delta_log").glob("*.json")
            for line in entry.read_text().splitlines()
            if "add" in json.loads(line)
        }
        files = {
            str(each.relative_to(lake))
            for each in lake.rglob("*")
            if each.is_file() and "_delta_log" not in each.parts
        }
        return sorted(files - named)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        """Note that the process has ended by itself."""


def kinds_of(count: int, local: bool, seed: int) -> list[str]:
    """So many kills, all kinds of them, in an order by the seed."""
    kinds = LOCAL if local else ON_A_CLUSTER
    chosen = [kinds[number % len(kinds)] for number in range(count)]
    random.Random(seed).shuffle(chosen)
    return chosen


def soak(count: int, seed: int, *, local: bool) -> bool:
    """`./run soak pipeline`."""
    from tempfile import TemporaryDirectory

    from tests.kit.spark.fast_spark import SETTINGS as FAST

    with TemporaryDirectory(prefix="raftka-spark-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        mode = ("local[2]", FAST) if local else (None, SETTINGS)
        with Trial(folder, seed, _print, *mode) as trial:
            verdict = trial.run(kinds_of(count, local, seed))
    print(
        f"{'local mode' if local else 'a standalone cluster'}, seed {seed}\n{verdict}", flush=True
    )
    return verdict.good


def _print(line: str, out: IO[str] = sys.stdout) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=out, flush=True)
