"""A live cluster with faults that are planted, `raftka doctor` against it, and the next steps."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.reassignments import alter_reassignments, list_reassignments
from raftka.cluster.plan import plan_cluster
from raftka.cluster.ports import HeldPorts
from raftka.cluster.processes import PLAIN, Processes
from raftka.cluster.properties import parse, render
from tests.clients.workload import wait
from tests.kit.checkout import FROM_CHECKOUT


class Done(NamedTuple):
    code: int
    found: dict[str, dict[str, str]]  # the last finding of each kind
    errors: str


class Shell:
    """A shell that has `raftka`, and knows the cluster."""

    def __init__(self, folder: Path, servers: str, file: Path | None = None) -> None:
        """`file`: properties of clients."""
        self.folder, self.servers = folder, servers
        program = folder / "bin" / "raftka"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m raftka.cli "$@"\n')
        program.chmod(0o755)
        self._environment = {
            **FROM_CHECKOUT,
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "RAFTKA_BOOTSTRAP_SERVER": servers,
        }
        if file is not None:
            self.log_in(file)

    def log_in(self, file: Path) -> None:
        self._environment["RAFTKA_COMMAND_CONFIG"] = str(file)

    def shell(self, command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            env=self._environment,
            input=stdin,
            cwd=self.folder,
            check=False,
        )

    def do(self, command: str, stdin: str = "") -> str:
        """Run a command that must succeed; return its output."""
        done = self.shell(command, stdin)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def doctor(self, *options: str) -> Done:
        done = self.shell(" ".join(["raftka doctor -o json", *options]))
        assert "Traceback" not in done.stderr, done.stderr
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        return Done(done.returncode, {row["finding"]: row for row in rows}, done.stderr)


class Live(Shell):
    def __init__(self, cluster: Processes, folder: Path) -> None:
        super().__init__(folder, cluster.bootstrap_servers)
        self.cluster = cluster

    def client(self) -> Client:
        return Client(addresses_of(self.servers), "test")

    def assign(self, topic: str, replicas: Mapping[int, list[int]]) -> None:
        """Let partitions have these replicas, and wait until they do."""
        with self.client() as client:
            wanted = {(topic, index): own for index, own in replicas.items()}
            assert not any(code for _, code in alter_reassignments(client, wanted))
            wait(lambda: not list_reassignments(client))

    def create(self, topic: str, partitions: int, replicas: list[int]) -> None:
        self.do(f"raftka topics create {topic} -p {partitions} -r {len(replicas)}")
        self.assign(topic, dict.fromkeys(range(partitions), replicas))
        self.do(f"raftka partitions elect {topic}")

    @contextmanager
    def changed(
        self, node_id: int, changes: Mapping[str, str], module: str = PLAIN
    ) -> Iterator[None]:
        """The node, started again with other settings and as another module; at the end as it
        was.
        """
        node = self.cluster.nodes[node_id]
        file = node.plan.properties_file
        before = file.read_text(encoding="utf-8")
        self.restart(node_id, render({**parse(before), **changes}, ""), module)
        try:
            yield
        finally:
            self.restart(node_id, before, PLAIN)
            self.settle()

    def restart(self, node_id: int, text: str, module: str) -> None:
        node = self.cluster.nodes[node_id]
        self.cluster.kill(node_id)
        node.plan.properties_file.write_text(text, encoding="utf-8")
        node.module = module
        self.cluster.start(node_id)
        assert self.cluster.wait_ready()

    def settle(self) -> None:
        """Wait until all replicas are in sync, and give leaders back. A broker that has just
        started may show the ISRs of before: then the election fails, and is tried again.
        """
        with self.client() as client:

            def is_in_sync() -> bool:
                return all(
                    len(each.isr_nodes) == len(each.replica_nodes)
                    for topic in client.metadata(None).topics
                    for each in topic.partitions
                )

            wait(lambda: is_in_sync() and not self.shell("raftka partitions elect").returncode)


@contextmanager
def live(
    folder: Path, nodes: int, settings: Mapping[str, str], security: object = None
) -> Iterator[Live]:
    with HeldPorts(3 * nodes) as ports:
        pairs, metrics = ports.triples()
        plans = plan_cluster(folder / "data", pairs, settings, metrics, security=security)  # type: ignore[arg-type]
        cluster = Processes(plans)
        try:
            cluster.start_all()
            assert cluster.wait_ready()
            yield Live(cluster, folder)
        finally:
            cluster.close()
