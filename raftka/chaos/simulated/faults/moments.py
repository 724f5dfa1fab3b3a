"""Faults that wait for a moment: armed by the schedule, they strike in the midst of what a node
does (nemeses.py). The moment may never come.
"""

from contextlib import AbstractContextManager, nullcontext

from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.faults.incident import Incident, Scene, kind
from raftka.chaos.simulated.faults.nemeses import AWAY_S, MOMENTS, Nemesis

ARMED_S = (0.5, 4.0)
ODDS = (1, 1, 3, 10)


class Lurker(Nemesis):
    """The nemesis of one life. One moment at a time: who is armed later takes the place."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(tuple(MOMENTS), seconds=0.0)
        self.scene = scene
        self._incident: Incident | None = None

    def arm(self, it: Incident, moment: str, odds: int, seconds: float) -> None:
        self._incident, self._cluster, self._random = it, it.cluster, it.random
        self._moments = {moment: odds}
        self._not_before, self._until = it.world.now, it.world.now + seconds

    def _came(self, name: str) -> None:
        if self._incident is None or self.scene.over or self.scene.preparing:
            return
        before = len(self.struck)
        try:
            super()._came(name)
        finally:
            for blow in self.struck[before:]:
                self._incident.note(blow.what)

    def _back(self, cluster: Cluster, node_id: int) -> None:
        assert self._incident is not None
        it = self._incident
        it.later(it.random.uniform(*AWAY_S), lambda: it.start(node_id))

    def _isolate(self, cluster: Cluster, node_id: int) -> None:
        assert self._incident is not None
        it, name = self._incident, f"n{node_id}"
        links = [
            link
            for other in cluster.nodes
            if other != node_id
            for link in ((name, f"n{other}"), (f"n{other}", name))
        ]
        for a, b in links:
            it.world.network.cut(a, b, one_way=True)
        it.hold(*links)
        it.later(it.random.uniform(0.2, 5.0), lambda: it.let_go(*links))


def lurking(lurker: Lurker | None) -> AbstractContextManager[object]:
    return lurker.lurking() if lurker is not None else nullcontext()


@kind
def lurk(it: Incident) -> None:
    lurker = it.scene.lurker
    if lurker is not None:
        lurker.arm(
            it, it.random.choice(list(MOMENTS)), it.random.choice(ODDS), it.random.uniform(*ARMED_S)
        )
