"""Rows about security: TLS with large batches, handshakes with logins, ACLs on the way of small
requests, a rolling change to TLS (rolling.py).

The load generator speaks neither TLS nor SASL: a doorman beside it does (doorman.py), whose CPU
time does not count.
"""

import socket
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import SystemRandom
from tempfile import TemporaryDirectory

from bench.load import BenchFailed, load
from bench.rolling import change_to_tls
from bench.rows import ONE_NODE
from bench.systems import Kafka, Raftka, System, cpu_seconds
from raftka.cluster.ask import call
from raftka.cluster.plan import NodePlan
from raftka.cluster.ports import HeldPorts
from raftka.cluster.secured.authority import Authority
from raftka.metadata.configs.broker import STANDARD_AUTHORIZER
from raftka.security.acls import ALLOW, LITERAL, PREFIXED, TOPIC, WRITE
from raftka.security.scram import SHA_256, ScramClient, salted_password
from raftka.wire.frame import decode_response_header, encode_request
from raftka.wire.messages.acls import CREATE_ACLS
from raftka.wire.messages.client_quotas import ALTER_CLIENT_QUOTAS
from raftka.wire.messages.sasl import SASL_AUTHENTICATE, SASL_HANDSHAKE
from raftka.wire.messages.scram import ALTER_USER_SCRAM_CREDENTIALS
from raftka.wire.schema import Api, Req, Resp

LARGE = "produce -b 1000000 -s 1000 -d 5"
FETCH, FILLED_BY = "fetch -b 1000000 -s 1000 -k 32", "produce -b 1000000 -s 1000 -m 40"
SMALL = "produce -b 1 -c 50"
ACLS, ACLS_A_REQUEST = 10_000, 500
LOGINS = 300
USER, FREE, PASSWORD, ITERATIONS = "load", "free", "load-secret", 4096
BOUNDED, STEADY = "produce -b 16384 -d 2", "produce -b 1 -r 200"
WINDOW_S, QUOTA_S = 12.0, 10.0
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
GB = 1e9

Run = dict[str, float]


class Door:
    """One more listener of a single node, with what clients need for it."""

    def __init__(
        self,
        kind: type[Raftka | Kafka],
        folder: Path,
        protocol: str,
        settings: dict[str, str] | None = None,
    ) -> None:
        self.ports = HeldPorts(1)
        (self.port,) = self.ports.numbers
        self.protocol = protocol
        authority = Authority()
        self.authority, store = folder / f"{self.port}.ca.pem", folder / f"{self.port}.pem"
        self.authority.write_text(authority.trusted)
        store.write_text(authority.issue("node", ["127.0.0.1"]).key_store)
        self.settings = {
            "listener.name.secure.ssl.keystore.type": "PEM",
            "listener.name.secure.ssl.keystore.location": str(store),
            "listener.name.secure.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.secure.plain.sasl.jaas.config": (
                f'{PLAIN} required user_{USER}="{PASSWORD}" user_{FREE}="{PASSWORD}";'
            ),
            "listener.name.secure.scram-sha-256.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
            **(settings or {}),
        }
        self.system = kind(1, ONE_NODE, self._with_listener)

    def _with_listener(self, plan: NodePlan) -> NodePlan:
        also = f",SECURE://127.0.0.1:{self.port}"
        given = dict(plan.properties)
        given["listeners"] += also
        given["advertised.listeners"] += also
        given["listener.security.protocol.map"] += f",SECURE:{self.protocol}"
        given["inter.broker.listener.name"] = "PLAINTEXT"
        return replace(plan, properties=given | self.settings)

    @contextmanager
    def doorman(self, user: str = USER) -> Iterator[int]:
        """The port where a load generator finds the broker."""
        command = [sys.executable, "-m", "bench.doorman", f"127.0.0.1:{self.port}"]
        command += ["--authority", str(self.authority)] if "SSL" in self.protocol else []
        command += ["--user", user, "--password", PASSWORD] if "SASL" in self.protocol else []
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()
            process.communicate()


