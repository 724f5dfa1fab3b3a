"""Directed simulations of releases that meet: see directed.py. Each is of one process, which plays
the later release for a while.
"""

from typing import Any

import pytest

from raftka.broker.controller import quorum
from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.scene import Scene
from raftka.metadata.commands import ElectLeaders
from raftka.runtime.simulated.world import World
from raftka.versions import RAFTKA_VERSION, NewerFormat
from raftka.wire.errors import Code
from raftka.wire.messages.quorum import UPDATE_FEATURES
from tests.kit.versions.later_release import LEVEL, play_later_release
from tests.mutants.directed import finds


@finds
def command_of_a_later_release_ends_the_connection() -> None:
    """A broker passes on what its clients ask for, to a controller that does not know it."""
    with World(1) as world, pytest.MonkeyPatch.context() as patch:
        cluster = Scene(world).cluster
        sender = next(each for each in cluster.nodes if each != cluster.controller)
        answers: list[Any] = []
        patch.setattr(quorum, "to_wire", lambda command: ("CommandToCome", tuple(command)))
        cluster.nodes[sender].controller.call(
            ElectLeaders(0), lambda error, reply: answers.append(error)
        )
        assert world.run(lambda: bool(answers), at_most_s=1.0), "no answer came"
        assert answers[0].code is Code.UNSUPPORTED_VERSION
        assert "does not know CommandToCome" in answers[0].message
        assert not cluster.log.saying("controller_connection_lost", "broker_suspected")


@finds
def data_of_a_later_release_are_taken() -> None:
    with World(1) as world:
        with pytest.MonkeyPatch.context() as patch:
            play_later_release(patch)
            cluster = _raised(world)
            cluster.stop(1)
        before = cluster.disk(1).content()
        cluster.start(1)
        world.run(world.now + 1.0)
        assert isinstance(cluster.refused.get(1), NewerFormat), "the node begins with later data"
        assert cluster.disk(1).content() == before, "later data are altered"


def _raised(world: World) -> Cluster:
    """A cluster at the level of the later release."""
    cluster = Cluster(world, 1)
    cluster.wait_ready()
    client, request = cluster.client(), UPDATE_FEATURES.request
    update = request.feature_updates(feature=RAFTKA_VERSION, max_version_level=LEVEL)
    row = request(timeout_ms=5_000, feature_updates=[update])
    cluster.do(client, lambda: client.anybody(UPDATE_FEATURES, row))
    assert cluster.settled(lambda: cluster.nodes[1].image.level == LEVEL)
    return cluster
