"""`raftka cluster start --brokers-per-host`, and what three hosts of two brokers are for: one of
them dies, and nothing is lost.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from raftka.cluster.ask import PartitionView, ask_any, call, wait_for_brokers
from raftka.cluster.plan import NodePlan, PlanError, plan_cluster, ports_from
from raftka.cluster.processes import Processes, running
from raftka.cluster.properties import parse
from raftka.cluster.secured.keys import ClusterSecurity
from raftka.security.node_certificates import nodes_of
from raftka.wire.messages.partitions import CREATE_PARTITIONS
from raftka.wire.messages.topics import CREATE_TOPICS

HOSTS, BROKERS, PARTITIONS = 3, 2, 6
TOPIC = "t"
PATIENCE_SECONDS = 60.0
FROM_CHECKOUT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Processes]:
    with running(HOSTS, brokers=BROKERS) as cluster:
        yield cluster


def host_of(broker: int) -> int:
    return (broker - 1) // BROKERS


def runs(pid: int) -> bool:
    """One that has ended, and that nobody has waited for yet, has no command line."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def wait_for(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < deadline


def partitions(cluster: Processes, topic: str) -> list[PartitionView]:
    alive = [address for node in cluster.nodes.values() if node.alive for address in node.addresses]
    return ask_any(alive, [topic]).of(topic)


def create(cluster: Processes, topic: str, count: int, factor: int) -> None:
    row = CREATE_TOPICS.request.topics(name=topic, num_partitions=count, replication_factor=factor)
    reply = call(
        cluster.addresses[0],
        CREATE_TOPICS,
        CREATE_TOPICS.request(topics=[row], timeout_ms=10_000),
        timeout=15,
    )
    assert reply.topics[0].error_code == 0, reply.topics[0].error_message


