"""Planted where voters come and go: which set counts, since when, who may be in it, and when a
leader without a vote steps down.
"""

from typing import Any

from raftka.broker.controller import controller_host, quorum
from raftka.broker.handlers import controllers
from raftka.metadata.quorum import raft
from raftka.metadata.quorum.raft import RaftCore
from raftka.metadata.quorum.raft_engine import Engine
from raftka.metadata.quorum.raft_types import NotLeader
from raftka.metadata.quorum.raft_voter import Voter
from raftka.metadata.quorum.raft_voters import VoterSets
from tests.mutants.registry import mutant, part_of

LIVES = "small voters"


@mutant(RaftCore, "_check_proposal", LIVES)
def voters_change_before_an_own_entry_is_committed(check: Any) -> Any:
    """A new leader changes the voters before an entry of its own term is committed: its majority
    and that of a change of an earlier leader need not have a voter in common.
    """

    def bug(self: RaftCore, size_bytes: int) -> None:
        if self.state != "leader":
            raise NotLeader(self.leader)

    return bug


@mutant(RaftCore, "_check_pending", LIVES)
def two_changes_of_the_voters_at_once(_: Any) -> Any:
    """A leader changes the voters again before the last change is committed: the majorities of the
    first and of the last set need not have a voter in common.
    """

    def bug(self: RaftCore) -> None: ...

    return bug


@mutant(raft, "differ_by_one", LIVES)
def many_voters_come_at_once(_: Any) -> Any:
    """A change brings or takes several voters: the majorities before and after it need not have a
    voter in common.
    """
    return lambda before, after: True


@mutant(VoterSets, "appended", LIVES)
def set_counts_from_its_commit_on(append: Any) -> Any:
    """A node uses the last set that it knows to be committed, not the last one of its log: two
    nodes elect a leader by sets without a voter in common.
    """

    def bug(self: VoterSets, entry: Any) -> None:
        append(self, entry)
        waiting = self.__dict__.setdefault("waiting", [])
        waiting.append((entry.index, self._sets.pop()[1]))
        self._count()

    return bug


@part_of(set_counts_from_its_commit_on, VoterSets, "cut")
def _cut_what_waits(cut: Any) -> Any:
    def bug(self: VoterSets, index: int) -> None:
        waiting = self.__dict__.get("waiting", [])
        waiting[:] = [each for each in waiting if each[0] < index]
        cut(self, index)

    return bug


@part_of(set_counts_from_its_commit_on, Voter, "step")
def _count_what_is_committed(step: Any) -> Any:
    def bug(self: Voter) -> None:
        step(self)
        waiting = self.sets.__dict__.get("waiting", [])
        while waiting and waiting[0][0] <= self.commit_index:
            self.sets._sets.append(waiting.pop(0))
            self.sets._count()
            self.use_voters()

    return bug


@mutant(Engine, "voters_cut", LIVES)
def set_outlives_its_entry(_: Any) -> Any:
    """A follower that drops an entry with a set goes on to count by it: it never was the quorum's,
    and may be two changes away from the set that is.
    """

    def bug(self: Engine, index: int) -> None: ...

    return bug


@mutant(Voter, "_retire", LIVES)
def removed_leader_goes_on(_: Any) -> Any:
    """A leader goes on to lead when the set without it is committed: nodes follow a leader that an
    administrator believes to be gone.
    """

    def bug(self: Voter) -> None: ...

    return bug


@mutant(raft, "put_before", LIVES)
def snapshot_without_voters(_: Any) -> Any:
    """A snapshot does not have the set of its index: who begins with it knows no voters."""
    return lambda voters, state: state


@mutant(Voter, "has_caught_up", LIVES)
def node_without_entries_becomes_a_voter(_: Any) -> Any:
    """A change of the voters is taken although no majority of them answers: it is never committed,
    and no leader can undo it.
    """

    def bug(self: Voter, node_id: int, directory_id: bytes) -> bool:
        return True

    return bug


@part_of(node_without_entries_becomes_a_voter, Engine, "answered_since")
def _everybody_answers(_: Any) -> Any:
    def bug(self: Engine, voter: int, when: float) -> bool:
        return True

    return bug


@mutant(controller_host, "check_answer")
def voter_is_at_an_address_where_nobody_answers(_: Any) -> Any:
    """A node becomes a voter although nobody answers at its end point: the others look for it
    there.
    """
    return lambda command, answer: None


@mutant(quorum, "forget_initial")
def formatted_node_forms_a_quorum_twice(_: Any) -> Any:
    """A node keeps the voters that it was formatted with beside its log: when it loses the log, it
    forms a quorum of its own.
    """
    return lambda files, directory: None


@mutant(controllers, "UpdateVoter")
def client_moves_a_voter_to_another_directory(update: Any) -> Any:
    """A Kafka client's UpdateRaftVoter puts a directory that has no entries in the place of the
    voter's own.
    """

    def bug(*fields: Any, moves: bool) -> Any:
        return update(*fields)

    return bug
