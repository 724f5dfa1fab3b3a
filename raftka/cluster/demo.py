"""`raftka demo`: three processes, twenty trucks, a leader killed by SIGKILL, every acknowledged
record read back once and in order.

With a FILE its lines take the trucks' place and hashes are compared. Exit code 1 when anything is
lost, comes twice or in another order.
"""

import json
import math
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from raftka.client.blocking.client import Client, check
from raftka.cluster.ask import PartitionView, ask_any
from raftka.cluster.console import ProcessesConsole
from raftka.cluster.plan import plan_cluster
from raftka.cluster.ports import HeldPorts
from raftka.cluster.processes import ClusterFailed, Processes, how
from raftka.cluster.tally import Tally, Verdict
from raftka.cluster.traffic import Reader, ReaderFailed, Sender
from raftka.cluster.view import View
from raftka.wire.messages.topics import CREATE_TOPICS

TOPIC, PARTITIONS = "trucks_gps", 10  # as in Kafka's introductions
TRUCKS = 20
ROUNDS_A_SECOND = 50  # a position of every truck in each
DRIVE_SECONDS = 28.0
LINE_BYTES = 512 * 1024  # a longer line travels in pieces
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ANSWER_SECONDS = 10.0
ATTEND_SECONDS = 0.05  # between two looks at what the console's users want
BACK_SECONDS = 15.0
TIMEOUT_MS = 30_000
# 300 by default: the demo would end before its leaders come back
SETTINGS = {"leader.imbalance.check.interval.seconds": "2"}
# where everybody looks for a cluster first
STAY_CONSOLE_PORT = 9392
STAY_PORTS = [port for node in range(3) for port in (9092 + node, 9192 + node, 9292 + node)]

# (how much of the way has been made, what is done then)
TRUCKS_STORY = ((0.3, "kill"), (0.6, "restart"))
FILE_STORY = ((1 / 3, "kill"), (1 / 2, "restart"), (2 / 3, "kill"), (5 / 6, "restart"))


class Source:
    """Records to send, and how much of the way they have made."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.progress = 0.0
        self.story: Sequence[tuple[float, str]] = ()

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        raise NotImplementedError


class Trucks(Source):
    """Twenty trucks that drive in circles and say where they are."""

    def __init__(self, *, endless: bool = False) -> None:
        super().__init__()
        self.keys = [f"truck-{i:02}".encode() for i in range(1, TRUCKS + 1)]
        self.story = TRUCKS_STORY
        self._endless = endless

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        began, step = time.monotonic(), 0
        while self.progress < 1 or self._endless:
            for number, key in enumerate(self.keys):
                yield key, self.position(number, step / ROUNDS_A_SECOND)
            step += 1
            time.sleep(max(0.0, began + step / ROUNDS_A_SECOND - time.monotonic()))
            self.progress = (time.monotonic() - began) / DRIVE_SECONDS

    @staticmethod
    def position(truck: int, seconds: float) -> bytes:
        angle = seconds / 60 + truck * math.tau / TRUCKS
        position = {
            "truck": truck + 1,
            "latitude": round(52.5 + math.sin(angle) / 10, 5),
            "longitude": round(13.4 + math.cos(angle) / 6, 5),
        }
        return json.dumps(position | {"seconds": round(seconds, 2)}).encode()


class Lines(Source):
    """The lines of a file, dealt over twenty keys in turn."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.keys = [f"line-{i:02}".encode() for i in range(TRUCKS)]
        self.story = FILE_STORY
        self._path = path

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        size, done, number = self._path.stat().st_size, 0, 0
        with self._path.open("rb") as file:
            while line := file.readline(LINE_BYTES):
                yield self.keys[number % TRUCKS], line
                number += 1
                done += len(line)
                self.progress = done / size


class Outage:
    """From a SIGKILL to the next acknowledgement on the partition whose leader it was."""

    def __init__(self, tally: Tally, partition: int) -> None:
        # what was under way may have been answered by the dead
        self._sent = tally.sent_to(partition)
        self._killed = time.monotonic()
        self.seconds: float | None = None

    def acknowledged(self, key: bytes, number: int) -> None:
        if self.seconds is None and number >= self._sent.get(key, sys.maxsize):
            self.seconds = time.monotonic() - self._killed


