"""Kafka's own verifiable clients, in Java: where they are on this machine, a process of one, the
lines it prints. Knows no history and no fault.
"""

import ctypes
import json
import os
import re
import select
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from raftka.chaos.live.clients.bootstrap import Bootstrap
from raftka.chaos.live.clients.clients import AT_ONCE, GIVE_UP_MS, SESSION_MS
from raftka.json_values import JsonObject

NAME = "java"
OLDEST_JAVA, OLDEST_KAFKA = 17, (4, 2)  # which knows --command-config
# where `./run bench` keeps Kafka's jars
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "raftka-bench"
JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx96m")
CLASSIC, CONSUMER = "classic", "consumer"  # protocols of groups
AGAIN = {"reconnect.backoff.max.ms": 500}
# The tool says retries=0 where nobody contradicts, and does without idempotence then.
PRODUCER = {
    **AGAIN,
    "enable.idempotence": "true",
    "retries": 2**31 - 1,
    "delivery.timeout.ms": GIVE_UP_MS,
    "request.timeout.ms": 10_000,
    "linger.ms": 5,
    # a leader that does not know a producer takes any first sequence, as Kafka does
    "max.in.flight.requests.per.connection": 1,
}
READER = {**AGAIN, "fetch.max.wait.ms": 200, "max.poll.records": AT_ONCE}
KINDS: Mapping[str, Mapping[str, object]] = {
    CLASSIC: {**READER, "heartbeat.interval.ms": 500},
    CONSUMER: READER,
}

# None: this system has no way to end a process with its parent
_prctl = getattr(ctypes.CDLL(None), "prctl", None)
PR_SET_PDEATHSIG = 1

Event = JsonObject


class Missing(Exception):
    """A tool is missing; the text says why."""


@dataclass(frozen=True, slots=True)
class Kafka:
    java: str
    jars: Path

    def producer(
        self, bootstrap: Bootstrap, topic: str, per_s: int, prefix: int, keys: int
    ) -> "Tool":
        """Sends `prefix.0` with the key 0, `prefix.1` with the key 1, and so on; after the last key
        comes the first again.
        """
        given = [
            "--throughput",
            str(per_s),
            "--acks",
            "-1",
            "--value-prefix",
            str(prefix),
            "--repeating-keys",
            str(keys),
        ]
        return self._start("VerifiableProducer", bootstrap, topic, given, PRODUCER)

    def consumer(
        self, bootstrap: Bootstrap, topic: str, group: str, protocol: str = CLASSIC
    ) -> "Tool":
        """Reads from what the group has committed, else from the beginning; commits after each
        poll, and waits for it.
        """
        given = ["--group-id", group, "--group-protocol", protocol, "--verbose"]
        if protocol == CLASSIC:
            given += ["--session-timeout", str(SESSION_MS)]
        return self._start("VerifiableConsumer", bootstrap, topic, given, KINDS[protocol])

    def copier(
        self, bootstrap: Bootstrap, source: str, partition: int, target: str, name: str
    ) -> "Tool":
        """Copies a partition, in transactions with their offsets, up to where it ended when the
        tool began; some are aborted. Prints no events.
        """
        given = [
            "--input-topic",
            source,
            "--input-partition",
            str(partition),
            "--output-topic",
            target,
            "--broker-list",
            bootstrap.servers,
        ]
        given += [
            "--consumer-group",
            name,
            "--transactional-id",
            name,
            "--transaction-size",
            "20",
            "--transaction-timeout",
            "20000",
        ]
        command = [
            self.java,
            *JVM,
            "-cp",
            f"{self.jars}/*",
            "org.apache.kafka.tools.TransactionalMessageCopier",
            *given,
        ]
        return Tool([*command, "--enable-random-aborts", "--use-group-metadata"], "")

    def _start(
        self,
        tool: str,
        bootstrap: Bootstrap,
        topic: str,
        given: list[str],
        settings: Mapping[str, object],
    ) -> "Tool":
        properties = {**bootstrap.java(), **settings}
        begin = [
            self.java,
            *JVM,
            "-cp",
            f"{self.jars}/*",
            f"org.apache.kafka.tools.{tool}",
            "--bootstrap-server",
            bootstrap.servers,
            "--topic",
            topic,
        ]
        return Tool(
            [*begin, *given, "--command-config", "/dev/stdin"],
            "".join(f"{name}={value}\n" for name, value in properties.items()),
        )


@cache
def find(home: str = "") -> Kafka:
    """`home`: a folder of Kafka's jars, or one with libs/; else KAFKA_HOME's, else what `./run
    bench` keeps. Raises Missing.
    """
    java = _java()
    wanted = home or os.environ.get("KAFKA_HOME", "")
    folders = (
        [Path(wanted), Path(wanted) / "libs"]
        if wanted
        else sorted(CACHE.glob("kafka-*"), reverse=True)
    )
    for folder in folders:
        versions = [
            re.fullmatch(r"kafka-tools-(\d+)\.(\d+).*\.jar", each.name)
            for each in folder.glob("kafka-tools-[0-9]*.jar")
        ]
        if any(
            match is not None and (int(match[1]), int(match[2])) >= OLDEST_KAFKA
            for match in versions
        ):
            return Kafka(java, folder)
    raise Missing(
        f"no jars of Kafka {'.'.join(map(str, OLDEST_KAFKA))} or newer in {wanted or CACHE}; set "
        "KAFKA_HOME or --kafka-home to their directory"
    )


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        raise Missing(f"there is no java in {home or 'PATH'}")
    try:
        told = subprocess.run(
            [found, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{found} does not run: {error}") from error
    version = re.search(r"\d+", told)
    if version is None or int(version[0]) < OLDEST_JAVA:
        raise Missing(f"{found} is not java {OLDEST_JAVA} or newer")
    return found


class Tool:
    """A process, which ends with the thread that started it. Leaving the block kills it."""

    def __init__(self, command: list[str], settings: str) -> None:
        self.ended = False  # all that it printed is told
        self._rest = b""
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,  # what it logs goes into the worker's log
            start_new_session=True,
            preexec_fn=_end_with_parent,  # noqa: PLW1509  # one system call
        )
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(settings.encode())
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended, and that will be told

    def __enter__(self) -> "Tool":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask_to_end(self) -> None:
        """Ask the process to end: it flushes, or leaves its group, and prints the rest."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self._process.kill()

    def events(self, within_s: float) -> list[Event]:
        """Return the events printed meanwhile, or wait for the first one, at most so long."""
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        if self.ended or not select.select([fd], [], [], within_s)[0]:
            return []
        data = os.read(fd, 1 << 20)
        self.ended = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [event for line in lines if (event := event_of(line)) is not None]


def event_of(line: bytes) -> Event | None:
    """None: a line of somebody's log."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "name" in event else None


def _end_with_parent() -> None:
    if _prctl is not None:
        _prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))


def partition_of(key: str, partitions: int) -> int:
    """The partition to which Kafka's producer sends a key."""
    return (_murmur2(key.encode()) & 0x7FFFFFFF) % partitions


def _murmur2(data: bytes) -> int:
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    value = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * factor & mask
        value = value * factor & mask ^ ((word ^ word >> 24) * factor & mask)
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * factor & mask
    value = (value ^ value >> 13) * factor & mask
    return value ^ value >> 15
