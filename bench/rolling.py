"""A cluster of three nodes moves from PLAINTEXT to TLS with certificates while a producer runs:
listeners are added, used, and the old ones removed, one node at a time. The producer moves in
between. Tells what was lost, and how long the producer waited at most.
"""

import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from bench.load import BenchFailed
from raftka.cluster.ask import wait_for_brokers
from raftka.cluster.plan import HOST, NodePlan, plan_cluster
from raftka.cluster.ports import HeldPorts
from raftka.cluster.processes import Processes
from raftka.cluster.secured.keys import ClusterSecurity
from raftka.security.client_security import PLAINTEXT

NODES, TOPIC = 3, "moving"
PAUSE_S, PATIENCE_S = 0.005, 60.0
OLD, NEW = "PLAINTEXT", "SSL"
CONTROLLERS = {OLD: "CONTROLLER", NEW: "SECURE"}


class Moved(NamedTuple):
    acknowledged: int
    lost: int
    silence_s: float  # the longest between two acknowledgements


class MovingCluster:
    def __init__(self, folder: Path) -> None:
        self._held = HeldPorts(2 * NODES), HeldPorts(2 * NODES)
        self._ports = {OLD: self._held[0].pairs(), NEW: self._held[1].pairs()}
        self.security = ClusterSecurity(folder / "security")
        self.plans = plan_cluster(folder, self._ports[OLD])
        self.cluster = Processes(self.plans)

    def addresses(self, kind: str) -> list[tuple[str, int]]:
        return [(HOST, broker) for broker, _ in self._ports[kind]]

    def bootstrap(self, kind: str) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.addresses(kind))

    def roll(self, kinds: Sequence[str]) -> None:
        """Restart node after node, with these listeners; nodes use the first one among
        themselves.
        """
        for node_id, plan in enumerate(self.plans, 1):
            node = self.cluster.nodes[node_id]
            node.plan = replace(plan, properties=self._properties(plan, kinds))
            node.plan.write()
            self.cluster.kill(node_id, signal.SIGTERM)
            self.cluster.start(node_id)
            self._wait_ready(kinds)

    def _wait_ready(self, kinds: Sequence[str]) -> None:
        """Every node knows every other."""
        while not all(node.ready for node in self.cluster.nodes.values()):
            for event in self.cluster.poll(PATIENCE_S):
                if event.kind == "ended":
                    raise BenchFailed(
                        f"node {event.node_id} ended: "
                        f"{self.cluster.nodes[event.node_id].end_of_log()}"
                    )
        kind = OLD if OLD in kinds else NEW
        admin = PLAINTEXT if kind == OLD else self.security.admin.security
        listening = [
            address
            for plan, address in zip(self.plans, self.addresses(kind), strict=True)
            if self._listens(plan, kind)
        ]
        if not wait_for_brokers(listening, len(listening), time.monotonic() + PATIENCE_S, admin):
            raise BenchFailed("a node did not come back")

    def _listens(self, plan: NodePlan, kind: str) -> bool:
        return f"{kind}://" in self.cluster.nodes[plan.node_id].plan.properties["listeners"]

    def _properties(self, plan: NodePlan, kinds: Sequence[str]) -> dict[str, str]:
        def at(name: str, kind: str, number: int) -> str:
            return f"{name}://{HOST}:{self._ports[kind][plan.node_id - 1][number]}"

        brokers = [at(kind, kind, 0) for kind in kinds]
        controllers = [at(CONTROLLERS[kind], kind, 1) for kind in kinds]
        voters = [
            f"{number}@{HOST}:{port}" for number, (_, port) in enumerate(self._ports[kinds[0]], 1)
        ]
        secured = {
            name: value
            for name, value in self.security.settings_of(plan.node_id, NODES).items()
            if name.startswith("ssl.")
        }
        return {
            **plan.properties,
            **secured,
            "listeners": ",".join([*brokers, *controllers]),
            "advertised.listeners": ",".join(brokers),
            "inter.broker.listener.name": kinds[0],
            "controller.listener.names": ",".join(CONTROLLERS[kind] for kind in kinds),
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SECURE:SSL"
            ),
            "controller.quorum.voters": ",".join(voters),
            "raftka.controller.node.certificates": "true",
        }

    def close(self) -> None:
        self.cluster.close()
        for held in self._held:
            held.release()


class Producer:
    """Sends numbers, one by one, until it is stopped; remembers which were acknowledged, and
    when.
    """

    def __init__(self, options: Mapping[str, str], first: int) -> None:
        self.acknowledged: list[int] = []
        self.times: list[float] = []
        self.next = first
        self._client = confluent_kafka.Producer(
            {**options, "linger.ms": 0, "enable.idempotence": True, "acks": "all", "log_level": 0}
        )
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(PAUSE_S):
            number = self.next
            self.next += 1
            self._client.produce(
                TOPIC,
                b"%d" % number,
                callback=lambda error, _, number=number: self._told(error, number),
            )
            self._client.poll(0)
        self._client.flush(PATIENCE_S)

    def _told(self, error: object, number: int) -> None:
        if error is None:
            self.acknowledged.append(number)
            self.times.append(time.monotonic())


def change_to_tls(folder: Path) -> Moved:
    moving = MovingCluster(folder)
    try:
        moving.cluster.start_all()
        moving.cluster.wait_ready()
        old = {"bootstrap.servers": moving.bootstrap(OLD)}
        new = {"bootstrap.servers": moving.bootstrap(NEW), **moving.security.admin.librdkafka()}
        admin = AdminClient({**old, "log_level": 0})
        for future in admin.create_topics([NewTopic(TOPIC, 1, NODES)]).values():
            future.result(PATIENCE_S)
        with _producing(old, 0) as first:
            moving.roll([OLD, NEW])
            moving.roll([NEW, OLD])
        with _producing(new, first.next) as second:
            moving.roll([NEW])
        acknowledged = first.acknowledged + second.acknowledged
        lost = set(acknowledged) - _read(new, len(acknowledged))
        silence = max(
            later - earlier for each in (first, second) for earlier, later in pairwise(each.times)
        )
        return Moved(len(acknowledged), len(lost), silence)
    finally:
        moving.close()


@contextmanager
def _producing(options: Mapping[str, str], first: int) -> Iterator[Producer]:
    producer = Producer(options, first)
    try:
        yield producer
    finally:
        producer.stop()


def _read(options: Mapping[str, str], least: int) -> set[int]:
    consumer = confluent_kafka.Consumer(
        {
            **options,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.subscribe([TOPIC])
    found: list[int] = []
    deadline = time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.append(int(message.value()))
            elif (
                message is not None
                and message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
                and len(found) >= least
            ):
                break
    finally:
        consumer.close()
    return set(found)
