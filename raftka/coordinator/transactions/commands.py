"""Commands to a transaction coordinator, and its answers. Knows no message.

Every command names one transactional id, which picks the machine; ListTransactions goes to all of
them. Each may be refused with a KafkaError.
"""

from dataclasses import dataclass
from typing import NamedTuple

from raftka.coordinator.transactions.records import NO_EPOCH, NO_PRODUCER_ID, State, TopicPartitions

LONG_HOLD_MS = 1_000
# for a broker, which has questions of other clients behind this one on its connection
SHORT_HOLD_MS = 100
VERSION_1, VERSION_2 = 0, 2  # of a transaction, as markers and records say it


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """The broker's settings that the machine goes by; `configure` replaces them."""

    expiration_ms: int = 7 * 24 * 3_600_000  # transactional.id.expiration.ms
    # transaction.remove.expired.transaction.cleanup.interval.ms
    expiration_interval_ms: int = 3_600_000
    # no commit is decided before this time (the machine's clock, seconds): a backup is being cut
    commits_held_until: float = float("-inf")


class Producer(NamedTuple):
    producer_id: int
    epoch: int


class InitProducer(NamedTuple):
    """Answered with Producer. The time-out has been checked."""

    transactional_id: str
    timeout_ms: int
    fresh_id: int  # that no producer has: for a new id, or when epochs have run out
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH
    hold_ms: int = LONG_HOLD_MS


class AddPartitions(NamedTuple):
    """Answered with None."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: tuple[tuple[str, int], ...]
    version: int = VERSION_1  # VERSION_2: asked by a partition's leader
    hold_ms: int = LONG_HOLD_MS


class VerifyPartitions(NamedTuple):
    """Are these in the transaction? Answered with the frozenset of those that are not."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: tuple[tuple[str, int], ...]
    hold_ms: int = LONG_HOLD_MS


class EndTransaction(NamedTuple):
    """Answered with Producer, which is another one than the request's if `version` is VERSION_2."""

    transactional_id: str
    producer_id: int
    epoch: int
    commit: bool
    version: int = VERSION_1
    # needed with VERSION_2 when the epoch is the last one, LAST_EPOCH, or above
    fresh_id: int = NO_PRODUCER_ID
    hold_ms: int = LONG_HOLD_MS


class WriteMarkers(NamedTuple):
    """The transaction's end is in the log: its partitions are to be told. MarkersWritten is the
    answer to that.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    # of its start and of its Prepare record, in ms: a producer of version 1 ends many transactions
    # in one epoch
    times: tuple[int, int]
    commit: bool
    version: int
    topics: dict[str, TopicPartitions]


class MarkersWritten(NamedTuple):
    """Answered with None, also when that transaction is over already."""

    transactional_id: str
    producer_id: int
    epoch: int
    times: tuple[int, int]


class ResumeMarkers(NamedTuple):
    """It was not heard whether the transaction's end is in the log: WriteMarkers comes again if it
    is. Answered with None.
    """

    transactional_id: str


class DescribeTransaction(NamedTuple):
    """Answered with DescribedTransaction."""

    transactional_id: str


class DescribedTransaction(NamedTuple):
    state: State
    timeout_ms: int
    start_ms: int
    producer_id: int
    epoch: int
    topics: dict[str, TopicPartitions]


class ListTransactions(NamedTuple):
    """Answered with a tuple of ListedTransaction. None and an empty set: all; `states` without any
    that there are: none.
    """

    states: frozenset[State] | None = None
    producer_ids: frozenset[int] = frozenset()
    duration_ms: int = -1  # begun longer ago than that, or never
    pattern: str | None = None


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    state: State
