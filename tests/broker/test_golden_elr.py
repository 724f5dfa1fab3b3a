"""Exchanges recorded with Apache Kafka 4.4.0 about eligible leader replicas (KIP-966), asked again
of three nodes whose brokers stop, die and come back as the recorded ones did.

The nodes have raftka.log.flush=os: as Kafka's brokers they may lose what they have acknowledged, so
a broker that was killed is not eligible any more. golden_elr.jsonl has the form of golden.jsonl.
"""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from raftka.wire.messages.topics import CREATE_TOPICS
from tests.broker.golden import Differences, Replay, all_found, not_meant, numbers_of, recorded
from tests.broker.stage import CONTROLLER_PORT, Stage, Wire
from tests.kit.broker.kafka_differences import ELECTIONS

EXCHANGES = recorded(Path(__file__).parent / "golden_elr.jsonl")
TOPICS = {
    "e1": UUID("01e05651-c701-4d50-9eb2-d5f710f13c3a").bytes,
    "e2": UUID("ed7dd12f-b22f-4fce-802f-12450f1679d1").bytes,
}
ASSIGNED = {"e1": (1, 2, 3), "e2": (2, 3)}
CLOCK_MS = 1_795_738_891_000


class Three(Stage):
    """As recorded: three brokers, node 1 is the only voter."""

    def properties(self, node_id: int) -> dict[str, str]:
        planned = super().properties(node_id) | {
            "controller.quorum.voters": f"1@n1:{CONTROLLER_PORT}",
            "min.insync.replicas": "1",
            "raftka.log.flush": "os",
        }
        if node_id > 1:
            planned["process.roles"] = "broker"
            planned["listeners"] = planned["listeners"].split(",")[0]
        return planned

    def create_assigned(self, name: str, replicas: tuple[int, ...]) -> bytes:
        request = CREATE_TOPICS.request
        partition = request.topics.assignments(partition_index=0, broker_ids=replicas)
        topic = request.topics(
            name=name, num_partitions=-1, replication_factor=-1, assignments=[partition]
        )
        (created,) = self.wire().ask(CREATE_TOPICS, request(topics=[topic])).topics
        assert created.error_code == 0, created
        self.wait(
            lambda: all(
                (name, 0) in self.nodes[node_id].replicas.partitions for node_id in replicas
            )
        )
        return bytes(created.topic_id)

    def shut_down(self, node_id: int) -> None:
        """In order."""
        node, ended = self.nodes[node_id], []

        async def stop() -> None:
            await node.shutdown()
            ended.append(True)

        node.runtime.spawn(stop, "stop")
        self.wait(lambda: bool(ended))
        self.kill(node_id)

    def begin(self, node_id: int) -> None:
        self.start(node_id)
        self.wait(lambda: self.nodes[1].image.alive(node_id))

    def await_isr(self, name: str, *isr: int) -> None:
        def found() -> bool:
            topic = self.nodes[1].image.topic_named(name)
            return topic is not None and set(topic.partitions[0].isr) == set(isr)

        self.wait(found)


class Replayed(Replay):
    def __init__(self, stage: Three) -> None:
        super().__init__(stage, EXCHANGES, TOPICS)
        self.three = stage

    def prepare(self, n: int, wire: Wire) -> int:
        for step in STEPS.get(n, ()):
            step(self.three)
        if n == 211:
            for name, replicas in ASSIGNED.items():
                self.ids[TOPICS[name]] = self.three.create_assigned(name, replicas)
        return CLOCK_MS

    def _array(
        self, path: str, name: str, recorded: Any, ours: Any
    ) -> Iterator[tuple[str, tuple[Any, Any]]]:
        if name == "isr_nodes":  # in no order
            recorded, ours = sorted(recorded), sorted(ours)
        yield from super()._array(path, name, recorded, ours)


STEPS: dict[int, tuple[Callable[[Three], None], ...]] = {  # before the exchange
    214: (lambda three: three.shut_down(3), lambda three: three.await_isr("e1", 1, 2)),
    216: (lambda three: three.shut_down(2), lambda three: three.await_isr("e1", 1)),
    223: (lambda three: three.begin(3), lambda three: three.await_isr("e1", 1, 3)),
    224: (
        lambda three: three.begin(2),
        lambda three: three.await_isr("e1", 1, 2, 3),
        lambda three: three.await_isr("e2", 2, 3),
    ),
    226: (lambda three: three.kill(3), lambda three: three.await_isr("e1", 1, 2)),
    228: (lambda three: three.kill(2), lambda three: three.await_isr("e1", 1)),
    230: (lambda three: three.begin(3), lambda three: three.await_isr("e1", 1, 3)),
    232: (
        lambda three: three.begin(2),
        lambda three: three.await_isr("e1", 1, 2, 3),
        lambda three: three.await_isr("e2", 2, 3),
    ),
}


@cache
def replayed() -> dict[int, Differences]:
    with Three(3) as stage:
        return Replayed(stage).run()


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange.name)
def test_the_answer_is_kafkas(exchange: Any) -> None:
    assert not_meant(ELECTIONS, exchange.n, replayed()[exchange.n]) == {}, exchange.comment


@pytest.mark.parametrize("n", numbers_of(ELECTIONS))
def test_differences_that_are_meant_are_there(n: int) -> None:
    assert all_found(ELECTIONS, n, replayed()[n])
