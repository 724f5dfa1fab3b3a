"""Input and output of a decision of the controller: a Context, and an Outcome of one atomic batch
of records and a reply. Decides nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, Optional

from raftka.metadata.records import ClusterSecretSet, Record, ScramCredentialSet

SECRET_BYTES = 32


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
    reply: Any = None  # plain values; what type, says REPLIES (commands.py)
    # a reply without records: only when it is sure that no other controller has decided meanwhile
    confirm: bool = False
    # once it is committed and answered, another node shall be the controller
    hand_over: bool = False
    # more than one entry takes: it is decided when this one is appended, and only the last one has
    # the reply
    rest: Optional["Rest"] = None


class Formation(NamedTuple):
    """The beginning of a cluster, for the controller that forms it."""

    secrets: Random  # nobody can predict its numbers
    first_users: tuple[ScramCredentialSet, ...] = ()

    def secret(self) -> ClusterSecretSet:
        return ClusterSecretSet(self.secrets.randbytes(SECRET_BYTES))


Rest = Callable[[Context], Outcome]
