"""Voters that come and go: what a leader refuses, what a log and a snapshot keep, and twenty seeds
of one voter that becomes three, five and three again.
"""

import pytest

from raftka.chaos.small.memory_files import MemoryFiles
from raftka.chaos.small.raft_life import SIZES, run_voters_seed
from raftka.limits import QUORUM_VOTERS
from raftka.metadata.quorum.journal import Journal
from raftka.metadata.quorum.raft import MalformedMessage, NotLeader, Snapshot, VotersRefused
from raftka.metadata.quorum.raft_messages import check_message
from raftka.metadata.quorum.raft_types import NO_OP, REGULAR, Entry
from raftka.metadata.quorum.raft_voters import VoterSets
from raftka.metadata.quorum.voter_sets import (
    MalformedVoters,
    QuorumVoter,
    VoterSet,
    data_in,
    decode_set,
    encode_set,
    make_set,
    put_before,
    set_in,
    take_off,
    voters_command,
)
from tests.mutants.scenarios_of_voters import Stage


def voters(*ids: int) -> VoterSet:
    return make_set(
        QuorumVoter(each, b"%16d" % each, (("CONTROLLER", f"n{each}", 9093),)) for each in ids
    )


@pytest.mark.parametrize("first", range(0, 20, 10))
def test_no_promise_is_broken_while_voters_come_and_go(first: int) -> None:
    for seed in range(first, first + 10):
        run = run_voters_seed(seed)

        assert run.reached == list(SIZES)
        assert run.changes >= 7


def test_a_set_is_encoded_with_records_behind_it() -> None:
    command = voters_command(voters(3, 1), b"records")

    assert set_in(command) == voters(1, 3)
    assert data_in(command) == b"records"
    assert (data_in(REGULAR + b"x"), data_in(NO_OP)) == (b"x", b"")
    assert set_in(REGULAR + b"x") is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x05\x00\x00\x00",
        b"\x01\x00\x00\x00\xc1",
        encode_set(()),
        encode_set((voters(2)[0], voters(1)[0])),
        encode_set(voters(*range(1, QUORUM_VOTERS.value + 2))),
        encode_set((voters(1)[0]._replace(directory_id=b"short"),)),
        encode_set((voters(1)[0]._replace(endpoints=((1, 2, 3),)),)),  # type: ignore[arg-type]
        encode_set((voters(1)[0]._replace(node_id=-1),)),
    ],
)
def test_what_is_no_set_is_refused(data: bytes) -> None:
    entry = [b"\x10" + data, 1, 1]
    message = {"type": "append_entries", "term": 1, "seq": 1, "commit_index": 0, "prevLogIdx": 0}
    message |= {"prevLogTerm": 0, "promote": [], "entries": [entry]}

    with pytest.raises(MalformedVoters):
        decode_set(data)
    with pytest.raises(MalformedMessage):
        check_message(message)


def test_the_last_set_of_a_log_counts_until_it_is_cut_off() -> None:
    journal = Journal.open(MemoryFiles(), "raft", 1)
    sets = VoterSets([1, 2, 3], journal)
    for index, command in enumerate(
        (
            NO_OP,
            voters_command(voters(1, 2, 3), b""),
            REGULAR + b"x",
            voters_command(voters(1), b""),
        ),
        start=1,
    ):
        entry = Entry(command, index, 1)
        journal.append(entry)
        sets.appended(entry)

    assert (set(sets.ids), sets.index) == ({1}, 4)
    assert [sets.at(index) for index in (1, 2, 3, 4)] == [
        None,
        voters(1, 2, 3),
        voters(1, 2, 3),
        voters(1),
    ]
    sets.cut(4)
    assert (set(sets.ids), sets.index) == ({1, 2, 3}, 2)
    sets.cut(2)
    assert (set(sets.ids), sets.index, sets.current) == ({1, 2, 3}, 0, None)


def test_a_snapshot_has_the_set_before_its_state() -> None:
    disk = MemoryFiles()
    journal = Journal.open(disk, "raft", 1)
    journal.append(Entry(NO_OP, 1, 1))
    journal.take_sync()
    journal.synced()
    journal.compact(1, put_before(voters(1, 2), b"state"), keep_from=2)
    journal.close()

    again = Journal.open(disk.copy(), "raft", 1)
    assert again.read_snapshot() == Snapshot(1, 1, b"state")
    assert VoterSets([], again).ids == {1, 2}
    assert take_off(b"state") == (None, b"state")


def test_a_leader_takes_one_safe_change_at_a_time() -> None:
    stage = Stage(3, 2)
    leader, (one, other) = stage.leader, stage.later
    core = leader.core

    with pytest.raises(VotersRefused, match="one voter comes or goes at a time"):
        stage.come(leader, one, other)
    with pytest.raises(VotersRefused, match="one voter comes or goes at a time"):
        stage.change(leader, (leader.id, one.id))
    with pytest.raises(NotLeader):
        stage.leave(stage.others[0], leader)
    stage.come(leader, one)
    with pytest.raises(VotersRefused, match="not committed yet"):
        stage.come(leader, other)
    stage.cluster.settle()
    stage.come(leader, other)
    stage.cluster.settle()
    assert core.voters == [1, 2, 3, 4, 5]
    assert {tuple(node.core.voters) for node in stage.cluster.nodes.values()} == {(1, 2, 3, 4, 5)}


def test_a_node_of_another_directory_has_not_caught_up() -> None:
    stage = Stage(1, 1)
    (comes,) = stage.later
    comes.disks += 1  # the next start is on it

    with pytest.raises(VotersRefused, match="node 2 has not caught up"):
        stage.come(stage.leader, comes)


def test_voters_are_not_removed_when_the_others_have_no_majority() -> None:
    """As in V7 of Kafka: the record would stay in the leader's log and count there."""
    stage = Stage(3, 0)
    for node in stage.others:
        stage.cluster.crash(node.id)
    stage.cluster.run(1.1)

    with pytest.raises(VotersRefused, match="a majority of these voters does not answer"):
        stage.leave(stage.leader, stage.others[0])


def test_a_leader_that_is_removed_hands_over_at_once() -> None:
    stage = Stage(3, 0)
    leader, cluster = stage.leader, stage.cluster
    began = cluster.now
    stage.leave(leader, leader)

    assert cluster.run(5.0, lambda: cluster.leader is not None and cluster.leader is not leader)
    assert cluster.now - began < 0.1
    cluster.settle()
    assert not leader.core.active
    assert leader.core.voters == sorted(node.id for node in stage.others)


def test_a_removed_voter_follows_the_log_and_disturbs_no_one() -> None:
    stage = Stage(3, 0)
    leader, (gone, _) = stage.leader, stage.others
    stage.leave(leader, gone)
    stage.cluster.settle()
    term = leader.core.term
    stage.cluster.crash(gone.id)
    stage.cluster.start(gone.id)
    stage.cluster.run(5.0)
    stage.cluster.propose(b"later")
    stage.cluster.settle()

    assert (leader.core.term, leader.core.active) == (term, True)
    assert gone.data[-1] == b"later"