class Sent:
    """Numbered records, sent by an idempotent producer with acks=all."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.count = 0
        self.acknowledged: set[int] = set()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 5}
        )

    def send(self, count: int) -> None:
        for number in range(self.count, self.count + count):
            self._producer.produce(
                TOPIC,
                value=b"%d" % number,
                partition=number % PARTITIONS,
                on_delivery=partial(self._told, number),
            )
        self.count += count

    def until_acknowledged(self, count: int) -> None:
        wait_for(lambda: self._producer.poll(0.1) >= 0 and len(self.acknowledged) >= count)

    def _told(self, number: int, error: object, message: object) -> None:
        if error is None:
            self.acknowledged.add(number)


def read_all(bootstrap_servers: str, count: int) -> dict[int, list[int]]:
    """The numbers of each partition in order, until there are so many."""
    found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "reader", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])

    def is_all() -> bool:
        for message in consumer.consume(1000, 0.2):
            found[message.partition()].append(int(message.value()))
        return sum(map(len, found.values())) >= count

    try:
        wait_for(is_all)
    finally:
        consumer.close()
    return found


def test_a_host_dies_and_nothing_is_lost(cluster: Processes) -> None:
    create(cluster, TOPIC, PARTITIONS, HOSTS)
    sent = Sent(cluster.bootstrap_servers)
    sent.send(2_000)
    sent.until_acknowledged(1_000)
    dead = list(cluster.nodes.values())[host_of(partitions(cluster, TOPIC)[0].leader)]
    pids = dead.pids
    assert len(pids) == 2 + BROKERS, "the supervisor, the one that forks, and the brokers"

    cluster.kill(dead.plan.node_id)

    assert not any(map(runs, pids))
    sent.send(2_000)
    # the cluster goes on: two replicas of each partition are on other hosts
    sent.until_acknowledged(4_000)
    cluster.start(dead.plan.node_id)  # from the same file
    cluster.wait_ready()
    sent.send(1_000)
    sent.until_acknowledged(5_000)

    assert read_all(cluster.bootstrap_servers, 5_000) == {
        each: list(range(each, 5_000, PARTITIONS)) for each in range(PARTITIONS)
    }
    wait_for(lambda: all(len(each.isr) == HOSTS for each in partitions(cluster, TOPIC)))


def test_replicas_of_a_partition_never_share_a_host(cluster: Processes) -> None:
    """Those of a new topic, of partitions that are added, and of internal topics."""
    create(cluster, "wide", 12, HOSTS)
    request = CREATE_PARTITIONS.request
    more = request(
        topics=[request.topics(name="wide", count=24, assignments=None)], timeout_ms=10_000
    )
    controller = ask_any(cluster.addresses)
    assert (
        call(controller.brokers[controller.controller], CREATE_PARTITIONS, more, timeout=15)
        .results[0]
        .error_code
        == 0
    )
    create(cluster, "pairs", 12, 2)

    wait_for(
        lambda: len(partitions(cluster, "wide")) == 24 and len(partitions(cluster, "pairs")) == 12
    )
    for each in (*partitions(cluster, "wide"), *partitions(cluster, "pairs")):
        assert len({host_of(broker) for broker in each.replicas}) == len(each.replicas)
    leaders = {each.leader for each in partitions(cluster, "wide")}
    assert leaders == set(range(1, HOSTS * BROKERS + 1)), "all brokers have work"


def test_a_broker_of_a_host_dies_alone_and_the_host_brings_it_back(cluster: Processes) -> None:
    host = cluster.nodes[1]
    pid_file = host.plan.directory / "raftka-2.pid"
    before = int(pid_file.read_text())
    os.kill(before, signal.SIGKILL)

    wait_for(lambda: int(pid_file.read_text()) != before)
    assert wait_for_brokers(cluster.addresses, HOSTS * BROKERS, time.monotonic() + PATIENCE_SECONDS)
    assert host.alive


def test_hosts_are_nodes_with_a_row_of_brokers(tmp_path: Path) -> None:
    plans = plan_cluster(tmp_path, ports_from(19000, 3, 2), brokers=2)

    assert [(each.node_id, each.broker_port, each.controller_port) for each in plans] == [
        (1, 19000, 19100),
        (3, 19002, 19101),
        (5, 19004, 19102),
    ]
    assert plans[1].addresses == ["127.0.0.1:19002", "127.0.0.1:19003"]
    assert plans[1].arguments == [
        "host",
        "start",
        str(tmp_path / "host-2" / "server.properties"),
        "--brokers",
        "2",
    ]
    assert [(each.title, each.properties["broker.rack"]) for each in plans] == [
        ("host 1", "host-1"),
        ("host 2", "host-2"),
        ("host 3", "host-3"),
    ]
    assert plans[0].properties["default.replication.factor"] == "3"


def write(plans: list[NodePlan]) -> None:
    for plan in plans:
        plan.write()


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ((3, 2), (2, 2), "--nodes 3"),
        ((3, 2), (3, 3), "--brokers-per-host 2"),
        ((3, 2), (3, 0), "start it with --brokers-per-host"),
        ((3, 0), (3, 2), "start it without --brokers-per-host"),
    ],
)
def test_a_cluster_of_hosts_keeps_its_sizes(
    before: tuple[int, int], now: tuple[int, int], said: str, tmp_path: Path
) -> None:
    write(
        plan_cluster(tmp_path, ports_from(19000, before[0], max(1, before[1])), brokers=before[1])
    )

    with pytest.raises(PlanError, match=re.escape(said)):
        plan_cluster(tmp_path, ports_from(19000, now[0], max(1, now[1])), brokers=now[1])


@pytest.mark.parametrize(("hosts", "brokers"), [(3, 65), (51, 2)])
def test_too_many_brokers_are_refused(hosts: int, brokers: int, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="are too many"):
        plan_cluster(tmp_path, ports_from(19000, hosts, brokers), brokers=brokers)


def test_a_hosts_certificate_is_for_all_its_brokers(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509 import load_pem_x509_certificates

    plans = plan_cluster(
        tmp_path, ports_from(19000, 2, 3), brokers=3, security=ClusterSecurity(tmp_path / "keys")
    )
    text = Path(plans[1].properties["ssl.keystore.location"]).read_bytes()

    assert nodes_of(load_pem_x509_certificates(text)[0].public_bytes(Encoding.DER)) == {4, 5, 6}
    assert plans[0].properties["super.users"] == "User:admin;User:node-1;User:node-4"


def test_cluster_start_with_tls_and_its_end(tmp_path: Path) -> None:
    arguments = [
        "--nodes",
        "3",
        "--brokers-per-host",
        "2",
        "--data",
        str(tmp_path),
        "--base-port",
        "0",
        "--secure",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "raftka.cli", "cluster", "start", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=FROM_CHECKOUT,
    )
    try:
        assert process.stdout is not None
        servers = process.stdout.readline().strip().partition("=")[2].split(",")
        pages = process.stdout.readline().strip()
        described = subprocess.run(
            [
                sys.executable,
                "-m",
                "raftka.cli",
                "cluster",
                "describe",
                "--bootstrap-server",
                servers[0],
                "--command-config",
                tmp_path / "security/admin.properties",
            ],
            capture_output=True,
            text=True,
            check=True,
            env=FROM_CHECKOUT,
        ).stdout
        pids = [int(path.read_text()) for path in tmp_path.glob("host-*/*.pid")]
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_SECONDS)

    assert (len(servers), pages.count("https://")) == (6, 3)
    assert described.count("host-2") == 2
    assert described.count("alive") == 6
    assert process.returncode == 0
    assert len(pids) == 9
    assert not any(map(runs, pids))
    assert parse((tmp_path / "host-3/server.properties").read_text())["node.id"] == "5"


def test_hosts_are_processes(tmp_path: Path) -> None:
    arguments = [
        "cluster",
        "start",
        "--brokers-per-host",
        "2",
        "--in-process",
        "--data",
        str(tmp_path),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "raftka.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=FROM_CHECKOUT,
    )

    assert done.returncode == 2
    assert "leave out --in-process" in done.stderr
