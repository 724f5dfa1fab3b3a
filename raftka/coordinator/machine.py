"""The interface between a coordinator's state machine and the shell that hosts one for each
partition of its log. Knows neither of them.

The shell decides, stages the records, replays them at once, and holds every reply until all that
was replayed before it is committed, also replies without records: else a new coordinator would take
back what a read has shown. All records of an Outcome lie in one batch, unless it says otherwise.
With the loss of leadership the machine is dropped; a new leader replays the log into a new one. The
shell may refuse an Outcome before anything of it is replayed, as when it is larger than a batch may
be: its replies then carry an error.

Long decisions come as `Steps`: a generator that yields between items and returns the Outcome. The
shell resumes it over several turns, and gives the machine nothing else to do meanwhile, so a
decision sees the same state from its first step to its last. Small ones are done at once.

*Hard* state changes in `replay` alone. *Soft* state (who waits for an answer, sessions, timers) is
what a new coordinator does without; `decide` and `tick` may change it, in such a way that nothing
is wrong when the records of the same Outcome are refused: its replies then carry an error.
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, Protocol, TypeVar

T = TypeVar("T")
Ticket = Hashable  # stands for whoever waits for the reply to a command
Steps = Generator[None, None, T]  # yields between items, returns the result
FEW = 100  # steps, some 10 us each, that are taken at once


class Record(NamedTuple):
    """As it lies in the log: Kafka's own formats, behind their two bytes of version."""

    key: bytes
    value: bytes | None  # None: a tombstone


class Topics(Protocol):
    """The cluster's metadata, as a coordinator uses them."""

    def topic_id(self, name: str) -> bytes | None: ...

    def topic_name(self, topic_id: bytes) -> str | None: ...

    def partition_count(self, name: str) -> int:
        """0: there is no such topic."""

    def names(self) -> Iterable[str]: ...

    def grown_since(self, when: float) -> int:
        """Count the growths of topics after a time on the node's monotonic clock."""

    def growth_after(self, name: str, when: float) -> tuple[float, int] | None:
        """Return the topic's first growth after that time: when, and how many partitions it had
        before; None: there was none.
        """


@dataclass(frozen=True, slots=True)
class Context:
    """The knowledge of a decision besides its command."""

    now: float  # seconds, on the node's monotonic clock
    wall_ms: int
    random: Random
    topics: Topics
    # False: another node may coordinate by now, and have acknowledged what this one does not know
    vouched_for: bool = True


@dataclass(slots=True)
class Outcome:
    """The result of a decision."""

    records: Sequence[Record] = ()  # one batch
    # also to those who have waited since an earlier command
    replies: Sequence[tuple[Ticket, Any]] = ()
    # False: may come in parts where it is too large for one batch, as when a group with very many
    # offsets goes
    atomic: bool = True
    # called when the records are refused: takes back what `decide` has done already
    undo: Callable[[], None] | None = None
    # id and epoch: the records are in this producer's transaction, and take effect when that is
    # committed
    producer: tuple[int, int] | None = None
    # the replies must not be of the past: this record is written if the turn has no other (see
    # Context.vouched_for)
    confirm: Record | None = None


OutcomeOrSteps = Outcome | Steps[Outcome]


def begun(steps: Steps[Outcome]) -> OutcomeOrSteps:
    """The outcome where few steps lead to it, else the steps that are left. Raises what they
    raise.
    """
    try:
        for _ in range(FEW):
            next(steps)
    except StopIteration as stop:
        outcome: Outcome = stop.value
        return outcome
    return steps


class Machine(Protocol):
    # Each record that is replayed from now on lies at this offset of the log, or above it. The
    # shell sets it.
    position: int = 0

    def decide(self, command: object, ticket: Ticket, context: Context) -> OutcomeOrSteps:
        """`ticket` is replied to in this Outcome or in a later one, once. Raises KafkaError, as its
        steps do, for what is refused as a whole.
        """

    def replay(self, record: Record) -> None:
        """Raises ValueError for a record that cannot be read, NewerFormat for one of a later
        version; one of a kind that is not known is passed over.
        """

    def replay_pending(self, producer_id: int, record: Record) -> None:
        """A record in a producer's transaction: it takes effect when that is committed. Raises
        ValueError, NewerFormat.
        """
        raise ValueError("records in transactions are not of this coordinator")

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """The marker of a producer's transaction, as replayed from the log."""
        return

    def loaded(self, context: Context) -> OutcomeOrSteps:
        """The log has been replayed, and this node leads: sessions begin."""

    def on_image(self, deleted: Sequence[tuple[bytes, str]], context: Context) -> OutcomeOrSteps:
        """The cluster's metadata changed; `deleted` topics are gone (id, name)."""

    def deadline(self) -> float:
        """Return the time at which `tick` wants to run; inf: never."""

    def tick(self, context: Context) -> OutcomeOrSteps: ...

    def client_gone(self, ticket: Ticket) -> None:
        """Take the news that the ticket's client has gone away and hears no reply. The machine may
        go on as if it was there.
        """
