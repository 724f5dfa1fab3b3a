"""Input and output of a decision of the controller: a Context; a Decision, or an Outcome with more
of what the controller's host needs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, Optional

from raftka.metadata.records import ClusterSecretSet, Record, ScramCredentialSet

SECRET_BYTES = 32

Decision = tuple[list[Record], object]  # the records of one atomic batch, and the reply


@dataclass(frozen=True, slots=True)
class Context:
    """The input of a decision besides its command."""

    now: float  # seconds, on the node's monotonic clock
    wall_ms: int
    random: Random
    next_offset: int  # index that the records of this decision will have


@dataclass(frozen=True, slots=True)
class Outcome:
    records: Sequence[Record] = ()  # one atomic batch
    reply: Any = None  # plain values; REPLIES (commands.py) has the type of each command's reply
    # a reply without records: only when it is sure that no other controller has decided meanwhile
    confirm: bool = False
    # once it is committed and answered, another node shall be the controller
    hand_over: bool = False
    # more than one entry takes: it is decided when this one is appended, and only the last one has
    # the reply
    rest: Optional["Rest"] = None


class Formation(NamedTuple):
    """The beginning of a cluster, for the controller that forms it."""

    secrets: Random  # its numbers cannot be predicted
    first_users: tuple[ScramCredentialSet, ...] = ()
    cluster_id: str | None = None  # None: a random one
    kraft_version: int = 0  # 1: the log has the voters from the beginning

    def make_secret(self) -> ClusterSecretSet:
        return ClusterSecretSet(self.secrets.randbytes(SECRET_BYTES))


Rest = Callable[[Context], Outcome]
