"""RaftCore: the metadata quorum as one voter sees it. Sans-IO: messages, proposals and time go in;
messages, entries and files to flush come out.

A turn of its driver: `receive`, `propose` and so on as things come; `step(now)`; if `unsynced`,
flush what `take_sync` returns, call `synced`; send `take_outbox` and apply `take_committed`, while
the flush is under way and again after it. Before its end both hand out nothing that a power loss
could take back: no vote, no acknowledgement, no commit that rests on it. A leader's entries leave
at once, for they claim nothing of its own disk: so all disks write at the same time. `step` is not
called while a sync is under way; everything else may be.

Knows no socket, no thread, no clock, and not what the entries mean.
"""

from collections import deque
from collections.abc import Sequence
from random import Random

from raftka.limits import QUORUM_VOTERS, LimitExceeded
from raftka.metadata.quorum.journal import Journal
from raftka.metadata.quorum.raft_engine import LEADER, STATES
from raftka.metadata.quorum.raft_messages import check_message
from raftka.metadata.quorum.raft_types import (
    REGULAR,
    Committed,
    EntryTooLarge,
    MalformedMessage,
    Message,
    NotLeader,
    ProposalsFull,
    RaftConfig,
    SafetyViolated,
    Snapshot,
    VotersRefused,
    WrongCluster,
)
from raftka.metadata.quorum.raft_voter import Done, Voter
from raftka.metadata.quorum.voter_sets import (
    VoterSet,
    data_in,
    differ_by_one,
    ids_of,
    put_before,
)
from raftka.runtime.interfaces import File

__all__ = [
    "Committed",
    "EntryTooLarge",
    "MalformedMessage",
    "Message",
    "NotLeader",
    "ProposalsFull",
    "RaftConfig",
    "RaftCore",
    "SafetyViolated",
    "Snapshot",
    "VotersRefused",
    "WrongCluster",
]

EPSILON = 1e-6  # seconds: pysyncobj compares strictly, so a deadline has passed only after it