class Show:
    """Runs a source through a cluster and its story through the source."""

    def __init__(
        self, cluster: Processes, source: Source, console: ProcessesConsole | None = None
    ) -> None:
        """`console`: whose users may do to the nodes what they like, and end the story so."""
        self.cluster = cluster
        self._console = console
        self._attended = 0.0  # when the console's users were last attended to
        self.source = source
        self.tally = Tally(source.keys)
        self.outages: list[Outage] = []
        self._dead: list[int] = []
        self._stopping = False
        self._create_topic()
        self._view = View(cluster.addresses, TOPIC, self.tally, self._runs)

    def run(self) -> Verdict:
        """Ctrl-C ends the sending, not the reading; the second one ends everything."""
        self._listen_for_the_end()
        sender = Sender(self.cluster.bootstrap_servers, TOPIC, PARTITIONS, self.tally)
        reader = Reader(self.cluster.bootstrap_servers, TOPIC, PARTITIONS, self.tally)
        reader.on_failure = self._reader_failed
        reader.start()
        self._view.start()
        try:
            self._send_all(sender)
            sender.finish()
            reader.finish()
            self._wait_for_leaders()
        finally:
            reader.stop()
            sender.close()
            self._view.stop()
        return self.tally.verdict()

    def _reader_failed(self, error: BaseException) -> None:
        self._view.say(f"the reader failed: {type(error).__name__} {error}")
        self._stopping = True

    def _listen_for_the_end(self) -> None:
        def stop(number: int, _frame: object) -> None:
            self._stopping = True  # between two records: what is counted as sent must be sent
            signal.signal(number, signal.default_int_handler)

        for number in ENDS:
            signal.signal(number, stop)

    def _send_all(self, sender: Sender) -> None:
        steps = list(self.source.story)
        actions: dict[str, Callable[[Sender], None]] = {
            "kill": self._kill,
            "restart": self._restart,
        }
        for key, value in self.source:
            if self._stopping:
                return
            if self._is_taken_over():
                steps.clear()
            while steps and self.source.progress >= steps[0][0]:
                actions[steps.pop(0)[1]](sender)
            sender.send(key, value)

    def _is_taken_over(self) -> bool:
        """Do what the console's users have asked for; return whether they have done anything to a
        node.
        """
        if self._console is None:
            return False
        if time.monotonic() > self._attended + ATTEND_SECONDS:
            for event in self.cluster.poll(0):
                if event.kind == "ended":
                    text = f"node {event.node_id} {how(event.exit_code)}"
                    self._view.say(text)
                    self._console.control.note(text)
                elif event.kind == "other":
                    self._console.work_off()
            self._attended = time.monotonic()
        return self._console.control.has_acted

    def _kill(self, sender: Sender) -> None:
        """Two of three must be there afterwards, and it must be known which partition is the
        busiest.
        """
        while not self.cluster.wait_ready():
            if self._is_taken_over():
                return
        deadline = time.monotonic() + ANSWER_SECONDS
        while self.tally.busiest() < 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        partition = max(self.tally.busiest(), 0)
        node_id = ask_any(self._alive(), [TOPIC]).of(TOPIC)[partition].leader
        if node_id < 0:
            self._view.say(f"partition {partition} has no leader to kill")
            return
        outage = Outage(self.tally, partition)
        sender.on_acknowledged = outage.acknowledged
        self.outages.append(outage)
        self._view.say(f"SIGKILL to node {node_id}, leader of partition {partition}, the busiest")
        self.cluster.kill(node_id)
        self._dead.append(node_id)

    def _restart(self, sender: Sender) -> None:
        for node_id in self._dead:
            self._view.say(f"node {node_id} starts again")
            self.cluster.start(node_id)
        self._dead.clear()

    def _wait_for_leaders(self) -> None:
        """Wait until the killed node leads its former partitions again."""
        began, partitions = time.monotonic(), list[PartitionView]()
        while not self._stopping and not self._dead and time.monotonic() < began + BACK_SECONDS:
            with suppress(OSError):
                partitions = ask_any(self._alive(), [TOPIC]).of(TOPIC)
            if len(partitions) == PARTITIONS and all(
                each.leader == each.replicas[0] and len(each.isr) == len(each.replicas)
                for each in partitions
            ):
                self._view.say(
                    f"all {PARTITIONS} partitions are led by their first replicas again, and all "
                    "replicas are in sync"
                )
                return
            if self._is_taken_over():
                return
            time.sleep(0.1)

    def _runs(self, node_id: int) -> bool:
        return node_id in self.cluster.nodes and self.cluster.nodes[node_id].alive

    def _alive(self) -> list[tuple[str, int]]:
        nodes = zip(self.cluster.nodes.values(), self.cluster.addresses, strict=True)
        return [address for node, address in nodes if node.alive]

    def _create_topic(self) -> None:
        topic = CREATE_TOPICS.request.topics
        wanted = topic(
            name=TOPIC,
            num_partitions=PARTITIONS,
            replication_factor=3,
            configs=[topic.configs(name="min.insync.replicas", value="2")],
        )
        with Client(self.cluster.addresses) as client:
            (created,) = client.ask_controller(
                CREATE_TOPICS, CREATE_TOPICS.request(topics=[wanted], timeout_ms=TIMEOUT_MS)
            ).topics
        check(created.error_code, created.error_message)


