"""Directed simulations of voters that come and go, message by message: see directed.py. Each leads
to two majorities without a common voter, where the rule of its name does not hold.
"""

from collections.abc import Iterable
from contextlib import suppress

from raftka.chaos.simulated.scene import Scene
from raftka.chaos.small.raft_cluster import Cluster, Node
from raftka.chaos.small.raft_life import as_voter
from raftka.chaos.small.raft_oracle import Oracle
from raftka.metadata.quorum.raft import Message, NotLeader, RaftConfig, VotersRefused
from raftka.metadata.quorum.voter_sets import make_set
from raftka.runtime.simulated.world import World
from raftka.wire.errors import Code
from raftka.wire.messages.quorum import UPDATE_RAFT_VOTER
from tests.broker.stage import CONTROLLER_PORT, Wire
from tests.mutants.directed import finds
from tests.simulation.formatted import METADATA, Formatted
from tests.simulation.voters import add, raise_level


class Stage:
    """A quorum whose log has its voters, and nodes that follow it."""

    def __init__(self, voters: int, later: int) -> None:
        config = RaftConfig(retain_entries=0)
        self.cluster = Cluster(voters, 3, config, start=False, later=later)
        self.oracle = Oracle(self.cluster)
        for node in self.cluster.nodes.values():
            node.on_start = self.oracle.started
            self.cluster.start(node.id)
        self.leader = self.cluster.elect()
        self.change(self.leader, self.leader.core.voters)
        self.cluster.settle()
        self.cluster.founders = []
        assert self.leader.core.voter_set is not None
        self.others = [
            self.cluster.nodes[each] for each in self.leader.core.voters if each != self.leader.id
        ]
        self.later = [self.cluster.nodes[each] for each in range(voters + 1, voters + later + 1)]
        assert self.cluster.run(5.0, self.all_have_caught_up)

    def all_have_caught_up(self) -> bool:
        core = self.leader.core
        return all(core.has_caught_up(node.id, node.directory_id) for node in self.later)

    def change(self, leader: Node, voters: Iterable[int]) -> None:
        leader.core.change_voters(make_set(as_voter(self.cluster.nodes[each]) for each in voters))
        leader.wake()

    def come(self, leader: Node, *nodes: Node) -> None:
        self.change(leader, {*leader.core.voters, *(node.id for node in nodes)})

    def leave(self, leader: Node, node: Node) -> None:
        self.change(leader, set(leader.core.voters) - {node.id})

    def cut(self, *side: Node) -> None:
        """Cut these nodes off from all others."""
        ids = {node.id for node in side}
        pairs = {(a, b) for a in ids for b in self.cluster.nodes.keys() - ids}
        self.cluster.net.cut = pairs | {(b, a) for a, b in pairs}

    def both_sides_write(self, seconds: float = 8.0) -> None:
        """Let each node that leads propose, for so long; then mend the network and compare."""
        for _ in range(round(seconds / 0.5)):
            for node in self.cluster.nodes.values():
                if node.leads:
                    node.core.propose(b"by %d" % node.id)
                    node.wake()
            self.cluster.run(0.5)
        self.mend()

    def mend(self) -> None:
        self.cluster.net.cut = set()
        self.cluster.net.drop = lambda sender, receiver, message: False
        for node in self.cluster.nodes.values():
            if not node.alive:
                self.cluster.start(node.id)
        self.cluster.run(5.0)
        self.cluster.settle()
        self.oracle.logs_match()
        self.oracle.nothing_lost()


@finds
def two_changes_of_the_voters_at_once() -> None:
    """A leader and two nodes that come, on one side, are a majority of five; the two others are one
    of three.
    """
    stage = Stage(3, 2)
    stage.cut(stage.leader, *stage.later)
    stage.come(stage.leader, stage.later[0])
    with suppress(VotersRefused):
        stage.come(stage.leader, stage.later[1])
    stage.both_sides_write()


@finds
def many_voters_come_at_once() -> None:
    stage = Stage(3, 2)
    stage.cut(stage.leader, *stage.later)
    with suppress(VotersRefused):
        stage.come(stage.leader, *stage.later)
    stage.both_sides_write()


@finds
def voters_change_before_an_own_entry_is_committed() -> None:
    """The first leader brings one voter more to nobody but that node, the second one takes a voter
    away, and the first one is elected again.
    """
    stage = Stage(4, 1)
    first, (comes,) = stage.leader, stage.later
    second, third, lags = stage.others
    stage.cut(first, comes)
    stage.come(first, comes)
    stage.cluster.net.drop = lambda sender, receiver, message: (
        (receiver == lags.id and message["type"] == "append_entries")
        or (sender in (third.id, lags.id) and message["type"] == "prevote")
    )
    assert stage.cluster.run(20.0, lambda: second.core.state == "leader")
    with suppress(NotLeader, VotersRefused):
        stage.leave(second, first)
    stage.cluster.run(0.5)

    stage.cluster.crash(second.id)
    stage.cluster.crash(third.id)
    stage.cut(first, comes, lags)
    stage.cluster.net.drop = lambda sender, receiver, message: False
    stage.cluster.run(10.0)
    stage.mend()


