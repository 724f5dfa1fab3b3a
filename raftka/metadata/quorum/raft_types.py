"""The plain values of the metadata quorum: its configuration, its outputs, its errors. Knows no
engine and no file.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from raftka.limits import KIB, MIB, PROPOSALS_IN_FLIGHT, RAFT_ENTRY_BYTES, Limit, LimitExceeded

# Kinds of entries, the first byte of their commands. The first two are pysyncobj's; the last is
# ours, with a set of voters before the proposed bytes.
REGULAR, NO_OP, VOTERS = b"\x00", b"\x01", b"\x10"
Message = dict[str, Any]  # what voters send each other: msgpack-able without hooks


@dataclass(frozen=True, slots=True)
class RaftConfig:
    # seconds a follower waits for its leader: between this and 1.5 times this
    election_timeout: float = 1.0
    # seconds; less than a third of the election timeout, so a node may stall for 500 ms unnoticed
    heartbeat: float = 0.2
    # of entries in one message, and in one answer to an observer; a larger entry travels alone
    batch_bytes: int = MIB
    # sent to one voter and not yet acknowledged; a paused one costs no more memory than that
    window_bytes: int = 4 * MIB
    chunk_bytes: int = 256 * KIB  # of a snapshot in one message
    entry_max_bytes: int = RAFT_ENTRY_BYTES.value
    proposals_max: int = PROPOSALS_IN_FLIGHT.value  # entries that are not yet committed
    # of journal, then `wants_snapshot` asks the state machine for its state
    snapshot_every_bytes: int = 16 * MIB
    retain_entries: int = 1024  # kept behind a snapshot: who is a little late needs no snapshot

    def __post_init__(self) -> None:
        if not 0 < self.heartbeat * 3 < self.election_timeout:
            raise ValueError(
                f"the heartbeat ({self.heartbeat} s) must be less than a third of the election "
                f"timeout ({self.election_timeout} s)"
            )

    @property
    def quick(self) -> float:
        """Seconds: the scale of elections that need not wait, because no leader is known or its
        connection has closed.
        """
        return self.election_timeout / 20


class Entry(NamedTuple):
    """An entry in pysyncobj's form, its command first."""

    command: bytes  # one byte of kind, then the proposed bytes
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody asks for
    term: int


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed entry; `data` is empty for the entry with which a leader began its term."""

    index: int
    term: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state machine's state after the entry at `index`, in place of every entry up to it."""

    index: int
    term: int
    state: bytes


class NotLeader(Exception):
    """Raised for a proposal to a node that is not the active leader; `leader` is the leader that
    this node knows.
    """

    def __init__(self, leader: int | None) -> None:
        super().__init__(
            f"not the leader, it is {leader}"
            if leader is not None
            else "not the leader, none is known"
        )
        self.leader = leader


class ProposalsFull(LimitExceeded):
    """Too much waits for its commit, or leadership is about to be handed over: try again."""

    def __init__(self, waiting: int) -> None:
        super().__init__(PROPOSALS_IN_FLIGHT, waiting)


class VotersRefused(Exception):
    """Raised for a change of the voters that is not safe, or not now: nothing was appended."""


class EntryTooLarge(LimitExceeded):
    def __init__(self, size_bytes: int) -> None:
        super().__init__(RAFT_ENTRY_BYTES, size_bytes)


class MalformedMessage(ValueError):
    """The bytes are no message of ours: close the connection. `limit`: the message is larger than
    this allows.
    """

    def __init__(self, message: str, limit: Limit | None = None) -> None:
        super().__init__(message)
        self.limit = limit


class WrongCluster(ValueError):
    """The other side is a voter of another cluster, or knows other voters: close the connection,
    and say so.
    """


class SafetyViolated(AssertionError):
    """A state that Raft excludes was found: this node must stop before it damages committed
    entries.
    """