def report(verdict: Verdict, outages: Sequence[Outage], *, hashes: bool, foreign: int = 0) -> None:
    """`foreign`: records of others that were passed by."""
    gaps = ", ".join(
        "nothing was sent there after it" if o.seconds is None else f"{o.seconds:.2f} s"
        for o in outages
    )
    rows = [
        ("acknowledged", f"{verdict.acknowledged:,}"),
        ("read", f"{verdict.read:,}"),
        ("lost", f"{verdict.lost:,}"),
        ("duplicated", f"{verdict.duplicated:,}"),
        (
            "out of order per key" if hashes else "out of order per truck",
            f"{verdict.out_of_order:,}",
        ),
    ]
    if gaps:
        rows.append(
            (
                "time without a leader",
                f"{gaps}   (SIGKILL to the next acknowledgement on its partition)",
            )
        )
    if foreign:
        rows.append(("records of others", f"{foreign:,}   (passed by)"))
    if verdict.given_up:
        rows.append(("never acknowledged", f"{verdict.given_up:,}"))
    if hashes:
        rows += [
            ("sha256 of the sent lines", verdict.sent_hash),
            ("sha256 of the read lines", verdict.read_hash),
        ]
    print()
    for name, value in rows:
        print(f"  {name:24} {value}")
    print(flush=True)


def play(
    source: Source,
    folder: Path,
    *,
    hashes: bool,
    ports: Sequence[int] = (),
    console_port: int | None = None,
) -> bool:
    """The whole demo on a new cluster in `folder`, on these ports if they are free; whether
    everything came back. `console_port`: None: without a console.
    """
    with HeldPorts(9, ports) as held:
        pairs, scraped = held.triples()
        # the console reads the metrics
        cluster = Processes(plan_cluster(folder, pairs, SETTINGS, scraped))
        console = None
        try:
            console = _open_console(cluster, console_port)
            began = time.monotonic()
            cluster.start_all()
            cluster.wait_ready()
            print(f"three nodes are ready after {time.monotonic() - began:.1f} s", flush=True)
            print(f"bootstrap.servers={cluster.bootstrap_servers}", flush=True)
            if console is not None:
                cluster.also(console.fileno())
                console.start()
                print(f"console={console.url}", flush=True)
            show = Show(cluster, source, console)
            verdict = show.run()
            report(verdict, show.outages, hashes=hashes, foreign=show.tally.foreign)
            cluster.stop()
            return verdict.good
        finally:
            if console is not None:
                console.close()
            cluster.close()


def _open_console(cluster: Processes, port: int | None) -> ProcessesConsole | None:
    """At this port, or at another one when it is taken."""
    if port is None:
        return None
    try:
        return ProcessesConsole(cluster, port)
    except OSError:
        return ProcessesConsole(cluster, 0)


def main(file: Path | None, *, stay: bool, console: bool = True) -> int:
    """Return the exit code: 1 when not everything came back. `file`: its lines take the place of
    the trucks' positions. `stay`: go on until Ctrl-C.
    """
    for number in ENDS:
        signal.signal(number, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="raftka-demo-"))
    good = False
    try:
        source = Lines(file) if file else Trucks(endless=stay)
        ports = STAY_PORTS if stay else ()
        door = None if not console else STAY_CONSOLE_PORT if stay else 0
        good = play(source, folder, hashes=file is not None, ports=ports, console_port=door)
    except (ClusterFailed, ReaderFailed) as error:
        print(f"demo: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        good = True  # before anything was sent
        return 130
    finally:
        if good:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(
                f"demo: FAILED; properties, logs and data of the nodes are in {folder}",
                file=sys.stderr,
            )
    return 0 if good else 1
