"""The transcripts of Kafka 2.8's own tools in docs/bridge.md are true: every command in its
transcript is run, in its order.

With --rewrite what came out is written into the document. Numbers that are new with each run stand
there as the first of their kind would.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftka.testing import Cluster
from tests.kit.checkout import FROM_CHECKOUT
from tests.kit.toolchains import Program
from zookeeper_bridge.client.blocking import ZooKeeperClient

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "bridge.md"
BEGIN, END = "```console\n", "```\n"
TOOLS = {
    "kafka-acls": ["kafka.admin.AclCommand"],
    "kafka-configs": ["kafka.admin.ConfigCommand"],
    "kafka-preferred-replica-election": ["kafka.admin.PreferredReplicaLeaderElectionCommand"],
    "kafka-reassign-partitions": ["kafka.admin.ReassignPartitionsCommand"],
    "kafka-topics": ["kafka.admin.TopicCommand"],
    "zookeeper-shell": ["org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka", "-server"],
}
FILES = {
    "move.json": (
        '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [3, 1]}]}'
    ),
    "elect.json": '{"partitions": [{"topic": "orders", "partition": 0}]}',
}
# it says so from another thread, before or after the answer
OF_THE_SHELL = re.compile(r"Connecting to .*|WATCHER::|WatchedEvent .*|")
STACK = re.compile(r"\s+at \S+\(.*\)")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, bridge=True) as cluster:
        yield cluster


class Terminal:
    def __init__(self, kafka: Program, cluster: Cluster, folder: Path) -> None:
        self._kafka = kafka
        self._cluster = cluster
        self._folder = folder
        self._address = cluster.zookeeper_connect.split(",")[0]
        self._leaders: dict[str, str] = {}
        for name, text in FILES.items():
            (folder / name).write_text(text + "\n")

    def run(self, line: str) -> str:
        self._wait_for_moves()
        tool, *arguments = line.replace("localhost:2181", self._address).split(" ")
        given = [each.strip("'") for each in arguments]
        env = {**FROM_CHECKOUT, "RAFTKA_BRIDGE": self._address, "PATH": os.environ["PATH"]}
        command = {"raftka": [sys.executable, "-m", "raftka.cli"], "cat": ["cat"]}.get(tool) or [
            *self._kafka.command,
            *TOOLS[tool],
        ]
        done = subprocess.run(
            [*command, *given],
            cwd=self._folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return self._plain(done.stdout, shell=tool == "zookeeper-shell")

    def _wait_for_moves(self) -> None:
        with ZooKeeperClient(self._address) as client:
            end = time.monotonic() + 30
            while client.stat("/admin/reassign_partitions") is not None:
                assert time.monotonic() < end
                time.sleep(0.02)

    def _plain(self, text: str, *, shell: bool) -> str:
        lines = [
            line
            for line in text.splitlines()
            if not STACK.fullmatch(line) and not (shell and OF_THE_SHELL.fullmatch(line))
        ]
        text = "".join(f"{line.rstrip()}\n" for line in lines).replace(
            self._address, "localhost:2181"
        )
        text = re.sub(r"TopicId: \S+", "TopicId: 47kMtvG3SbuNE3oVVmWkTA", text)
        text = re.sub(r'"topic_id":"[^"]+"', '"topic_id":"47kMtvG3SbuNE3oVVmWkTA"', text)
        return re.sub(
            r'"brokerid":(\d+)', lambda found: f'"brokerid":{self._leader(found[1])}', text
        )

    def _leader(self, number: str) -> str:
        """Return the leader: the first one is chosen by chance."""
        return self._leaders.setdefault(number, str(len(self._leaders) + 1))


def test_the_document_shows_what_the_tools_print(
    kafka_2_8: Program, cluster: Cluster, tmp_path: Path, rewrite: bool
) -> None:
    document = DOCUMENT.read_text()
    before, _, rest = document.partition(BEGIN)
    told, _, after = rest.partition(END)
    lines = [line for line in told.splitlines() if line.startswith("$ ")]
    assert {line.split()[1] for line in lines} >= {
        "kafka-topics",
        "kafka-configs",
        "kafka-reassign-partitions",
        "zookeeper-shell",
    }
    terminal = Terminal(kafka_2_8, cluster, tmp_path)

    printed = "".join(f"{line}\n{terminal.run(line[2:])}" for line in lines)

    if rewrite:
        DOCUMENT.write_text(f"{before}{BEGIN}{printed}{END}{after}")
    assert told == printed
