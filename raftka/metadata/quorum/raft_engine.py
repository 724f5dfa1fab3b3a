"""pysyncobj's election, replication and commit core, with a guard before each thing it gets wrong.
Knows no snapshot of ours and no reader.

What runs here is SyncObj's own `_onTick`, `__onMessageReceived`, `__onBecomeLeader` and
`__sendAppendEntries`. Names that begin with `_SyncObj__` are its private ones; those defined here
replace what it would call. tests/metadata/raft/test_canary.py watches their source. Never used are
its transport, journal, serializer, poller, command queue, membership changes and code versions:
with them goes every use of pickle.
"""

from enum import Enum, auto
from itertools import repeat
from operator import attrgetter
from random import Random
from typing import Any

from raftka.metadata.quorum.journal import Journal
from raftka.metadata.quorum.pysyncobj_core import Node, SyncObj, SyncObjConf, Transport, syncobj
from raftka.metadata.quorum.raft_types import (
    NO_OP,
    REGULAR,
    VOTERS,
    Entry,
    Message,
    RaftConfig,
    SafetyViolated,
)
from raftka.metadata.quorum.raft_voters import VoterSets
from raftka.metadata.quorum.voter_sets import VoterSet, voters_command

FOLLOWER, CANDIDATE, LEADER = 0, 1, 2
STATES = ("follower", "candidate", "leader")
NEVER = float("-inf")


class VoterNode(Node, int):  # type: ignore[misc]
    """A voter, as SyncObj knows it: the key of most of its dictionaries, so it is hashed and
    compared as the number that it is.
    """

    id = property(int)
    __hash__ = int.__hash__
    __eq__ = int.__eq__
    __ne__ = int.__ne__

    def __new__(cls, voter: int) -> "VoterNode":
        return int.__new__(cls, voter)


class Nodes(dict[int, VoterNode]):
    """All nodes that were named so far, by their ids."""

    def __missing__(self, node_id: int) -> VoterNode:
        node = self[node_id] = VoterNode(node_id)
        return node


# SyncObj counts its own node always. Where that has no vote, this voter stands in the set of the
# others beside it: it never answers, so that a majority of the real ones is needed.
NOBODY = VoterNode(-1)


class LogOfSyncObj:
    """The journal, as SyncObj calls it."""

    def __init__(self, journal: Journal, engine: "Engine") -> None:
        self._journal = journal
        self._engine = engine

    def add(self, command: bytes, idx: int, term: int) -> None:
        self._engine.append(Entry(bytes(command), idx, term))

    def deleteEntriesFrom(self, at: int) -> None:
        index = self._journal.entries[at].index
        self._journal.cut(index)
        self._engine.voters_cut(index)

    def setCurrentTerm(self, term: int, vote: int | None) -> None:
        self._journal.set_vote(term, vote)

    def setRaftCommitIndex(self, index: int) -> None:
        """Ignore the index: a leader sends it again."""

    def onOneSecondTimer(self) -> None: ...

    def __getitem__(self, at: int) -> Entry:
        return self._journal.entries[at]

    def __len__(self) -> int:
        return len(self._journal.entries)


class _Outlet(Transport):  # type: ignore[misc]
    """The transport that SyncObj sends through."""

    def __init__(self, engine: "Engine") -> None:
        super().__init__(None, None, [])
        self._engine = engine

    def send(self, node: Node, message: Message) -> bool:
        self._engine.ship(node, message)
        return True


def _read(name: str) -> Any:
    """A value of SyncObj's, to be read. Nothing is called but the getter: these are asked for a
    hundred times for each entry.
    """
    return property(attrgetter(f"_SyncObj__{name}"))


class _NoPoller:
    def poll(self, timeout: float) -> None: ...


class Candidacy(Enum):
    NONE = auto()
    PREVOTE_WON = auto()  # a majority would vote for this voter
    STANDING = auto()  # SyncObj begins an election in this call


NONE, PREVOTE_WON, STANDING = Candidacy


