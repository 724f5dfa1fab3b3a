"""A fault of a live cluster: it begins, proves that it bit, and is undone; and whom it hits. Knows
no kind.
"""

import random
from collections.abc import Callable, Iterable

from raftka.chaos.live.stage import Stage

Victims = Callable[[Stage, random.Random], list[int]]


class Nemesis:
    """`begin` says what it does; `end` undoes it."""

    name = ""

    def missing(self, stage: Stage) -> str:
        """Return the reason why it cannot be done here; empty: it can."""
        return ""

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        raise NotImplementedError

    def bitten(self, stage: Stage) -> bool:
        """Return whether the fault has had an effect since it began."""
        raise NotImplementedError

    def end(self, stage: Stage) -> None:
        raise NotImplementedError

    def settle(self, stage: Stage) -> None:
        """The round is over and all is healed: what `end` could not undo."""


# whom it hits


def one(stage: Stage, chance: random.Random) -> list[int]:
    awake = [
        node_id
        for node_id in stage.members
        if node_id in stage.alive and node_id not in stage.stopped
    ]
    return [chance.choice(awake)] if awake else []


def a_leader(stage: Stage, chance: random.Random) -> list[int]:
    view = stage.view()
    leaders = (
        sorted({each.leader for each in view.partitions if each.leader > 0})
        if view is not None
        else []
    )
    return [chance.choice(leaders)] if leaders else one(stage, chance)


def the_controller(stage: Stage, chance: random.Random) -> list[int]:
    view = stage.view([])
    return [view.controller] if view is not None and view.controller > 0 else one(stage, chance)


def majority(stage: Stage, chance: random.Random) -> list[int]:
    """Choose a majority of the voters."""
    return sorted(chance.sample(stage.voters, len(stage.voters) // 2 + 1))


def everybody(stage: Stage, chance: random.Random) -> list[int]:
    return list(stage.members)


def named(nodes: Iterable[int]) -> str:
    nodes = list(nodes)
    return (
        ("node " if len(nodes) == 1 else "nodes ") + ", ".join(map(str, nodes))
        if nodes
        else "nobody"
    )


class Hits(Nemesis):
    def __init__(self, name: str, victims: Victims) -> None:
        self.name = name
        self._choose = victims
        self.victims: list[int] = []
