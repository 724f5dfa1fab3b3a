"""The controller in a cluster: what it says holds.

When it is deposed in the middle of a word: the scenario `deposed_controller_confirms` of the
mutants.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial

import pytest

from raftka.broker.controller import controller_host
from raftka.broker.controller.controller_host import ControllerHost
from raftka.chaos.simulated.cluster import Cluster
from raftka.limits import PROPOSALS_IN_FLIGHT, Limit
from raftka.metadata.commands import AllocateProducerIds, Command, CreateTopics, NewTopic
from raftka.metadata.controller import walks
from raftka.metadata.controller.controller import Controller
from raftka.metadata.controller.decision import Context, Outcome
from raftka.metadata.quorum.raft_types import ProposalsFull
from raftka.metadata.records import Record
from raftka.runtime.simulated.world import World
from raftka.wire.errors import Code


def test_a_refusal_waits_for_the_commit_it_depends_on() -> None:
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
            world.at(
                world.now,
                partial(host.submit, command, lambda error, reply: told.append((error, reply))),
            )
        world.run(world.now + 0.1)
        assert told == []


PARTITIONS = 60


def test_a_controller_that_dies_between_two_portions_is_followed_by_one_that_finishes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The partitions of a broker that died, in entries of one partition each."""
    monkeypatch.setattr(walks, "PORTION_BYTES", 1)
    with World(3) as world:
        cluster = Cluster(world, nodes=5)
        cluster.wait_ready()
        cluster.settled(lambda: cluster.controller is not None)
        first = cluster.controller
        assert first is not None
        client = cluster.client()
        cluster.do(client, partial(client.create_topic, "t", PARTITIONS, 3))
        victim = next(each for each in cluster.nodes if each != first)
        before = _partitions_with(cluster, victim)
        _stops_after(first, 5, monkeypatch)
        cluster.kill(victim, power_loss=True)
        assert world.run(lambda: not cluster.newest.image.alive(victim), at_most_s=20.0)
        world.run(world.now + 0.2)
        assert 2 < _partitions_with(cluster, victim) < before

        cluster.kill(first, power_loss=True)
        assert cluster.settled(
            lambda: (
                cluster.controller not in (None, first) and not _partitions_with(cluster, victim)
            )
        )


def _partitions_with(cluster: Cluster, broker: int) -> int:
    return sum(broker in partition.isr for partition in cluster.all_partitions())


def _stops_after(controller: int, entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """That node's controller appends no more entries than these from now on."""
    append, appended = ControllerHost._append, []

    def stops(self: ControllerHost, records: Sequence[Record]) -> None:
        if records and self.context.node_id == controller:
            appended.append(records)
            if len(appended) > entries:
                raise ProposalsFull(len(appended))
        append(self, records)

    monkeypatch.setattr(ControllerHost, "_append", stops)


COMMANDS = 200


def test_many_commands_at_once_are_decided_in_order_and_in_several_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For the simulated clock a command takes a tenth of a millisecond: fifty of them fill what a
    turn has for them.
    """
    with World(4) as world:
        cluster = Cluster(world)
        cluster.wait_ready()
        assert cluster.controller is not None
        node = cluster.nodes[cluster.controller]
        host, turns = node.quorum.host, [0]
        decided: list[tuple[str, int]] = []
        assert host is not None
        decide = Controller.decide

        def counted(self: Controller, command: Command, context: Context) -> Outcome:
            if isinstance(command, CreateTopics):
                decided.append((command.topics[0].name, turns[0]))
            return decide(self, command, context)

        monkeypatch.setattr(Controller, "decide", counted)

        def execute_in_next_turn() -> None:
            turns[0] += 1
            ControllerHost._execute_waiting(host)

        monkeypatch.setattr(host, "_execute_waiting", execute_in_next_turn)
        told: list[object] = []
        names = [f"t{i}" for i in range(COMMANDS)]

        def ask() -> None:
            for name in names:
                host.submit(
                    CreateTopics((NewTopic(name, 1, 1),), validate_only=True),
                    lambda error, reply: told.append(error),
                )

        world.at(world.now, ask)
        assert world.run(lambda: len(told) == COMMANDS, at_most_s=10.0)
        assert told == [None] * COMMANDS
        assert [name for name, _ in decided] == names
        of_turn = Counter(turn for _, turn in decided)
        assert max(of_turn.values()) <= 51


def test_commands_beyond_the_limit_are_refused_and_those_before_it_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        controller_host,
        "PROPOSALS_IN_FLIGHT",
        Limit(PROPOSALS_IN_FLIGHT.name, 10, PROPOSALS_IN_FLIGHT.reason),
    )
    with World(5) as world:
        cluster = Cluster(world)
        cluster.wait_ready()
        assert cluster.controller is not None
        host = cluster.nodes[cluster.controller].quorum.host
        assert host is not None
        told: list[Code] = []

        def ask() -> None:
            for number in range(COMMANDS):
                command = CreateTopics((NewTopic(f"t{number}", 1, 1),), validate_only=True)
                host.submit(
                    command,
                    lambda error, reply: told.append(
                        error.code if error is not None else Code.NONE
                    ),
                )

        world.at(world.now, ask)
        assert world.run(lambda: len(told) == COMMANDS, at_most_s=10.0)
        counts = Counter(told)
        assert counts.keys() == {Code.NONE, Code.NOT_CONTROLLER}
        assert 10 < counts[Code.NONE] <= 61
