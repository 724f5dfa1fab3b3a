"""Broker, clients, fixture and processes with every name of Linux alone taken away: what macOS
lacks is found here. tests/kit/without_linux/sitecustomize.py has the list.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WITHOUT = ROOT / "tests/kit/without_linux"
BEGIN = """
import os, select, socket, sys
from pathlib import Path
for module, name in ((os, "eventfd"), (select, "epoll"), (socket, "SOCK_CLOEXEC")):
    assert not hasattr(module, name)
try:
    open("/proc/self/stat")
    raise AssertionError("there is /proc")
except FileNotFoundError:
    pass


def there_and_back(servers, topic):
    from kafka import KafkaConsumer, KafkaProducer
    producer = KafkaProducer(bootstrap_servers=servers, acks="all")
    large = b"x" * 500_000
    sent = [b"%d" % number for number in range(100)] + [large]
    for value in sent:
        producer.send(topic, value).get(30)
    producer.close()
    consumer = KafkaConsumer(
        topic, bootstrap_servers=servers, group_id="readers", auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
    )
    read = []
    for record in consumer:
        read.append(record.value)
        if len(read) == len(sent):
            break
    consumer.close()
    assert read == sent, len(read)
"""
FIXTURE = """
from raftka.testing import Cluster
with Cluster(nodes=3) as cluster:
    topic = cluster.create_topic("orders")
    there_and_back(cluster.bootstrap_servers, topic)
    assert {each.node.runtime.kind for each in cluster._embedded.nodes.values()} == {"portable"}
    cluster.restart(2)
    there_and_back(cluster.bootstrap_servers, cluster.create_topic("more"))
"""
PROCESSES = """
import json, signal
from raftka.cluster.processes import running
with running(3) as cluster:
    there_and_back(cluster.bootstrap_servers.split(","), "orders")
    cluster.kill(2)
    cluster.start(2)
    cluster.wait_ready()
    cluster.kill(1, signal.SIGTERM)
    cluster.start(1)
    cluster.wait_ready()
    there_and_back(cluster.bootstrap_servers.split(","), "more")
    logs = [node.plan.log_file.read_text() for node in cluster.nodes.values()]
    assert all("portable" in log for log in logs), logs
"""
COMMANDS = """
import subprocess, signal
def raftka(*arguments, **options):
    command = [sys.executable, "-m", "raftka.cli", *arguments]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, **options)
broker = raftka("broker", "start", "--dev")
servers = broker.stdout.readline().strip().removeprefix("bootstrap.servers=")
try:
    producer = raftka("produce", "orders", "--bootstrap-server", servers, stdin=subprocess.PIPE)
    producer.communicate("one\\ntwo\\n")
    assert producer.returncode == 0
    consumer = raftka(
        "consume", "orders", "--from", "start", "--exit-at-end", "--bootstrap-server", servers
    )
    assert consumer.communicate()[0].split() == ["one", "two"]
finally:
    broker.send_signal(signal.SIGTERM)
    assert broker.wait() == 0
"""


@pytest.mark.parametrize(
    "program",
    [FIXTURE, PROCESSES, COMMANDS],
    ids=["the fixture", "nodes as processes", "the command line"],
)
def test_it_runs_where_there_is_nothing_of_linux(program: str, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "RAFTKA_RUNTIME"}
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program],
        env={**environment, "PYTHONPATH": os.pathsep.join([str(WITHOUT), str(ROOT)])},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout[-5000:]
