"""The real ZooKeeper 3.9.3, alone or as an ensemble, as processes on free ports: what the bridge is
compared with. Knows no bridge.
"""

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from bench.load import CACHE, SOURCES, BenchFailed
from raftka.cluster.ports import HeldPorts

VERSION = "3.9.3"
JARS = CACHE / f"zookeeper-{VERSION}"
PATIENCE_SECONDS = 60.0
SERVER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


class ZooKeepers:
    """`settings` and `options` are zoo.cfg's and the JVM's own. Everything is killed and removed at
    the end.
    """

    def __init__(
        self,
        nodes: int = 3,
        settings: Mapping[str, object] | None = None,
        options: tuple[str, ...] = (),
    ) -> None:
        fetch_jars()
        self.size = nodes
        self.folder = Path(tempfile.mkdtemp(prefix="raftka-zookeeper-"))
        self._held = HeldPorts(3 * nodes)
        self.ports = self._held.numbers[:nodes]  # of node i: the i-th
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._options = options
        for node_id in self.node_ids:
            self._write(node_id, settings or {})

    @property
    def node_ids(self) -> range:
        return range(1, self.size + 1)

    def _write(self, node_id: int, settings: Mapping[str, object]) -> None:
        folder = self._of(node_id)
        folder.mkdir()
        (folder / "myid").write_text(str(node_id))
        peers = self._held.numbers[self.size : 2 * self.size]
        elections = self._held.numbers[2 * self.size :]
        given: dict[str, object] = {
            "tickTime": 2000,
            "initLimit": 10,
            "syncLimit": 5,
            "dataDir": folder,
            "clientPort": self.ports[node_id - 1],
            "clientPortAddress": "127.0.0.1",
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "extendedTypesEnabled": "true",
        }
        if self.size > 1:
            given |= {
                f"server.{i}": f"127.0.0.1:{peers[i - 1]}:{elections[i - 1]}" for i in self.node_ids
            }
        (folder / "zoo.cfg").write_text(
            "".join(f"{name}={value}\n" for name, value in {**given, **settings}.items())
        )

    def _of(self, node_id: int) -> Path:
        return self.folder / f"node-{node_id}"

    def start(self) -> None:
        """Returns when all of them serve."""
        for node_id in self.node_ids:
            self.restart(node_id)
        self.wait_ready()

    def restart(self, node_id: int) -> None:
        command = [
            "java",
            "-Xmx512m",
            *self._options,
            "-cp",
            f"{JARS}/*",
            SERVER,
            str(self._of(node_id) / "zoo.cfg"),
        ]
        with (self._of(node_id) / "out.log").open("ab") as log:
            self._processes[node_id] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def wait_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not all(
            "Mode:" in word(self.ports[node_id - 1], "srvr") for node_id in self._processes
        ):
            if time.monotonic() > deadline:
                raise BenchFailed(f"ZooKeeper did not start; its logs are in {self.folder}")
            time.sleep(0.05)

    def leader(self) -> int:
        """The node's id; of one alone: its own."""
        return next(
            node_id
            for node_id in self._processes
            if any(
                mode in word(self.ports[node_id - 1], "srvr") for mode in ("leader", "standalone")
            )
        )

    def pid(self, node_id: int) -> int:
        return self._processes[node_id].pid

    def kill(self, node_id: int, number: int = signal.SIGKILL) -> None:
        process = self._processes.pop(node_id)
        process.send_signal(number)
        process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node_id in list(self._processes):
            self.kill(node_id)
        self._held.release()
        shutil.rmtree(self.folder, ignore_errors=True)


def word(port: int, text: str) -> str:
    """Return the answer to a four-letter word; empty while no server answers."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as sock:
            sock.sendall(text.encode())
            return b"".join(iter(lambda: sock.recv(65536), b"")).decode()
    except OSError:
        return ""


def available() -> bool:
    return shutil.which("java") is not None and (JARS.is_dir() or shutil.which("mvn") is not None)


def fetch_jars() -> None:
    """Raises BenchFailed."""
    if shutil.which("java") is None:
        raise BenchFailed("ZooKeeper needs java")
    if JARS.is_dir():
        return
    if shutil.which("mvn") is None:
        raise BenchFailed("fetching ZooKeeper needs mvn")
    pom, part = SOURCES / "zookeeper" / "pom.xml", JARS.with_suffix(".part")
    done = subprocess.run(
        ["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={part}"],
        check=False,
    )
    if done.returncode:
        raise BenchFailed("mvn could not fetch ZooKeeper")
    part.rename(JARS)
