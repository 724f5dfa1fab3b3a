"""The judge of refusals of transactional producers: a hand-over of their coordinator is a cause,
and a refusal without one is named.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from raftka.broker.coordinators.transaction_service import TOPIC as TRANSACTIONS
from raftka.chaos.simulated.clients.groups import Refused
from raftka.chaos.simulated.clients.transactional import TV2, Ledger, TransactionalProducer
from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.workloads.transactions import TransactionWork, coordinator_in
from raftka.coordinator.transactions.coordinator import TransactionCoordinator
from raftka.coordinator.transactions.records import Transaction
from raftka.metadata.commands import AlterReassignments, ElectLeaders, Move, MovedTopic
from raftka.runtime.simulated.world import World
from raftka.wire.errors import Code

ID, PLACE, TIMEOUT_MS = "x", ("written", 0), 5_000
BEHIND_S = 3_480.0
HEARS_LATE_S = 0.2
SETTINGS = {
    **TransactionWork.settings,
    "transaction.state.log.num.partitions": "1",
    "leader.imbalance.check.interval.seconds": "3600",
}


class Scene:
    """Three nodes and a producer. One node is the controller, the others coordinate by turns."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.cluster = cluster = Cluster(world, settings=SETTINGS)
        cluster.wait_ready()
        assert cluster.controller is not None
        self.controller = cluster.controller
        self.old, self.new = sorted({1, 2, 3} - {self.controller})
        self.client = cluster.client("producer", TV2)
        # the old coordinator leads the partition, and asks itself about its transactions
        replicas = [self.old, self.new]
        cluster.do(self.client, lambda: self.client.create_topic(PLACE[0], 1, 0, {}, replicas))
        self.ledger = Ledger(lambda transactional_id: coordinator_in(cluster, transactional_id))
        self.producer = TransactionalProducer(self.client, self.ledger, ID, TIMEOUT_MS)
        self.do(self.producer.init)
        self.wait(lambda: len(cluster.isr_of(TRANSACTIONS, 0)) == 3)
        self.lead(self.old)
        self.wait(lambda: set(cluster.isr_of(TRANSACTIONS, 0)) == {self.old, self.new})
        self.wait(lambda: coordinator_in(cluster, ID) is not None)

    def do(self, task: Callable[[], Awaitable[object]]) -> Any:
        return self.cluster.do(self.client, task)

    def wait(self, holds: Callable[[], bool]) -> None:
        assert self.cluster.settled(holds, 20.0, 0.001)

    def lead(self, node_id: int) -> None:
        """Have one of the two lead the id's partition; it may not have heard of it yet."""
        other = self.old + self.new - node_id
        move = MovedTopic(TRANSACTIONS, (Move(0, (node_id, other)),))
        for command in (AlterReassignments((move,)), ElectLeaders(0)):
            self.cluster.nodes[self.controller].controller.call(
                command, lambda error, reply: None, 5.0
            )
        self.wait(lambda: self.cluster.leader_of(TRANSACTIONS, 0) == node_id)

    async def commit_one(self, pause_s: float = 0.0) -> Code:
        """Commit a transaction, with a pause before its end; return the error."""
        attempt = self.ledger.begin(ID, PLACE)
        try:
            await self.producer.begin([PLACE])
            await self.producer.produce(PLACE, [attempt.value(0, 0)])
            await trio.sleep(pause_s)
            await self.producer.end(attempt, commit=True)
        except Refused as error:
            return error.code
        return Code.NONE


def test_an_abort_by_the_next_coordinator_with_another_clock_has_a_cause() -> None:
    """The cluster has a new leader; the old one has not heard of it, and begins a transaction an
    hour ago.
    """
    with World(1) as world:
        scene = Scene(world)
        assert scene.do(scene.commit_one) is Code.NONE
        world.machine(f"n{scene.old}").wall_offset_s = -BEHIND_S
        for each in (scene.old, scene.new):
            world.network.delay(f"n{scene.controller}", f"n{each}", HEARS_LATE_S)
        scene.lead(scene.new)

        code = scene.do(lambda: scene.commit_one(3 * HEARS_LATE_S))

        assert code is Code.INVALID_TXN_STATE
        assert scene.ledger.wrong == []


def test_an_abort_without_a_cause_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the coordinator aborts each transaction after a tenth of its time."""
    watch = TransactionCoordinator._watch

    def early(self: TransactionCoordinator, name: str, its: Transaction, due: float) -> None:
        watch(self, name, its, due - 0.9 * its.timeout_ms / 1000)

    with World(1) as world:
        scene = Scene(world)
        assert scene.do(scene.commit_one) is Code.NONE
        world.machine(f"n{scene.old}").wall_offset_s = -BEHIND_S
        monkeypatch.setattr(TransactionCoordinator, "_watch", early)

        code = scene.do(lambda: scene.commit_one(0.2 * TIMEOUT_MS / 1000))

        assert code is Code.INVALID_TXN_STATE
        assert [each for each in scene.ledger.wrong if "without a cause" in each]
