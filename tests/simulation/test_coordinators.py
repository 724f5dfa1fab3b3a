"""A coordinator's leader is killed at each step of what it does: nothing acknowledged is lost or
there twice, and no read goes back behind an earlier one. The shell's mistakes, planted one by one,
are noticed.
"""

from collections.abc import Callable
from typing import Any

import pytest

from raftka.broker.coordinators.partition import CoordinatorPartition
from raftka.broker.coordinators.runtime import CoordinatorRuntime
from raftka.broker.node import Node
from raftka.chaos.simulated.cluster import Cluster
from raftka.runtime.simulated.world import World
from raftka.wire.errors import Code, KafkaError
from tests.broker.toy import TOPIC, Add, Asked, Read, start_runtime
from tests.mutants.catalogue import mutated

LIVES = 12
STEP_S = 0.0004
ASK_S = 8.0
PASSES = (Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE, Code.COORDINATOR_LOAD_IN_PROGRESS)


class ToyCluster(Cluster):
    def __init__(self, world: World) -> None:
        self.runtimes: dict[int, CoordinatorRuntime] = {}
        super().__init__(world)

    def _start(self, node_id: int, node: Node) -> None:
        super()._start(node_id, node)
        self.runtimes[node_id] = start_runtime(node)


class History:
    """One client, who asks one thing after the other."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.cluster = ToyCluster(world)
        self.cluster.wait_ready()
        client = self.cluster.client()
        self.cluster.do(
            client,
            lambda: client.create_topic(
                TOPIC, 1, 3, {"cleanup.policy": "compact", "min.insync.replicas": "2"}
            ),
        )
        self.seen: list[str] = []  # the longest list that was shown
        self.words = 0
        self.wrong: list[str] = []

    def submit(self, command: Any) -> Asked | None:
        leader = self.cluster.leader_of(TOPIC, 0)
        if leader is None or not self.cluster.alive(leader):
            return None
        asked = Asked()

        def turn(_: object) -> None:
            try:
                self.cluster.runtimes[leader].submit("a", command, asked)
            except KafkaError as error:
                asked(error)

        self.cluster.nodes[leader].runtime.take(turn, None)  # type: ignore[attr-defined]
        return asked

    def add(self) -> Asked | None:
        self.words += 1
        return self.submit(Add("a", (f"{self.words}.1", f"{self.words}.2")))

    def look(self, asked: Asked | None) -> bool:
        """Return whether there was an answer, which must go on from all before it."""
        answer = asked.answer if asked is not None else None
        if isinstance(answer, Code):
            assert answer in PASSES
        if not isinstance(answer, list):
            return False
        if answer[: len(self.seen)] != self.seen:
            self.wrong.append(f"behind {self.seen} comes {answer}")
        if len(set(answer)) < len(answer) or answer != [
            f"{word[:-2]}.{i % 2 + 1}" for i, word in enumerate(answer)
        ]:
            self.wrong.append(f"twice, or not whole: {answer}")
        self.seen = answer
        return True

    def insist(self, ask: Callable[[], Asked | None]) -> None:
        """Until it is answered."""
        end = self.world.now + 60.0
        while self.world.now < end and not self.wrong:
            asked = ask()
            if asked is not None:
                self.world.run(lambda asked=asked: bool(asked.answers), at_most_s=ASK_S)  # type: ignore[misc]
                if self.look(asked):
                    return
            self.world.run(self.world.now + 0.05)
        assert self.wrong, "no answer"


def live(seed: int) -> list[str]:
    """Run one life; return its faults."""
    with World(seed) as world:
        history = History(world)
        chance = world.random("kills")
        for step in range(LIVES):
            history.insist(history.add)
            asked = history.add()
            read = history.submit(Read("a"))
            world.run(world.now + step * STEP_S)
            leader = history.cluster.leader_of(TOPIC, 0)
            assert leader is not None
            history.look(asked)
            history.look(read)
            history.cluster.kill(leader, power_loss=chance.random() < 0.7)
            history.insist(lambda: history.submit(Read("a")))
            history.cluster.start(leader)
            history.cluster.wait_ready()
            world.run(world.now + chance.uniform(0.0, 1.0))
            if history.wrong:
                break
        return history.wrong


@pytest.mark.parametrize("seed", range(3))
def test_nothing_acknowledged_is_lost(seed: int) -> None:
    assert live(seed) == []


@pytest.mark.parametrize(
    "name", ["coordinator_answers_before_commit", "coordinator_loads_to_its_high_watermark"]
)
def test_a_mistake_of_the_zoo_is_noticed(name: str) -> None:
    with mutated(name):
        assert any(live(seed) for seed in range(4))


def test_a_batch_that_is_appended_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    append = CoordinatorPartition._append

    def twice(self: CoordinatorPartition) -> None:
        records = list(self._records)
        append(self)
        self._records = records
        append(self)

    monkeypatch.setattr(CoordinatorPartition, "_append", twice)
    assert any(live(seed) for seed in range(4))
