"""Faults of disks (slow, full, failing, lying), losses of power, and wrong clocks, made by the shim
under each node.
"""

import random
from collections.abc import Callable

from raftka.chaos.live.nemeses.nemesis import Hits, Victims, named
from raftka.chaos.live.shim import LYING
from raftka.chaos.live.stage import Stage


class Disk(Hits):
    """A fault made by `fields` of the shim. When it ends the victims are restarted."""

    def __init__(
        self,
        name: str,
        victims: Victims,
        counter: str,
        said: str,
        fields: Callable[[random.Random], dict[str, int]],
    ) -> None:
        super().__init__(name, victims)
        self._counter, self._said, self._fields = counter, said, fields
        self._before: dict[int, int] = {}
        self._values: dict[str, int] = {}

    def missing(self, stage: Stage) -> str:
        return stage.no_shim

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        self.victims = self._choose(stage, chance)
        self._before = {
            node_id: stage.shims[node_id].count(self._counter) for node_id in self.victims
        }
        self._values = self._fields(chance)
        for node_id in self.victims:
            stage.expected.add(node_id)
            stage.shims[node_id].set(**self._values)
        return f"{self._said} of {named(self.victims)}" + "".join(
            f", {name} {value}" for name, value in self._values.items() if value > 99
        )

    def bitten(self, stage: Stage) -> bool:
        return any(
            stage.shims[node_id].count(self._counter) > before
            for node_id, before in self._before.items()
        )

    def end(self, stage: Stage) -> None:
        self._heal(stage)
        for node_id in self.victims:
            stage.kill(node_id)  # where a log could not be written the broker has withdrawn
            stage.start(node_id)

    def _heal(self, stage: Stage) -> None:
        """End this fault alone: another one may be on the same disk."""
        for node_id in self.victims:
            stage.shims[node_id].set(**dict.fromkeys(self._values, 0))


class Slow(Disk):
    def end(self, stage: Stage) -> None:
        self._heal(stage)
        for node_id in self.victims:
            stage.count_on(node_id)


class Clock(Slow):
    """A clock that jumps, and jumps back at the end."""


class PowerLoss(Hits):
    """A loss of power on all victims at once: bytes that were not flushed are gone."""

    def __init__(self, name: str, victims: Victims) -> None:
        super().__init__(name, victims)
        self.lost = 0

    def missing(self, stage: Stage) -> str:
        return stage.no_shim

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        self.victims = self._choose(stage, chance)
        stage.kill(*self.victims)
        self.lost = sum(stage.shims[node_id].lose_power(chance) for node_id in self.victims)
        return (
            f"no power for {named(self.victims)}, {self.lost:,} bytes that were not flushed are "
            "gone"
        )

    def bitten(self, stage: Stage) -> bool:
        return bool(self.victims) and not set(self.victims) & set(stage.alive)

    def end(self, stage: Stage) -> None:
        for node_id in self.victims:
            stage.start(node_id)


class LyingDisks(PowerLoss):
    """Flushes that report success and write nothing, until the power fails: data that was
    acknowledged meanwhile is gone.
    """

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        self.victims = self._choose(stage, chance)
        self._chance = chance
        for node_id in self.victims:
            stage.shims[node_id].set(flush=LYING)
        return f"the disks of {named(self.victims)} lie, then there is no power"

    def bitten(self, stage: Stage) -> bool:
        return all(stage.shims[node_id].count("flushes_lied") > 0 for node_id in self.victims)

    def end(self, stage: Stage) -> None:
        stage.kill(*self.victims)
        self.lost = sum(stage.shims[node_id].lose_power(self._chance) for node_id in self.victims)
        for node_id in self.victims:
            stage.shims[node_id].heal()
            stage.start(node_id)
