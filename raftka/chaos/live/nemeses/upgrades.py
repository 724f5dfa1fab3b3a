"""An operator who takes nodes to the present release and back, and in the end makes it for good."""

import random

from raftka.chaos.live.nemeses.nemesis import Nemesis, one
from raftka.chaos.live.stage import Stage
from raftka.chaos.simulated.releases import PRESENT, Release, raised_levels
from raftka.cluster.processes import ClusterFailed
from raftka.wire.messages.quorum import UPDATE_FEATURES

READY_S = 20.0  # a node has so long to come back
TIMEOUT_MS = 5_000
TRIES = 10  # of the upgrade of features: controllers that have just begun may not have met


class Upgrade(Nemesis):
    """One node ends in order and starts with the other release: the present one if it had the
    earlier one, else the earlier one.
    """

    name = "upgrade"

    def __init__(self, earlier: Release) -> None:
        self._earlier = earlier
        self._victim = 0

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        self._victim = (one(stage, chance) or [0])[0]
        if not self._victim:
            return "no node to upgrade"
        to_present = stage.nodes[self._victim].release is not None
        self._restart(stage, self._victim, to_present=to_present)
        release = PRESENT if to_present else self._earlier
        return f"node {self._victim} starts {release.name}"

    def _restart(self, stage: Stage, node_id: int, *, to_present: bool) -> None:
        stage.end(node_id)
        stage.nodes[node_id].release = None if to_present else stage.earlier
        stage.start(node_id)
        stage.wait_for(lambda: stage.ready(node_id), READY_S)

    def bitten(self, stage: Stage) -> bool:
        return self._victim in stage.alive and stage.nodes[self._victim].ready

    def end(self, stage: Stage) -> None:
        pass

    def settle(self, stage: Stage) -> None:
        """Bring the rest to the present release, and raise the levels of features. Raises
        ClusterFailed.
        """
        for node_id in stage.members:
            if stage.nodes[node_id].release is not None:
                self._restart(stage, node_id, to_present=True)
        stage.wait_ready()
        request = UPDATE_FEATURES.request
        updates = [
            request.feature_updates(feature=name, max_version_level=level)
            for name, level in raised_levels(self._earlier).items()
        ]
        row = request(timeout_ms=TIMEOUT_MS, feature_updates=updates)
        for _ in range(TRIES):
            answer = stage.ask_anybody(UPDATE_FEATURES, row)
            if answer is not None and not answer.error_code:
                return
        raise ClusterFailed(f"the levels of features are not raised: {answer}")
