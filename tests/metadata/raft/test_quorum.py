"""Three voters as a cluster sees them: how fast they elect, what stalls do, who catches up how,
what observers get. Virtual time throughout.
"""

import gc
import pickle
from collections.abc import Callable
from statistics import median
from typing import Any

import pysyncobj.pickle
import pytest

from raftka.chaos.small.raft_cluster import Cluster, Node
from raftka.chaos.small.raft_life import run_seed
from raftka.limits import PROPOSALS_IN_FLIGHT
from raftka.metadata.quorum.raft import (
    Committed,
    EntryTooLarge,
    MalformedMessage,
    NotLeader,
    ProposalsFull,
    RaftConfig,
    Snapshot,
)
from tests.metadata.raft.lines import lines_of_syncobj

FLUSH = 0.003  # seconds


def cluster(seed: int = 0, voters: int = 3, **config: Any) -> Cluster:
    made = Cluster(voters, seed, RaftConfig(**config))
    made.disk_delay = lambda node: FLUSH
    return made


def seconds_until(which: Cluster, condition: Callable[[], bool]) -> float:
    began = which.now
    assert which.run(10, condition)
    return which.now - began


def load(which: Cluster, every: float = 0.02) -> None:
    """Proposals without end."""
    if which.leader is not None and not which.leader.paused:
        try:
            which.propose(b"x" * 200)
        except ProposalsFull:
            pass
    which.after(every, load, (which, every))


# elections


def test_one_voter_is_active_in_its_first_steps() -> None:
    alone = cluster(voters=1)

    alone.elect()

    assert alone.now <= 3 * FLUSH


@pytest.mark.parametrize("voters", [3, 5])
def test_a_new_cluster_elects_quickly(voters: int) -> None:
    times = []
    for seed in range(40):
        new = cluster(seed, voters)
        times.append(seconds_until(new, lambda new=new: new.leader is not None))  # type: ignore[misc]

    assert median(times) < 0.15
    assert max(times) < 0.3


def test_a_restarted_cluster_elects_quickly() -> None:
    times = []
    for seed in range(40):
        old = cluster(seed)
        old.elect()
        for voter in old.voters:
            old.crash(voter, power=True)
        for voter in old.voters:
            old.start(voter)
        times.append(seconds_until(old, lambda old=old: old.leader is not None))  # type: ignore[misc]

    assert median(times) < 0.15
    assert max(times) < 0.5


def test_a_killed_leader_is_replaced_at_once() -> None:
    times = []
    for seed in range(100):
        three = cluster(seed)
        killed = three.elect()
        three.run(1)
        three.crash(killed.id)
        times.append(seconds_until(three, lambda three=three: three.leader is not None))  # type: ignore[misc]

    assert median(times) < 0.15
    assert max(times) < 0.4


def test_a_stopped_leader_is_replaced_after_the_timeout() -> None:
    times = []
    for seed in range(100):
        three = cluster(seed)
        stopped = three.elect()
        three.run(1)
        stopped.paused = True
        times.append(
            seconds_until(
                three,
                lambda three=three, stopped=stopped: three.leader not in (None, stopped),  # type: ignore[misc]
            )
        )

    assert median(times) < 1.4
    assert max(times) < 1.8


@pytest.mark.parametrize("who", ["leader", "follower"])
def test_a_stall_of_half_a_second_elects_nobody(who: str) -> None:
    for seed in range(4):
        three = cluster(seed)
        leader = three.elect()
        load(three)
        three.run(1)
        for _ in range(3):
            node = leader if who == "leader" else three.nodes[leader.id % 3 + 1]
            node.paused = True
            three.run(0.5)
            node.resume()
            three.run(0.7)

        assert three.leader is leader
        assert leader.core.term == 1


def test_a_voter_that_lost_its_connection_to_the_leader_disturbs_nobody() -> None:
    three = cluster()
    leader = three.elect()
    other = leader.id % 3 + 1
    for link in ((leader.id, other), (other, leader.id)):
        three.net.cut.add(link)
        three.disconnect(*link)
    three.run(10)

    assert (three.leader, leader.core.term) == (leader, 1)
    three.net.cut.clear()
    three.connect(leader.id, other)
    three.run(5)
    assert (three.leader, leader.core.term) == (leader, 1)


def test_transfer_takes_some_round_trips_and_loses_nothing() -> None:
    three = cluster()
    old = three.elect()
    for n in range(50):
        three.propose(b"%d" % n)
    new = three.nodes[old.id % 3 + 1]
    old.core.transfer(new.id)
    old.wake()
    with pytest.raises(ProposalsFull):
        old.core.propose(b"meanwhile")

    assert seconds_until(three, lambda: new.leads) < 0.1
    three.settle()
    assert new.data == [b"%d" % n for n in range(50)]