@finds
def set_counts_from_its_commit_on() -> None:
    """Two voters have both sets and do not know that these are committed; the leader does."""
    stage = Stage(3, 2)
    known = stage.leader.core.commit_index
    late = {node.id for node in stage.others}

    def tell_no_commit(sender: int, receiver: int, message: Message) -> bool:
        if receiver in late and message["type"] == "append_entries":
            message["commit_index"] = min(message["commit_index"], known)
        return False

    stage.cluster.net.drop = tell_no_commit
    for node in stage.later:
        stage.come(stage.leader, node)
        core = stage.leader.core
        index = core.last_index
        assert stage.cluster.run(0.5, lambda: core.commit_index >= index)  # noqa: B023  # at once
    stage.cut(stage.leader, *stage.later)
    stage.both_sides_write()


@finds
def set_outlives_its_entry() -> None:
    """A set is cut off. Its proposer leads again, and takes the next step from there."""
    stage = Stage(3, 1)
    first, (comes,) = stage.leader, stage.later
    stage.cut(first, comes)
    stage.leave(first, stage.others[1])
    cluster = stage.cluster
    assert cluster.run(20.0, lambda: any(node.leads for node in stage.others))
    stage.cluster.net.cut = set()
    cluster.run(1.0)
    cluster.settle()
    leader = cluster.leader
    assert leader is not None
    leader.core.transfer(first.id)
    leader.wake()
    assert cluster.run(5.0, lambda: first.leads)
    cluster.settle()

    stage.cut(first, comes)
    with suppress(VotersRefused):
        stage.come(first, comes)
    stage.both_sides_write()


@finds
def node_without_entries_becomes_a_voter() -> None:
    """The second voter has no entries and no leader without it that could give them: the quorum
    would be lost with the commit.
    """
    stage = Stage(1, 1)
    (comes,) = stage.later
    stage.cluster.crash(comes.id, power=True)
    comes.lose_disk()
    stage.cluster.start(comes.id)

    def is_voter() -> bool:
        with suppress(VotersRefused, NotLeader):
            if comes.id not in stage.leader.core.voters:
                stage.come(stage.leader, comes)
        return comes.core.formed and comes.core.voters == [1, 2]

    assert stage.cluster.run(10.0, is_voter)
    stage.cluster.settle()
    stage.oracle.nothing_lost()


@finds
def removed_leader_goes_on() -> None:
    stage = Stage(3, 0)
    stage.leave(stage.leader, stage.leader)
    stage.cluster.run(5.0)
    stage.cluster.settle()
    assert stage.cluster.leader in stage.others
    assert stage.cluster.leader.core.voters == sorted(node.id for node in stage.others)


@finds
def snapshot_without_voters() -> None:
    """A node that begins with a snapshot counts by the set of its index."""
    stage = Stage(1, 2)
    cluster, leader = stage.cluster, stage.leader
    comes, late = stage.later
    stage.come(leader, comes)
    cluster.settle()
    cluster.crash(late.id)
    assert leader.state_at is not None
    leader.core.snapshot(leader.core.commit_index, leader.state_at(leader.core.commit_index))
    for number in range(3):
        cluster.propose(b"%d" % number)
    cluster.run(1.0)
    late.lose_disk()
    cluster.start(late.id)
    cluster.run(2.0)
    cluster.settle()
    assert late.core.voters == leader.core.voters == [leader.id, comes.id]


def followers_of_one_voter(world: World) -> Scene:
    """A cluster of three whose log has its voter."""
    scene = Scene(world, nodes=3, voters=1, later_voters=(2, 3))
    raise_level(scene)
    return scene


@finds
def voter_is_at_an_address_where_nobody_answers() -> None:
    with World(1) as world:
        code, _ = add(followers_of_one_voter(world), 2, port=CONTROLLER_PORT + 1)
        assert code == Code.REQUEST_TIMED_OUT


@finds
def formatted_node_forms_a_quorum_twice() -> None:
    """The node alone is the first quorum. Then its log is gone, and nothing else."""
    with Formatted(1, voters=1) as stage:
        first = stage.nodes[1].image.cluster_id
        stage.kill(1)
        directory, name = stage.world.disk("n1").parent(f"{METADATA}/journal")
        directory.change({name: None})
        stage.start(1)
        stage.world.run(stage.world.now + 20)
        assert stage.nodes[1].image.cluster_id in (None, first), "another cluster is formed"


@finds
def client_moves_a_voter_to_another_directory() -> None:
    with World(1) as world:
        scene = followers_of_one_voter(world)
        request = UPDATE_RAFT_VOTER.request
        row = request(
            current_leader_epoch=scene.cluster.newest.quorum.term,
            voter_id=1,
            voter_directory_id=bytes(15) + b"\x01",
            listeners=[request.listeners(name="CONTROLLER", host="n1", port=CONTROLLER_PORT)],
            k_raft_version_feature=request.k_raft_version_feature(max_supported_version=1),
        )
        wire = Wire(world, scene.client.runtime, "n1", CONTROLLER_PORT)
        assert wire.ask(UPDATE_RAFT_VOTER, row).error_code == Code.VOTER_NOT_FOUND
