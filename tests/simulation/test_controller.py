"""The controller in a cluster: what it says holds, also when it is deposed in the middle of a word."""

from functools import partial
from typing import Any

from raftka.chaos.simulated.cluster import Cluster
from raftka.metadata.commands import AllocateProducerIds, Command, CreateTopics, Heartbeat, NewTopic
from raftka.runtime.simulated import World
from raftka.wire.errors import Code, KafkaError


def test_a_deposed_controller_tells_nothing_that_was_never_committed() -> None:
    """It took the commit index of the next leader's entries for that of its own, and confirmed an ISR that nobody else knew."""
    with World(1) as world:
        cluster = Cluster(world)
        cluster.wait_ready()
        old = cluster.controller
        assert old is not None
        told: list[tuple[KafkaError | None, Any]] = []
        node = cluster.nodes[old]
        host, core = node.quorum.host, node.quorum.core
        assert host is not None
        assert core is not None

        def ask(command: Command) -> None:
            host.submit(command, lambda error, reply: told.append((error, reply)))

        def ask_and_sleep() -> None:
            ask(AllocateProducerIds(old, node.link.broker_epoch))
            world.pause(f"n{old}")

        world.at(world.now, ask_and_sleep)
        world.run(world.now + 4.0)  # the next one commits more than the old one has proposed
        assert max(each.image.offset for each in cluster.nodes.values()) > core.last_index

        apply = node.apply

        def apply_and_ask(found: Any) -> None:
            """The broker asks its own controller while it takes over what the new one has decided."""
            ask(Heartbeat(old, node.link.broker_epoch, node.image.offset))
            apply(found)

        node.apply = apply_and_ask  # type: ignore[method-assign]
        world.resume(f"n{old}")
        assert world.run(lambda: len(told) > 1, at_most_s=30.0)
        assert {error.code if error is not None else None for error, _ in told} == {Code.NOT_CONTROLLER}


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
