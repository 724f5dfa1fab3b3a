"""Links between nodes that are cut, one way or both, or slow: by the proxy. And a network that
loses packets of all: by the kernel.
"""

import random
from collections.abc import Callable, Mapping

from raftka.chaos.live.nemeses.nemesis import Nemesis, Victims, named, one
from raftka.chaos.live.proxy import Direction
from raftka.chaos.live.stage import Stage

Cuts = Callable[[Stage, random.Random], tuple[str, list[Direction]]]


def split(stage: Stage, chance: random.Random) -> tuple[str, list[Direction]]:
    nodes = chance.sample(stage.members, len(stage.members))
    some, others = nodes[: len(nodes) // 2], nodes[len(nodes) // 2 :]
    return f"{named(some)} | {named(others)}", stage.between(some, others)


def isolated(choose: Victims) -> Cuts:
    def cuts(stage: Stage, chance: random.Random) -> tuple[str, list[Direction]]:
        victims = choose(stage, chance)
        return f"{named(victims)} | the others", stage.between(
            victims, [each for each in stage.members if each not in victims]
        )

    return cuts


def one_way(stage: Stage, chance: random.Random) -> tuple[str, list[Direction]]:
    source, target = chance.sample(stage.members, 2)
    return f"node {source} is not heard by node {target}", [(source, target)]


def deaf(stage: Stage, chance: random.Random) -> tuple[str, list[Direction]]:
    victim = chance.choice(stage.members)
    return f"node {victim} hears nobody", [
        (each, victim) for each in stage.members if each != victim
    ]


def ring(stage: Stage, chance: random.Random) -> tuple[str, list[Direction]]:
    """Each still hears a majority, no two the same one; of three nodes one pair is parted."""
    nodes = chance.sample(stage.members, len(stage.members))
    apart = [
        (a, b)
        for i, a in enumerate(nodes)
        for j, b in enumerate(nodes)
        if i < j and 1 < j - i < len(nodes) - 1
    ] or [(nodes[0], nodes[1])]
    return "apart: " + ", ".join(f"{a} | {b}" for a, b in apart), [
        each for a, b in apart for each in ((a, b), (b, a))
    ]


class Cut(Nemesis):
    def __init__(self, name: str, cuts: Cuts) -> None:
        self.name = name
        self._cuts = cuts
        self._directions: list[Direction] = []
        self._before: Mapping[Direction, int] = {}

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        said, self._directions = self._cuts(stage, chance)
        self._before = stage.proxy.held()
        if self._directions:
            stage.proxy.cut(*self._directions)
        return said

    def bitten(self, stage: Stage) -> bool:
        held = stage.proxy.held()
        return any(held.get(each, 0) > self._before.get(each, 0) for each in self._directions)

    def end(self, stage: Stage) -> None:
        if self._directions:
            stage.proxy.heal(*self._directions)


class SlowLinks(Cut):
    def __init__(self) -> None:
        super().__init__("slow-links", isolated(one))

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        said, self._directions = self._cuts(stage, chance)
        self._before = stage.proxy.held()
        delay_s = chance.choice((0.02, 0.1, 0.5))
        if self._directions:
            stage.proxy.slow(delay_s, *self._directions)
        return f"{said}, {1000 * delay_s:g} ms each way"


class LostPackets(Nemesis):
    """Packets of nodes and clients are lost; TCP sends them again, later and later."""

    name = "lost-packets"

    def missing(self, stage: Stage) -> str:
        return stage.network.missing

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        percent = chance.choice((1, 5, 20))
        stage.network.lose(percent)
        return f"{percent} % of all packets are lost"

    def bitten(self, stage: Stage) -> bool:
        return stage.network.hindered() > 0

    def end(self, stage: Stage) -> None:
        stage.network.lose_none()


class NarrowNetwork(LostPackets):
    """Packets that do not fit into the queue are lost."""

    name = "narrow-network"

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        kbit_s, queue_bytes = chance.choice((500, 2_000, 8_000)), chance.choice((10_000, 100_000))
        stage.network.narrow(kbit_s, queue_bytes)
        return f"{kbit_s:,} kbit a second for all, a queue of {queue_bytes:,} bytes"

    def end(self, stage: Stage) -> None:
        stage.network.widen()
