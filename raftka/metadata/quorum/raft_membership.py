"""Decide which voters may vote: formation of a cluster, lost disks, other clusters. The input are
the voters' reports about their directories.

- A cluster is formed only when every voter has reported an empty directory (or one that has seen
  the same and never voted). Each notes that it is a
  voter; no voter stands for the first election before all have noted it.
- A quorum that is lost for good begins anew from one voter that is left, the seed (recovery.py): as
  at the beginning all others must be there, and
  empty. They never stand before they have entries, so the seed leads first. A directory of the
  quorum before is refused: its entries may differ.
- A voter with an empty directory that meets one of a formed cluster has lost its disk, and with it
  its votes and acknowledgements. It joins: it takes
  entries, but neither votes nor acknowledges, until a leader that a majority *without it* has
  confirmed since names the index from which it is up to date.

Reports count only if they answer this process: they echo its nonce. Knows no log and sends nothing
itself.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from raftka.metadata.quorum.journal import NEVER, Journal, Recovery, Standing
from raftka.metadata.quorum.raft_messages import NO_NONCE
from raftka.metadata.quorum.raft_types import Message, WrongCluster
from raftka.metadata.quorum.raft_voters import VoterSets


class Report(NamedTuple):
    """A voter's report about its directory."""

    standing: Standing
    term: int
    recovered: int


