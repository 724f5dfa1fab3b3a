"""Invariants of every run of the quorum, whatever fails: Raft's own promises and linearizable
reads. Watches a Cluster, changes nothing.
"""

from zlib import crc32

from raftka.chaos.small.raft_cluster import Cluster, Node
from raftka.metadata.quorum.journal import Journal
from raftka.metadata.quorum.raft import Committed, Message, Snapshot
from raftka.metadata.quorum.raft_types import Entry

# limits of a run; usual are one or two thousand messages, and ten thousand steps
MOST_MESSAGES, MOST_STEPS = 20_000, 100_000


class Violation(AssertionError):
    """A promise was broken."""


def link(before: int, index: int, term: int, data: bytes) -> int:
    return crc32(data, crc32(b"%d/%d" % (index, term), before))


class Oracle:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.committed: dict[int, Committed] = {}  # index -> the entry that a node applied first
        # index -> term of that node; a leader may commit entries of an earlier term
        self.committed_in: dict[int, int] = {}
        # index -> checksum over all entries up to there: a state machine's state
        self.chain: dict[int, int] = {0: 0}
        self.leaders: dict[int, int] = {}  # term -> the node that led it
        self.complete_in: set[int] = set()  # terms whose leader was checked
        self.applied: dict[int, int] = {}  # node -> last index in its present life
        self.highest = 0  # the highest index that any node has applied
        self.without_vote: dict[int, float] = {}  # node -> since when it leads without a vote
        self.steps = 0
        self.reads = self.snapshots = 0
        cluster.on_sent = self.sends
        for node in cluster.nodes.values():
            node.on_applied = self.applies
            node.on_stepped = self.stepped
            node.state_at = self.state_at

    def check(self, right: bool, what: str) -> None:
        if not right:
            raise Violation(f"seed {self.cluster.seed}, at {self.cluster.now:.4f}: {what}")

    def started(self, node: Node) -> None:
        self.applied[node.id] = 0
        self.without_vote.pop(node.id, None)

    def stepped(self, node: Node) -> None:
        """Election safety: at most one leader in a term. Leader completeness: it has all that was
        committed in earlier terms.
        """
        self.steps += 1
        self.check(
            self.steps < MOST_STEPS and self.cluster.sent < MOST_MESSAGES,
            f"a flood: {self.cluster.sent} messages, {self.steps} steps",
        )
        if node.core.state != "leader":
            self.without_vote.pop(node.id, None)
            return
        self._may_lead(node)
        term = node.core.term
        if self.leaders.setdefault(term, node.id) != node.id:
            self.check(False, f"{self.leaders[term]} and {node.id} lead term {term}")
        if term not in self.complete_in:
            self.complete_in.add(term)
            self._complete(node)

    def _may_lead(self, node: Node) -> None:
        """A leader without a vote steps down when the set of voters without it is committed."""
        core, now = node.core, node.now()
        if node.id in core.voters or core.commit_index < core.voters_index:
            self.without_vote.pop(node.id, None)
        else:
            since = self.without_vote.setdefault(node.id, now)
            self.check(
                now - since < 2 * self.cluster.config.election_timeout,
                f"{node.id} goes on to lead, and is no voter",
            )

    def _complete(self, node: Node) -> None:
        journal = node.core.journal
        for index in range(journal.base.index + 1, self.highest + 1):
            # elected before the commit, but checked only now
            late = self.committed_in[index] > node.core.term
            self.check(
                late or journal.term_at(index) == self.committed[index].term,
                f"leader {node.id} lacks committed entry {index}",
            )

    def applies(self, node: Node, item: Committed | Snapshot) -> None:
        """State machine safety: one entry for each index, each in its turn, on every node."""
        last = self.applied[node.id]
        self.applied[node.id] = item.index
        if isinstance(item, Snapshot):
            self.snapshots += 1
            self.check(
                item.index > last, f"{node.id} falls back from {last} to a snapshot at {item.index}"
            )
            self.check(
                item.state.split()[0] == b"%d" % self.chain[item.index],
                f"{node.id} got a snapshot with another history at {item.index}",
            )
            return
        self.check(item.index == last + 1, f"{node.id} applies {item.index} after {last}")
        if item.index not in self.committed:
            self.committed[item.index] = item
            self.committed_in[item.index] = node.core.term
            self.chain[item.index] = link(
                self.chain[item.index - 1], item.index, item.term, item.data
            )
            self.highest = max(self.highest, item.index)
        self.check(
            self.committed[item.index] == item, f"{node.id} applies another entry at {item.index}"
        )

    def state_at(self, index: int) -> bytes:
        return b"%d " % self.chain[index] + b"s" * 700  # some chunks long

    def read(self, node: Node) -> None:
        """Check that a read is linearizable: its answer has every entry that any node had applied
        when the read began.
        """
        seen = self.highest

        def done(index: int | None) -> None:
            self.reads += index is not None
            self.check(
                index is None or index >= seen,
                f"{node.id} answered a read with {index}, {seen} was committed before",
            )

        node.core.read_index(done)
        node.wake()

    def logs_match(self) -> None:
        """Log matching: the same index and term means the same entry, and the same before it."""
        logs = [node.core.journal for node in self.cluster.nodes.values() if node.core is not None]
        for a in range(len(logs)):
            for b in range(a):
                self._pair_matches(logs[a].entries, logs[b].entries)

    def _pair_matches(self, one: list[Entry], other: list[Entry]) -> None:
        first = max(one[0].index, other[0].index)
        pairs = list(
            zip(one[first - one[0].index :], other[first - other[0].index :], strict=False)
        )
        agreed = False
        for mine, theirs in reversed(pairs[1:]):
            agreed = agreed or mine.term == theirs.term
            self.check(
                not agreed or mine == theirs, f"logs agree behind {mine.index} but not there"
            )

    def sends(self, sender: int, receiver: int, message: Message) -> None:
        """A voter that sends its vote has it on disk: else it could vote again after a restart."""
        if message["type"] == "response_vote":
            read = _read_anew(self.cluster.nodes[sender])
            self.check(
                read.term > message["term"]
                or (read.term, read.vote) == (message["term"], receiver),
                f"{sender} votes for {receiver}, and has {read.vote}",
            )

    def journals_are_written(self) -> None:
        """A node with nothing left to write would read its own state from its disk after a
        restart.
        """
        for node in self.cluster.nodes.values():
            if node.alive and not node.core.journal.unsynced:
                told, read = _content(node.core.journal), _content(_read_anew(node))
                self.check(
                    read == told,
                    f"the journal of {node.id} reads as {read[:-1]}, in memory it is {told[:-1]}",
                )

    def nothing_lost(self) -> None:
        """Check at the end, when all faults are healed, that every node has applied all entries
        up to the highest that any node has applied.
        """
        for node in self.cluster.nodes.values():
            self.check(
                self.applied[node.id] >= self.highest,
                f"{node.id} has applied {self.applied[node.id]} of {self.highest}",
            )


def _read_anew(node: Node) -> Journal:
    return Journal.open(node.disk.copy(), node.core.journal.directory, node.id)


def _content(journal: Journal) -> tuple[object, ...]:
    state = journal.read_snapshot() if journal.snapshot is not None else None
    return (
        journal.term,
        journal.vote,
        journal.standing,
        journal.last.index,
        journal.base,
        state,
        journal.entries[1:],
    )
