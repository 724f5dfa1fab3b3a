"""The controller in a cluster: what it says holds. When it is deposed in the middle of a word: scenario `deposed_controller_confirms` of the zoo."""

from functools import partial

from raftka.chaos.simulated.cluster import Cluster
from raftka.metadata.commands import AllocateProducerIds, CreateTopics, NewTopic
from raftka.runtime.simulated import World


def test_what_is_refused_waits_for_what_it_was_refused_for() -> None:
    """A refusal shows what stands in the way: that must be committed too."""
    with World(2) as world:
        cluster = Cluster(world)
        cluster.wait_ready()
        leader = cluster.controller
        assert leader is not None
        world.network.isolate(f"n{leader}")
        node, told = cluster.nodes[leader], []
        host = node.quorum.host
        assert host is not None
        create = CreateTopics((NewTopic("trucks_gps", 1, 1),))
        for command in (create, create, AllocateProducerIds(leader, 12345)):
            world.at(world.now, partial(host.submit, command, lambda error, reply: told.append((error, reply))))
        world.run(world.now + 0.1)
        assert told == []
