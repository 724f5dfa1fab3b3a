"""One fault while it happens: its number, a chance of its own, and what it may reach. What kinds
there are stands in the modules beside it.

A kind is a function of an Incident under its own name; whoever writes another one puts it into
KINDS with `@kind` and its name into a plan.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.faults.happened import Happened

LOOK_S = 0.05  # between two looks for what an incident waits for


class Scene:
    """The state that all incidents of one life share."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        self.cluster = cluster
        self.topic = topic
        self.partitions = partitions
        self.happened: list[Happened] = []
        self.over = False
        self.rotten: int | None = None  # whose disk forgets
        # by node: how its operator makes good what it will not start with
        self.restore: dict[int, Callable[[], object]] = {}
        self.lurker: Any = None  # faults_of_moments.Lurker, where there is one
        self.preparing = False  # one waits for its moment: no other may begin
        # which incidents have cut a link, or let it lose
        self.held: dict[tuple[str, str], list[object]] = {}

    def mend(self, node_id: int) -> None:
        disk = self.cluster.disk(node_id)
        self.restore.pop(node_id, lambda: None)()
        disk.room_bytes, disk.failing_syncs, disk.failing_writes = None, 0, 0
        for path in tuple(disk.broken):
            disk.mend(path)


class Incident:
    def __init__(self, scene: Scene, number: int, kind_name: str) -> None:
        self.scene = scene
        self.number = number
        self.kind = kind_name
        self.cluster = scene.cluster
        self.world = scene.cluster.world
        self.topic = scene.topic
        self.partitions = scene.partitions
        self.random: Random = self.world.random(f"fault {number}")

    def note(self, what: str) -> Happened:
        happened = Happened(self.world.now, self.number, self.kind, what)
        self.scene.happened.append(happened)
        return happened

    def for_a_while(self, what: str, seconds: float, undo: Callable[[], object]) -> None:
        happened = self.note(what)

        def ended() -> None:
            happened.until_s = self.world.now
            undo()

        self.later(seconds, ended)

    def later(self, after_s: float, action: Callable[[], object]) -> None:
        """Unless all faults are over by then."""
        self.world.at(self.world.now + after_s, lambda: None if self.scene.over else action())

    def when(self, looks: int, holds: Callable[[], bool], action: Callable[[], object]) -> None:
        """As soon as it holds, or when it was looked at in vain so often."""
        if looks == 0 or holds():
            action()
        else:
            self.later(LOOK_S, lambda: self.when(looks - 1, holds, action))

    # who

    def someone(self) -> int | None:
        living = sorted(self.cluster.living)
        return self.random.choice(living) if living else None

    def anyone(self) -> int:
        """Dead or alive."""
        return self.random.choice(sorted(self.cluster.nodes))

    @property
    def brokers(self) -> list[int]:
        return [
            node_id
            for node_id in sorted(self.cluster.nodes)
            if node_id not in self.cluster.controllers
        ]

    def partition(self) -> int:
        return self.random.randrange(self.partitions)

    def pair(self) -> tuple[str, str]:
        a, b = self.random.sample(sorted(self.cluster.nodes), 2)
        return f"n{a}", f"n{b}"

    # dying, and coming back

    def die(
        self, node_id: int | None, *, power_loss: bool, back_s: tuple[float, float] = (0.0, 4.0)
    ) -> None:
        if node_id is None or not self.cluster.alive(node_id):
            self.bring_back()
            return
        self.cluster.kill(node_id, power_loss=power_loss)
        what = f"{'power loss' if power_loss else 'kill'} n{node_id}"
        self.for_a_while(what, self.random.uniform(*back_s), lambda: self.start(node_id))

    def start(self, node_id: int) -> None:
        if not self.cluster.alive(node_id):
            self.scene.mend(node_id)
            self.note(f"start n{node_id}")
            self.cluster.start(node_id)

    def again(self, node_id: int) -> None:
        """Restart the node after its disk was repaired."""
        if self.cluster.alive(node_id):
            self.cluster.kill(node_id, power_loss=False)
        self.start(node_id)

    def bring_back(self) -> None:
        """Those who stopped by themselves, with a disk that works again."""
        for node_id in self.cluster.nodes:
            self.start(node_id)

    def all_are_in_sync(self) -> bool:
        """As the controller knows it, of the processes that run now: nodes that have just begun may
        know of better days.
        """
        leader = self.cluster.controller
        if leader is None or len(self.cluster.living) < len(self.cluster.nodes):
            return False
        known = self.cluster.nodes[leader].image.brokers
        if not all(
            node_id in known
            and known[node_id].alive
            and known[node_id].epoch == self._epoch(node_id)
            for node_id in self.brokers
        ):
            return False
        return all(
            len(partition.isr) == len(partition.replicas)
            for partition in self.cluster.all_partitions()
        )

    def _epoch(self, node_id: int) -> int:
        return self.cluster.nodes[node_id].lifecycle.broker_epoch

    def left_every_isr(self, node_id: int) -> bool:
        """Neither may it lead without being in one."""
        return not any(node_id in partition.eligible for partition in self.cluster.all_partitions())

    # links: several incidents may hold one, it carries again when the last lets go

    def hold(self, *links: tuple[str, str]) -> None:
        for link in links:
            self.scene.held.setdefault(link, []).append(self)

    def let_go(self, *links: tuple[str, str]) -> None:
        for link in links:
            holders = self.scene.held[link]
            holders.remove(self)
            if not holders:
                self.world.network.mend(*link)


KINDS: dict[str, Callable[[Incident], object]] = {}


def kind(happens: Callable[[Incident], object]) -> Callable[[Incident], object]:
    KINDS[happens.__name__] = happens
    return happens