class RaftCore:
    def __init__(
        self,
        node_id: int,
        voters: Sequence[int],
        journal: Journal,
        random: Random,
        now: float,
        config: RaftConfig = RaftConfig(),  # noqa: B008  # it is frozen
        directory_id: bytes = bytes(16),
    ) -> None:
        """`voters`: controller.quorum.voters; empty on a node that is to become a voter later.
        `directory_id`: 16 bytes, of the directory with the journal.
        """
        self.journal = journal
        self._me, self._config = node_id, config
        self._voter = Voter(node_id, sorted(voters), journal, random, now, config, directory_id)
        self._inbox: deque[tuple[int, Message]] = deque()
        self._outbox: list[tuple[int, Message]] = []  # may leave
        self._handed = 0  # index of the last entry that take_committed returned
        self.commit_index = self._voter.commit_index  # as it may be shown: to be read alone
        self._wanted_snapshot: tuple[int, bytes] | None = None
        self._untouched = False  # nothing has come since the last step
        self._flushed_term = journal.term  # on the disk, with the vote in it
        self._owes_flush = False  # entries have left that this disk does not have yet

    # what it is

    @property
    def state(self) -> str:
        """ "follower", "candidate" or "leader"."""
        return STATES[self._voter.state]

    @property
    def term(self) -> int:
        return self._voter.term

    @property
    def leader(self) -> int | None:
        """The node that leads this term, as far as this node knows."""
        node = self._voter.leader_node
        return None if node is None else int(node.id)

    @property
    def voters(self) -> Sequence[int]:
        """The ids of the set that counts, in order."""
        return sorted(self._voter.voter_ids)

    @property
    def voter_set(self) -> VoterSet | None:
        """The last set of the log, committed or not; None: the voters are those of
        controller.quorum.voters.
        """
        return self._voter.sets.current

    @property
    def voters_index(self) -> int:
        """Index of the last set of the log; 0: it has none."""
        return self._voter.sets.index

    def acknowledged(self, voter: int) -> int:
        """Index up to which that voter is known to have everything; in a leader's eyes."""
        return (
            self.last_index
            if voter == self._me
            else self._voter.match_index.get(self._voter.nodes[voter], 0)
        )

    @property
    def active(self) -> bool:
        """This node leads, and every entry that was ever committed is committed here too: it may
        act as the controller.
        """
        voter = self._voter
        return voter.state == LEADER and self.commit_index >= voter.own_no_op

    def active_in(self, term: int) -> bool:
        voter = self._voter
        return voter.term == term and voter.state == LEADER and self.commit_index >= voter.own_no_op

    @property
    def formed(self) -> bool:
        """This voter may vote: its cluster is formed, and it has lost nothing."""
        return self._voter.membership.votes

    @property
    def last_index(self) -> int:
        return self.journal.entries[-1].index

    @property
    def wants_snapshot(self) -> bool:
        """The journal has grown by `snapshot_every_bytes`: call `snapshot` when the state machine's
        state is at hand.
        """
        grown = self.journal.written_bytes >= self._config.snapshot_every_bytes
        return (
            grown
            and self._wanted_snapshot is None
            and self.commit_index > self.journal.snapshot_index
        )

    # what comes in

    def receive(self, sender: int, message: Message) -> None:
        """Raises MalformedMessage or WrongCluster: then its connection should be closed."""
        check_message(message)
        if sender == self._me:
            raise MalformedMessage(f"{sender} is no other node")
        if message["type"] == "hello":
            self._voter.membership.check(sender, message)
        self._put(sender, message)

    def peer_up(self, node_id: int) -> None:
        """There is a connection to this node, a voter or one that follows the log as it."""
        self._put(node_id, {"type": "up"})

    def peer_lost(self, node_id: int) -> None:
        """There is none any more. A hint: was it the leader, the others are asked soon, not after
        the whole timeout.
        """
        self._put(node_id, {"type": "lost"})

    def _put(self, sender: int, message: Message) -> None:
        self._inbox.append((sender, message))
        self._untouched = False

    def propose(self, data: bytes) -> int:
        """The index it will have if it is committed. It is this proposal that is committed there if
        the entry's term is the term at this moment.

        Raises NotLeader, ProposalsFull, EntryTooLarge.
        """
        self._check_proposal(len(data))
        assert data, "an empty entry is a leader's own"
        self._untouched = False
        return self._voter.add_entry(data)

    def _check_proposal(self, size_bytes: int) -> None:
        if not self.active:
            raise NotLeader(None if self.leader == self._me else self.leader)
        if size_bytes > self._config.entry_max_bytes:
            raise EntryTooLarge(size_bytes)
        waiting = self.last_index - self.commit_index
        if waiting >= self._config.proposals_max or self._voter.transferring:
            raise ProposalsFull(waiting)

    def change_voters(self, voters: VoterSet, data: bytes = b"") -> int:
        """Propose a set of voters, with records of the metadata log; `data` may be empty. The set
        counts from now on. Returns the index as `propose` does.

        Raises VotersRefused: the set before is not committed yet; more than one voter comes or
        goes; a node or a directory that comes has not caught up; a majority of the set has not
        answered for an election timeout. Raises NotLeader and LimitExceeded (ProposalsFull,
        EntryTooLarge) too.
        """
        self._check_proposal(len(data))
        voter, ids = self._voter, ids_of(voters)
        if len(voters) > QUORUM_VOTERS.value:
            raise LimitExceeded(QUORUM_VOTERS, len(voters))
        self._check_pending()
        if voter.sets.current is None and ids != voter.voter_ids:
            raise VotersRefused("the first set has the voters of controller.quorum.voters")
        if ids != voter.voter_ids and not differ_by_one(voter.voter_ids, ids):
            raise VotersRefused("one voter comes or goes at a time")
        known = {(each.node_id, each.directory_id) for each in voter.sets.current or ()}
        for each in voters:
            comes = (each.node_id, each.directory_id) not in known
            if comes and not voter.has_caught_up(each.node_id, each.directory_id):
                raise VotersRefused(f"node {each.node_id} has not caught up")
        since = voter.now - self._config.election_timeout
        if sum(voter.answered_since(each, since) for each in ids) <= len(ids) // 2:
            raise VotersRefused("a majority of these voters does not answer")
        self._untouched = False
        return voter.add_voters(voters, data)

    def _check_pending(self) -> None:
        if self.voters_index > self.commit_index:
            raise VotersRefused("a change of the voters is not committed yet")

    def directory_of(self, node_id: int) -> bytes:
        """The directory that the node has named in its greeting; empty: it is not connected."""
        membership = self._voter.membership
        own = node_id == self._me
        return membership.directory_id if own else membership.directory_of(node_id)

    def has_caught_up(self, node_id: int, directory_id: bytes) -> bool:
        """Leader: this node may become a voter, see `change_voters`."""
        return self._voter.has_caught_up(node_id, directory_id)

    def read_index(self, done: Done) -> None:
        """Call `done(index)`: a node that has applied all up to `index` has every entry committed
        before this call. None: leadership was lost.
        """
        if self._voter.state == LEADER:
            self._untouched = False
            self._voter.read(done)
        else:
            done(None)

    def transfer(self, to: int) -> None:
        """Hand the leadership over. No proposals meanwhile; after an election timeout it is given
        up.
        """
        if self._voter.state == LEADER and to != self._me:
            self._untouched = False
            self._voter.transfer(to)

    def keep_leadership(self, from_voter: int) -> None:
        """Give up a transfer to that voter: it has gone. As after the election timeout, but at
        once.
        """
        self._untouched = False
        self._voter.end_transfer(from_voter)

    def snapshot(self, index: int, state: bytes) -> None:
        """The state machine's state after the entry at `index`, which it was handed. The next step
        writes it and shortens the journal.
        """
        assert index <= self.commit_index
        self._untouched = False
        self._wanted_snapshot = (index, state)

    def identify(self, cluster_id: str) -> None:
        """The cluster's id, as its first record says: from now on voters of another one are
        refused. Raises WrongDirectory.
        """
        if self.journal.cluster_id != cluster_id:
            self.journal.set_cluster_id(cluster_id)
            self._untouched = False
            self._voter.membership.announce()

    def stop(self) -> None:
        """Nothing more comes or goes; who waits for a read learns that it was not answered."""
        self._voter.lost_leadership()
        self._give_answers()
        self.journal.close()

    # time

    def step(self, now: float) -> bool:
        """Everything that can be done at `now` (seconds, this node's clock). Returns `unsynced`."""
        assert not self.journal.syncing, "a step while a sync is under way"
        assert not self._owes_flush, "what was sent in the last step is flushed before the next"
        voter = self._voter
        voter.now = now
        voter._use_clock()
        while self._inbox:
            sender, message = self._inbox.popleft()
            if message["type"] == "up":
                voter.peer_up(sender)
            elif message["type"] == "lost":
                voter.peer_lost(sender)
            else:
                voter.handle(sender, message)
        voter.step()
        self._untouched = True
        if self._wanted_snapshot is not None:
            self._write_snapshot(*self._wanted_snapshot)
        unsynced = self.journal.unsynced
        if unsynced:
            self._release_early()
        else:
            self._flushed_term = voter.term
            self._release()
        return unsynced

    @property
    def has_work(self) -> bool:
        """Something has come since the last step."""
        return not self._untouched

    def next_deadline(self) -> float:
        """Return the time of the next step at the latest, on the clock of `step`."""
        return self._voter.deadline() + EPSILON if self._untouched else self._voter.now

    def _write_snapshot(self, index: int, state: bytes) -> None:
        self._wanted_snapshot = None
        if index > self.journal.snapshot_index:
            sets = self._voter.sets
            self.journal.compact(
                index, put_before(sets.at(index), state), keep_from=self._keep_from(index)
            )
            sets.forget_before(index)
        self.journal.written_bytes = 0

    def _keep_from(self, index: int) -> int:
        """Some entries stay, so that who is a little late needs no snapshot; in all at most a
        quarter of what leads to the next one.
        """
        journal, size = self.journal, 0
        while (
            index > journal.base.index and self.commit_index - index < self._config.retain_entries
        ):
            size += len(journal.entries[index - journal.base.index].command)
            if size > self._config.snapshot_every_bytes // 4:
                break
            index -= 1
        return index + 1

    # the disk

    @property
    def unsynced(self) -> bool:
        """Something must be flushed before anything of the last step may be seen."""
        return self.journal.unsynced

    def take_sync(self) -> list[File]:
        """Write what is staged. The caller flushes these files and calls `synced`. Raises OSError:
        then this node must stop.
        """
        return self.journal.take_sync()

    def synced(self) -> None:
        self.journal.synced()
        self._flushed_term, self._owes_flush = self.journal.term, False
        self._release()

    def _release_early(self) -> None:
        """Release committed entries that were flushed before this step, and a leader's messages
        with entries.

        A leader's entries are on its disk before it looks at any answer to them: a follower got an
        entry in an earlier step than the one in which it acknowledges, and messages of one step are
        flushed before the next. So the commit index in them rests on this disk too. A majority of
        one sends to nobody, and waits. Messages to each voter stay in order.
        """
        voter, flushed = self._voter, self.journal.flushed_index
        self.commit_index = max(self.commit_index, min(voter.commit_index, flushed))
        if (
            voter.state != LEADER
            or self._flushed_term != voter.term
            or voter.commit_index > flushed
        ):
            return
        self._owes_flush = True
        held: list[tuple[int, Message]] = []
        waiting: set[int] = set()
        for receiver, message in voter.outbox:
            if message["type"] == "append_entries" and receiver not in waiting:
                self._outbox.append((receiver, message))
            else:
                waiting.add(receiver)
                held.append((receiver, message))
        voter.outbox = held

    def _release(self) -> None:
        """Release the messages and commits of the last step. Entries proposed since then are not
        part of it.
        """
        voter = self._voter
        self.commit_index = voter.commit_index
        self._outbox += voter.outbox
        voter.outbox = []
        if voter.answers:
            self._give_answers()

    def _give_answers(self) -> None:
        """Each once, also if one of those who are called raises."""
        answers = self._voter.answers
        while answers:
            done, index = answers.pop(0)
            done(index)

    # what goes out

    def take_outbox(self) -> list[tuple[int, Message]]:
        outbox, self._outbox = self._outbox, []
        return outbox

    def take_committed(self) -> list[Committed] | Snapshot:
        """Return the committed entries after those of the last call, each once and in order; a
        snapshot in place of entries that are gone.
        """
        found = self.observe(self._handed + 1)
        if isinstance(found, Snapshot):
            self._handed = found.index
        elif found:
            self._handed = found[-1].index
        return found

    def observe(self, from_index: int) -> list[Committed] | Snapshot:
        """The committed entries from there on, about `batch_bytes` of them; the snapshot if they
        are gone; nothing if there are none yet.
        """
        journal, base = self.journal, self.journal.entries[0].index
        if from_index <= base:
            return journal.read_snapshot()
        found, size = [], 0
        entries = journal.entries
        for at in range(from_index - base, self.commit_index - base + 1):
            command, index, term = entries[at]
            data = command[1:] if command[:1] == REGULAR else data_in(command)
            found.append(Committed(index, term, data))
            size += len(command)
            if size >= self._config.batch_bytes:
                break
        return found