def test_a_transfer_to_a_dead_voter_is_given_up() -> None:
    three = cluster()
    leader = three.elect()
    dead = leader.id % 3 + 1
    three.crash(dead)
    leader.core.transfer(dead)
    three.run(1.5)

    assert three.leader is leader
    three.propose(b"x")


def test_a_heartbeat_as_slow_as_the_timeout_is_refused() -> None:
    with pytest.raises(ValueError, match="a third"):
        RaftConfig(election_timeout=0.5, heartbeat=0.2)


# proposals and reads


def test_only_an_active_leader_takes_proposals() -> None:
    three = cluster()
    with pytest.raises(NotLeader):
        three.nodes[1].core.propose(b"x")
    leader = three.elect()
    three.run(0.5)

    with pytest.raises(NotLeader) as refused:
        three.nodes[leader.id % 3 + 1].core.propose(b"x")

    assert refused.value.leader == leader.id
    with pytest.raises(EntryTooLarge):
        leader.core.propose(bytes(8 * 1024 * 1024 + 1))
    for _ in range(PROPOSALS_IN_FLIGHT.value):
        leader.core.propose(b"x")
    with pytest.raises(ProposalsFull):
        leader.core.propose(b"x")


def test_the_largest_entry_arrives() -> None:
    three = cluster()
    three.elect()
    three.propose(bytes(8 * 1024 * 1024))
    three.settle()

    assert all(len(node.data[0]) == 8 * 1024 * 1024 for node in three.nodes.values())


def test_a_read_needs_one_round_trip_and_no_flush() -> None:
    three = cluster()
    leader = three.elect()
    three.settle()
    answers: list[int | None] = []
    began = three.now
    leader.core.read_index(answers.append)
    leader.wake()

    three.run(1, lambda: answers != [])

    assert answers == [leader.core.commit_index]
    assert three.now - began < FLUSH


def test_a_follower_answers_no_read() -> None:
    three = cluster()
    leader = three.elect()
    answers: list[int | None] = []
    three.nodes[leader.id % 3 + 1].core.read_index(answers.append)

    assert answers == [None]


# catching up


def with_snapshots(which: Cluster) -> None:
    """A state machine that is the list of what was proposed, for every node."""

    def state_of(node: Node) -> list[bytes]:
        values: list[bytes] = []
        for item in node.applied:
            values = (
                item.state.split()
                if isinstance(item, Snapshot)
                else values + ([item.data] if item.data else [])
            )
        return values

    for node in which.nodes.values():
        node.state_at = lambda index, node=node: b" ".join(state_of(node))
        node.values = lambda node=node: state_of(node)  # type: ignore[attr-defined]


def test_a_late_voter_gets_the_snapshot_and_what_follows() -> None:
    three = cluster(snapshot_every_bytes=5000, retain_entries=5, chunk_bytes=500, batch_bytes=1000)
    with_snapshots(three)
    leader = three.elect()
    late = leader.id % 3 + 1
    three.crash(late, power=True)
    for n in range(500):
        three.propose(b"%d" % n)
        three.run(0.01)
    three.start(late)
    three.settle()

    assert isinstance(three.nodes[late].applied[0], Snapshot)
    assert three.nodes[late].values() == [b"%d" % n for n in range(500)]  # type: ignore[attr-defined]
    three.crash(late, power=True)
    three.start(late)
    three.settle()
    assert three.nodes[late].values() == [b"%d" % n for n in range(500)]  # type: ignore[attr-defined]


def test_the_journal_stays_small() -> None:
    three = cluster(snapshot_every_bytes=5000, retain_entries=5)
    for node in three.nodes.values():
        node.state_at = lambda index: b"state"
    three.elect()
    for _ in range(500):
        three.propose(bytes(100))
        three.run(0.01)

    assert all(node.core.journal.size_bytes < 8000 for node in three.nodes.values())
    assert all(len(node.core.journal.entries) < 60 for node in three.nodes.values())


def test_a_little_late_needs_no_snapshot() -> None:
    three = cluster(snapshot_every_bytes=20_000, retain_entries=100)
    with_snapshots(three)
    leader = three.elect()
    late = three.nodes[leader.id % 3 + 1]
    late.paused = True
    for n in range(150):
        three.propose(b"%d" % n + bytes(100))
        three.run(0.002)
        if n == 120:
            leader.core.snapshot(leader.applied[-1].index, b"state")
    late.resume()
    three.settle()

    assert leader.core.journal.base.index > 0
    assert all(isinstance(item, Committed) for item in late.applied)


