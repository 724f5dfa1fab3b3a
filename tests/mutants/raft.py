"""Planted in the metadata quorum: elections, the log's matching, what counts as committed,
snapshots.
"""

from typing import Any

from raftka.broker.controller.departure import Departure
from raftka.broker.controller.quorum import Quorum
from raftka.metadata.quorum.journal import Journal
from raftka.metadata.quorum.raft_engine import LEADER, Engine
from raftka.metadata.quorum.raft_membership import Membership
from raftka.metadata.quorum.raft_voter import Voter
from tests.mutants.registry import mutant, part_of

ABOVE_ALL = 1 << 40


@mutant(Quorum, "_step")
def journal_without_flush(_: Any) -> Any:
    """Votes, acknowledgements and commits leave before the disk has what they rest on."""

    def bug(self: Quorum) -> None:
        self._poked = False
        core = self.core
        assert core is not None
        core.step(self.clock.now())
        if core.unsynced:
            core.take_sync()
            core.synced()
        self._ship()

    return bug


@mutant(Journal, "set_vote")
def forgets_its_vote(_: Any) -> Any:
    """Term and vote are not written down: a voter that was restarted votes twice in a term."""

    def bug(self: Journal, term: int, vote: int | None) -> None:
        self.term, self.vote = term, vote

    return bug


@mutant(Engine, "on_request_vote")
def votes_for_everybody(ask: Any) -> Any:
    """A voter gives its vote to whoever asks, also a second time in a term: two leaders decide at
    once.
    """

    def bug(self: Engine, node: Any, message: Any) -> None:
        if message["term"] == self.term and self.state != LEADER:
            self._SyncObj__votedForNodeId = None
        ask(self, node, message)

    return bug


@mutant(Engine, "on_request_vote")
def election_restriction_left_out(ask: Any) -> Any:
    """A candidate need not have all entries of its voters: committed ones are missing in the new
    leader's log.
    """

    def bug(self: Engine, node: Any, message: Any) -> None:
        ask(self, node, message | {"last_log_term": ABOVE_ALL, "last_log_index": ABOVE_ALL})

    return bug


@part_of(election_restriction_left_out, Engine, "up_to_date")
def _everybody_is_up_to_date(_: Any) -> Any:
    def bug(self: Engine, message: Any) -> bool:
        return True

    return bug


@mutant(Voter, "on_append_entries")
def log_matching_left_out(take: Any) -> Any:
    """A follower appends what comes behind an entry that is not the leader's: logs part, and stay
    so.
    """

    def bug(self: Voter, node: Any, message: Any) -> None:
        mine = self.journal.term_at(message["prevLogIdx"])
        take(self, node, message if mine is None else message | {"prevLogTerm": mine})

    return bug


@mutant(Voter, "_cap_commit")
def commits_what_is_not_the_leaders(_: Any) -> Any:
    """The leader's commit index is believed for entries that are not known to be the leader's."""

    def bug(self: Voter, index: int) -> int:
        return index

    return bug


@mutant(Voter, "_SyncObj__sendNextNodeIdx")
def acknowledges_all_it_has(send: Any) -> Any:
    """A follower acknowledges the end of its own log, whatever of it the leader has never seen."""

    def bug(
        self: Voter,
        node: Any,
        reset: bool = False,
        nextNodeIdx: int | None = None,
        success: bool = False,
    ) -> None:
        send(
            self,
            node,
            reset,
            self.journal.last.index + 1 if success else nextNodeIdx,
            success or not reset,
        )

    return bug


@mutant(Voter, "step", "small quorum")
def commits_by_count_alone(step: Any) -> Any:
    """An entry of an earlier term counts as committed when a majority has it (Raft's figure 8): the
    next leader may not have it.
    """

    def bug(self: Voter) -> None:
        if self.state == LEADER:
            ends = sorted([self.journal.last.index, *self.match_index.values()], reverse=True)
            self._SyncObj__raftCommitIndex = max(self.commit_index, ends[self.majority - 1])
        step(self)

    return bug


