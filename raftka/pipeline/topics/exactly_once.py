"""A batch of a stream in one transaction that all its tasks share, with the decision about the
batch inside it. Knows Spark's order of calls.

    planner     begin     InitProducerId: aborts what an older run has left open and fences it; then
                the last decision is read
    each task   claim     the first attempt of a task writes; any other one fails the batch
                write     records under the planner's producer id and epoch, over connections of its
                          own
    driver      commit    the decision (query, batch) becomes a record of the same transaction; then
                EndTxn commits all of it

So the decision is EndTxn: readers of committed records see a batch if and only if its decision is
in the topic of decisions. Whatever is killed, the next run finds one of two: the decision of the
batch that Spark does again, and then its tasks leave the rows out; or none, and then `begin` has
aborted the rows.

Each partition of a topic must be written by one task. Brokers number the batches of a producer id
in each partition: of two tasks that begin with the same number, the second one's rows would count
as sent again, and be dropped without an error. `commit` refuses a batch in which that could be.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from raftka.client.blocking import transaction
from raftka.client.blocking.client import Where
from raftka.client.blocking.connection import ClientError
from raftka.client.blocking.transaction import Identity
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.topics import decisions
from raftka.pipeline.topics.brokers import Brokers, as_pipeline_errors
from raftka.pipeline.topics.decisions import Decision
from raftka.wire.errors import Code, KafkaError

ENDED = {
    Code.INVALID_PRODUCER_EPOCH,
    Code.PRODUCER_FENCED,
    Code.INVALID_TXN_STATE,
    Code.INVALID_PRODUCER_ID_MAPPING,
    Code.TRANSACTION_ABORTABLE,
}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Handle:
    """A transaction of a batch, from the planner for its tasks. `since`: where the topic of
    decisions ended when it began.
    """

    identity: Identity
    timeout_ms: int
    decided: Decision | None
    since: int


@dataclass(frozen=True, slots=True)
class Part:
    """A task's part of a batch. `attempt`: a number that no other attempt of any task has."""

    handle: Handle
    batch: Decision
    task: int
    attempt: int

    @property
    def is_decided(self) -> bool:
        """Return True if the batch is in its topics. Raise PipelineError if a later one is."""
        decided = self.handle.decided
        if decided is None or decided.query != self.batch.query or decided.batch < self.batch.batch:
            return False
        if decided.batch > self.batch.batch:
            raise PipelineError(
                f"batch {decided.batch} of this query is in its topics, but its checkpoint is at "
                f"batch {self.batch.batch}: the checkpoint is older "
                "than the topics. Nothing was written. Next step: bring back the newest "
                "checkpoint, or begin a new one with startingOffsets of "
                "your choice"
            )
        return True


@dataclass(frozen=True, slots=True)
class Written:
    """A task's result for the driver. `part`: None where nothing is promised but at least once."""

    records: int
    partitions: frozenset[Where] = frozenset()
    part: Part | None = None


def begin(brokers: Brokers, transactional_id: str, timeout_ms: int) -> Handle:
    """Begin the transaction of the next batch. Raises PipelineError."""
    with as_pipeline_errors():
        decisions.ensure_topic(brokers)
        identity = transaction.begin(brokers, transactional_id, timeout_ms)
        found = decisions.last_decision(brokers, transactional_id)
    return Handle(identity, timeout_ms, found.decision, found.end)


@contextmanager
def writing(brokers: Brokers, part: Part) -> Iterator[None]:
    """For a task that has rows: it claims its part first, and an error ends the transaction. Raises
    PipelineError.
    """
    with explained(part.handle):
        if not decisions.claim(
            brokers, part.handle.identity, part.task, part.attempt, part.handle.since
        ):
            raise PipelineError(
                f"task {part.task} of batch {part.batch.batch} was begun before: what its first "
                "attempt wrote cannot be told from what this one "
                "would write. The batch is done again when the query is"
            )
    try:
        with explained(part.handle):
            yield
    except Exception:
        give_up(brokers, part.handle)
        raise


def commit(brokers: Brokers, written: Sequence[Written | None], batch: int) -> None:
    """Commit the records of a batch's tasks. Raise PipelineError; then nothing of the batch counts,
    unless EndTxn had no answer.
    """
    done = [each for each in written if each is not None and each.part is not None and each.records]
    if not done:
        return  # no rows, or the batch is in its topics
    part = done[0].part
    assert part is not None
    assert part.batch.batch == batch, "a task was of another batch"
    _check_writers(done)
    with explained(part.handle):
        decisions.decide(brokers, part.handle.identity, part.batch)
        transaction.end(brokers, part.handle.identity, commit=True)


def abort(brokers: Brokers, written: Sequence[Written | None]) -> None:
    """Abort the records of a failed batch's tasks. Without the result of any task the next `begin`
    does it, or the transaction's timeout.
    """
    if part := next(
        (each.part for each in written if each is not None and each.part is not None), None
    ):
        give_up(brokers, part.handle)


def give_up(brokers: Brokers, handle: Handle) -> None:
    """Abort the transaction. Never raises: the next `begin`, or the timeout, aborts a transaction
    that is left open.
    """
    try:
        transaction.give_up(brokers, handle.identity, handle.timeout_ms)
    except (KafkaError, ClientError, PipelineError) as error:
        log.info(
            "the transaction of %s was not aborted: %s", handle.identity.transactional_id, error
        )


def _check_writers(done: Sequence[Written]) -> None:
    writers: dict[Where, int] = {}
    for each in done:
        assert each.part is not None
        for where in each.partitions:
            other = writers.setdefault(where, each.part.task)
            if other != each.part.task:
                raise _two_writers(
                    f"tasks {other} and {each.part.task} have both written to {where[0]}-{where[1]}"
                )


def _two_writers(what: str) -> PipelineError:
    return PipelineError(
        f"{what}: in a transaction that tasks share, each partition of a topic is written by one "
        "of them. The batch was not committed. Next step: "
        "give the frame a column partition and .repartition(n, 'partition'), or .repartition(1), "
        "or set deliveryGuarantee=at-least-once"
    )


@contextmanager
def explained(handle: Handle) -> Iterator[None]:
    """Errors with the next step. Raises PipelineError."""
    with as_pipeline_errors():
        try:
            yield
        except KafkaError as error:
            if error.code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER:
                raise _two_writers(
                    f"another task has written to the same partition ({error})"
                ) from error
            if error.code not in ENDED:
                raise
            raise PipelineError(
                f"the transaction of this batch was ended by others ({error}). Either another run "
                "of this query has begun, with the same checkpoint "
                f"or the transactional id {handle.identity.transactional_id}: stop one of them. "
                "Or the batch took longer than "
                f"kafka.transaction.timeout.ms={handle.timeout_ms}: raise it, or make batches "
                "smaller (maxOffsetsPerTrigger). Nothing of the batch "
                "counts; it is done again when the query is"
            ) from error