class Engine(SyncObj):  # type: ignore[misc]
    """State that every guard needs, and the guards for SyncObj's timed actions; Voter adds those
    for messages of other voters.
    """

    _SyncObj__connectedNodes: set[Node]
    _SyncObj__otherNodes: set[Node]

    def __init__(
        self,
        me: int,
        voters: list[int],
        journal: Journal,
        random: Random,
        now: float,
        config: RaftConfig,
    ) -> None:
        self.journal, self.random, self.now, self.config = journal, random, now, config
        self.me, self.sets = me, VoterSets(voters, journal)
        self.nodes = Nodes()
        self.outbox: list[tuple[int, Message]] = []
        self.voter_ids = self.sets.ids  # of the set that counts
        self.majority = len(self.voter_ids) // 2 + 1
        self.send_now = False  # a round of append_entries need not wait for the heartbeat
        # the round tells of a commit, and nothing else: nobody waits for answers to it
        self._quiet = False
        self.sequence = 0  # of the last round; echoed in every answer
        # voter -> (last index, bytes) of what it has not acknowledged
        self._sent: dict[int, list[tuple[int, int]]] = {}
        # voter -> the round in which it was sent again what it had missed
        self._again_since: dict[int, int] = {}
        self._attempts = 0  # elections begun since a leader was heard
        self._heard = NEVER  # when the present leader was heard last
        self._prevotes: set[int] = set()
        self._candidacy = NONE
        self._voted_for_me: set[tuple[int, int]] = set()  # (term, voter)
        self._by_transfer = False  # the leader has asked for this election
        # the first entry that the leader has otherwise, as found in the message at hand
        self._conflict: int | None = None
        self._use_clock()
        super().__init__(
            self.nodes[me],
            self._other_voters(),
            self._conf_for(config),
            transport=_Outlet(self),
        )
        alone = self.voter_ids == {me}
        self._restore(NEVER if alone else now + config.quick * (1 + random.random()))

    def _conf_for(self, config: RaftConfig) -> SyncObjConf:
        slowest = config.election_timeout * 1.5
        return SyncObjConf(
            autoTick=False,
            appendEntriesPeriod=config.heartbeat,
            raftMinTimeout=config.election_timeout,
            raftMaxTimeout=slowest,
            leaderFallbackTimeout=slowest,  # reads do not rely on it, see RaftCore.read_index
            connectionTimeout=slowest,
            # no entry is so large, so none is cut into pickled pieces
            appendEntriesBatchSizeBytes=2 * config.entry_max_bytes,
            commandsWaitLeader=False,
            useFork=False,
            onStateChanged=self._state_changed,
        )

    def _restore(self, election_at: float) -> None:
        """Put our parts in the place of SyncObj's, and what the journal remembers in the place of
        its beginnings.
        """
        journal = self.journal
        self._poller = _NoPoller()
        self._SyncObj__raftLog = LogOfSyncObj(journal, self)
        self._SyncObj__needLoadDumpFile = False
        self._SyncObj__raftCurrentTerm, self._SyncObj__votedForNodeId = journal.term, journal.vote
        self._SyncObj__raftCommitIndex = self._SyncObj__raftLastApplied = journal.snapshot_index
        self.election_at = election_at

    def _use_clock(self) -> None:
        """SyncObj's clock is a global of its module: it shows the time of the core that is being
        stepped. It is read thirty times for an entry.
        """
        syncobj.monotonicTime = repeat(self.now).__next__

    # SyncObj's state under readable names

    state: int = _read("raftState")
    term: int = _read("raftCurrentTerm")
    commit_index: int = _read("raftCommitIndex")
    own_no_op: int = _read("noopIDx")  # the entry with which this leader began its term

    leader_node: Node | None = _read("raftLeader")
    match_index: dict[Node, int] = _read("raftMatchIndex")
    next_index: dict[Node, int] = _read("raftNextIndex")

    @property
    def election_at(self) -> float:
        """Return the time at which it becomes a candidate if it hears no leader."""
        return float(self._SyncObj__raftElectionDeadline)

    @election_at.setter
    def election_at(self, when: float) -> None:
        self._SyncObj__raftElectionDeadline = when

    def heartbeat_at(self) -> float:
        return float(self._SyncObj__newAppendEntriesTime)

    # decided by Voter

    def may_stand(self) -> bool:
        raise NotImplementedError

    def promise_to(self, voter: int) -> list[int]:
        raise NotImplementedError

    def next_piece(self, voter: int) -> Message | None:
        raise NotImplementedError

    def lost_leadership(self) -> None:
        raise NotImplementedError

    # the voters

    @property
    def is_voter(self) -> bool:
        """This node is in the set that counts."""
        return self.me in self.voter_ids

    def _other_voters(self) -> list[VoterNode]:
        others = [self.nodes[voter] for voter in sorted(self.voter_ids) if voter != self.me]
        return others if self.is_voter else [*others, NOBODY]

    def append(self, entry: Entry) -> None:
        """Append an entry to the log. A set of voters in it counts at once, not from its commit on:
        else two sets without a common voter in their majorities could count at the same time.
        """
        self.journal.append(entry)
        if entry.command[:1] == VOTERS:
            self.sets.appended(entry)
            self.use_voters()

    def voters_cut(self, index: int) -> None:
        """Entries from `index` on are gone: the set before them counts again."""
        if index <= self.sets.index:
            self.sets.cut(index)
            self.use_voters()

    def use_voters(self) -> None:
        """Count by the last set of the log from now on."""
        if self.sets.ids == self.voter_ids:
            return
        before = self._SyncObj__otherNodes
        self.voter_ids = self.sets.ids
        self.majority = len(self.voter_ids) // 2 + 1
        self._SyncObj__otherNodes = others = set(self._other_voters())
        self._SyncObj__readonlyNodes = self._SyncObj__connectedNodes - others
        for node in before - others - self._SyncObj__connectedNodes:
            self._forget(node)
        for node in others:
            self._track(node)

    def _track(self, node: VoterNode) -> None:
        """Give the node a place in what a leader keeps for each."""
        self.match_index.setdefault(node, 0)
        self.next_index.setdefault(node, self.journal.last.index + 1)
        self._SyncObj__lastResponseTime.setdefault(node, NEVER)

    def connected(self, node: VoterNode) -> None:
        """The node has greeted. One without a vote gets the entries too, and is not counted."""
        self._SyncObj__onNodeConnected(node)
        if node.id not in self.voter_ids:
            self._SyncObj__readonlyNodes.add(node)
        self._track(node)

    def disconnected(self, node: VoterNode) -> None:
        self._SyncObj__onNodeDisconnected(node)
        if node.id not in self.voter_ids:
            self._SyncObj__readonlyNodes.discard(node)
            self._forget(node)

    def _forget(self, node: Node) -> None:
        """A new leader begins with nothing for voters and connected nodes alone: of others nothing
        may be left, which would be of an earlier term.
        """
        for kept in (self.match_index, self.next_index, self._SyncObj__lastResponseTime):
            kept.pop(node, None)
        self._sent.pop(node.id, None)
        self._again_since.pop(node.id, None)
        self.nodes.pop(node.id, None)

    def answered_since(self, voter: int, when: float) -> bool:
        """This voter has answered its leader since then."""
        return voter == self.me or bool(
            self._SyncObj__lastResponseTime.get(self.nodes[voter], NEVER) >= when
        )

    # elections

    def _SyncObj__generateRaftTimeout(self) -> float:
        """SyncObj sets its deadline: a voter that heard a leader waits long, one that stands tries
        again soon.
        """
        if self._candidacy is STANDING:
            self._candidacy = NONE
            return 2 * self.config.quick + self.retry_delay()
        return self.config.election_timeout * (1 + self.random.random() / 2)

    def retry_delay(self) -> float:
        """Quick at first, because asking changes nothing; slower each time, so that slow voters can
        answer too.
        """
        base = min(self.config.quick * (1 << min(self._attempts, 10)), self.config.election_timeout)
        return base * (1 + self.random.random())

    def _SyncObj__connectedToAnyone(self) -> bool:
        """SyncObj asks when the election timeout has passed: may I stand? Only when a majority
        would vote for it (PreVote).
        """
        self._by_transfer = bool(self._SyncObj__transferInProgress)
        if self.may_stand() and (
            self._by_transfer or self._candidacy is PREVOTE_WON or self.majority == 1
        ):
            self._candidacy = STANDING
            return True
        self.election_at = self.now + self.retry_delay()
        if self.may_stand():
            self._attempts += 1
            self._prevotes = set()
            self.broadcast({"type": "prevote", "term": self.term + 1, **self._last_entry()})
        return False

    def _last_entry(self) -> Message:
        return {"last_log_index": self.journal.last.index, "last_log_term": self.journal.last.term}

    def follows_live_leader(self) -> bool:
        """Then it helps nobody to depose it (leader stickiness)."""
        alive = (
            self.leader_node is not None and self.now < self._heard + self.config.election_timeout
        )
        return self.state == LEADER or alive

    def up_to_date(self, message: Message) -> bool:
        mine = self.journal.last
        return (message["last_log_term"], message["last_log_index"]) >= (mine.term, mine.index)

    def on_prevote(self, node: Node, message: Message) -> None:
        if message["term"] <= self.term:
            self.reject(node)
        elif not self.follows_live_leader() and self.up_to_date(message):
            # let it go first
            self.election_at = max(self.election_at, self.now + self.config.quick)
            self.send(node, {"type": "prevote_grant", "term": message["term"]})

    def on_prevote_grant(self, node: Node, message: Message) -> None:
        if message["term"] == self.term + 1 and self.state != LEADER:
            self._prevotes.add(node.id)
            if len(self._prevotes) + 1 >= self.majority and not self.follows_live_leader():
                self._candidacy, self.election_at = PREVOTE_WON, NEVER

    def on_request_vote(self, node: Node, message: Message) -> None:
        if message["term"] < self.term:
            self.reject(node)
        elif message["transfer"] or not self.follows_live_leader():
            self.stock_receive(node, message)

    def on_response_vote(self, node: Node, message: Message) -> None:
        """SyncObj counts votes, not voters: each voter's first answer reaches it, no second one."""
        vote = (message["term"], node.id)
        if message["term"] == self.term and vote not in self._voted_for_me:
            self._voted_for_me.add(vote)
            self.stock_receive(node, message)

    def on_timeout_now(self, node: Node, message: Message) -> None:
        if message["term"] == self.term:
            self.stock_receive(node, message)

    def on_reject(self, node: Node, message: Message) -> None:
        if message["term"] > self.term:
            self.adopt_term(message["term"])

    def reject(self, node: Node) -> None:
        """Without an answer, one whose term is over would never learn of it."""
        self.send(node, {"type": "reject", "term": self.term})

    def adopt_term(self, term: int) -> None:
        """Someone is ahead: whoever led before does not any more."""
        self._SyncObj__setCurrentTerm(term, None)
        self._SyncObj__setState(FOLLOWER)
        self._SyncObj__raftLeader = None
        self._candidacy = NONE
        self.election_at = self.now + self.retry_delay()

    def leader_heard(self) -> None:
        self._heard, self._attempts, self._candidacy = self.now, 0, NONE

    def leader_lost(self) -> None:
        """The leader's connection closed. It may be dead: ask the others soon, but not at the same
        moment as they.
        """
        self._heard = NEVER
        self.election_at = min(
            self.election_at, self.now + self.config.quick * (0.4 + 1.6 * self.random.random())
        )

    def _state_changed(self, old: int, new: int) -> None:
        self._sent, self._again_since = {}, {}
        if new == LEADER:
            self._voted_for_me, self._attempts = set(), 0
        if old == LEADER:
            self.election_at = max(self.election_at, self.now + self.retry_delay())
            self.lost_leadership()

    # the log

    def _SyncObj__getCurrentLogIndex(self) -> int:
        return self.journal.entries[-1][1]

    def _SyncObj__getEntries(
        self, fromIDx: int | None, count: int | None = None, maxSizeBytes: int | None = None
    ) -> list[Entry]:
        """At most one batch. Where SyncObj wants all that follows an entry, it is to drop it: it
        sees only what the leader has otherwise.
        """
        entries = self.journal.entries
        if fromIDx is None or fromIDx < entries[0].index:
            return []
        at = fromIDx - entries[0].index
        if maxSizeBytes is None:
            return entries[at : at + (count or 1 + (self._conflict is not None))]
        end, size = at, 0
        while end < len(entries) and size < self.config.batch_bytes:
            size += len(entries[end].command)
            end += 1
        return entries[at:end]

    def _SyncObj__applyLogEntries(self) -> bool:
        """Let RaftCore hand out committed entries instead. True: tell the followers at once."""
        if self._SyncObj__raftLastApplied != self.commit_index:
            self._quiet = not self.send_now and self.now <= self.heartbeat_at()
            self._SyncObj__raftLastApplied, self.send_now = self.commit_index, True
        return self.send_now

    def _checkCommandsToApply(self) -> None:
        """Proposals do not wait in a queue."""

    def _SyncObj__tryLogCompaction(self) -> None:
        """The state machine's owner decides when."""

    def add_entry(self, data: bytes) -> int:
        index = self.journal.entries[-1][1] + 1
        self.journal.append(Entry(REGULAR + data, index, self.term))
        self.send_now = True
        return index

    def add_voters(self, voters: VoterSet, data: bytes) -> int:
        index = self.journal.last.index + 1
        self.append(Entry(voters_command(voters, data), index, self.term))
        self.send_now = True
        return index

    # sending

    def _SyncObj__sendAppendEntries(self) -> None:
        """One round. A follower with too much under way gets only the head of a message, which
        shows whether something was lost.
        """
        self.send_now = False
        self.sequence += 1
        connected: set[Node] = self._SyncObj__connectedNodes
        full = {node for node in connected if self._window_full(node)}
        self._SyncObj__connectedNodes = connected - full
        for node in sorted(full, key=lambda n: n.id):
            previous = self.next_index[node] - 1
            head: Message = {
                "prevLogIdx": previous,
                "prevLogTerm": self.journal.term_at(previous),
                "entries": [],
            }
            self.ship(
                node,
                {
                    "type": "append_entries",
                    "term": self.term,
                    "commit_index": self.commit_index,
                    **head,
                },
            )
        SyncObj._SyncObj__sendAppendEntries(self)
        self._SyncObj__connectedNodes, self._quiet = connected, False

    def _window_full(self, node: Node) -> bool:
        under_way = 0
        for _, size in self._sent.get(node.id, ()):
            under_way += size
        return (
            under_way >= self.config.window_bytes
            and self.next_index[node] > self.journal.base.index
        )

    def ship(self, node: Node, message: Message) -> None:
        """Send SyncObj's message, with the fields that it leaves out. Taking the node from the
        connected ones ends this round's loop for it.
        """
        if message["type"] == "request_vote":
            message["transfer"] = self._by_transfer
        elif "serialized" in message:
            piece = self.next_piece(node.id)
            message = (
                {"type": "heartbeat", "promote": self.promise_to(node.id)}
                if piece is None
                else {"type": "snapshot", **piece}
            )
            message |= {"term": self.term, "seq": self.sequence}
            self._SyncObj__connectedNodes.discard(node)
        elif message["type"] == "append_entries":
            message |= {"seq": self.sequence, "promote": self.promise_to(node.id)}
            if not message["entries"]:
                message["quiet"] = self._quiet
            else:
                size = 0
                for command, _, _ in message["entries"]:
                    size += len(command)
                self._sent.setdefault(node.id, []).append((message["entries"][-1][1], size))
                if self._window_full(node):
                    self._SyncObj__connectedNodes.discard(node)
        self.send(node, message)

    def acknowledged(self, node: Node, index: int, sent_up_to: int) -> None:
        """Everything up to `index` has arrived there; before that, entries below `sent_up_to` had
        been sent.
        """
        had_to_wait = self._window_full(node) or self.next_index[node] > sent_up_to
        if sent := self._sent.get(node.id):
            self._sent[node.id] = [item for item in sent if item[0] > index]
        if had_to_wait and not self._window_full(node):
            self.more_to_send(node)

    def more_to_send(self, node: Node) -> None:
        """A round for what waited for this answer, and only then: an answer to a round that causes
        a round makes a flood.
        """
        self.send_now |= self.next_index[node] <= self.journal.last.index

    def send_again_from(self, node: Node, index: int) -> None:
        """Something was lost on the way. Answers to what was sent before say so once each; only the
        first one counts.
        """
        self._again_since[node.id] = self.sequence + 1
        self.next_index[node] = index
        self._sent.pop(node.id, None)
        self.send_now = True

    def is_stale(self, node: Node, sequence: int) -> bool:
        return sequence < self._again_since.get(node.id, 0)

    def send(self, node: Node, message: Message) -> None:
        self.outbox.append((node.id, message))

    def broadcast(self, message: Message) -> None:
        for node in self._SyncObj__otherNodes:
            if node is not NOBODY:
                self.send(node, message)

    def stock_receive(self, node: Node, message: Message) -> None:
        """Pass a message to SyncObj's own handler, behind the guards."""
        SyncObj._SyncObj__onMessageReceived(self, node, message)

    def forbid(self, what: str) -> None:
        raise SafetyViolated(f"voter {self.selfNode.id}, term {self.term}: {what}")


assert (
    syncobj._bchr(syncobj._COMMAND_TYPE.REGULAR),
    syncobj._bchr(syncobj._COMMAND_TYPE.NO_OP),
) == (REGULAR, NO_OP)