class Membership:
    def __init__(
        self,
        me: int,
        voters: Iterable[int],
        journal: Journal,
        nonce: int,
        send: Callable[[int, Message], None],
        ask_every: float,
        directory_id: bytes,
    ) -> None:
        """`voters`: controller.quorum.voters, who form the cluster. A node that is none of them
        waits until it meets a member.
        """
        self.nonce = nonce
        self.sets: VoterSets | None = None  # of the log
        self.directory_id = directory_id
        self._directories: dict[int, bytes] = {}  # of the others, as they said with their nonces
        self._me, self._journal, self._send, self._ask_every = me, journal, send, ask_every
        self._voters = sorted(voters)
        self._others = [voter for voter in self._voters if voter != me]
        self._up: set[int] = set()  # connected
        # of the processes we have heard from on their present connection
        self._nonces: dict[int, int] = {}
        self._reports: dict[int, Report] = {}  # as answered to this process
        self._ask_at = float("-inf")
        self._recovery = NEVER.number  # of those whom this empty directory has met

    @property
    def votes(self) -> bool:
        """May it vote, acknowledge, lead?"""
        return self._journal.standing == Standing.VOTER

    @property
    def joining(self) -> int:
        """Goes with every acknowledgement that is none."""
        return NO_NONCE if self.votes else self.nonce

    @property
    def may_stand(self) -> bool:
        """For the first election everyone must have noted that he is a voter, or someone has
        already gone on.

        In a quorum that was recovered only who has entries: the seed first.
        """
        journal = self._journal
        if journal.standing != Standing.VOTER or (
            journal.recovery != NEVER and journal.last.index == 0
        ):
            return False
        return bool(journal.term > 0 or self._meets_member() or self._all_others(Standing.VOTER))

    @property
    def _configured(self) -> list[int]:
        """controller.quorum.voters, as long as it counts; empty once the log has the voters."""
        known = self.sets is not None and self.sets.current is not None
        return [] if known else self._voters

    def directory_of(self, peer: int) -> bytes:
        """The directory that the peer has named on its present connection."""
        return self._directories.get(peer, b"")

    def introduced(self, peer: int) -> bool:
        """Nothing else is heard from a peer, and nothing said to it, before it has said who it
        is.
        """
        return peer in self._nonces

    @property
    def hears_leaders(self) -> bool:
        """May it take entries?"""
        return self._journal.standing in (Standing.VOTER, Standing.JOINING)

    def check(self, sender: int, hello: Message) -> None:
        """Raises WrongCluster."""
        theirs, ours = hello["cluster"], self._journal.cluster_id
        if theirs is not None and ours is not None and theirs != ours:
            raise WrongCluster(f"voter {sender} belongs to cluster {theirs}, this node to {ours}")
        if (
            Standing.EMPTY not in (self._journal.standing, hello["standing"])
            and hello["recovered"] != self._journal.recovery.number
        ):
            raise WrongCluster(
                f"voter {sender} is of another quorum than this node: one of them was recovered "
                "without the other, and must be emptied"
            )
        if hello["voters"] and self._configured and hello["voters"] != self._configured:
            raise WrongCluster(
                f"voter {sender} has the voters {hello['voters']}, this node {self._configured}: "
                "compare controller.quorum.voters"
            )
        known = self.sets.current if self.sets is not None else None
        if known is not None and hello["voters"] and hello["standing"] == Standing.VOTER:
            named = {each.node_id: each.directory_id for each in known}
            if named.get(sender) != hello.get("directory"):
                raise WrongCluster(
                    f"node {sender} counts by controller.quorum.voters, and is no voter of this "
                    "quorum: give it controller.quorum.bootstrap.servers, and empty it if it was "
                    "formed anew"
                )

    def up(self, peer: int) -> None:
        self._up.add(peer)
        self._hello(peer, ask=True)

    def lost(self, peer: int) -> None:
        self._up.discard(peer)
        self._nonces.pop(peer, None)
        self._directories.pop(peer, None)
        self._reports.pop(peer, None)

    def announce(self) -> None:
        """Something that others should know has changed."""
        for peer in sorted(self._up):
            self._hello(peer, ask=False)

    def heard(self, peer: int, hello: Message) -> bool:
        """Take a report. True: the peer is newly introduced."""
        new = self._nonces.get(peer) != hello["nonce"]
        self._nonces[peer] = hello["nonce"]
        self._directories[peer] = hello.get("directory", b"")
        if hello["echo"] == self.nonce:
            self._reports[peer] = Report(
                Standing(hello["standing"]), hello["term"], hello["recovered"]
            )
        if hello["ask"]:
            self._hello(peer, ask=hello["echo"] != self.nonce)
        self._settle()
        return bool(new)

    def step(self, now: float) -> None:
        """Ask those who have not answered, and everyone as long as this node may not vote or
        stand.
        """
        if not self._others:
            self._settle()
        if now < self._ask_at:
            return
        self._ask_at = now + self._ask_every
        settled = self.may_stand
        for peer in sorted(self._up):
            if not settled or peer not in self._reports:
                self._hello(peer, ask=True)

    def deadline(self) -> float:
        return (
            self._ask_at
            if not self.may_stand or len(self._reports) < len(self._up)
            else float("inf")
        )

    def promoted(self) -> None:
        """A confirmed leader has brought this node up to date."""
        self._become(Standing.VOTER)

    def _settle(self) -> None:
        """Decide whether an empty directory is a new cluster's or a lost one. A seed begins when
        all others have noted that they are its voters.
        """
        if self._journal.standing == Standing.SEED and self._all_others(Standing.VOTER):
            self._become(Standing.VOTER)
        if self._journal.standing != Standing.EMPTY:
            return
        recoveries = {
            report.recovered
            for report in self._reports.values()
            if report.standing != Standing.EMPTY
        } or {NEVER.number}
        if len(recoveries) > 1:  # quorums that do not know each other
            return
        self._recovery = recoveries.pop()
        if self._meets_member():
            self._become(Standing.JOINING)
        elif self._all_others(Standing.EMPTY, Standing.VOTER, Standing.SEED):
            self._become(Standing.VOTER)

    def _all_others(self, *standings: Standing) -> bool:
        return self._me in self._voters and all(
            voter in self._reports and self._reports[voter].standing in standings
            for voter in self._others
        )

    def _meets_member(self) -> bool:
        return any(
            report.standing == Standing.VOTER and report.term > 0
            for report in self._reports.values()
        )

    def _become(self, standing: Standing) -> None:
        if self._journal.standing == Standing.EMPTY and self._recovery != NEVER.number:
            self._journal.set_recovery(Recovery(self._recovery, tuple(self._voters)))
        self._journal.set_standing(standing)
        self.announce()

    def _hello(self, peer: int, ask: bool) -> None:
        journal = self._journal
        hello = {
            "type": "hello",
            "nonce": self.nonce,
            "echo": self._nonces.get(peer, NO_NONCE),
            "ask": ask,
            "standing": int(journal.standing),
        }
        hello |= {
            "term": journal.term,
            "cluster": journal.cluster_id,
            "voters": self._configured,
            "recovered": journal.recovery.number,
            "directory": self.directory_id,
        }
        self._send(peer, hello)
