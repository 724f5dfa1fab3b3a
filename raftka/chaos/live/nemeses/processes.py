"""Processes that are killed, stopped, restarted in turn, short of a processor."""

import os
import random
from pathlib import Path

from raftka.chaos.live.nemeses.nemesis import Hits, Nemesis, named, one
from raftka.chaos.live.stage import Stage

ROLLED_S = 20.0  # a node has so long to come back


class Kill(Hits):
    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        self.victims = self._choose(stage, chance)
        stage.kill(*self.victims)
        return f"SIGKILL to {named(self.victims)}"

    def bitten(self, stage: Stage) -> bool:
        return bool(self.victims) and not set(self.victims) & set(stage.alive)

    def end(self, stage: Stage) -> None:
        for node_id in self.victims:
            stage.start(node_id)


class Pause(Hits):
    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        self.victims = self._choose(stage, chance)
        for node_id in self.victims:
            stage.pause(node_id)
        return f"SIGSTOP to {named(self.victims)}"

    def bitten(self, stage: Stage) -> bool:
        paused = [
            stage.nodes[node_id].pid for node_id in self.victims if stage.nodes[node_id].alive
        ]
        return any("\nState:\tT" in Path(f"/proc/{pid}/status").read_text() for pid in paused)

    def end(self, stage: Stage) -> None:
        for node_id in self.victims:
            stage.resume(node_id)


class Roll(Nemesis):
    """Each in turn ends in order and comes back."""

    name = "rolling-restart"

    def __init__(self) -> None:
        self._rolled = 0

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        self._rolled = 0
        order = chance.sample(stage.members, len(stage.members))
        for node_id in order:
            stage.end(node_id)
            stage.start(node_id)
            stage.wait_for(lambda node_id=node_id: stage.ready(node_id), ROLLED_S)  # type: ignore[misc]
            self._rolled += 1
        return f"{named(order)} restarted in turn"

    def bitten(self, stage: Stage) -> bool:
        return self._rolled == len(stage.members)

    def end(self, stage: Stage) -> None:
        pass


class Throttle(Nemesis):
    """A node gets a tenth of a processor; needs a cgroup that we may write."""

    name = "cpu-throttle"
    PERIOD_US, QUOTA_US = 100_000, 10_000

    def __init__(self) -> None:
        self._group: Path | None = None
        self._home: Path | None = None
        self._victim = 0

    def missing(self, stage: Stage) -> str:
        try:
            group = self._make()
            group.rmdir()
        except OSError as error:
            return f"no cgroup of processors can be made: {error.strerror}"
        return ""

    def _make(self) -> Path:
        old, new = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
        self._home = old if old.is_dir() else new
        group = self._home / f"raftka-chaos-{os.getpid()}"
        group.mkdir()
        try:
            if old.is_dir():
                (group / "cpu.cfs_period_us").write_text(f"{self.PERIOD_US}")
                (group / "cpu.cfs_quota_us").write_text(f"{self.QUOTA_US}")
            else:
                (group / "cpu.max").write_text(f"{self.QUOTA_US} {self.PERIOD_US}")
        except OSError:
            group.rmdir()
            raise
        return group

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        self._victim = (one(stage, chance) or [0])[0]
        self._group = self._make()
        if self._victim:
            (self._group / "cgroup.procs").write_text(f"{stage.nodes[self._victim].pid}")
        return f"node {self._victim} gets a tenth of a processor"

    def bitten(self, stage: Stage) -> bool:
        assert self._group is not None
        words = (self._group / "cpu.stat").read_text().split()
        return int(dict(zip(words[::2], words[1::2], strict=True)).get("nr_throttled", "0")) > 0

    def end(self, stage: Stage) -> None:
        assert self._group is not None
        assert self._home is not None
        for pid in (self._group / "cgroup.procs").read_text().split():
            (self._home / "cgroup.procs").write_text(pid)
        self._group.rmdir()