def test_a_lost_disk_is_made_good_and_votes_again() -> None:
    for seed in range(10):
        three = cluster(seed)
        leader = three.elect()
        for n in range(20):
            three.propose(b"%d" % n)
        three.settle()
        lost = three.nodes[leader.id % 3 + 1]
        three.crash(lost.id, power=True)
        lost.disk = type(lost.disk)()
        three.start(lost.id)
        assert not lost.core.formed
        three.run(2)

        assert lost.core.formed
        assert lost.data == [b"%d" % n for n in range(20)]
        three.crash(leader.id, power=True)  # now its vote is needed
        three.elect()


def test_observers_get_all_entries_in_bounded_answers() -> None:
    three = cluster(batch_bytes=1000)
    leader = three.elect()
    for n in range(100):
        three.propose(b"%03d" % n + bytes(97))
    three.settle()
    got: list[Committed] = []
    while True:
        answer = leader.core.observe(got[-1].index + 1 if got else 1)
        assert isinstance(answer, list)
        assert sum(len(item.data) for item in answer) < 1200
        if not answer:
            break
        got += answer

    assert [item.index for item in got] == list(range(1, leader.core.commit_index + 1))
    assert [item.data[:3] for item in got if item.data] == [b"%03d" % n for n in range(100)]
    leader.core.snapshot(50, b"fifty")
    leader.core._config = RaftConfig(retain_entries=0)
    leader.core.step(leader.now())
    assert leader.core.observe(50) == Snapshot(50, 1, b"fifty")
    answer = leader.core.observe(51)
    assert isinstance(answer, list)
    assert answer[0].index == 51


def test_an_idle_leader_wakes_for_heartbeats_only() -> None:
    three = cluster()
    three.elect()
    three.run(5)
    steps = 0

    def stepped(node: Node) -> None:
        nonlocal steps
        steps += 1

    for node in three.nodes.values():
        node.on_stepped = stepped
    three.run(10)

    assert steps < 10 / 0.2 * 6


# what comes from outside


@pytest.mark.parametrize(
    "garbage",
    [
        None,
        [],
        {},
        {"type": 1},
        {"type": "hello"},
        {"type": "shutdown"},
        {"type": "prevote", "term": -1, "last_log_index": 0, "last_log_term": 0},
        {"type": "prevote", "term": "1", "last_log_index": 0, "last_log_term": 0},
        {
            "type": "hello",
            "nonce": 1,
            "echo": 1,
            "ask": True,
            "standing": 9,
            "term": 0,
            "cluster": None,
            "voters": [1, 2, 3],
        },
        {
            "type": "snapshot",
            "term": 1,
            "seq": 1,
            "index": 1,
            "of_term": 1,
            "size": 2**60,
            "crc": 1,
            "position": 0,
            "data": b"",
        },
        {
            "type": "append_entries",
            "term": 1,
            "seq": 1,
            "commit_index": 0,
            "prevLogIdx": 0,
            "prevLogTerm": 0,
            "promote": [],
            "entries": [1],
        },
        {
            "type": "append_entries",
            "term": 1,
            "seq": 1,
            "commit_index": 0,
            "prevLogIdx": 0,
            "prevLogTerm": 0,
            "promote": [],
            "entries": [[b"\0x", 2, 1]],
        },
        {
            "type": "append_entries",
            "term": 1,
            "seq": 1,
            "commit_index": 0,
            "prevLogIdx": 0,
            "prevLogTerm": 0,
            "promote": [],
            "entries": [[b"\0x", 1, 2]],
        },
        {
            "type": "append_entries",
            "term": 1,
            "seq": 1,
            "commit_index": 0,
            "prevLogIdx": 0,
            "prevLogTerm": 0,
            "promote": [],
            "transmission": "start",
        },
    ],
)
def test_garbage_is_refused(garbage: Any) -> None:
    three = cluster()
    three.elect()
    with pytest.raises(MalformedMessage):
        three.nodes[1].core.receive(2, garbage)
    with pytest.raises(MalformedMessage):
        three.nodes[1].core.receive(1, {"type": "reject", "term": 1})


def test_no_pickle_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    def trap(*arguments: Any, **options: Any) -> None:
        raise AssertionError("pickle")

    for module in (pickle, pysyncobj.pickle):
        for name in ("load", "loads", "dump", "dumps"):
            monkeypatch.setattr(module, name, trap, raising=False)

    for seed in range(5):
        run_seed(seed)


def test_the_quorum_runs_on_pysyncobj() -> None:
    executed, whole = lines_of_syncobj(3)

    assert executed > whole * 0.15


def test_a_seed_replays_to_the_byte() -> None:
    runs = [run_seed(11) for _ in range(2)]
    gc.collect()

    assert runs[0].oracle.chain == runs[1].oracle.chain
    assert runs[0].cluster.now == runs[1].cluster.now