@mutant(Journal, "compact")
def snapshot_regress(compact: Any) -> Any:
    """A snapshot is written down with the state of the one before: whoever begins with it lacks
    what came between.
    """
    states: dict[int, bytes] = {}

    def bug(self: Journal, index: int, state: bytes, keep_from: int) -> None:
        before = states.get(id(self), state)
        states[id(self)] = state
        compact(self, index, before, keep_from)

    return bug


@mutant(Journal, "compact")
def snapshot_says_one_too_many(compact: Any) -> Any:
    """A snapshot is written down under the next entry's index: whoever begins with it never sees
    that entry.
    """

    def bug(self: Journal, index: int, state: bytes, keep_from: int) -> None:
        compact(self, index + (self.term_at(index + 1) is not None), state, keep_from)

    return bug


@mutant(Membership, "_meets_member")
def lost_voter_votes_at_once(_: Any) -> Any:
    """A voter whose disk was lost takes itself for a new one, and votes as if it had never
    voted.
    """

    def bug(self: Membership) -> bool:
        return False

    return bug


@mutant(Journal, "cut")
def cut_is_not_written(_: Any) -> Any:
    """A follower drops entries in memory alone: with its next process they are there again, before
    those that took their place.
    """

    def bug(self: Journal, index: int) -> None:
        del self.entries[index - self.base.index :]

    return bug


@mutant(Voter, "_unless_equal")
def drops_what_it_has_already(_: Any) -> Any:
    """Entries that come a second time make a voter drop all behind the first of them, acknowledged
    ones too (pysyncobj as it comes).
    """

    def bug(self: Voter, message: Any) -> Any:
        return dict(message)

    return bug


@mutant(Journal, "_rewrite")
def journal_renamed_without_a_flush(rewrite: Any) -> Any:
    """A new journal takes the old one's name, and the directory is not flushed: after a power loss
    the old one is there, without what came since.
    """

    def replaced(files: Any, path: str, data: bytes) -> None:
        file = files.open(f"{path}.new", create=True)
        file.truncate(0)
        file.append([data])
        file.sync()
        file.close()
        files.rename(f"{path}.new", path)

    return _replacing(rewrite, replaced)


@mutant(Journal, "_rewrite")
def journal_rewritten_in_its_place(rewrite: Any) -> Any:
    """The journal is cut to nothing and written anew, without a flush: a power loss undoes the cut,
    and takes what came since.
    """

    def replaced(files: Any, path: str, data: bytes) -> None:
        file = files.open(path, create=True)
        file.truncate(0)
        file.append([data])
        file.close()

    return _replacing(rewrite, replaced)


def _replacing(rewrite: Any, replaced: Any) -> Any:
    """The journal's files, but for how one is replaced."""

    class Files:
        def __init__(self, files: Any) -> None:
            self._files = files

        def __getattr__(self, name: str) -> Any:
            return getattr(self._files, name)

        def replace(self, path: str, data: bytes) -> None:
            replaced(self._files, path, data)

    def bug(self: Journal) -> None:
        files = self.files
        self.files = Files(files)  # type: ignore[assignment]
        try:
            rewrite(self)
        finally:
            self.files = files

    return bug


@mutant(Departure, "_has_left")
def node_ends_while_controllers_may_come_back(_: Any) -> Any:
    """A node that is stopped waits for no controller that is away: its leaderships do not move
    before it ends.
    """
    return lambda self, link: not link.up


@mutant(Departure, "said_goodbye")
def goodbye_of_a_controller_is_not_heard(_: Any) -> Any:
    """The last of three nodes that are stopped together waits for controllers that have ended."""
    return lambda self, node_id: None


@part_of(goodbye_of_a_controller_is_not_heard, Departure, "_has_left")
def _metadata_say_nothing_of_it(_: Any) -> Any:
    return lambda self, link: False
