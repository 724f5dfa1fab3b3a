"""One voter: its answers to messages about the log. Guards before pysyncobj's handlers of entries
and acknowledgements.

*Verified* is the index up to which the log is known to equal the leader's, in this term: nothing
above it may be committed, and nothing below it may be cut. Knows no file, no connection, and not
when its messages may leave.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from random import Random

from raftka.metadata.quorum.journal import Journal, Standing
from raftka.metadata.quorum.pysyncobj_core import Node
from raftka.metadata.quorum.raft_engine import FOLLOWER, LEADER, Engine
from raftka.metadata.quorum.raft_membership import Membership
from raftka.metadata.quorum.raft_messages import NO_NONCE, SHAPES
from raftka.metadata.quorum.raft_snapshots import SnapshotReceiver, SnapshotSender
from raftka.metadata.quorum.raft_types import Message, RaftConfig

Done = Callable[[int | None], None]
# A node that lacks no more has caught up: the leader sends so many while the change is committed.
CAUGHT_UP_ENTRIES = 100


@dataclass(slots=True)
class _Joining:
    """A voter that lost its disk, as its leader sees it."""

    nonce: int
    since_sequence: int  # a majority without it must echo this round, or a later one
    target: int | None = None  # then it is up to date from here on


class Voter(Engine):
    def __init__(
        self,
        me: int,
        voters: list[int],
        journal: Journal,
        random: Random,
        now: float,
        config: RaftConfig,
        directory_id: bytes = bytes(16),
    ) -> None:
        self.membership = Membership(
            me,
            voters,
            journal,
            random.getrandbits(62) + 1,
            self._say,
            config.heartbeat,
            directory_id,
        )
        self._sender = SnapshotSender(journal, config.chunk_bytes, 2 * config.heartbeat)
        self._receiver = SnapshotReceiver()
        self._verified_term, self._verified, self._mismatched = 0, 0, False
        self._answering = 0  # the sequence of the message at hand
        self._unasked = False  # its sender does not wait for an acknowledgement
        self._echoed: dict[int, int] = {}  # voter -> the last round it has answered in this term
        self._joining: dict[int, _Joining] = {}
        self.reads: list[tuple[int, Done]] = []  # (round that a majority must answer, who asks)
        self.answers: list[tuple[Done, int | None]] = []  # for RaftCore to give
        self._transfer: tuple[int, float] | None = None  # to whom, until when
        # when a leader that is no voter any more steps down at the latest
        self._retiring_until: float | None = None
        super().__init__(me, voters, journal, random, now, config)
        self.membership.sets = self.sets
        self._SyncObj__serializer = self._sender
        self._handlers = {name: getattr(self, f"on_{name}") for name in SHAPES if name != "hello"}

    # entry points

    def handle(self, sender: int, message: Message) -> None:
        node = self.nodes[sender]
        if message["type"] == "hello":
            self._hello(node, message)
        elif self.membership.introduced(sender) and (
            self.membership.votes or self._may_hear(message["type"])
        ):
            self._handlers[message["type"]](node, message)

    def _may_hear(self, kind: str) -> bool:
        """Without the memory of its votes a voter takes no part in elections."""
        return self.membership.hears_leaders and kind in ("append_entries", "heartbeat", "snapshot")

    def peer_up(self, peer: int) -> None:
        self.membership.up(peer)
        if self.leader_node is None:
            self.election_at = min(
                self.election_at, self.now + self.config.quick * (0.5 + self.random.random())
            )

    def peer_lost(self, peer: int) -> None:
        node = self.nodes[peer]
        self.membership.lost(peer)
        self.disconnected(node)
        self._sender.cancelTransmisstion(node)
        if peer not in self.voter_ids:
            self._echoed.pop(peer, None)
            self._joining.pop(peer, None)
        if self.leader_node == node:
            self.leader_lost()

    def step(self) -> None:
        """Do everything that is due by time, or by messages before it."""
        self.membership.step(self.now)
        if self._transfer is not None:
            self._try_transfer()
        if self.state == LEADER or self._SyncObj__raftElectionDeadline < self.now:
            self._onTick()
        else:  # all that is left of it for a follower that waits
            self._SyncObj__applyLogEntries()
        if self.reads or self._joining:
            self._confirm()
        if self.state == LEADER and not self.is_voter:
            self._retire()

    def deadline(self) -> float:
        own = (
            self._SyncObj__newAppendEntriesTime
            if self.state == LEADER
            else self._SyncObj__raftElectionDeadline
        )
        return min(
            own,
            self.membership.deadline(),
            self._transfer[1] if self._transfer is not None else inf,
        )

    # who is there

    def _say(self, peer: int, message: Message) -> None:
        self.send(self.nodes[peer], message)

    def _hello(self, node: Node, message: Message) -> None:
        if self.membership.heard(node.id, message):
            self.connected(node)
            self._sender.cancelTransmisstion(node)
            if self.state == LEADER:
                self.send_again_from(node, self.match_index[node] + 1)
        if self.state == LEADER and message["standing"] != Standing.VOTER:
            self._joins(node, message["nonce"])

    def may_stand(self) -> bool:
        return self.membership.may_stand and self.is_voter

    def _joins(self, node: Node, nonce: int) -> None:
        """Count no answer of this voter until it is promoted: it may have forgotten entries that it
        acknowledged.
        """
        if node.id not in self._joining or self._joining[node.id].nonce != nonce:
            self._joining[node.id] = _Joining(nonce, self.sequence + 1)
            self.match_index[node] = 0
            self.send_again_from(node, self.journal.base.index + 1)

    def promise_to(self, voter: int) -> list[int]:
        joining = self._joining.get(voter)
        return (
            [joining.nonce, joining.target]
            if joining is not None and joining.target is not None
            else []
        )

    def _take_promise(self, node: Node, message: Message) -> None:
        match message["promote"]:
            case [self.membership.nonce, target] if (
                not self.membership.votes and self._verified >= target
            ):
                # it may have voted in this term: whoever leads it got that vote
                self._SyncObj__setCurrentTerm(self.term, node.id)
                self.membership.promoted()

    # entries come

    def _from_leader(self, node: Node, message: Message) -> bool:
        """Is the sender the leader of this term? Then what it says is believed."""
        if message["term"] < self.term:
            self.reject(node)
            return False
        if self.state == LEADER and message["term"] == self.term:
            self.forbid(f"voter {node.id} leads the same term")
        if message["term"] != self._verified_term:
            self._verified_term, self._verified = message["term"], self.commit_index
            self._mismatched = False
        self._answering, self._unasked = message["seq"], message.get("quiet") is True
        self.leader_heard()
        return True

    def on_append_entries(self, node: Node, message: Message) -> None:
        if not self._from_leader(node, message):
            return
        message = self._unless_equal(message)
        end = message["prevLogIdx"] + len(message["entries"])
        matches = self.journal.term_at(message["prevLogIdx"]) == message["prevLogTerm"]
        if matches:
            self._verified = max(self._verified, end)
        else:
            self._mismatched |= self.journal.term_at(message["prevLogIdx"]) is not None
        message["commit_index"] = self._cap_commit(message["commit_index"])
        self.stock_receive(node, message)
        self._conflict = None
        self._take_promise(node, message)

    def _cap_commit(self, index: int) -> int:
        """Commit no entry that is not verified as the leader's."""
        return min(index, self._verified)

    def _unless_equal(self, message: Message) -> Message:
        """The message without the entries that are here already: SyncObj would drop all behind the
        first of them, and acknowledged ones with it.
        """
        entries, previous, term = message["entries"], message["prevLogIdx"], message["prevLogTerm"]
        base, skip = self.journal.entries[0], 0
        if previous < base.index:  # all up to the base is committed, so the leader has it
            skip = min(base.index - previous, len(entries))
            previous, term = base.index, base.term
        elif self.journal.term_at(previous) != term:
            return dict(message)
        for entry in entries[skip:]:
            mine = self.journal.term_at(entry[1])
            if mine != entry[2]:
                self._conflict = entry[1] if mine is not None else None
                break
            previous, term, skip = entry[1], entry[2], skip + 1
        if self._conflict is not None and self._conflict <= max(self.commit_index, self._verified):
            self.forbid(
                f"the leader has another entry {self._conflict} than the one that is committed or "
                "acknowledged"
            )
        return message | {"prevLogIdx": previous, "prevLogTerm": term, "entries": entries[skip:]}

    def on_heartbeat(self, node: Node, message: Message) -> None:
        if self._from_leader(node, message):
            self._follow(node, message)
            self._SyncObj__sendNextNodeIdx(node)
            self._take_promise(node, message)

    def _follow(self, node: Node, message: Message) -> None:
        """SyncObj's handling of a leader that sends no entries: term, state, deadline."""
        self.stock_receive(
            node, {"type": "append_entries", "term": message["term"], "commit_index": 0}
        )

    def _SyncObj__sendNextNodeIdx(
        self, node: Node, reset: bool = False, nextNodeIdx: int | None = None, success: bool = False
    ) -> None:
        """An acknowledgement says of which term it is. After a mismatch the leader goes back to
        what is known to be equal, not step by step.
        """
        if success and self._unasked:
            return
        index = self.journal.last.index + 1 if nextNodeIdx is None else nextNodeIdx
        if reset:
            index = self._restart_at()
        answer = {
            "type": "next_node_idx",
            "term": self.term,
            "seq": self._answering,
            "joining": self.membership.joining,
        }
        self.send(node, answer | {"next_node_idx": index, "reset": reset, "success": success})

    def _restart_at(self) -> int:
        known = max(self.commit_index, self._verified)
        return (known if self._mismatched else self.journal.last.index) + 1

    def on_snapshot(self, node: Node, message: Message) -> None:
        if not self._from_leader(node, message):
            return
        self._follow(node, message)
        if self._has_already(message["index"]):
            self._mismatched = True
            self._SyncObj__sendNextNodeIdx(node, reset=True)
            return
        snapshot = self._receiver.add(message)
        if snapshot is None:
            answer = {
                "type": "snapshot_ack",
                "term": self.term,
                "seq": self._answering,
                "joining": self.membership.joining,
            }
            self.send(
                node, answer | {"index": message["index"], "position": self._receiver.position}
            )
            return
        self.journal.install(snapshot)
        self.sets.reload()
        self.use_voters()
        self._SyncObj__raftCommitIndex = self._SyncObj__raftLastApplied = self._verified = (
            snapshot.index
        )
        self._SyncObj__sendNextNodeIdx(node, nextNodeIdx=snapshot.index + 1, success=True)

    def _has_already(self, index: int) -> bool:
        """An older snapshot would roll back what is applied or acknowledged."""
        return index <= max(self.commit_index, self._verified)

    # acknowledgements come

    def _of_this_term(self, node: Node, message: Message) -> bool:
        """An acknowledgement of another term says nothing about this one."""
        if message["term"] > self.term:
            self.adopt_term(message["term"])
        return self.state == LEADER and message["term"] == self.term

    def _counts(self, node: Node, message: Message) -> bool:
        """False: the voter lost its disk and acknowledges nothing yet."""
        if message["joining"] != NO_NONCE:
            self._joins(node, message["joining"])
            return False
        self._joining.pop(node.id, None)
        self._echoed[node.id] = max(self._echoed.get(node.id, 0), message["seq"])
        return True

    def on_next_node_idx(self, node: Node, message: Message) -> None:
        index = message["next_node_idx"]
        if (
            not self._of_this_term(node, message)
            or not 0 < index <= self.journal.entries[-1].index + 1
        ):
            return
        if not self._counts(node, message):
            if message["reset"] and not self.is_stale(node, message["seq"]):
                self.send_again_from(node, index)
            elif message["success"]:
                sent_up_to = self.next_index[node]
                self.next_index[node] = max(sent_up_to, index)
                self.acknowledged(node, index - 1, sent_up_to)
            return
        if message["reset"]:
            if not self.is_stale(node, message["seq"]):
                self.send_again_from(node, max(index, self.match_index[node] + 1))
            message = message | {"reset": False}
        sent_up_to = self.next_index[node]
        self.stock_receive(node, message)
        # SyncObj would send again what is on its way
        self.next_index[node] = max(sent_up_to, self.next_index[node])
        self.acknowledged(node, self.match_index[node], sent_up_to)

    def on_snapshot_ack(self, node: Node, message: Message) -> None:
        if self._of_this_term(node, message):
            if self._counts(node, message):
                self._SyncObj__lastResponseTime[node] = self.now
            if self._sender.acknowledged(
                node.id, message["index"], message["position"], message["seq"]
            ):
                self.more_to_send(node)

    def next_piece(self, voter: int) -> Message | None:
        return self._sender.piece(voter, self.now)

    # what a majority confirms

    @property
    def active(self) -> bool:
        """This voter leads, and its own first entry is committed: so it knows every committed
        entry.
        """
        return self.state == LEADER and self.commit_index >= self.own_no_op

    def confirmed(self, sequence: int) -> bool:
        """Has a majority said, in or after this round, that it knows no newer leader?"""
        return (
            self.is_voter
            + sum(
                echoed >= sequence
                for voter, echoed in self._echoed.items()
                if voter not in self._joining and voter in self.voter_ids
            )
            >= self.majority
        )

    def read(self, done: Done) -> None:
        self.reads.append((self.sequence + 1, done))
        self.send_now = True

    def _confirm(self) -> None:
        if not self.active:
            return
        while self.reads and self.confirmed(self.reads[0][0]):
            self.answers.append((self.reads.pop(0)[1], self.commit_index))
        for joining in self._joining.values():
            if joining.target is None and self.confirmed(joining.since_sequence):
                joining.target = self.journal.last.index
                self.send_now = True

    def lost_leadership(self) -> None:
        self.answers += [(done, None) for _, done in self.reads]
        self.reads, self._echoed, self._joining, self._transfer = [], {}, {}, None
        self._retiring_until = None

    # voters that come and go

    def has_caught_up(self, node_id: int, directory_id: bytes) -> bool:
        """This node would be no burden as a voter: it acknowledges, from this directory, and lacks
        few entries.
        """
        if node_id == self.me:
            return directory_id == self.membership.directory_id
        node = self.nodes[node_id]
        return (
            node in self._SyncObj__connectedNodes
            and node_id not in self._joining
            and self.membership.directory_of(node_id) == directory_id
            and self.match_index.get(node, 0) + CAUGHT_UP_ENTRIES >= self.journal.last.index
        )

    def _retire(self) -> None:
        """Give up the leadership when the set without this node is committed, and before that go
        on: only this leader can commit it soon. A voter with all entries is asked to stand.
        """
        if self.commit_index < self.sets.index:
            return
        if self._retiring_until is None:
            self._retiring_until = self.now + self.config.election_timeout
        if self.now >= self._retiring_until:
            self._SyncObj__setState(FOLLOWER)
            self._SyncObj__raftLeader = None
        elif self._transfer is None:
            there = [
                node
                for voter in sorted(self.voter_ids)
                if (node := self.nodes[voter]) in self._SyncObj__connectedNodes
            ]
            if there:
                self.transfer(max(there, key=self.match_index.__getitem__).id)
                self._try_transfer()

    # handing over

    @property
    def transferring(self) -> bool:
        return self._transfer is not None

    def transfer(self, to: int) -> None:
        """Ask a voter to stand for election as soon as it has all entries. Until then, and at most
        for an election timeout, accept no proposals.
        """
        self._transfer = (to, self.now + self.config.election_timeout)
        self.send_now = True

    def end_transfer(self, to: int) -> None:
        if self._transfer is not None and self._transfer[0] == to:
            self._transfer = None

    def _try_transfer(self) -> None:
        assert self._transfer is not None
        to, until = self._transfer
        node = self.nodes[to]
        if self.now >= until or self.state != LEADER or to not in self.voter_ids:
            self._transfer = None
        elif (
            self.match_index[node] == self.journal.last.index
            and node in self._SyncObj__connectedNodes
        ):
            self.transferLeadership(node)
