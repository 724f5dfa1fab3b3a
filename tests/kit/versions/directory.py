"""Data directories that releases leave: a cluster of processes on one, on new ports; what clients
read there; the file that it is kept in.
"""

import io
import json
import shlex
import tarfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from raftka.cli.commands import root
from raftka.client.blocking.client import Client, Where
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.reader import Reader
from raftka.cluster.plan import HOST, NodePlan, plan_cluster
from raftka.cluster.ports import HeldPorts
from raftka.cluster.processes import Processes
from raftka.wire.messages.fetch import READ_COMMITTED
from raftka.wire.messages.list_offsets import EARLIEST, LATEST

NODES = 3
FOLDER = Path(__file__).parents[2] / "data_directories"
EXPECTED = "expected.json"
USER, PASSWORD = "alice", "not-a-secret"
LONGEST = str(2**31 - 1)
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:ANONYMOUS;User:{USER}",
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGINS:SASL_PLAINTEXT"
    ),
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.logins.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'user_{USER}="{PASSWORD}";'
    ),
    "delegation.token.secret.key": "not-a-secret-either",
    "delegation.token.max.lifetime.ms": "3153600000000",
    "delegation.token.expiry.time.ms": "3153600000000",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "zookeeper.bridge.set.acl": "false",
    "zookeeper.bridge.tick.ms": "30000",
    # what a directory has is read many years later
    "offsets.retention.minutes": LONGEST,
    "transactional.id.expiration.ms": LONGEST,
    "transaction.max.timeout.ms": LONGEST,
    "producer.id.expiration.ms": LONGEST,
    "group.consumer.max.session.timeout.ms": "600000",
    "group.consumer.session.timeout.ms": "600000",
}


@dataclass(frozen=True, slots=True)
class Running:
    processes: Processes
    bootstrap_servers: str
    logins: str  # the same brokers, where clients log in
    bridges: str
    registry: str

    def client(self) -> Client:
        return Client(addresses_of(self.bootstrap_servers), "directory")

    def command(self, text: str, given: str = "", *, logged_in: tuple[str, ...] = ()) -> Any:
        """Run a command of raftka, and return the JSON values that it prints. Raises
        AssertionError with what it says when it fails.
        """
        options = [part for each in logged_in for part in ("-X", each)]
        where = self.logins if logged_in else self.bootstrap_servers
        arguments = [*shlex.split(text), *options, "--bootstrap-server", where, "-o", "json"]
        result = CliRunner().invoke(root, arguments, input=given)
        assert result.exit_code == 0, f"{text}: {result.output} {result.exception}"
        return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]

    def ask_registry(self, path: str, body: object = None) -> Any:
        request = urllib.request.Request(
            f"http://{self.registry}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


@contextmanager
def running_on(folder: Path) -> Iterator[Running]:
    """Three nodes on the data in `folder`, stopped in order at the end."""
    with HeldPorts(3 * NODES) as held, HeldPorts(NODES) as bridges, HeldPorts(1) as registry:
        pairs, logins = held.triples()
        plans = plan_cluster(folder, pairs, SETTINGS, bridge_ports=bridges.numbers)
        plans = [_with_logins(plan, port) for plan, port in zip(plans, logins, strict=True)]
        of_registry = {**plans[0].properties, "registry.port": str(registry.numbers[0])}
        processes = Processes([replace(plans[0], properties=of_registry), *plans[1:]])
        try:
            processes.start_all()
            processes.wait_ready(120)
            yield Running(
                processes,
                processes.bootstrap_servers,
                ",".join(f"{HOST}:{port}" for port in logins),
                ",".join(f"{HOST}:{port}" for port in bridges.numbers),
                f"{HOST}:{registry.numbers[0]}",
            )
            processes.stop()
        finally:
            processes.close()


def _with_logins(plan: NodePlan, port: int) -> NodePlan:
    more = {
        name: f"{plan.properties[name]},LOGINS://{HOST}:{port}"
        for name in ("listeners", "advertised.listeners")
    }
    return replace(plan, properties={**plan.properties, **more})


def plain_login(user: str, password: str) -> tuple[str, ...]:
    return (
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=PLAIN",
        f"sasl.username={user}",
        f"sasl.password={password}",
    )


def scram_login(user: str, password: str, *, token: bool = False) -> tuple[str, ...]:
    line = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    line += f' username="{user}" password="{password}"' + (' tokenauth="true"' if token else "")
    mechanism = "SCRAM-SHA-256"
    return (
        "security.protocol=SASL_PLAINTEXT",
        f"sasl.mechanism={mechanism}",
        f"sasl.jaas.config={line};",
    )


def read_records(client: Client, where: Where, *, committed: bool = True) -> list[list[str | None]]:
    """Keys and values of a partition, from its start to the end that such a reader sees."""
    isolation = READ_COMMITTED if committed else 0
    start = client.offsets({where: EARLIEST})[where]
    end = client.offsets({where: LATEST}, isolation)[where]
    reader = Reader(client, {where: start}, committed=committed)
    found: list[list[str | None]] = []
    try:
        while reader.positions[where] < end:
            found += [[_text(record.key), _text(record.value)] for record in reader.poll(5.0, 1000)]
    finally:
        reader.close()
    return found


def latest(records: list[list[str | None]]) -> dict[str, str]:
    """The last value of each key, as a compacted topic keeps it; null takes the key away."""
    found = {str(key): value for key, value in records}
    return {key: value for key, value in sorted(found.items()) if value is not None}


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def pack(folder: Path, expected: object, path: Path) -> None:
    """Write the nodes' data and what must be read back as one file, without times and owners."""
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for found in sorted(folder.glob("node-*/data/**/*")):
            about = archive.gettarinfo(str(found), str(found.relative_to(folder)))
            about.mtime, about.uid, about.gid, about.uname, about.gname = 0, 0, 0, "", ""
            if about.isreg():
                with found.open("rb") as file:
                    archive.addfile(about, file)
            else:
                archive.addfile(about)
        text = (json.dumps(expected, indent=1) + "\n").encode()
        about = tarfile.TarInfo(EXPECTED)
        about.size = len(text)
        archive.addfile(about, io.BytesIO(text))


def unpack(path: Path, folder: Path) -> dict[str, Any]:
    """Return what must be read back."""
    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="data")
    expected: dict[str, Any] = json.loads((folder / EXPECTED).read_text(encoding="utf-8"))
    return expected
