"""A directed simulation of the metadata quorum alone, message by message: see directed.py."""

from raftka.chaos.small.raft_cluster import Cluster
from raftka.chaos.small.raft_oracle import Oracle
from raftka.metadata.quorum.raft import Message, RaftConfig
from tests.mutants.directed import finds
from tests.simulation.test_shutdown import (
    test_a_node_waits_for_controllers_that_were_killed,
    test_nodes_that_are_stopped_one_after_the_other_end_at_once,
)

ONE_BY_ONE = RaftConfig(batch_bytes=1)  # an entry a message


@finds
def commits_by_count_alone() -> None:
    """Figure 8 of the Raft paper: an entry of an earlier term that a majority has may still be
    replaced, so nobody may see it committed.
    """
    cluster = Cluster(5, seed=8, config=ONE_BY_ONE, start=False)
    oracle, net = Oracle(cluster), cluster.net
    for node in cluster.nodes.values():
        node.on_start = oracle.started
        cluster.start(node.id)
    first = cluster.elect()
    cluster.settle()

    # (a) an entry reaches one follower
    second, *others = (node for node in cluster.nodes.values() if node is not first)
    net.cut = {(first.id, node.id) for node in others}
    index = cluster.propose(b"of an earlier term")
    assert cluster.run(1.0, lambda: first.core.acknowledged(second.id) == index)

    # (b) one of the others leads, and keeps to itself what it writes at the same index
    for node in (first, second):
        cluster.crash(node.id)
    net.drop = lambda sender, receiver, message: bool(_indexes(message))
    assert cluster.run(20.0, lambda: any(node.core.state == "leader" for node in others))
    third = next(node for node in others if node.core.state == "leader")
    term = third.core.term
    assert third.core.journal.term_at(index) == term
    cluster.crash(third.id)

    # (c) who has the first entry leads again and brings it to a majority, but nothing of its own
    # term
    net.cut, net.drop = set(), lambda sender, receiver, message: index + 1 in _indexes(message)
    for node in (first, second):
        cluster.start(node.id)
    followers = [node for node in others if node is not third]
    assert cluster.run(
        20.0,
        lambda: any(
            all(leader.core.acknowledged(node.id) == index for node in followers)
            for leader in (first, second)
        ),
    )
    cluster.run(1.0)

    # (d) it dies, and the third one is elected: what it has is of a later term
    dead = first if first.core.state == "leader" else second
    cluster.crash(dead.id)
    net.drop = lambda sender, receiver, message: (
        message["type"] in ("prevote", "request_vote") and sender != third.id
    )
    cluster.start(third.id)
    assert cluster.elect(30.0) is third
    assert third.core.journal.term_at(index) == term

    cluster.start(dead.id)
    cluster.settle()
    oracle.logs_match()
    oracle.nothing_lost()


def _indexes(message: Message) -> list[int]:
    """Of the entries that it brings."""
    return [index for _, index, _ in message.get("entries", ())]


@finds
def node_ends_while_controllers_may_come_back() -> None:
    test_a_node_waits_for_controllers_that_were_killed()


@finds
def goodbye_of_a_controller_is_not_heard() -> None:
    test_nodes_that_are_stopped_one_after_the_other_end_at_once(0, 0.2)