@contextmanager
def _running(doors: Sequence[Door]) -> Iterator[None]:
    try:
        for door in doors:
            door.system.start()
        for door in doors:
            door.system.wait_ready()
        yield
    finally:
        for door in doors:
            door.system.stop()
            door.ports.release()


def _measure(
    doors: Sequence[Door],
    arguments: str,
    topic: str,
    runs: int,
    seconds: float,
    filled_by: str = "",
) -> list[list[Run]]:
    """In turns; of each door."""
    found: list[list[Run]] = [[] for _ in doors]
    for door in doors:
        (target,) = door.system.create_topic(topic)
        if filled_by:
            load(filled_by, [target], door.system.pids, topic, 60)
    for run in range(-1, runs):
        for door, runs_of in zip(doors, found, strict=True):
            with door.doorman() as port:
                answer = load(arguments, [f"127.0.0.1:{port}/0"], door.system.pids, topic, seconds)
            if run >= 0:
                runs_of.append(answer)
    return found


def _median(runs: Sequence[Run], key: str) -> float:
    return statistics.median(run[key] for run in runs)


# TLS


def openssl_s_per_gb() -> float:
    """CPU seconds of AES-256-GCM alone, as `openssl speed` has it for records of 16 KiB."""
    done = subprocess.run(
        [
            "openssl",
            "speed",
            "-mr",
            "-elapsed",
            "-seconds",
            "2",
            "-bytes",
            "16384",
            "-evp",
            "aes-256-gcm",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    rates = [line.rpartition(":")[2] for line in done.stdout.splitlines() if line.startswith("+F:")]
    if not rates:
        raise BenchFailed(f"openssl speed: {done.stderr.strip()[-200:]}")
    return GB / float(rates[-1])


def copy_s_per_gb() -> float:
    """CPU seconds of copying once what a cache does not hold."""
    source, target = bytearray(64 << 20), bytearray(64 << 20)
    target[:] = source
    began = time.process_time()
    for _ in range(8):
        target[:] = source
    return (time.process_time() - began) / (8 * len(source)) * GB


def tls(kinds: Sequence[type[Raftka | Kafka]], runs: int, seconds: float) -> Iterator[str]:
    openssl, copy = openssl_s_per_gb(), copy_s_per_gb()
    yield f"AES-256-GCM by `openssl speed`: {openssl:.2f} CPU-s/GB; one copy of memory: {copy:.2f}."
    yield ""
    yield (
        "| TLS 1.3, CPU-s/GB of one node | without TLS | with TLS | more | of openssl and one "
        "copy |"
    )
    yield "|---|---|---|---|---|"
    with TemporaryDirectory(prefix="raftka-bench-") as folder:
        doors = [
            Door(kind, Path(folder), protocol)
            for kind in kinds
            for protocol in ("PLAINTEXT", "SSL")
        ]
        with _running(doors):
            for title, arguments, filled_by in (
                ("produce 1 MB", LARGE, ""),
                ("fetch 1 MB", FETCH, FILLED_BY),
            ):
                found = _measure(
                    doors, arguments, title.replace(" ", "-"), runs, seconds, filled_by
                )
                for kind, without, with_tls in zip(kinds, found[::2], found[1::2], strict=True):
                    before, after = _median(without, "s_GB"), _median(with_tls, "s_GB")
                    more = after - before
                    yield (
                        f"| {title}, {kind.name} | {before:.2f} | **{after:.2f}** | {more:.2f} "
                        f"| {more / (openssl + copy):.2f} |"
                    )


# logins


class Client:
    """Connects and logs in, again and again. It salts the password each time, as clients do: that
    is the larger part of what it waits for.
    """

    def __init__(self, door: Door) -> None:
        self._address = ("127.0.0.1", door.port)
        self._context = ssl.create_default_context(cafile=door.authority)
        self._random = SystemRandom()

    def log_in(self) -> None:
        plain = socket.create_connection(self._address)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as Kafka's clients do
        with self._context.wrap_socket(plain, server_hostname="127.0.0.1") as tls:
            self._ask(tls, SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism=SHA_256), 1)
            login = ScramClient(SHA_256, USER, PASSWORD, self._random.randbytes(16).hex())
            token: bytes | None = login.first()
            while token is not None:
                answer = self._ask(
                    tls, SASL_AUTHENTICATE, SASL_AUTHENTICATE.request(auth_bytes=token), 1
                )
                if answer.error_code:
                    raise BenchFailed(f"the login is refused: {answer.error_message}")
                token = login.step(bytes(answer.auth_bytes))

    @staticmethod
    def _ask(sock: ssl.SSLSocket, api: Api[Req, Resp], request: Req, version: int) -> Resp:
        sock.sendall(encode_request(api, version, 1, "bench", request))
        file = sock.makefile("rb")
        frame = memoryview(file.read(int.from_bytes(file.read(4))))
        _, position = decode_response_header(frame, api, version)
        return api.decode_response(version, frame, position)[0]


def logins(kinds: Sequence[type[Raftka | Kafka]], runs: int) -> Iterator[str]:
    yield (
        "| TLS 1.3 and SCRAM-SHA-256, new connections | CPU ms of the node | a second of one "
        "core | seen by one client, a second |"
    )
    yield "|---|---|---|---|"
    with TemporaryDirectory(prefix="raftka-bench-") as folder:
        doors = [Door(kind, Path(folder), "SASL_SSL") for kind in kinds]
        with _running(doors):
            for door in doors:
                _add_user(door.system)
            costs: list[list[tuple[float, float]]] = [[] for _ in doors]
            for run in range(-1, runs):
                for door, cost in zip(doors, costs, strict=True):
                    client, (pid,) = Client(door), door.system.pids
                    cpu, began = cpu_seconds(pid), time.monotonic()
                    for _ in range(LOGINS):
                        client.log_in()
                    if run >= 0:
                        cost.append(
                            ((cpu_seconds(pid) - cpu) / LOGINS, (time.monotonic() - began) / LOGINS)
                        )
            for kind, cost in zip(kinds, costs, strict=True):
                cpu_s, wall_s = (statistics.median(each) for each in zip(*cost, strict=True))
                yield (
                    f"| {kind.name} | {cpu_s * 1000:.2f} | **{1 / cpu_s:,.0f}** | "
                    f"{1 / wall_s:,.0f} |"
                )


def _add_user(system: System) -> None:
    row, salt = ALTER_USER_SCRAM_CREDENTIALS.request, b"salt of the bench"
    salted = salted_password(SHA_256, PASSWORD, salt, ITERATIONS)
    request = row(
        upsertions=[
            row.upsertions(
                name=USER, mechanism=1, iterations=ITERATIONS, salt=salt, salted_password=salted
            )
        ]
    )
    for result in call(
        system.addresses[0], ALTER_USER_SCRAM_CREDENTIALS, request, timeout=15
    ).results:
        if result.error_code:
            raise BenchFailed(f"{system.name}: no credential: {result.error_message}")


# ACLs


def acls(kinds: Sequence[type[Raftka | Kafka]], runs: int, seconds: float) -> Iterator[str]:
    yield (
        "| one record, 50 connections with logins, us of CPU a request | no authorizer | "
        f"{ACLS:,} ACLs | ratio |"
    )
    yield "|---|---|---|---|"
    authorizer = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with TemporaryDirectory(prefix="raftka-bench-") as folder:
        doors = [
            Door(kind, Path(folder), "SASL_PLAINTEXT", given)
            for kind in kinds
            for given in ({}, authorizer)
        ]
        with _running(doors):
            for door in doors[1::2]:
                _add_acls(door.system)
            found = _measure(doors, SMALL, "small", runs, seconds)
            for kind, without, with_acls in zip(kinds, found[::2], found[1::2], strict=True):
                before, after = _median(without, "us_req"), _median(with_acls, "us_req")
                yield f"| {kind.name} | {before:.1f} | {after:.1f} | **{after / before:.3f}** |"


def _add_acls(system: System) -> None:
    """A third of them are about prefixes."""
    row = CREATE_ACLS.request
    creations = [
        row.creations(
            resource_type=TOPIC,
            resource_name=f"team-{number}",
            resource_pattern_type=LITERAL if number % 3 else PREFIXED,
            principal=f"User:user-{number % 100}",
            host="*",
            operation=WRITE,
            permission_type=ALLOW,
        )
        for number in range(ACLS - 1)
    ]
    creations.append(
        row.creations(
            resource_type=TOPIC,
            resource_name="small",
            resource_pattern_type=LITERAL,
            principal=f"User:{USER}",
            host="*",
            operation=WRITE,
            permission_type=ALLOW,
        )
    )
    for at in range(0, ACLS, ACLS_A_REQUEST):
        answer = call(
            system.addresses[0],
            CREATE_ACLS,
            row(creations=creations[at : at + ACLS_A_REQUEST]),
            timeout=30,
        )
        if any(result.error_code for result in answer.results):
            raise BenchFailed(f"{system.name}: no ACLs: {answer.results[0].error_message}")


# quotas


def quotas(kinds: Sequence[type[Raftka | Kafka]], runs: int) -> Iterator[str]:
    yield (
        "| a client with a quota of 1 MB/s, and one without | MB/s of the first | p99 us of the "
        "other alone | beside the first | ratio |"
    )
    yield "|---|---|---|---|---|"
    with TemporaryDirectory(prefix="raftka-bench-") as folder:
        doors = [Door(kind, Path(folder), "SASL_PLAINTEXT") for kind in kinds]
        with _running(doors), ThreadPoolExecutor(1) as pool:
            for door in doors:
                _set_quota(door.system)
                for name in ("bounded", "free"):
                    door.system.create_topic(name)
                with door.doorman(USER) as bounded, door.doorman(FREE) as free:

                    def other(door: Door = door, port: int = free) -> Run:
                        return load(
                            STEADY, [f"127.0.0.1:{port}/0"], door.system.pids, "free", QUOTA_S
                        )

                    def first(seconds: float, door: Door = door, port: int = bounded) -> Run:
                        return load(
                            BOUNDED, [f"127.0.0.1:{port}/0"], door.system.pids, "bounded", seconds
                        )

                    first(WINDOW_S)  # what a client that was silent may use at once
                    alone = [other() for _ in range(runs)]
                    first(WINDOW_S)
                    beside, rates = [], []
                    for _ in range(runs):
                        future = pool.submit(first, QUOTA_S)
                        beside.append(other())
                        rates.append(future.result())
                before, after = _median(alone, "p99us"), _median(beside, "p99us")
                yield (
                    f"| {door.system.name} | **{_median(rates, 'MBps'):.3f}** | {before:,.0f} | "
                    f"{after:,.0f} | {after / before:.2f} |"
                )


def _set_quota(system: System) -> None:
    entry = ALTER_CLIENT_QUOTAS.request.entries
    rows = [
        entry(
            entity=[entry.entity(entity_type="user", entity_name=USER)],
            ops=[entry.ops(key="producer_byte_rate", value=1e6, remove=False)],
        )
    ]
    (answer,) = call(
        system.addresses[0],
        ALTER_CLIENT_QUOTAS,
        ALTER_CLIENT_QUOTAS.request(entries=rows),
        timeout=15,
    ).entries
    if answer.error_code:
        raise BenchFailed(f"{system.name}: no quota: {answer.error_message}")


def rolling(rounds: int) -> Iterator[str]:
    yield (
        "| rolling change of three nodes, PLAINTEXT to mutual TLS, under load | acknowledged | "
        "lost | longest silence s |"
    )
    yield "|---|---|---|---|"
    for number in range(1, rounds + 1):
        with TemporaryDirectory(prefix="raftka-bench-") as folder:
            result = change_to_tls(Path(folder))
        yield (
            f"| round {number} | {result.acknowledged:,} | {result.lost} | "
            f"**{result.silence_s:.2f}** |"
        )
